//! What pods give up, and in which order (spec 20 §3.15, §3.16, cases C44–C51).

use std::collections::BTreeSet;

use karpenter_core::requirement::Operator::{In, NotIn};
use karpenter_core::scheduling::{Fuel, PreferencePolicy, Request, solve};
use karpenter_core::testing::{PodBuilder, World, ZONES, node, pod, pool, spread, term};

const NOWHERE: &[&str] = &["no-such-zone"];

fn zone_of(pod: PodBuilder) -> String {
    let outcome = World::new().pod(pod.named("web")).solve();
    outcome.label_of("web", "zone").to_owned()
}

#[test]
fn the_first_possible_term_wins() {
    let web = pod("web").require("zone", In, NOWHERE).or_require("zone", In, NOWHERE);
    let web = web.or_require("zone", In, &["test-zone-1"]).or_require("zone", In, &["test-zone-2"]);
    assert_eq!(zone_of(web), "test-zone-1", "20/C44");
}

#[test]
fn the_last_term_is_never_dropped() {
    let outcome = World::new().pod(pod("web").require("zone", In, NOWHERE)).solve();
    assert_eq!(outcome.rejected(), ["web"], "20/C45");
}

#[test]
fn the_heaviest_possible_preference_wins() {
    let web = pod("web")
        .prefer(1, "zone", In, &["test-zone-1"])
        .prefer(100, "type", In, &["test-zone-3"])
        .prefer(50, "zone", In, &["test-zone-2"]);
    assert_eq!(zone_of(web), "test-zone-2", "20/C46");
}

#[test]
fn requirements_win_over_preferences() {
    let web =
        pod("web").require("zone", In, &["test-zone-3"]).prefer(1, "zone", NotIn, &["test-zone-3"]);
    assert_eq!(zone_of(web), "test-zone-3", "20/C47");
    let torn = pod("web").prefer(1, "zone", In, NOWHERE).prefer(1, "type", In, NOWHERE);
    assert_ne!(zone_of(torn), "", "20/C47: all preferences impossible");
}

#[test]
fn node_pools_without_a_prefer_no_schedule_taint_come_first() {
    let mild = "foo=bar:PreferNoSchedule";
    let world = World::empty().pool(pool("mild").taint(mild).weight(10)).pool(pool("plain"));
    assert_eq!(world.pod(pod("web")).solve().pool_of("web"), "plain", "20/C48");
}

#[test]
fn prefer_no_schedule_is_tolerated_as_the_last_relaxation() {
    let world = World::empty().pool(pool("mild").taint("foo=bar:PreferNoSchedule"));
    let torn = pod("web").prefer(1, "zone", In, NOWHERE).prefer(1, "type", In, NOWHERE);
    let outcome = world.pod(torn).solve();
    assert_eq!(outcome.pool_of("web"), "mild", "20/C49");
    // The possible preference is gone as well, since the taint comes last.
    let world = World::empty().pool(pool("mild").taint("foo=bar:PreferNoSchedule"));
    let outcome = world.pod(pod("web").prefer(1, "zone", In, &["test-zone-2"])).solve();
    assert_eq!(outcome.requirement_of("web", "zone"), "", "20/C49");
}

#[test]
fn prefer_no_schedule_of_a_node_is_tolerated_only_if_a_pool_has_it() {
    let mild = "foo=bar:PreferNoSchedule";
    let world = World::new().node(node("a").taint(mild)).pod(pod("web"));
    assert_eq!(world.solve().new_nodes(), 1);
    let no_pool = World::empty().node(node("a").taint(mild)).pod(pod("web"));
    assert_eq!(no_pool.solve().rejected(), ["web"]);
    let only_mild = World::empty().pool(pool("mild").taint(mild)).node(node("a").taint(mild));
    assert_eq!(only_mild.pod(pod("web")).solve().new_nodes(), 0);
}

#[test]
fn ignored_preferences_do_not_choose_a_node() {
    let zoned = |name, zone, cpu| pod(name).select("zone", zone).cpu(cpu);
    let world = World::new().pods([
        zoned("one", "test-zone-1", "2"),
        zoned("two-a", "test-zone-2", "3"),
        zoned("two-b", "test-zone-2", "3"),
        pod("flexible").cpu("1").prefer(1, "zone", In, &["test-zone-2"]),
    ]);
    let respected = world.solve();
    assert_eq!(respected.label_of("flexible", "zone"), "test-zone-2", "20/C50: Respect");
    let ignored =
        world.with_options(|options| options.preferences = PreferencePolicy::Ignore).solve();
    let name = |pod| &ignored.node_of(pod).unwrap().name;
    assert_eq!(name("flexible"), name("one"), "20/C50: the node with the fewest pods");
}

#[test]
fn ignored_preferences_do_not_spread_pods() {
    let rows = [
        ("zone spread", pod("web").spread(spread("zone", 1).schedule_anyway())),
        ("hostname spread", pod("web").spread(spread("hostname", 1).schedule_anyway())),
        ("zone anti-affinity", pod("web").prefer_pod_anti_affinity(1, term("zone"))),
        ("hostname anti-affinity", pod("web").prefer_pod_anti_affinity(1, term("hostname"))),
    ];
    for (row, web) in rows {
        let world = World::new().pod(web.replicas(5));
        let ignoring =
            world.clone().with_options(|options| options.preferences = PreferencePolicy::Ignore);
        assert_eq!(ignoring.solve().pods_per_new_node(), [5], "20/C51: {row}");
        // A preference for other zones is given up by the second pod: the first might be anywhere.
        let respecting = if row == "zone anti-affinity" { 1 } else { 2 };
        assert!(world.solve().new_nodes() >= respecting, "20/C51: {row}, Respect");
    }
}

#[test]
fn terms_are_exhausted_before_the_first_preference_is_dropped() {
    let web = pod("web")
        .require("zone", In, &["test-zone-1"])
        .or_require("zone", In, &["test-zone-2"])
        .prefer(1, "type", In, NOWHERE);
    assert_eq!(zone_of(web), "test-zone-2");
}

#[test]
fn schedule_anyway_spread_is_relaxed_before_the_pod_is_rejected() {
    let world = World::empty()
        .pool(pool("default").require("zone", In, &ZONES[..1]))
        .node(node("b").zone(ZONES[1]))
        .pod(pod("web").spread(spread("zone", 1).schedule_anyway()).replicas(3));
    assert_eq!(world.solve().rejected(), [""; 0]);
}

/// Returns how often the solver tries to place replicas of a pod.
fn attempts(pod: &PodBuilder, replicas: usize) -> u64 {
    let world = World::new().pod(pod.clone().replicas(replicas));
    let pods = world.pending();
    let mut count = 0;
    let mut fuel = Fuel::limited_by(|| {
        count += 1;
        true
    });
    let request = Request {
        snapshot: &world.snapshot,
        catalog: &world.catalog,
        pods: &pods,
        excluded_nodes: &BTreeSet::new(),
        options: &world.options,
    };
    let plan = solve(&request, &mut fuel);
    drop(fuel);
    assert!(plan.rejected.is_empty(), "{:?}", plan.rejected);
    count
}

#[test]
fn equal_pods_share_the_failed_steps_of_their_relaxation() {
    const TERMS: usize = 60;
    const REPLICAS: usize = 40;
    let absent = |key: &str, index: usize| term(key).selecting(&[("x", &index.to_string())]);
    let with_terms =
        |add: &dyn Fn(PodBuilder, usize) -> PodBuilder| (0..TERMS).fold(pod("web").cpu("10m"), add);
    let weight = |index: usize| i32::try_from(index % 100 + 1).unwrap();
    let host_affinity =
        with_terms(&|pod, index| pod.prefer_pod_affinity(weight(index), absent("hostname", index)));
    let soft_spread =
        with_terms(&|pod, index| pod.spread(spread(&format!("k{index}"), 1).schedule_anyway()));
    #[rustfmt::skip]
    let cases = [
        // pods                                                  attempts of the first pod
        ("affinity to absent pods on hosts", host_affinity.clone(), 2),
        ("affinity to absent pods in zones", with_terms(&|pod, index| pod.prefer_pod_affinity(weight(index), absent("zone", index))), 2),
        ("soft spread over unknown keys", soft_spread, 2),
        // Each placed pod changes the group of the term that is dropped last.
        ("affinity to equal and to absent pods", host_affinity.prefer_pod_affinity(1, term("zone")), 2),
        ("impossible node preferences", with_terms(&|pod, index| pod.prefer(weight(index), "zone", In, &[&format!("z{index}")])), TERMS as u64 + 1),
    ];
    for (name, pod, first) in cases {
        assert_eq!(attempts(&pod, 1), first, "20/3.15: {name}: one pod");
        let more = u64::try_from(REPLICAS).unwrap() - 1;
        assert_eq!(attempts(&pod, REPLICAS), first + more, "20/3.15: {name}: {REPLICAS} pods");
        let few = World::new().pod(pod.replicas(3));
        few.solve();
    }
}
