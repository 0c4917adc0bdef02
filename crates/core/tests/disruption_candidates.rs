//! Which nodes may be disrupted, and what that costs (spec 30 §3, spec 45 §9).
#![expect(clippy::float_cmp, reason = "prices here are sums that have no rounding")]

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use karpenter_core::disruption::{Board, Class, Rejection, Settings, World as Seen};
use karpenter_core::pod::{Owner, Phase};
use karpenter_core::selector::{LabelSelector, Selector};
use karpenter_core::snapshot::PodDisruptionBudget;
use karpenter_core::testing::{
    NodeBuilder, PodBuilder, World, instance_type, node, offering, pod, pool,
};

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("in range")
}

/// A node with the labels of the type that the worlds here offer.
fn sold(name: &str) -> NodeBuilder {
    node(name).label("type", "large").label("capacity-type", "on-demand").zone("test-zone-1")
}

fn world() -> World {
    World::of([
        instance_type("large").on_demand("test-zone-1", 1.0),
        instance_type("small").cpu("1").on_demand("test-zone-1", 0.25),
    ])
}

fn verdict(
    world: &World,
    class: Class,
    change: impl FnOnce(&mut Seen<'_>),
) -> Result<(), Rejection> {
    let settings = Settings::default();
    let mut seen = Seen::new(&world.snapshot, &world.catalog, &settings, now());
    change(&mut seen);
    let board = Board::new(&seen);
    board.candidate(world.node_id("n"), class).map(|_| ())
}

#[track_caller]
fn check(case: &str, world: &World, class: Class, expected: Option<&str>) {
    let text = verdict(world, class, |_| ()).err().map(|why| why.to_string());
    assert_eq!(text.as_deref(), expected, "{case}");
}

fn with(pod: PodBuilder) -> World {
    world().node(sold("n")).pod(pod.on("n"))
}

fn bounded(pod: PodBuilder) -> World {
    let period = Some(SignedDuration::from_mins(5));
    world().node(sold("n").standing(|n| n.termination_grace_period = period)).pod(pod.on("n"))
}

fn budget(namespace: &str, name: &str, allowed: i32) -> PodDisruptionBudget {
    PodDisruptionBudget {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        selector: Selector::Matching(LabelSelector::default()),
        blocks_all: allowed == 0,
        disruptions_allowed: allowed,
        always_evicts_unhealthy: false,
    }
}

fn held(mut world: World, budgets: impl IntoIterator<Item = PodDisruptionBudget>) -> World {
    world.snapshot.disruption_budgets = budgets.into_iter().collect::<Vec<_>>().into();
    world
}

#[test]
fn a_pod_that_must_not_be_disrupted_holds_its_node() {
    const TEXT: &str = "Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=default/p)";
    let p = || pod("p").do_not_disrupt();
    #[rustfmt::skip]
    let cases = [
        ("30/CAND-1 graceful",    with(p()),                              Class::Graceful, Some(TEXT)),
        ("30/CAND-1 eventual",    with(p()),                              Class::Eventual, Some(TEXT)),
        ("30/CAND-2 mirror",      with(p().owner(Owner::Node)),           Class::Graceful, Some(TEXT)),
        ("30/CAND-2 daemon",      with(p().owner(Owner::DaemonSet)),      Class::Graceful, Some(TEXT)),
        ("30/CAND-3",             bounded(p()),                           Class::Eventual, None),
        ("30/CAND-4",             bounded(p()),                           Class::Graceful, Some(TEXT)),
        ("30/CAND-6 terminating", with(p().terminating()),                Class::Graceful, None),
        ("repair leaves it to its bound", with(p()),                      Class::Repair,   None),
    ];
    for (case, world, class, expected) in cases {
        check(case, &world, class, expected);
    }
    let mut over = with(p());
    over.snapshot.pods[0].phase = Phase::Succeeded;
    check("30/CAND-6 terminal", &over, Class::Graceful, None);
}

#[test]
fn a_pod_that_could_not_be_read_whole_holds_its_node() {
    const TEXT: &str = "Pod could not be read whole, and stays where it is (Pod=default/p)";
    let unread = |mut world: World| {
        world.snapshot.pods[0].is_unread = true;
        world
    };
    #[rustfmt::skip]
    let cases = [
        ("graceful", unread(with(pod("p"))),                         Class::Graceful, Some(TEXT)),
        ("eventual", unread(with(pod("p"))),                         Class::Eventual, Some(TEXT)),
        ("bounded",  unread(bounded(pod("p"))),                      Class::Eventual, None),
        ("daemon",   unread(with(pod("p").owner(Owner::DaemonSet))), Class::Graceful, None),
        ("read",     with(pod("p")),                                 Class::Graceful, None),
    ];
    for (case, world, class, expected) in cases {
        check(case, &world, class, expected);
    }
}

#[test]
fn a_budget_that_lets_nothing_go_holds_the_node() {
    const ONE: &str = "Pdb prevents pod evictions (PodDisruptionBudget=[default/a])";
    const TWO: &str = "Eviction does not support multiple PDBs \
                       (PodDisruptionBudget(s)=[default/a default/b])";
    let blocked = |world| held(world, [budget("default", "a", 0)]);
    let lax = PodDisruptionBudget { always_evicts_unhealthy: true, ..budget("default", "a", 0) };
    #[rustfmt::skip]
    let cases = [
        ("30/CAND-5 bounded",  blocked(bounded(pod("p"))),                        Class::Eventual, None),
        ("30/CAND-5 unbounded", blocked(with(pod("p"))),                          Class::Eventual, Some(ONE)),
        ("30/CAND-7",          blocked(with(pod("p").owner(Owner::DaemonSet))),   Class::Graceful, Some(ONE)),
        ("30/CAND-8 mirror",   blocked(with(pod("p").owner(Owner::Node))),        Class::Graceful, None),
        ("30/CAND-8 terminating", blocked(with(pod("p").terminating())),          Class::Graceful, None),
        ("30/CAND-9",  held(with(pod("p")), [budget("default", "b", 3), budget("default", "a", 3)]), Class::Graceful, Some(TWO)),
        ("30/CAND-10", held(with(pod("p")), [budget("other", "a", 0)]),           Class::Graceful, None),
        ("30/CAND-11 not ready", held(with(pod("p").unready()), [lax.clone()]),   Class::Graceful, None),
        ("ready",      held(with(pod("p")), [lax]),                               Class::Graceful, Some(ONE)),
        ("30/CAND-21", blocked(with(pod("p").tolerate_all("karpenter.sh/disrupted"))), Class::Graceful, None),
        ("lets one go", held(with(pod("p")), [budget("default", "a", 1)]),        Class::Graceful, None),
    ];
    for (case, world, class, expected) in cases {
        check(case, &world, class, expected);
    }
    let mut over = blocked(with(pod("p")));
    over.snapshot.pods[0].phase = Phase::Failed;
    check("30/CAND-8 terminal", &over, Class::Graceful, None);
}

#[test]
fn a_node_in_the_wrong_state_is_no_candidate() {
    let of = |node: NodeBuilder| world().node(node);
    let n = || sold("n");
    #[rustfmt::skip]
    let cases = [
        ("30/CAND-12 only a Node",      of(n().unmanaged()),                        Some("Node isn't managed by karpenter")),
        ("30/CAND-12 only a NodeClaim", of(n().in_flight()),                        Some("Nodeclaim does not have an associated node")),
        ("30/CAND-13 deleting",         of(n().deleting()),                         Some("Node is deleting or marked for deletion")),
        ("30/CAND-13 terminating",      of(n().standing(|s| s.is_instance_terminating = true)), Some("Node is deleting or marked for deletion")),
        ("45/BC-3, 30/CAND-13",         of(n().starting()),                         Some("Node isn't initialized")),
        ("45/BC-4",                     of(n().starting().standing(|s| s.is_registered = false)), Some("Node isn't initialized nor registered")),
        ("45/BC-5",                     of(n().standing(|s| s.is_rebooting = true)), Some("Node is rebooting")),
        ("45/BC-5 also going",          of(n().deleting().standing(|s| s.is_rebooting = true)), Some("Node is rebooting")),
        ("going before not ready",      of(n().starting().deleting()),              Some("Node is deleting or marked for deletion")),
        ("do-not-disrupt",              of(n().standing(|s| s.do_not_disrupt = Some("true".to_owned()))), Some("Disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation")),
        ("30/CAND-16 false",            of(n().standing(|s| s.do_not_disrupt = Some("false".to_owned()))), None),
        ("30/CAND-16 30m",              of(n().standing(|s| s.do_not_disrupt = Some("30m".to_owned()))), None),
        ("30/CAND-14 unknown pool",     of(n().pool("gone")),                       Some("NodePool not found (NodePool=gone)")),
        ("fine",                        of(n()),                                    None),
    ];
    for (case, world, expected) in cases {
        check(case, &world, Class::Graceful, expected);
        check(case, &world, Class::Eventual, expected);
    }
    let mut unlabelled = of(n().no_label("nodepool"));
    unlabelled.snapshot.nodes[0].pool = None;
    let text = "Node doesn't have required label (label=karpenter.sh/nodepool)";
    check("30/CAND-14 no label", &unlabelled, Class::Graceful, Some(text));
    let mut no_types = of(n());
    no_types.catalog.pools.clear();
    let text = "NodePool not found (NodePool=default)";
    check("types that cannot be listed", &no_types, Class::Graceful, Some(text));
}

#[test]
fn a_node_that_is_promised_or_worked_on_is_no_candidate() {
    let world = world().node(sold("n"));
    let promised = |class, until, rest| {
        verdict(&world, class, |seen| {
            seen.nominated =
                [("test:///n".to_owned(), now() + SignedDuration::from_secs(until))].into();
            seen.rest = SignedDuration::from_secs(rest);
        })
    };
    for class in [Class::Graceful, Class::Eventual] {
        let nominated = promised(class, 1, 0).unwrap_err().to_string();
        assert_eq!(nominated, "Node is nominated for a pending pod", "30/CAND-13: {class:?}");
        assert_eq!(promised(class, 0, 0), Ok(()), "30/CAND-13: {class:?}");
    }
    // What rests begins when the promise is over; the rest begins at once.
    assert_eq!(promised(Class::Graceful, 15, 15), Ok(()));
    assert_eq!(promised(Class::Graceful, 16, 15), Err(Rejection::Nominated));
    assert_eq!(promised(Class::Eventual, 15, 15), Err(Rejection::Nominated));
    let id = BTreeSet::from(["test:///n".to_owned()]);
    let queued = verdict(&world, Class::Graceful, |seen| seen.queued = id);
    assert_eq!(queued, Err(Rejection::InQueue), "30/CAND-13");
    assert!(!Rejection::InQueue.is_published() && !Rejection::NotManaged.is_published());
}

#[test]
fn repair_takes_nodes_that_others_leave_alone() {
    let n = || sold("n");
    let forbidden = world().node(n().standing(|s| s.do_not_disrupt = Some("true".to_owned())));
    check("node do-not-disrupt", &forbidden, Class::Repair, None);
    check("45/RM-17 never ready", &world().node(n().starting()), Class::Repair, None);
    let unregistered = n().starting().standing(|s| s.is_registered = false);
    let text = "Node isn't initialized nor registered";
    check("45/RM-18", &world().node(unregistered), Class::Repair, Some(text));
    let rebooting = n().standing(|s| s.is_rebooting = true);
    check("45/RM-19", &world().node(rebooting), Class::Repair, Some("Node is rebooting"));
    let mut alone = world().node(n().no_label("nodepool"));
    alone.snapshot.nodes[0].pool = None;
    let text = "repair requires a NodePool to construct and budget a safe replacement";
    check("45/RM-16", &alone, Class::Repair, Some(text));
}

#[test]
fn unknown_labels_keep_a_node_a_candidate_that_costs_nothing() {
    for (case, node) in [
        ("30/CAND-15 no zone", sold("n").no_label("zone")),
        ("30/CAND-15 no capacity type", sold("n").no_label("capacity-type")),
        ("30/CAND-15 no type", sold("n").no_label("type")),
        ("30/CAND-15, 30/COST-5 unknown type", sold("n").label("type", "other")),
    ] {
        let world = world().node(node);
        let settings = Settings::default();
        let seen = Seen::new(&world.snapshot, &world.catalog, &settings, now());
        let board = Board::new(&seen);
        let candidate = board.candidate(world.node_id("n"), Class::Eventual).unwrap();
        assert_eq!((candidate.price, candidate.savings_ratio()), (0.0, 0.0), "{case}");
    }
}

fn costs(world: &World, name: &str) -> (f64, f64, f64) {
    let settings = Settings::default();
    let seen = Seen::new(&world.snapshot, &world.catalog, &settings, now());
    let board = Board::new(&seen);
    let found = board.candidate(world.node_id(name), Class::Eventual).expect("a candidate");
    (found.price, found.disruption_cost, found.reschedule_cost)
}

#[test]
fn an_offering_that_cannot_be_had_still_has_its_price() {
    let mut gone = offering("on-demand", "test-zone-1", 1.0);
    gone.available = false;
    let other = offering("on-demand", "test-zone-2", 5.0);
    let world = World::of([instance_type("large").sold(gone).sold(other)]).node(sold("n"));
    assert_eq!(costs(&world, "n").0, 1.0, "30/COST-6");
}

#[test]
fn a_node_costs_the_less_to_disrupt_the_sooner_it_expires() {
    let hours = SignedDuration::from_hours;
    let aged = |age: i64, expires: Option<i64>| {
        let node = sold("n").standing(|standing| {
            standing.created = Some(now() - hours(age));
            standing.expire_after = expires.map(hours);
        });
        costs(&world().node(node).pod(pod("p").on("n").times(2)), "n").1
    };
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(close(aged(9, Some(10)), 0.2), "30/COST-3: two pods at a tenth");
    assert!(close(aged(11, Some(10)), 0.0), "30/COST-3");
    assert!(close(aged(11, None), 2.0), "30/COST-3");
}

#[test]
fn only_pods_that_come_back_count_for_moving() {
    let world = world()
        .node(sold("n"))
        .pod(pod("plain").on("n"))
        .pod(pod("cheap").on("n").eviction_cost(-3.0))
        .pod(pod("daemon").on("n").owner(Owner::DaemonSet))
        .pod(pod("mirror").on("n").owner(Owner::Node))
        .pod(pod("going").on("n").terminating())
        .pod(pod("set").on("n").owner(Owner::StatefulSet).terminating());
    assert_eq!(costs(&world, "n").2, 3.0, "the node, a plain pod and one of a StatefulSet");
}

#[test]
fn candidates_are_ranked_by_what_they_save_for_what_they_cost() {
    let types = [("a", 10.0, 1), ("b", 5.0, 3), ("c", 1.0, 8)];
    let sizes = types.map(|(name, price, _)| instance_type(name).on_demand("test-zone-1", price));
    let mut world = World::of(sizes);
    for (name, _, pods) in types {
        world = world.node(sold(name).label("type", name)).pod(pod(name).on(name).times(pods));
    }
    let settings = Settings::default();
    let seen = Seen::new(&world.snapshot, &world.catalog, &settings, now());
    let board = Board::new(&seen);
    let ratios = board.candidates(Class::Graceful);
    let ratios: Vec<_> = ratios.iter().map(|one| (one.savings_ratio() * 100.0).round()).collect();
    assert_eq!(ratios, [500.0, 125.0, 11.0], "30/COST-4");
}

#[test]
fn the_pool_of_a_candidate_may_be_static() {
    let world = World::empty()
        .types([instance_type("large").on_demand("test-zone-1", 1.0)])
        .pool(pool("default").replicas(1))
        .node(sold("n"));
    let settings = Settings::default();
    let seen = Seen::new(&world.snapshot, &world.catalog, &settings, now());
    let board = Board::new(&seen);
    assert!(board.candidate(world.node_id("n"), Class::Eventual).unwrap().is_static);
    assert_eq!(world.snapshot.pools.len(), 0, "no pods are placed with it");
}
