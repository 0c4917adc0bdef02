//! Where we differ from upstream on purpose, and where we do as it does (spec 20 §8, cases Q1–Q20,
//! G1–G12). Q6, Q7, Q10, Q16 and Q17 stand with minValues, daemons, limits, affinity and volumes.

use std::collections::BTreeSet;

use karpenter_core::requirement::Operator::{Gt, Gte, In, Lte, NotIn};
use karpenter_core::requirement::Requirements;
use karpenter_core::scheduling::{Fuel, Request, solve};
use karpenter_core::testing::{
    Outcome, World, ZONES, instance_type, node, offering, pod, pool, requirement, spread, term,
};

const WEB: [(&str, &str); 1] = [("app", "web")];

#[test]
fn a_spread_counts_only_nodes_that_its_own_selector_allows() {
    let world = World::empty()
        .pool(pool("default").require("rack", In, &["r1", "r2"]))
        .node(node("a").zone(ZONES[0]).label("rack", "r1").resource("pods", "1"))
        .node(node("b").zone(ZONES[1]).label("rack", "r2").resource("pods", "1"))
        .pods([
            pod("old-a").label("app", "web").on_node("a"),
            pod("old-b").label("app", "web").on_node("b"),
        ]);
    let web = |name: &str, zone| {
        pod(name).label("app", "web").select("zone", zone).spread(spread("rack", 1).selecting(&WEB))
    };
    let outcome = world.pods([web("first", ZONES[0]), web("second", ZONES[1])]).solve();
    assert_eq!(outcome.label_of("first", "rack"), "r2", "20/G4 20/Q1");
    assert_eq!(outcome.label_of("second", "rack"), "r1", "20/G4 20/Q1");
}

#[test]
fn each_min_domains_is_honored() {
    let two_zones = || World::empty().pool(pool("default").require("zone", In, &ZONES[..2]));
    let set = |name: &str, domains, count| {
        let constraint = spread("zone", 1).selecting(&WEB).min_domains(domains);
        pod(name).label("app", "web").spread(constraint).replicas(count)
    };
    let outcome = two_zones().pods([set("a-loose", 2, 4), set("b-strict", 3, 2)]).solve();
    assert_eq!(outcome.rejected(), ["b-strict-0", "b-strict-1"], "20/G5 20/Q2");
    let outcome = two_zones().pods([set("a-strict", 3, 3), set("b-loose", 2, 4)]).solve();
    assert_eq!(outcome.rejected(), ["a-strict-2"], "20/G5 20/Q2: other order");
    assert_eq!(outcome.skew("zone", "web"), [3, 3], "20/G5 20/Q2: other order");
}

#[test]
fn a_placed_pod_counts_for_later_topology_groups() {
    let web = |name: &str| pod(name).label("app", "web").spread(spread("zone", 1).selecting(&WEB));
    let second =
        web("second").require("zone", In, &["no-such-zone"]).or_require("zone", In, &ZONES[..2]);
    let outcome = World::new().pods([web("first"), second]).solve();
    assert_eq!(outcome.rejected(), [""; 0], "20/G6 20/Q3");
    assert_eq!(outcome.label_of("first", "zone"), ZONES[0], "20/G6 20/Q3");
    assert_eq!(outcome.label_of("second", "zone"), ZONES[1], "20/G6 20/Q3");
}

#[test]
fn excluded_label_values_are_no_topology_domains() {
    let world = World::empty()
        .pool(pool("named").require("rack", In, &["a"]))
        .pool(pool("others").require("rack", NotIn, &["x"]))
        .pod(pod("web").replicas(3).spread(spread("rack", 1)));
    let outcome = world.solve();
    assert_eq!(outcome.pods_by_label("rack", "web"), [("a", 3)].into(), "20/Q4");
}

#[test]
fn a_term_without_a_selector_counts_no_pods() {
    let busy = || {
        let one_zone = World::empty()
            .pool(pool("here").require("zone", In, &ZONES[..1]))
            .pool(pool("there").require("zone", In, &ZONES[1..]).limit("cpu", "0"));
        one_zone.full_node("full", ZONES[0], "other", 5)
    };
    let nil = pod("web").replicas(3).spread(spread("zone", 1).selecting_nothing());
    assert_eq!(busy().pod(nil).solve().rejected(), [""; 0], "20/G12 20/Q5");
    let selects_no_pods = pod("web").pod_affinity(term("zone").selecting_nothing());
    assert_eq!(busy().pod(selects_no_pods).solve().rejected(), ["web"], "20/Q5: affinity");
}

#[test]
fn pods_with_zone_self_affinity_all_go_to_one_zone() {
    let outcome =
        World::new().pod(pod("web").replicas(12).cpu("100m").pod_affinity(term("zone"))).solve();
    assert_eq!(outcome.rejected(), [""; 0], "20/G8 20/Q8");
    assert!(outcome.new_nodes() >= 3, "20/G8: five pods a node");
    assert_eq!(outcome.skew("zone", "web"), [12], "20/G8 20/Q8");
    for claim in &outcome.plan.claims {
        let zone = claim.requirements.get("topology.kubernetes.io/zone").unwrap();
        assert_eq!(zone.len(), 1, "20/G8 20/Q8: one zone, not two");
    }
}

#[test]
fn each_owner_of_a_topology_group_adds_its_tolerated_domains() {
    let taint = "team=a:NoSchedule";
    let world = || {
        World::empty()
            .pool(pool("plain").require("zone", In, &ZONES[..1]))
            .pool(pool("tainted").require("zone", In, &ZONES[1..2]).taint(taint))
    };
    for (plain, tolerant) in [("a", "b"), ("b", "a")] {
        let web = |name: &str| {
            pod(name).label("app", "web").pod_anti_affinity(term("zone").selecting(&WEB))
        };
        let outcome = world().pods([web(plain), web(tolerant).tolerate(taint)]).solve();
        let zones = [plain, tolerant].map(|pod| outcome.label_of(pod, "zone"));
        assert_eq!(zones, [ZONES[0], ZONES[1]], "20/Q9: {plain} tolerates nothing");
    }
    let mild = World::empty().pool(pool("mild").taint("team=a:PreferNoSchedule"));
    let outcome = mild.pod(pod("web").pod_anti_affinity(term("zone"))).solve();
    assert_eq!(outcome.rejected(), [""; 0], "20/Q9: refreshed when the taint is tolerated");
}

/// Nothing is published about virtual pods; a plan has them like others, marked.
#[test]
fn buffer_pods_are_planned_as_pods_and_marked_as_virtual() {
    let world = World::new().node(node("a")).pod(pod("spare").buffer_pod().replicas(3).cpu("1"));
    let outcome = world.solve();
    assert_eq!(outcome.new_nodes(), 0, "20/C75: all fit on existing nodes");
    let (_, pods) = &outcome.plan.existing_nodes[0];
    assert_eq!(pods.len(), 3, "20/C75");
    assert!(pods.iter().all(|&id| pod_of(&outcome, id).is_virtual), "20/Q12: not nominated");
}

fn pod_of(outcome: &Outcome, id: karpenter_core::id::PodId) -> &karpenter_core::pod::Pod {
    outcome.initial_world.snapshot.pod(id)
}

#[test]
fn items_with_bounds_lose_the_excluded_values() {
    let both = [requirement("rack", NotIn, &["7"]), requirement("rack", Gt, &["5"])];
    let items = Requirements::from_iter(both).items();
    assert_eq!(items.len(), 1, "20/Q13 20/E10");
    assert_eq!(
        (items[0].operator, items[0].values.as_slice()),
        (Gte, &["6".to_owned()][..]),
        "20/Q13"
    );
}

#[test]
fn a_picked_label_value_is_never_excluded() {
    let parts = [
        requirement("rack", NotIn, &["5", "7"]),
        requirement("rack", Gte, &["5"]),
        requirement("rack", Lte, &["7"]),
    ];
    let rack = Requirements::from_iter(parts);
    let rack = rack.get("rack").unwrap();
    for rng in 0..20 {
        assert_eq!(rack.pick_value(rng).as_deref(), Some("6"), "20/Q14: {rng}");
    }
}

#[test]
fn contradictory_node_pool_requirements_reject_the_pod() {
    let torn = pod("web").select("nodepool", "default").require("nodepool", In, &["other"]);
    let outcome = World::new().pod(torn).solve();
    assert_eq!(
        outcome.rejection("web"),
        "incompatible requirements, key karpenter.sh/nodepool, karpenter.sh/nodepool DoesNotExist \
         not in karpenter.sh/nodepool In [default]",
        "20/Q15"
    );
    let away = pod("web").prefer(1, "nodepool", NotIn, &["default"]);
    assert_eq!(World::new().pod(away).solve().pool_of("web"), "default", "20/Q15: preferred");
}

#[test]
fn new_nodes_with_equally_many_pods_keep_their_order() {
    let large = pod("large").cpu("1").pod_anti_affinity(term("hostname"));
    let small = pod("small").cpu("100m");
    let world = (10..35).fold(World::new(), |world, number| {
        world.pods([
            large.clone().named(&format!("large-{number}")),
            small.clone().named(&format!("small-{number}")),
        ])
    });
    let outcome = world.solve();
    let names = outcome.plan.claims.iter().map(|claim| {
        claim.pods.iter().map(|&id| pod_of(&outcome, id).name.clone()).collect::<Vec<_>>()
    });
    let expected = (10..35).map(|n| vec![format!("large-{n}"), format!("small-{n}")]);
    assert_eq!(names.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "20/Q18");
}

#[test]
fn a_node_without_a_hostname_label_is_counted_by_its_name() {
    let world = World::new()
        .node(node("n1").label("hostname", "h1"))
        .node(node("n2").without_label("hostname"))
        .pod(pod("old").label("app", "web").on_node("n2"));
    let outcome = world.pod(pod("web").replicas(2).spread(spread("hostname", 1))).solve();
    assert_eq!(outcome.node_of("web-0").unwrap().name, "n1", "20/Q19");
    assert_eq!(outcome.new_nodes(), 1, "20/Q19: {}", outcome.text());
}

#[test]
fn the_rejection_of_a_pod_does_not_depend_on_other_pods() {
    let stuck = pod("stuck").cpu("1000");
    let alone = World::new().pod(stuck.clone()).solve();
    let crowd = World::new().pods([stuck, pod("web").replicas(20).zone_spread(1)]).solve();
    assert_eq!(alone.rejection("stuck"), crowd.rejection("stuck"), "20/G10");
    assert_eq!(crowd.rejected(), ["stuck"], "20/G10");
}

/// The solver checks the fuel before each attempt, and each step of relaxation is one. It checks
/// once for a pod that is known to fail.
#[test]
fn a_rejected_pod_is_not_retried_without_a_change() {
    let picky = (0..10).fold(pod("stuck").replicas(50).cpu("1000"), |picky, number| {
        picky.prefer(1, "zone", In, &[&format!("far-{number}")])
    });
    let world = World::new().pods([picky, pod("web").replicas(20)]);
    let World { snapshot, catalog, options, .. } = &world;
    let (pods, without) = (world.pending(), BTreeSet::new());
    let request = Request { snapshot, catalog, pods: &pods, excluded_nodes: &without, options };
    let mut questions = 0;
    let plan = solve(
        &request,
        &mut Fuel::limited_by(|| {
            questions += 1;
            true
        }),
    );
    assert_eq!(plan, world.solve().plan, "20/G10: same error");
    assert_eq!(plan.rejected.len(), 50, "20/G10");
    // All steps of the first, then one question for each pod each time that the queue comes round.
    let (steps, rounds) = (11, 2);
    assert!(questions <= steps + rounds * 50 + 20, "20/G10: {questions} questions");
}

#[test]
fn the_cheaper_zone_wins_among_zones_of_equal_count() {
    let sold = |cheap: &str| {
        let price = |zone: &str| if zone == cheap { 0.5 } else { 1.0 };
        ZONES.iter().fold(instance_type("one"), |built, zone| {
            built.offering(offering("on-demand", zone, price(zone)))
        })
    };
    for zone in ZONES {
        let outcome = World::with_types([sold(zone)]).pod(pod("web").zone_spread(1)).solve();
        assert_eq!(outcome.label_of("web", "zone"), zone, "20/G11: spread");
        let outcome =
            World::with_types([sold(zone)]).pod(pod("web").pod_affinity(term("zone"))).solve();
        assert_eq!(outcome.label_of("web", "zone"), zone, "20/G11: affinity");
    }
}

/// There are no workers in a solve whose number could change the result; solves that run at the
/// same time share nothing.
#[test]
fn the_same_world_gives_the_same_plan_on_any_number_of_threads() {
    let world = World::new().pods([
        pod("web").replicas(20).zone_spread(1),
        pod("apart").replicas(5).pod_anti_affinity(term("hostname")),
        pod("near").replicas(5).pod_affinity(term("zone")),
        pod("stuck").cpu("1000"),
    ]);
    let plan = world.solve().plan;
    assert_eq!(world.solve().plan, plan, "20/G3");
    std::thread::scope(|scope| {
        let solves: Vec<_> = (0..8).map(|_| scope.spawn(|| world.solve_fast().plan)).collect();
        for solve in solves {
            assert_eq!(solve.join().unwrap(), plan, "20/G2");
        }
    });
}

#[test]
fn pods_with_dynamic_resources_are_rejected_if_dra_is_disabled() {
    let outcome = World::new().pods([pod("dra").dynamic_resources(), pod("plain")]).solve();
    assert_eq!(outcome.rejected(), ["dra"], "20/C64");
    assert_eq!(
        outcome.rejection("dra"),
        "pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter",
        "20/C64"
    );
    assert_eq!(outcome.pods_per_new_node(), [1], "20/C64");
}
