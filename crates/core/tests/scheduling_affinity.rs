//! Pod affinity and anti-affinity (spec 20 §4, cases D30–D47).

use karpenter_core::requirement::Operator::In;
use karpenter_core::testing::{Outcome, PodBuilder, World, ZONES, node, pod, spread, term};

const S2: [(&str, &str); 1] = [("security", "s2")];

/// A pod with label `security=s2`.
fn marked(name: &str) -> PodBuilder {
    pod(name).label("security", "s2")
}

fn node_name<'a>(outcome: &'a Outcome, pod: &str) -> &'a str {
    outcome.node_of(pod).map_or("", |node| &node.name)
}

#[test]
fn pod_affinity_places_a_pod_on_the_node_of_its_target() {
    let others = |name: &str| pod(name).replicas(10).spread(spread("hostname", 1));
    let world = World::new().pods([
        others("others"),
        marked("target").cpu("2"),
        pod("follower").cpu("1").pod_affinity(term("hostname").selecting(&S2)),
    ]);
    let outcome = world.solve();
    assert_eq!(node_name(&outcome, "target"), node_name(&outcome, "follower"), "20/D30");
    assert_ne!(node_name(&outcome, "target"), "", "20/D30");
}

#[test]
fn affinity_to_an_architecture_does_not_require_the_same_node() {
    let apart = || spread("hostname", 1).selecting(&S2);
    let world = World::new().pods([
        marked("first").cpu("2").select("arch", "arm64").spread(apart()),
        marked("second").cpu("1").pod_affinity(term("arch").selecting(&S2)).spread(apart()),
    ]);
    let outcome = world.solve();
    assert_eq!(outcome.label_of("second", "arch"), "arm64", "20/D31");
    assert_ne!(node_name(&outcome, "first"), node_name(&outcome, "second"), "20/D31");
}

#[test]
fn hostname_self_affinity_fills_one_node_only() {
    let together =
        |name: &str| marked(name).replicas(10).pod_affinity(term("hostname").selecting(&S2));
    let first = World::new().pod(together("first")).solve();
    assert_eq!(first.pods_per_new_node(), [5], "20/D32: a node takes five");
    assert_eq!(first.rejected().len(), 5, "20/D32");
    let second = first.resulting_world.pod(together("second")).solve();
    assert_eq!(second.new_nodes(), 0, "20/D32");
    assert_eq!(second.rejected().len(), 15, "20/D32: the next batch finds no place either");
}

#[test]
fn self_affinity_does_not_start_a_second_group() {
    let together = |name: &str| marked(name).pod_affinity(term("hostname").selecting(&S2));
    let first = World::new().pod(together("first").select("zone", ZONES[0])).solve();
    let outcome = first
        .resulting_world
        .pod(together("later").replicas(10).require("zone", In, &ZONES[1..]))
        .solve();
    assert_eq!(outcome.rejected().len(), 10, "20/D33");
}

#[test]
fn pods_with_zone_self_affinity_share_a_zone() {
    let together = || marked("web").replicas(3).pod_affinity(term("zone").selecting(&S2));
    assert_eq!(World::new().pod(together()).solve().pods_per_new_node(), [3], "20/D34");
    let outcome = World::new().pod(together().require("zone", In, &[ZONES[2]])).solve();
    assert_eq!(outcome.pods_per_new_node(), [3], "20/D34");
    assert_eq!(outcome.label_of("web-0", "zone"), ZONES[2], "20/D34");
}

#[test]
fn self_affinity_starts_a_group_per_unreachable_zone() {
    let bound = |name: &str, zone| {
        marked(name).pod_affinity(term("zone").selecting(&S2)).require("zone", In, &[zone])
    };
    let outcome = World::new().pods([bound("two", ZONES[1]), bound("three", ZONES[2])]).solve();
    assert_eq!(outcome.pods_per_new_node(), [1, 1], "20/D35");
    assert_eq!(outcome.label_of("two", "zone"), ZONES[1], "20/D35");
    assert_eq!(outcome.label_of("three", "zone"), ZONES[2], "20/D35");
}

#[test]
fn pods_follow_a_target_of_unknown_zone_in_the_next_loop() {
    let followers = || pod("follower").replicas(10).pod_affinity(term("zone").selecting(&S2));
    let first = World::new().pods([marked("target"), followers()]).solve();
    assert_eq!(first.new_nodes(), 1, "20/D36");
    assert_eq!(first.rejected().len(), 10, "20/D36");
    let zone = first.label_of("target", "zone").to_owned();
    let second = first.resulting_world.solve();
    assert_eq!(second.pods_by_label("zone", "follower"), [(zone.as_str(), 10)].into(), "20/D36");
    let known = World::new().pods([marked("target").require("zone", In, &[ZONES[0]]), followers()]);
    assert_eq!(known.solve().pods_by_label("zone", "follower"), [(ZONES[0], 10)].into(), "20/D37");
}

#[test]
fn the_first_pod_of_a_group_prefers_an_existing_node() {
    let web = |name: &str| marked(name).pod_affinity(term("zone").selecting(&S2));
    let first = World::new().pod(web("first")).solve();
    assert_eq!(first.new_nodes(), 1, "20/D38");
    // The node is there, and its pod is neither bound nor in the second batch.
    let world = first.resulting_world_without_binding().pod(web("second"));
    let second = world.solve_for(&[world.pod_id("second")], &[].into());
    assert_eq!(second.new_nodes(), 0, "20/D38: {}", second.text());
    assert_eq!(second.rejected(), [""; 0], "20/D38");
}

#[test]
fn pods_with_hostname_anti_affinity_get_nodes_of_their_own() {
    let sizes = [("2", "1"), ("1", "2")];
    for (plain, picky) in sizes {
        let world = World::new().pods([
            marked("plain").cpu(plain),
            pod("picky").cpu(picky).pod_anti_affinity(term("hostname").selecting(&S2)),
        ]);
        let outcome = world.solve();
        assert_eq!(outcome.rejected(), [""; 0], "20/D39");
        assert_ne!(node_name(&outcome, "plain"), node_name(&outcome, "picky"), "20/D39");
    }
}

/// One pod of 2 cpu per zone, from a builder.
fn in_each_zone(build: impl Fn(&str) -> PodBuilder) -> [PodBuilder; 3] {
    ZONES.map(|zone| build(zone).cpu("2").select("zone", zone))
}

#[test]
fn a_pod_with_anti_affinity_to_all_zones_is_rejected() {
    let picky = pod("picky").pod_anti_affinity(term("zone").selecting(&S2));
    let fixed = in_each_zone(marked);
    let outcome = World::new().pods(fixed).pod(picky.clone()).solve();
    assert_eq!(outcome.rejected(), ["picky"], "20/D40");
    assert_eq!(
        outcome.rejection("picky"),
        "unsatisfiable topology constraint for pod anti-affinity, key=topology.kubernetes.io/zone \
         (counts = test-zone-1: 1, test-zone-2: 1, test-zone-3: 1, \
         podDomains = topology.kubernetes.io/zone Exists, \
         nodeDomains = topology.kubernetes.io/zone Exists",
        "20/D40 20/Q16"
    );
    let outcome = World::new().pods([marked("anywhere").cpu("2"), picky]).solve();
    assert_eq!(outcome.rejected(), ["picky"], "20/D41");
    let next = outcome.resulting_world.solve();
    assert_eq!(next.rejected(), [""; 0], "20/D41: the next loop knows where it went");
    assert_ne!(next.label_of("picky", "zone"), next.label_of("anywhere", "zone"), "20/D41");
}

#[test]
fn anti_affinity_of_other_pods_in_all_zones_rejects_the_pod() {
    let hostile = |name: &str| pod(name).pod_anti_affinity(term("zone").selecting(&S2));
    let outcome = World::new().pods(in_each_zone(hostile)).pod(marked("web")).solve();
    assert_eq!(outcome.rejected(), ["web"], "20/D42: batch");
    let world = ZONES.iter().fold(World::new(), |world, zone| {
        world
            .node(node(zone).zone(zone))
            .pod(hostile("old").named(&format!("old-{zone}")).on_node(zone))
    });
    assert_eq!(world.pod(marked("web")).solve().rejected(), ["web"], "20/D42: existing");
}

#[test]
fn preferred_anti_affinity_of_other_pods_rejects_no_pod() {
    let mild = |name: &str| pod(name).prefer_pod_anti_affinity(10, term("zone").selecting(&S2));
    let outcome = World::new().pods(in_each_zone(mild)).pod(marked("web")).solve();
    assert_eq!(outcome.rejected(), [""; 0], "20/D43: batch");
    let world = ZONES.iter().fold(World::new(), |world, zone| {
        world
            .node(node(zone).zone(zone))
            .pod(mild("old").named(&format!("old-{zone}")).on_node(zone))
    });
    assert_eq!(world.pod(marked("web")).solve().rejected(), [""; 0], "20/D43: existing");
}

#[test]
fn zone_anti_affinity_places_one_pod_per_loop() {
    let mut world =
        World::new().pod(marked("web").replicas(4).pod_anti_affinity(term("zone").selecting(&S2)));
    for placed in [1, 2, 3, 3] {
        let outcome = world.solve();
        assert_eq!(outcome.skew("zone", "web"), vec![1; placed], "20/D44");
        world = outcome.resulting_world;
    }
}

#[test]
fn required_spread_wins_over_preferred_pod_affinity() {
    let near = || pod("web").prefer_pod_affinity(50, term("hostname").selecting(&S2));
    let world =
        World::new().pods([marked("target"), near().replicas(3).spread(spread("hostname", 1))]);
    let outcome = world.solve();
    assert_eq!(outcome.rejected(), [""; 0], "20/D45");
    assert_eq!(outcome.skew("hostname", "web"), [1, 1, 1], "20/D45");
}

#[test]
fn an_affinity_term_selects_pods_of_its_namespaces() {
    let base = || {
        let mut world = World::new();
        for name in ["default", "other"] {
            world.snapshot.namespaces.insert(name.to_owned(), [].into());
        }
        world.pod(marked("target").namespace("other").require("zone", In, &[ZONES[1]]).cpu("2"))
    };
    let near = || term("zone").selecting(&S2);
    let follows = |term| {
        base().pod(pod("web").pod_affinity(term)).solve().label_of("web", "zone") == ZONES[1]
    };
    assert!(!follows(near()), "20/D46: own namespace");
    assert!(follows(near().in_namespace("other")), "20/D46: listed");
    assert!(follows(near().in_namespaces_with(&[])), "20/D46: empty selector");
    assert!(!follows(near().in_namespaces_with(&[("team", "x")])), "20/D46: other selector");
}

/// Empty lists of terms are what a snapshot has for empty affinity objects.
#[test]
fn empty_affinity_constrains_nothing() {
    assert_eq!(World::new().pod(pod("web")).solve().rejected(), [""; 0], "20/D47");
}
