//! Topology spread constraints (spec 20 §4, cases D1–D29).

use karpenter_core::pod::Phase;
use karpenter_core::requirement::Operator::In;
use karpenter_core::testing::{
    Outcome, PodBuilder, SpreadBuilder, World, ZONES, benchmark_types, node, pod, pool, spread,
    term,
};

fn zonal() -> PodBuilder {
    pod("web").zone_spread(1)
}

/// Pods of 1.1 cpu each, so that few share a node.
fn fat(spread: SpreadBuilder) -> PodBuilder {
    pod("web").cpu("1.1").spread(spread)
}

fn in_zones(zones: &[&str]) -> World {
    World::empty().pool(pool("default").require("zone", In, zones))
}

#[test]
fn pods_spread_over_all_zones() {
    let first = World::new().pod(zonal().replicas(4)).solve();
    assert_eq!(first.skew("zone", "web"), [2, 1, 1], "20/D1");
    let more = zonal().named("more").replicas(5);
    let second = first.resulting_world.clone().pod(more).solve();
    assert_eq!(second.skew("zone", "web"), [3, 3, 3], "20/D2");
    assert_eq!(second.new_nodes(), 0, "20/D2: {}", second.text());
}

#[test]
fn pods_spread_over_nodes() {
    let apart = |name: &str| pod("web").named(name).spread(spread("hostname", 1));
    let first = World::new().pod(apart("first").replicas(4)).solve();
    assert_eq!(first.skew("hostname", "web"), [1; 4], "20/D3");
    let second = first.resulting_world.pod(apart("second").replicas(5)).solve();
    assert_eq!(second.skew("hostname", "web"), [1; 9], "20/D3");
    let loose = World::new().pod(pod("web").replicas(4).spread(spread("hostname", 4))).solve();
    assert_eq!(loose.skew("hostname", "web"), [4], "20/D4");
}

#[test]
fn zones_of_the_pool_bound_the_spread() {
    let outcome = in_zones(&ZONES[..2]).pod(zonal().replicas(4)).solve();
    assert_eq!(outcome.skew("zone", "web"), [2, 2], "20/D5");
    let labelled = pool("default").require("zone", In, &ZONES).label("zone", ZONES[0]);
    let outcome = World::empty().pool(labelled).pod(zonal().replicas(4)).solve();
    assert_eq!(
        outcome.pods_by_label("zone", "web"),
        [(ZONES[0], 4)].into(),
        "20/D5: label and requirement"
    );
    let two = World::empty()
        .pool(pool("one").label("zone", ZONES[0]))
        .pool(pool("two").label("zone", ZONES[1]));
    let outcome = two.pod(zonal().replicas(4)).solve();
    assert_eq!(outcome.skew("zone", "web"), [2, 2], "20/D6");
}

#[test]
fn pods_in_zones_that_the_node_pool_no_longer_allows_count() {
    let world = in_zones(&ZONES[..2]).full_node("old", ZONES[2], "web", 1);
    let outcome = world.pod(fat(spread("zone", 1)).replicas(6)).solve();
    assert_eq!(outcome.skew("zone", "web"), [2, 2, 1], "20/D7");
    assert_eq!(outcome.rejected().len(), 2, "20/D7");
    let world = in_zones(&ZONES[2..]).full_node("a", ZONES[0], "web", 1);
    let world = world.full_node("b", ZONES[1], "web", 1);
    let outcome = world.pod(fat(spread("zone", 5)).replicas(10)).solve();
    assert_eq!(outcome.skew("zone", "web"), [6, 1, 1], "20/D8");
}

#[test]
fn new_pods_reduce_an_existing_skew() {
    let world = World::new().full_node("a", ZONES[0], "web", 3);
    let outcome = world.pod(fat(spread("zone", 1)).replicas(3)).solve();
    assert_eq!(outcome.pods_by_label("zone", "web")[ZONES[0]], 3, "20/D9");
    assert_eq!(outcome.skew("zone", "web"), [3, 2, 1], "20/D9");
}

#[test]
fn a_spread_over_an_unknown_key_rejects_the_pod() {
    let unknown = pod("unknown").spread(spread("example.com/no-such-key", 1));
    let outcome = World::new().pods([unknown, pod("other")]).solve();
    assert_eq!(outcome.rejected(), ["unknown"], "20/D10");
    assert_eq!(
        outcome.rejection("unknown"),
        "unsatisfiable topology constraint for topology spread, key=example.com/no-such-key \
         (counts = , podDomains = example.com/no-such-key Exists, \
         nodeDomains = example.com/no-such-key Exists",
        "20/D10"
    );
}

#[test]
fn a_spread_without_a_selector_spreads_no_pods() {
    let outcome =
        World::new().pod(pod("web").replicas(2).spread(spread("zone", 1).selecting_nothing()));
    assert_eq!(outcome.solve().pods_per_new_node(), [2], "20/D11");
}

#[test]
fn pods_that_their_own_spread_does_not_select_share_a_node() {
    let others = spread("hostname", 1).selecting(&[("app", "other")]);
    assert_eq!(
        World::new().pod(pod("web").replicas(5).spread(others)).solve().pods_per_new_node(),
        [5],
        "20/D12"
    );
}

#[test]
fn only_running_pods_on_known_domains_count() {
    let base = World::new()
        .node(node("one").zone(ZONES[0]).resource("pods", "20"))
        .node(node("two").zone(ZONES[1]).resource("pods", "20"))
        .node(node("nowhere"));
    let on = |name: &str, node: &str| pod("web").named(name).on_node(node);
    let ignored = [
        on("unlabelled", "one").without_app_label(),
        pod("web").named("unbound").not_marked_unschedulable(),
        on("no-domain", "nowhere"),
        on("other-namespace", "one").namespace("other"),
        on("terminating", "one").terminating(),
        on("failed", "one").phase(Phase::Failed),
        on("succeeded", "one").phase(Phase::Succeeded),
    ];
    let counted = [on("a", "one"), on("b", "one"), on("c", "two")];
    let world = base.pods(ignored).pods(counted).pod(zonal().named("new").replicas(2));
    let outcome = world.solve();
    // Two in the first zone and one in the second count. So the first pod goes to the third, and
    // then there is room in the second.
    let zones = ["new-0", "new-1"].map(|pod| outcome.label_of(pod, "zone"));
    assert_eq!(zones, [ZONES[2], ZONES[1]], "20/D13");
}

#[test]
fn fewer_domains_than_min_domains_count_as_an_empty_domain() {
    let at_least = |domains| zonal_with(spread("zone", 1).min_domains(domains));
    let outcome = in_zones(&ZONES[..2]).pod(at_least(3).replicas(3)).solve();
    assert_eq!(outcome.skew("zone", "web"), [1, 1], "20/D14");
    for domains in [3, 2] {
        let outcome = World::new().pod(at_least(domains).replicas(11)).solve();
        assert_eq!(outcome.skew("zone", "web"), [4, 4, 3], "20/D15: {domains}");
    }
}

fn zonal_with(spread: SpreadBuilder) -> PodBuilder {
    pod("web").spread(spread)
}

#[test]
fn capacity_types_are_domains() {
    let by_type = |constraint: SpreadBuilder| pod("web").spread(constraint);
    let outcome = World::new().pod(by_type(spread("capacity-type", 1)).replicas(4)).solve();
    assert_eq!(outcome.skew("capacity-type", "web"), [2, 2], "20/D16");
    let spot_only = || {
        let pool = pool("default").require("capacity-type", In, &["spot"]);
        let paid = node("paid").label("capacity-type", "on-demand").resource("pods", "1");
        World::empty().pool(pool).node(paid).pod(pod("web").named("old").on_node("paid"))
    };
    let outcome = spot_only().pod(by_type(spread("capacity-type", 1)).replicas(5)).solve();
    assert_eq!(
        outcome.pods_by_label("capacity-type", "web"),
        [("on-demand", 1), ("spot", 2)].into(),
        "20/D17"
    );
    assert_eq!(outcome.rejected().len(), 3, "20/D17");
    let outcome =
        spot_only().pod(by_type(spread("capacity-type", 1).schedule_anyway()).replicas(5)).solve();
    assert_eq!(outcome.pods_by_label("capacity-type", "web")["spot"], 5, "20/D17: ScheduleAnyway");
}

#[test]
fn nodes_incompatible_with_the_pod_do_not_count_for_its_spread() {
    let existing =
        node("old").zone(ZONES[0]).label("capacity-type", "on-demand").resource("pods", "1");
    let world = World::new().node(existing).pod(pod("web").named("old").on_node("old"));
    let bound = pod("web")
        .require("zone", In, &[ZONES[1]])
        .require("capacity-type", In, &["spot"])
        .spread(spread("capacity-type", 1));
    let outcome = world.pod(bound.replicas(5)).solve();
    assert_eq!(
        outcome.pods_by_label("capacity-type", "web"),
        [("on-demand", 1), ("spot", 5)].into(),
        "20/D18"
    );
}

#[test]
fn spread_over_a_node_pool_label_gives_a_ratio() {
    let key = "capacity.spread.4-1";
    let world = World::empty()
        .pool(pool("spot").require("capacity-type", In, &["spot"]).require(
            key,
            In,
            &["2", "3", "4", "5"],
        ))
        .pool(pool("paid").require("capacity-type", In, &["on-demand"]).require(key, In, &["1"]))
        .pod(pod("web").replicas(20).spread(spread(key, 1)));
    let outcome = world.solve();
    assert_eq!(outcome.skew(key, "web"), [4; 5], "20/D19");
    let ratio = [("on-demand", 4), ("spot", 16)].into();
    assert_eq!(outcome.pods_by_label("capacity-type", "web"), ratio, "20/D19");
}

#[test]
fn zones_and_nodes_are_spread_together() {
    let both = || pod("web").spread(spread("zone", 1)).spread(spread("hostname", 3));
    let mut world = World::new();
    let mut outcome: Option<Outcome> = None;
    for (round, count) in [2, 3, 5, 11].into_iter().enumerate() {
        let solved = world.pod(both().named(&format!("round-{round}")).replicas(count)).solve();
        assert!(solved.skew("hostname", "web")[0] <= 3, "20/D20: round {round}");
        assert_eq!(solved.rejected(), [""; 0], "20/D20: round {round}");
        world = solved.resulting_world.clone();
        outcome = Some(solved);
    }
    assert_eq!(outcome.unwrap().skew("zone", "web"), [7, 7, 7], "20/D20");
}

#[test]
fn match_label_keys_spread_each_label_value_separately() {
    let constraint =
        || spread("hostname", 1).selecting(&[("app", "web")]).match_label_key("version");
    let version = |name: &str| pod(name).label("app", "web").label("version", name).replicas(2);
    let pods = ["value-a", "value-b"].map(|name| version(name).spread(constraint()));
    let outcome = World::new().pods(pods).solve();
    assert_eq!(outcome.pods_per_new_node(), [2, 2], "20/D21");
    for claim in &outcome.plan.claims {
        let names = claim.pods.iter().map(|&id| &outcome.initial_world.snapshot.pod(id).name[..7]);
        let names: std::collections::BTreeSet<_> = names.collect();
        assert_eq!(names.len(), 2, "20/D21: one of each");
    }
    let outcome = World::new().pod(pod("web").replicas(4).spread(constraint())).solve();
    assert_eq!(outcome.pods_per_new_node(), [1; 4], "20/D22");
}

#[test]
fn tainted_nodes_are_domains_unless_taints_are_honored() {
    let key = "fake-label";
    let world = ["foo", "bar"].iter().fold(
        World::empty().pool(pool("default").label(key, "baz")),
        |world, name| {
            world.node(node(name).label(key, name).taint("taintname=taintvalue:NoSchedule"))
        },
    );
    let count = |constraint: SpreadBuilder| {
        let outcome = world.clone().pod(pod("web").replicas(5).cpu("1").spread(constraint)).solve();
        outcome.skew(key, "web")
    };
    assert_eq!(count(spread(key, 1)), [1], "20/D23: Ignore");
    assert_eq!(count(spread(key, 1).honoring_taints()), [5], "20/D23: Honor");
}

#[test]
fn tainted_pools_are_domains_unless_taints_are_honored() {
    let key = "fake-label";
    let world = World::empty()
        .pool(pool("plain").require(key, In, &["foo"]))
        .pool(pool("tainted").require(key, In, &["bar"]).taint("taint-key=x:NoSchedule"));
    let count = |constraint: SpreadBuilder| {
        let outcome = world.clone().pod(pod("web").replicas(2).spread(constraint)).solve();
        outcome.pods_by_label(key, "web").get("foo").copied()
    };
    assert_eq!(count(spread(key, 1)), Some(1), "20/D24: Ignore");
    assert_eq!(count(spread(key, 1).honoring_taints()), Some(2), "20/D24: Honor");
}

#[test]
fn with_honor_a_spread_counts_only_tolerated_domains() {
    let key = "fake-label";
    let taint = |number| format!("taint-key=nodepool-{number}:NoSchedule");
    let world = World::empty()
        .pool(pool("np-0").require(key, In, &["foo", "bar"]).taint(&taint(0)))
        .pool(pool("np-1").require(key, In, &["foo", "baz"]).taint(&taint(1)));
    let tolerant = |number, count| {
        let constraint = spread(key, 1).selecting(&[("app", "web")]).honoring_taints();
        let built = pod(&format!("set-{number}")).label("app", "web").tolerate(&taint(number));
        built.spread(constraint).replicas(count)
    };
    let outcome = world.pods([tolerant(0, 2), tolerant(1, 4)]).solve();
    // Nodes that a pod does not tolerate do not count for it: the second set does not see the pod
    // of the first in foo.
    let expected = [("bar", 1), ("baz", 2), ("foo", 3)].into();
    assert_eq!(outcome.pods_by_label(key, "web"), expected, "20/D25");
}

#[test]
fn nodes_that_the_selector_excludes_are_domains_if_affinity_is_ignored() {
    let (key, selector) = ("fake-label", "selector");
    let world = ["foo", "bar"].iter().fold(
        World::empty().pool(pool("default").label(key, "baz").label(selector, "value")),
        |world, name| world.node(node(name).label(key, name).label(selector, "mismatch")),
    );
    let count = |constraint: SpreadBuilder| {
        let web = pod("web").replicas(5).cpu("1").select(selector, "value").spread(constraint);
        world.clone().pod(web).solve().skew(key, "web")
    };
    assert_eq!(count(spread(key, 1).ignoring_affinity()), [1], "20/D26: Ignore");
    assert_eq!(count(spread(key, 1)), [5], "20/D26: Honor");
}

#[test]
fn node_selectors_bound_the_zones_of_a_spread() {
    let one =
        |name: &str, zone: &str, count| zonal().named(name).select("zone", zone).replicas(count);
    let outcome = World::new().pods([one("a", ZONES[0], 5), one("b", ZONES[1], 10)]).solve();
    assert_eq!(
        outcome.pods_by_label("zone", "web"),
        [(ZONES[0], 5), (ZONES[1], 10)].into(),
        "20/D27"
    );
}

#[test]
fn required_zones_bound_a_spread_and_preferred_ones_do_not() {
    let first = World::new().pod(zonal().replicas(10).require("zone", In, &ZONES[..2])).solve();
    assert_eq!(first.skew("zone", "web"), [5, 5], "20/D28");
    let later = zonal().named("later").require("zone", In, &ZONES[1..]);
    let second = first.resulting_world.pod(later).solve();
    assert_eq!(second.label_of("later", "zone"), ZONES[2], "20/D28");
    let soft = zonal().replicas(6).prefer(1, "zone", In, &ZONES[..2]);
    let outcome = World::new().pod(soft).solve();
    assert_eq!(outcome.skew("zone", "web"), [2, 2, 2], "20/D29");
}

#[test]
fn the_node_pool_label_is_no_topology_domain() {
    let outcome =
        World::with_types(benchmark_types(3)).pod(pod("web").spread(spread("nodepool", 1))).solve();
    assert_eq!(outcome.rejected(), ["web"]);
    let world = World::with_types(benchmark_types(3)).node(node("a"));
    assert_eq!(world.pod(pod("web").spread(spread("nodepool", 1))).solve().rejected(), [""; 0]);
}

#[test]
fn the_spread_of_one_workload_does_not_affect_another() {
    let outcome = World::new()
        .pods([zonal().replicas(3), pod("free").replicas(2).pod_affinity(term("hostname"))])
        .solve();
    assert_eq!(outcome.skew("zone", "web"), [1, 1, 1]);
    assert_eq!(outcome.skew("hostname", "free"), [2]);
}
