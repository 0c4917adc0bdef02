//! Tests of consolidation of one node for at most one, and of skipped nodes (spec 30 §6.4).

use super::*;

#[test]
fn an_oversized_node_is_replaced_by_a_cheaper_one() {
    let world = world().node(node_of_size("n", 16)).pod(pod("p").cpu("3").on_node("n"));
    for settings in [upstream(), Settings::default()] {
        let pass = run(&world, &settings);
        let expected = [(Method::SingleNode, Decision::Replace, vec!["n"])];
        assert_eq!(command_summaries(&pass), expected, "30/CON-4");
        assert_eq!(replacement_types(&world, &pass), ["t4", "t8"], "30/CON-4: all that cost less");
        assert_eq!(pass.commands[0].savings, 12.0);
        let notices = notice_texts(&pass, NodeEventKind::ConsolidationCandidate);
        let text = "Consolidation candidate: replace: [n] -> [1 replacement] (savings: $12.00)";
        assert_eq!(notices, [text]);
    }
}

#[test]
fn unconsolidatable_events_give_the_reason() {
    let p = || pod("p").cpu("1").on_node("n");
    let n = || node_of_size("n", 16);
    let own = |pool: PoolBuilder| World::empty().types(sizes()).pool(pool);
    #[rustfmt::skip]
    let cases = [
        ("30/CON-1", own(on_demand("default").policy(ConsolidationPolicy::WhenEmpty)).node(n()).pod(p()), 2,
            "NodePool \"default\" has consolidation policy WhenEmpty, but node is not empty"),
        ("30/CON-2", own(on_demand("default").never_consolidates()).node(n()).pod(p()), 3,
            "NodePool \"default\" has consolidation disabled"),
        ("30/CON-3 type", world().node(n().label("type", "gone")).pod(p()), 2, "Instance Type \"gone\" not found"),
        ("30/CON-3 capacity type", world().node(n().without_label("capacity-type")).pod(p()), 2,
            "Node does not have label \"karpenter.sh/capacity-type\""),
        ("30/CON-3 zone", world().node(n().without_label("zone")).pod(p()), 2,
            "Node does not have label \"topology.kubernetes.io/zone\""),
    ];
    for (case, world, methods, text) in cases {
        let pass = run(&world, &upstream());
        assert_eq!(command_summaries(&pass), [], "{case}");
        let notices = notice_texts(&pass, NodeEventKind::Unconsolidatable);
        // Each goes to a Node and its NodeClaim: twice as many events.
        assert_eq!(notices, vec![text; methods], "{case}");
        assert_eq!(pass.retained_nodes[0].text, text, "{case}");
    }
}

#[test]
fn the_most_expensive_spot_zone_decides_the_launch_price() {
    let spot = |zone: &str, price| offering("spot", zone, price);
    let types = [
        instance_type("own").on_demand(ZONE, 0.5),
        instance_type("other")
            .offering(spot("test-zone-1", 1.0))
            .offering(spot("test-zone-2", 0.2))
            .offering(spot("test-zone-3", 0.4)),
    ];
    let world = World::with_types(types)
        .node(node("n").label("type", "own").label("capacity-type", "on-demand").zone(ZONE))
        .pod(pod("p").cpu("3").on_node("n"));
    let pass = run(&world, &upstream());
    assert_eq!(command_summaries(&pass), [], "30/CON-5");
    assert_eq!(pass.retained_nodes[0].text, "Can't replace with a cheaper node", "30/CON-5");
}

#[test]
fn an_on_demand_node_pool_is_not_priced_as_spot() {
    let types = [
        instance_type("own").on_demand(ZONE, 0.5),
        instance_type("other").on_demand(ZONE, 0.6).offering(offering("spot", ZONE, 0.2)),
    ];
    let world = World::empty()
        .types(types)
        .pool(on_demand("default"))
        .node(node("n").label("type", "own").label("capacity-type", "on-demand").zone(ZONE))
        .pod(pod("p").cpu("3").on_node("n"));
    assert_eq!(command_summaries(&run(&world, &upstream())), [], "30/CON-6");
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
                .node(node_of_size("n", 8))
                .pod(pod("p").cpu("1").on_node("n"));
            if best_effort {
                world.options.min_values = karpenter_core::scheduling::MinValuesPolicy::BestEffort;
            }
            run(&world, &upstream())
        };
        assert_eq!(command_summaries(&with(3)).len(), 1, "t1, t2 and t4 cost less");
        let pass = with(4);
        assert_eq!(command_summaries(&pass), [], "30/CON-7");
        let text = "Filtering by price: minValues requirement is not met for label(s) \
                    (label(s)=[node.kubernetes.io/instance-type])";
        assert_eq!(pass.retained_nodes[0].text, text, "30/CON-7");
    }
}

#[test]
fn a_node_with_unschedulable_pods_is_not_consolidated() {
    let away = pod("p").cpu("1").select("custom", "only-here").on_node("n");
    let world = world().node(node_of_size("n", 16).label("custom", "only-here")).pod(away);
    let pass = run(&world, &upstream());
    assert_eq!(command_summaries(&pass), [], "30/CON-8");
    let text = &pass.retained_nodes[0].text;
    assert!(text.starts_with("Not all pods would schedule, default/p => "), "{text}");
    assert_eq!(pass.retained_nodes[0].blocked_by, ["Pod default/p"]);
}

#[test]
fn consolidation_removes_the_node_with_fewer_pods() {
    let world = world()
        .node(node_of_size("a", 1))
        .node(node_of_size("b", 1))
        .pod(pod("two").cpu("100m").on_node("a").replicas(2))
        .pod(pod("one").cpu("100m").on_node("b"));
    for settings in [upstream(), Settings::default()] {
        let pass = run(&world, &settings);
        let expected = [(Method::SingleNode, Decision::Delete, vec!["b"])];
        assert_eq!(command_summaries(&pass), expected, "30/CON-10, 30/MUL-2, 30/CON-9");
    }
}

#[test]
fn a_node_of_unknown_price_can_be_deleted_but_not_replaced() {
    let unpriced = || node_of_size("n", 4).zone("test-zone-9");
    let alone = world().node(unpriced()).pod(pod("p").cpu("1").on_node("n"));
    let pass = run(&alone, &upstream());
    assert_eq!(command_summaries(&pass), []);
    let with_other_node =
        alone.node(node_of_size("other", 8)).pod(pod("q").cpu("6").on_node("other"));
    let pass = run(&with_other_node, &upstream());
    assert_eq!(command_summaries(&pass), [(Method::SingleNode, Decision::Delete, vec!["n"])]);
}
