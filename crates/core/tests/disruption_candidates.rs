//! Which nodes may be disrupted, and what that costs (spec 30 §3, spec 45 §9).
#![expect(clippy::float_cmp, reason = "prices here are sums that have no rounding")]

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use karpenter_core::disruption::{
    CandidateIndex, DisruptionClass, PassContext, Rejection, Settings,
};
use karpenter_core::pod::{OwnerKind, Phase};
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
    World::with_types([
        instance_type("large").on_demand("test-zone-1", 1.0),
        instance_type("small").cpu("1").on_demand("test-zone-1", 0.25),
    ])
}

fn candidate_result(
    world: &World,
    class: DisruptionClass,
    change: impl FnOnce(&mut PassContext<'_>),
) -> Result<(), Rejection> {
    let settings = Settings::default();
    let mut context = PassContext::new(&world.snapshot, &world.catalog, &settings, now());
    change(&mut context);
    let index = CandidateIndex::new(&context);
    index.candidate(world.node_id("n"), class).map(|_| ())
}

#[track_caller]
fn assert_rejection(case: &str, world: &World, class: DisruptionClass, expected: Option<&str>) {
    let text = candidate_result(world, class, |_| ()).err().map(|why| why.to_string());
    assert_eq!(text.as_deref(), expected, "{case}");
}

fn with(pod: PodBuilder) -> World {
    world().node(sold("n")).pod(pod.on_node("n"))
}

fn world_with_grace_period(pod: PodBuilder) -> World {
    let period = Some(SignedDuration::from_mins(5));
    world()
        .node(sold("n").disruption_state(|n| n.termination_grace_period = period))
        .pod(pod.on_node("n"))
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

fn with_budgets(mut world: World, budgets: impl IntoIterator<Item = PodDisruptionBudget>) -> World {
    world.snapshot.disruption_budgets = budgets.into_iter().collect::<Vec<_>>().into();
    world
}

#[test]
fn a_do_not_disrupt_pod_blocks_its_node() {
    const TEXT: &str = "Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=default/p)";
    let p = || pod("p").do_not_disrupt();
    #[rustfmt::skip]
    let cases = [
        ("30/CAND-1 graceful",    with(p()),                              DisruptionClass::Graceful, Some(TEXT)),
        ("30/CAND-1 eventual",    with(p()),                              DisruptionClass::Eventual, Some(TEXT)),
        ("30/CAND-2 mirror",      with(p().owner(OwnerKind::Node)),           DisruptionClass::Graceful, Some(TEXT)),
        ("30/CAND-2 daemon",      with(p().owner(OwnerKind::DaemonSet)),      DisruptionClass::Graceful, Some(TEXT)),
        ("30/CAND-3",             world_with_grace_period(p()),                           DisruptionClass::Eventual, None),
        ("30/CAND-4",             world_with_grace_period(p()),                           DisruptionClass::Graceful, Some(TEXT)),
        ("30/CAND-6 terminating", with(p().terminating()),                DisruptionClass::Graceful, None),
        ("repair leaves it to its bound", with(p()),                      DisruptionClass::Repair,   None),
    ];
    for (case, world, class, expected) in cases {
        assert_rejection(case, &world, class, expected);
    }
    let mut over = with(p());
    over.snapshot.pods[0].phase = Phase::Succeeded;
    assert_rejection("30/CAND-6 terminal", &over, DisruptionClass::Graceful, None);
}

#[test]
fn a_pod_with_unparsed_constraints_blocks_its_node() {
    const TEXT: &str = "Pod could not be read whole, and stays where it is (Pod=default/p)";
    let unread = |mut world: World| {
        world.snapshot.pods[0].has_unparsed_constraints = true;
        world
    };
    #[rustfmt::skip]
    let cases = [
        ("graceful", unread(with(pod("p"))),                         DisruptionClass::Graceful, Some(TEXT)),
        ("eventual", unread(with(pod("p"))),                         DisruptionClass::Eventual, Some(TEXT)),
        ("bounded",  unread(world_with_grace_period(pod("p"))),                      DisruptionClass::Eventual, None),
        ("daemon",   unread(with(pod("p").owner(OwnerKind::DaemonSet))), DisruptionClass::Graceful, None),
        ("read",     with(pod("p")),                                 DisruptionClass::Graceful, None),
    ];
    for (case, world, class, expected) in cases {
        assert_rejection(case, &world, class, expected);
    }
}

#[test]
fn a_pod_disruption_budget_without_disruptions_blocks_the_node() {
    const ONE: &str = "Pdb prevents pod evictions (PodDisruptionBudget=[default/a])";
    const TWO: &str = "Eviction does not support multiple PDBs \
                       (PodDisruptionBudget(s)=[default/a default/b])";
    let blocked = |world| with_budgets(world, [budget("default", "a", 0)]);
    let lax = PodDisruptionBudget { always_evicts_unhealthy: true, ..budget("default", "a", 0) };
    #[rustfmt::skip]
    let cases = [
        ("30/CAND-5 bounded",  blocked(world_with_grace_period(pod("p"))),                        DisruptionClass::Eventual, None),
        ("30/CAND-5 unbounded", blocked(with(pod("p"))),                          DisruptionClass::Eventual, Some(ONE)),
        ("30/CAND-7",          blocked(with(pod("p").owner(OwnerKind::DaemonSet))),   DisruptionClass::Graceful, Some(ONE)),
        ("30/CAND-8 mirror",   blocked(with(pod("p").owner(OwnerKind::Node))),        DisruptionClass::Graceful, None),
        ("30/CAND-8 terminating", blocked(with(pod("p").terminating())),          DisruptionClass::Graceful, None),
        ("30/CAND-9",  with_budgets(with(pod("p")), [budget("default", "b", 3), budget("default", "a", 3)]), DisruptionClass::Graceful, Some(TWO)),
        ("30/CAND-10", with_budgets(with(pod("p")), [budget("other", "a", 0)]),           DisruptionClass::Graceful, None),
        ("30/CAND-11 not ready", with_budgets(with(pod("p").unready()), [lax.clone()]),   DisruptionClass::Graceful, None),
        ("ready",      with_budgets(with(pod("p")), [lax]),                               DisruptionClass::Graceful, Some(ONE)),
        ("30/CAND-21", blocked(with(pod("p").tolerate_all("karpenter.sh/disrupted"))), DisruptionClass::Graceful, None),
        ("lets one go", with_budgets(with(pod("p")), [budget("default", "a", 1)]),        DisruptionClass::Graceful, None),
    ];
    for (case, world, class, expected) in cases {
        assert_rejection(case, &world, class, expected);
    }
    let mut over = blocked(with(pod("p")));
    over.snapshot.pods[0].phase = Phase::Failed;
    assert_rejection("30/CAND-8 terminal", &over, DisruptionClass::Graceful, None);
}

#[test]
fn deleting_uninitialized_or_unmanaged_nodes_are_no_candidates() {
    let of = |node: NodeBuilder| world().node(node);
    let n = || sold("n");
    #[rustfmt::skip]
    let cases = [
        ("30/CAND-12 only a Node",      of(n().unmanaged()),                        Some("Node isn't managed by karpenter")),
        ("30/CAND-12 only a NodeClaim", of(n().in_flight()),                        Some("Nodeclaim does not have an associated node")),
        ("30/CAND-13 deleting",         of(n().deleting()),                         Some("Node is deleting or marked for deletion")),
        ("30/CAND-13 terminating",      of(n().disruption_state(|s| s.is_instance_terminating = true)), Some("Node is deleting or marked for deletion")),
        ("45/BC-3, 30/CAND-13",         of(n().uninitialized()),                         Some("Node isn't initialized")),
        ("45/BC-4",                     of(n().uninitialized().disruption_state(|s| s.is_registered = false)), Some("Node isn't initialized nor registered")),
        ("45/BC-5",                     of(n().disruption_state(|s| s.is_rebooting = true)), Some("Node is rebooting")),
        ("45/BC-5 also going",          of(n().deleting().disruption_state(|s| s.is_rebooting = true)), Some("Node is rebooting")),
        ("going before not ready",      of(n().uninitialized().deleting()),              Some("Node is deleting or marked for deletion")),
        ("do-not-disrupt",              of(n().disruption_state(|s| s.do_not_disrupt = Some("true".to_owned()))), Some("Disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation")),
        ("30/CAND-16 false",            of(n().disruption_state(|s| s.do_not_disrupt = Some("false".to_owned()))), None),
        ("30/CAND-16 30m",              of(n().disruption_state(|s| s.do_not_disrupt = Some("30m".to_owned()))), None),
        ("30/CAND-14 unknown pool",     of(n().pool("gone")),                       Some("NodePool not found (NodePool=gone)")),
        ("fine",                        of(n()),                                    None),
    ];
    for (case, world, expected) in cases {
        assert_rejection(case, &world, DisruptionClass::Graceful, expected);
        assert_rejection(case, &world, DisruptionClass::Eventual, expected);
    }
    let mut unlabelled = of(n().without_label("nodepool"));
    unlabelled.snapshot.nodes[0].pool = None;
    let text = "Node doesn't have required label (label=karpenter.sh/nodepool)";
    assert_rejection("30/CAND-14 no label", &unlabelled, DisruptionClass::Graceful, Some(text));
    let mut no_types = of(n());
    no_types.catalog.pools.clear();
    let text = "NodePool not found (NodePool=default)";
    assert_rejection(
        "types that cannot be listed",
        &no_types,
        DisruptionClass::Graceful,
        Some(text),
    );
}

#[test]
fn a_nominated_or_queued_node_is_no_candidate() {
    let world = world().node(sold("n"));
    let promised = |class, until, rest| {
        candidate_result(&world, class, |context| {
            context.nominated =
                [("test:///n".to_owned(), now() + SignedDuration::from_secs(until))].into();
            context.validation_delay = SignedDuration::from_secs(rest);
        })
    };
    for class in [DisruptionClass::Graceful, DisruptionClass::Eventual] {
        let nominated = promised(class, 1, 0).unwrap_err().to_string();
        assert_eq!(nominated, "Node is nominated for a pending pod", "30/CAND-13: {class:?}");
        assert_eq!(promised(class, 0, 0), Ok(()), "30/CAND-13: {class:?}");
    }
    // What rests begins when the promise is over; the rest begins at once.
    assert_eq!(promised(DisruptionClass::Graceful, 15, 15), Ok(()));
    assert_eq!(promised(DisruptionClass::Graceful, 16, 15), Err(Rejection::Nominated));
    assert_eq!(promised(DisruptionClass::Eventual, 15, 15), Err(Rejection::Nominated));
    let id = BTreeSet::from(["test:///n".to_owned()]);
    let queued = candidate_result(&world, DisruptionClass::Graceful, |context| context.queued = id);
    assert_eq!(queued, Err(Rejection::InQueue), "30/CAND-13");
    assert!(!Rejection::InQueue.is_published() && !Rejection::NotManaged.is_published());
}

#[test]
fn repair_accepts_nodes_that_other_methods_reject() {
    let n = || sold("n");
    let forbidden =
        world().node(n().disruption_state(|s| s.do_not_disrupt = Some("true".to_owned())));
    assert_rejection("node do-not-disrupt", &forbidden, DisruptionClass::Repair, None);
    assert_rejection(
        "45/RM-17 never ready",
        &world().node(n().uninitialized()),
        DisruptionClass::Repair,
        None,
    );
    let unregistered = n().uninitialized().disruption_state(|s| s.is_registered = false);
    let text = "Node isn't initialized nor registered";
    assert_rejection("45/RM-18", &world().node(unregistered), DisruptionClass::Repair, Some(text));
    let rebooting = n().disruption_state(|s| s.is_rebooting = true);
    assert_rejection(
        "45/RM-19",
        &world().node(rebooting),
        DisruptionClass::Repair,
        Some("Node is rebooting"),
    );
    let mut alone = world().node(n().without_label("nodepool"));
    alone.snapshot.nodes[0].pool = None;
    let text = "repair requires a NodePool to construct and budget a safe replacement";
    assert_rejection("45/RM-16", &alone, DisruptionClass::Repair, Some(text));
}

#[test]
fn a_node_with_unknown_labels_is_a_candidate_without_a_price() {
    for (case, node) in [
        ("30/CAND-15 no zone", sold("n").without_label("zone")),
        ("30/CAND-15 no capacity type", sold("n").without_label("capacity-type")),
        ("30/CAND-15 no type", sold("n").without_label("type")),
        ("30/CAND-15, 30/COST-5 unknown type", sold("n").label("type", "other")),
    ] {
        let world = world().node(node);
        let settings = Settings::default();
        let context = PassContext::new(&world.snapshot, &world.catalog, &settings, now());
        let index = CandidateIndex::new(&context);
        let candidate = index.candidate(world.node_id("n"), DisruptionClass::Eventual).unwrap();
        assert_eq!((candidate.price, candidate.savings_ratio()), (0.0, 0.0), "{case}");
    }
}

fn costs(world: &World, name: &str) -> (f64, f64, f64) {
    let settings = Settings::default();
    let context = PassContext::new(&world.snapshot, &world.catalog, &settings, now());
    let index = CandidateIndex::new(&context);
    let found =
        index.candidate(world.node_id(name), DisruptionClass::Eventual).expect("a candidate");
    (found.price, found.disruption_cost, found.reschedule_cost)
}

#[test]
fn an_unavailable_offering_still_gives_the_price_of_its_node() {
    let mut gone = offering("on-demand", "test-zone-1", 1.0);
    gone.available = false;
    let other = offering("on-demand", "test-zone-2", 5.0);
    let world =
        World::with_types([instance_type("large").offering(gone).offering(other)]).node(sold("n"));
    assert_eq!(costs(&world, "n").0, 1.0, "30/COST-6");
}

#[test]
fn the_disruption_cost_of_a_node_falls_as_its_expiry_approaches() {
    let hours = SignedDuration::from_hours;
    let aged = |age: i64, expires: Option<i64>| {
        let node = sold("n").disruption_state(|state| {
            state.node_claim_created_at = Some(now() - hours(age));
            state.expire_after = expires.map(hours);
        });
        costs(&world().node(node).pod(pod("p").on_node("n").replicas(2)), "n").1
    };
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(close(aged(9, Some(10)), 0.2), "30/COST-3: two pods at a tenth");
    assert!(close(aged(11, Some(10)), 0.0), "30/COST-3");
    assert!(close(aged(11, None), 2.0), "30/COST-3");
}

#[test]
fn only_reschedulable_pods_add_to_the_reschedule_cost() {
    let world = world()
        .node(sold("n"))
        .pod(pod("plain").on_node("n"))
        .pod(pod("cheap").on_node("n").eviction_cost(-3.0))
        .pod(pod("daemon").on_node("n").owner(OwnerKind::DaemonSet))
        .pod(pod("mirror").on_node("n").owner(OwnerKind::Node))
        .pod(pod("going").on_node("n").terminating())
        .pod(pod("set").on_node("n").owner(OwnerKind::StatefulSet).terminating());
    assert_eq!(costs(&world, "n").2, 3.0, "the node, a plain pod and one of a StatefulSet");
}

#[test]
fn candidates_are_ranked_by_savings_per_disruption_cost() {
    let types = [("a", 10.0, 1), ("b", 5.0, 3), ("c", 1.0, 8)];
    let sizes = types.map(|(name, price, _)| instance_type(name).on_demand("test-zone-1", price));
    let mut world = World::with_types(sizes);
    for (name, _, pods) in types {
        world =
            world.node(sold(name).label("type", name)).pod(pod(name).on_node(name).replicas(pods));
    }
    let settings = Settings::default();
    let context = PassContext::new(&world.snapshot, &world.catalog, &settings, now());
    let index = CandidateIndex::new(&context);
    let ratios = index.candidates(DisruptionClass::Graceful);
    let ratios: Vec<_> = ratios.iter().map(|one| (one.savings_ratio() * 100.0).round()).collect();
    assert_eq!(ratios, [500.0, 125.0, 11.0], "30/COST-4");
}

#[test]
fn a_node_of_a_static_node_pool_can_be_a_candidate() {
    let world = World::empty()
        .types([instance_type("large").on_demand("test-zone-1", 1.0)])
        .pool(pool("default").replicas(1))
        .node(sold("n"));
    let settings = Settings::default();
    let context = PassContext::new(&world.snapshot, &world.catalog, &settings, now());
    let index = CandidateIndex::new(&context);
    assert!(index.candidate(world.node_id("n"), DisruptionClass::Eventual).unwrap().is_static);
    assert_eq!(world.snapshot.pools.len(), 0, "no pods are placed with it");
}
