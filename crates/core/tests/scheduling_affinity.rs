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
fn a_pod_goes_to_the_node_of_the_pod_that_it_wants() {
    let others = |name: &str| pod(name).times(10).spread(spread("hostname", 1));
    let world = World::new().pods([
        others("others"),
        marked("target").cpu("2"),
        pod("follower").cpu("1").near(term("hostname").selecting(&S2)),
    ]);
    let outcome = world.solve();
    assert_eq!(node_name(&outcome, "target"), node_name(&outcome, "follower"), "20/D30");
    assert_ne!(node_name(&outcome, "target"), "", "20/D30");
}

#[test]
fn a_shared_architecture_is_not_a_shared_node() {
    let apart = || spread("hostname", 1).selecting(&S2);
    let world = World::new().pods([
        marked("first").cpu("2").select("arch", "arm64").spread(apart()),
        marked("second").cpu("1").near(term("arch").selecting(&S2)).spread(apart()),
    ]);
    let outcome = world.solve();
    assert_eq!(outcome.label_of("second", "arch"), "arm64", "20/D31");
    assert_ne!(node_name(&outcome, "first"), node_name(&outcome, "second"), "20/D31");
}

#[test]
fn pods_that_want_themselves_fill_one_node_and_stop() {
    let together = |name: &str| marked(name).times(10).near(term("hostname").selecting(&S2));
    let first = World::new().pod(together("first")).solve();
    assert_eq!(first.sizes(), [5], "20/D32: a node takes five");
    assert_eq!(first.refused().len(), 5, "20/D32");
    let second = first.after.pod(together("second")).solve();
    assert_eq!(second.new_nodes(), 0, "20/D32");
    assert_eq!(second.refused().len(), 15, "20/D32: the next batch finds no place either");
}

#[test]
fn a_counted_host_elsewhere_keeps_pods_from_starting_anew() {
    let together = |name: &str| marked(name).near(term("hostname").selecting(&S2));
    let first = World::new().pod(together("first").select("zone", ZONES[0])).solve();
    let outcome =
        first.after.pod(together("later").times(10).require("zone", In, &ZONES[1..])).solve();
    assert_eq!(outcome.refused().len(), 10, "20/D33");
}

#[test]
fn pods_that_want_their_own_zone_share_it() {
    let together = || marked("web").times(3).near(term("zone").selecting(&S2));
    assert_eq!(World::new().pod(together()).solve().sizes(), [3], "20/D34");
    let outcome = World::new().pod(together().require("zone", In, &[ZONES[2]])).solve();
    assert_eq!(outcome.sizes(), [3], "20/D34");
    assert_eq!(outcome.label_of("web-0", "zone"), ZONES[2], "20/D34");
}

#[test]
fn pods_that_cannot_meet_start_a_zone_each() {
    let bound = |name: &str, zone| {
        marked(name).near(term("zone").selecting(&S2)).require("zone", In, &[zone])
    };
    let outcome = World::new().pods([bound("two", ZONES[1]), bound("three", ZONES[2])]).solve();
    assert_eq!(outcome.sizes(), [1, 1], "20/D35");
    assert_eq!(outcome.label_of("two", "zone"), ZONES[1], "20/D35");
    assert_eq!(outcome.label_of("three", "zone"), ZONES[2], "20/D35");
}

#[test]
fn a_target_that_may_be_anywhere_is_followed_in_the_next_loop() {
    let followers = || pod("follower").times(10).near(term("zone").selecting(&S2));
    let first = World::new().pods([marked("target"), followers()]).solve();
    assert_eq!(first.new_nodes(), 1, "20/D36");
    assert_eq!(first.refused().len(), 10, "20/D36");
    let zone = first.label_of("target", "zone").to_owned();
    let second = first.after.solve();
    assert_eq!(second.by("zone", "follower"), [(zone.as_str(), 10)].into(), "20/D36");
    let known = World::new().pods([marked("target").require("zone", In, &[ZONES[0]]), followers()]);
    assert_eq!(known.solve().by("zone", "follower"), [(ZONES[0], 10)].into(), "20/D37");
}

#[test]
fn an_open_node_is_preferred_as_the_first_place_of_its_kind() {
    let web = |name: &str| marked(name).near(term("zone").selecting(&S2));
    let first = World::new().pod(web("first")).solve();
    assert_eq!(first.new_nodes(), 1, "20/D38");
    // The node is there, and its pod is neither bound nor in the second batch.
    let world = first.unbound().pod(web("second"));
    let second = world.solve_for(&[world.pod_id("second")], &[].into());
    assert_eq!(second.new_nodes(), 0, "20/D38: {}", second.text());
    assert_eq!(second.refused(), [""; 0], "20/D38");
}

#[test]
fn pods_that_avoid_each_other_get_nodes_of_their_own() {
    let sizes = [("2", "1"), ("1", "2")];
    for (plain, picky) in sizes {
        let world = World::new().pods([
            marked("plain").cpu(plain),
            pod("picky").cpu(picky).away_from(term("hostname").selecting(&S2)),
        ]);
        let outcome = world.solve();
        assert_eq!(outcome.refused(), [""; 0], "20/D39");
        assert_ne!(node_name(&outcome, "plain"), node_name(&outcome, "picky"), "20/D39");
    }
}

/// One pod of 2 cpu per zone, from a builder.
fn in_each_zone(build: impl Fn(&str) -> PodBuilder) -> [PodBuilder; 3] {
    ZONES.map(|zone| build(zone).cpu("2").select("zone", zone))
}

#[test]
fn a_pod_that_avoids_all_zones_has_no_place() {
    let picky = pod("picky").away_from(term("zone").selecting(&S2));
    let fixed = in_each_zone(marked);
    let outcome = World::new().pods(fixed).pod(picky.clone()).solve();
    assert_eq!(outcome.refused(), ["picky"], "20/D40");
    assert_eq!(
        outcome.refusal("picky"),
        "unsatisfiable topology constraint for pod anti-affinity, key=topology.kubernetes.io/zone \
         (counts = test-zone-1: 1, test-zone-2: 1, test-zone-3: 1, \
         podDomains = topology.kubernetes.io/zone Exists, \
         nodeDomains = topology.kubernetes.io/zone Exists",
        "20/D40 20/Q16"
    );
    let outcome = World::new().pods([marked("anywhere").cpu("2"), picky]).solve();
    assert_eq!(outcome.refused(), ["picky"], "20/D41");
    let next = outcome.after.solve();
    assert_eq!(next.refused(), [""; 0], "20/D41: the next loop knows where it went");
    assert_ne!(next.label_of("picky", "zone"), next.label_of("anywhere", "zone"), "20/D41");
}

#[test]
fn a_pod_that_others_avoid_everywhere_has_no_place() {
    let hostile = |name: &str| pod(name).away_from(term("zone").selecting(&S2));
    let outcome = World::new().pods(in_each_zone(hostile)).pod(marked("web")).solve();
    assert_eq!(outcome.refused(), ["web"], "20/D42: batch");
    let world = ZONES.iter().fold(World::new(), |world, zone| {
        world.node(node(zone).zone(zone)).pod(hostile("old").named(&format!("old-{zone}")).on(zone))
    });
    assert_eq!(world.pod(marked("web")).solve().refused(), ["web"], "20/D42: existing");
}

#[test]
fn a_mere_preference_of_others_keeps_no_pod_away() {
    let mild = |name: &str| pod(name).prefer_away_from(10, term("zone").selecting(&S2));
    let outcome = World::new().pods(in_each_zone(mild)).pod(marked("web")).solve();
    assert_eq!(outcome.refused(), [""; 0], "20/D43: batch");
    let world = ZONES.iter().fold(World::new(), |world, zone| {
        world.node(node(zone).zone(zone)).pod(mild("old").named(&format!("old-{zone}")).on(zone))
    });
    assert_eq!(world.pod(marked("web")).solve().refused(), [""; 0], "20/D43: existing");
}

#[test]
fn pods_that_need_a_zone_each_find_one_per_loop() {
    let mut world = World::new().pod(marked("web").times(4).away_from(term("zone").selecting(&S2)));
    for placed in [1, 2, 3, 3] {
        let outcome = world.solve();
        assert_eq!(outcome.skew("zone", "web"), vec![1; placed], "20/D44");
        world = outcome.after;
    }
}

#[test]
fn a_required_spread_wins_over_a_preferred_neighbour() {
    let near = || pod("web").prefer_near(50, term("hostname").selecting(&S2));
    let world =
        World::new().pods([marked("target"), near().times(3).spread(spread("hostname", 1))]);
    let outcome = world.solve();
    assert_eq!(outcome.refused(), [""; 0], "20/D45");
    assert_eq!(outcome.skew("hostname", "web"), [1, 1, 1], "20/D45");
}

#[test]
fn a_term_means_pods_of_its_namespaces() {
    let base = || {
        let mut world = World::new();
        for name in ["default", "other"] {
            world.snapshot.namespaces.insert(name.to_owned(), [].into());
        }
        world.pod(marked("target").namespace("other").require("zone", In, &[ZONES[1]]).cpu("2"))
    };
    let near = || term("zone").selecting(&S2);
    let follows =
        |term| base().pod(pod("web").near(term)).solve().label_of("web", "zone") == ZONES[1];
    assert!(!follows(near()), "20/D46: own namespace");
    assert!(follows(near().in_namespace("other")), "20/D46: listed");
    assert!(follows(near().in_namespaces_with(&[])), "20/D46: empty selector");
    assert!(!follows(near().in_namespaces_with(&[("team", "x")])), "20/D46: other selector");
}

/// Empty lists of terms are what a snapshot has for empty affinity objects.
#[test]
fn empty_affinity_means_nothing() {
    assert_eq!(World::new().pod(pod("web")).solve().refused(), [""; 0], "20/D47");
}
