//! One node for one at most, and what is not looked at (spec 30 §6.4).

use super::*;

#[test]
fn a_node_that_is_too_large_is_replaced_by_a_cheaper_one() {
    let world = world().node(of("n", 16)).pod(pod("p").cpu("3").on("n"));
    for settings in [upstream(), Settings::default()] {
        let pass = run(&world, &settings);
        let expected = [(Method::SingleNode, Decision::Replace, vec!["n"])];
        assert_eq!(said(&pass), expected, "30/CON-4");
        assert_eq!(options(&world, &pass), ["t4", "t8"], "30/CON-4: all that cost less");
        assert_eq!(pass.commands[0].savings, 12.0);
        let told = texts(&pass, NoticeKind::ConsolidationCandidate);
        let text = "Consolidation candidate: replace: [n] -> [1 replacement] (savings: $12.00)";
        assert_eq!(told, [text]);
    }
}

#[test]
fn nodes_that_consolidation_does_not_look_at_say_why() {
    let p = || pod("p").cpu("1").on("n");
    let n = || of("n", 16);
    let own = |pool: PoolBuilder| World::empty().types(sizes()).pool(pool);
    #[rustfmt::skip]
    let cases = [
        ("30/CON-1", own(on_demand("default").policy(ConsolidationPolicy::WhenEmpty)).node(n()).pod(p()), 2,
            "NodePool \"default\" has consolidation policy WhenEmpty, but node is not empty"),
        ("30/CON-2", own(on_demand("default").never_consolidates()).node(n()).pod(p()), 3,
            "NodePool \"default\" has consolidation disabled"),
        ("30/CON-3 type", world().node(n().label("type", "gone")).pod(p()), 2, "Instance Type \"gone\" not found"),
        ("30/CON-3 capacity type", world().node(n().no_label("capacity-type")).pod(p()), 2,
            "Node does not have label \"karpenter.sh/capacity-type\""),
        ("30/CON-3 zone", world().node(n().no_label("zone")).pod(p()), 2,
            "Node does not have label \"topology.kubernetes.io/zone\""),
    ];
    for (case, world, methods, text) in cases {
        let pass = run(&world, &upstream());
        assert_eq!(said(&pass), [], "{case}");
        let told = texts(&pass, NoticeKind::Unconsolidatable);
        // Each goes to a Node and its NodeClaim: twice as many events.
        assert_eq!(told, vec![text; methods], "{case}");
        assert_eq!(pass.kept[0].text, text, "{case}");
    }
}

#[test]
fn the_dearest_zone_of_spot_decides() {
    let spot = |zone: &str, price| offering("spot", zone, price);
    let types = [
        instance_type("own").on_demand(ZONE, 0.5),
        instance_type("other")
            .sold(spot("test-zone-1", 1.0))
            .sold(spot("test-zone-2", 0.2))
            .sold(spot("test-zone-3", 0.4)),
    ];
    let world = World::of(types)
        .node(node("n").label("type", "own").label("capacity-type", "on-demand").zone(ZONE))
        .pod(pod("p").cpu("3").on("n"));
    let pass = run(&world, &upstream());
    assert_eq!(said(&pass), [], "30/CON-5");
    assert_eq!(pass.kept[0].text, "Can't replace with a cheaper node", "30/CON-5");
}

#[test]
fn a_pool_without_spot_is_not_priced_as_spot() {
    let types = [
        instance_type("own").on_demand(ZONE, 0.5),
        instance_type("other").on_demand(ZONE, 0.6).sold(offering("spot", ZONE, 0.2)),
    ];
    let world = World::empty()
        .types(types)
        .pool(on_demand("default"))
        .node(node("n").label("type", "own").label("capacity-type", "on-demand").zone(ZONE))
        .pod(pod("p").cpu("3").on("n"));
    assert_eq!(said(&run(&world, &upstream())), [], "30/CON-6");
}

#[test]
fn min_values_hold_after_the_price_filter() {
    let min = |count| {
        let pool = on_demand("default");
        pool.require_min("type", Operator::Exists, &[], count)
    };
    for best_effort in [false, true] {
        let with = |count| {
            let mut world = World::empty()
                .types(sizes())
                .pool(min(count))
                .node(of("n", 8))
                .pod(pod("p").cpu("1").on("n"));
            if best_effort {
                world.options.min_values = karpenter_core::scheduling::MinValuesPolicy::BestEffort;
            }
            run(&world, &upstream())
        };
        assert_eq!(said(&with(3)).len(), 1, "t1, t2 and t4 cost less");
        let pass = with(4);
        assert_eq!(said(&pass), [], "30/CON-7");
        let text = "Filtering by price: minValues requirement is not met for label(s) \
                    (label(s)=[node.kubernetes.io/instance-type])";
        assert_eq!(pass.kept[0].text, text, "30/CON-7");
    }
}

#[test]
fn pods_that_fit_nowhere_keep_their_node() {
    let away = pod("p").cpu("1").select("custom", "only-here").on("n");
    let world = world().node(of("n", 16).label("custom", "only-here")).pod(away);
    let pass = run(&world, &upstream());
    assert_eq!(said(&pass), [], "30/CON-8");
    let text = &pass.kept[0].text;
    assert!(text.starts_with("Not all pods would schedule, default/p => "), "{text}");
    assert_eq!(pass.kept[0].blocked_by, ["Pod default/p"]);
}

#[test]
fn the_node_with_fewer_pods_goes() {
    let world = world()
        .node(of("a", 1))
        .node(of("b", 1))
        .pod(pod("two").cpu("100m").on("a").times(2))
        .pod(pod("one").cpu("100m").on("b"));
    for settings in [upstream(), Settings::default()] {
        let pass = run(&world, &settings);
        let expected = [(Method::SingleNode, Decision::Delete, vec!["b"])];
        assert_eq!(said(&pass), expected, "30/CON-10, 30/MUL-2, 30/CON-9");
    }
}

#[test]
fn sources_of_unknown_price_can_go_but_not_be_replaced() {
    let unpriced = || of("n", 4).zone("test-zone-9");
    let alone = world().node(unpriced()).pod(pod("p").cpu("1").on("n"));
    let pass = run(&alone, &upstream());
    assert_eq!(said(&pass), []);
    let beside = alone.node(of("other", 8)).pod(pod("q").cpu("6").on("other"));
    let pass = run(&beside, &upstream());
    assert_eq!(said(&pass), [(Method::SingleNode, Decision::Delete, vec!["n"])]);
}
