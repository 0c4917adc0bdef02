//! Tests that a prepared solver returns the same plans as [`solve`] (spec 30 §14.3).
//!
//! Earlier requests to the prepared solver make no difference.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_core::id::{NodeId, PodId};
use karpenter_core::scheduling::{
    Fuel, ListSizes, PlacementRequest, PlacementResult, PreparedSolver, Request, SolverSession,
    StopConditions, StopReason, solve,
};
use karpenter_core::testing::{World, node, persistent_volume, pod, volume_claim};
use proptest::prelude::*;

use super::worlds::{RandomWorld, any_world};

/// A random simulation request: removed nodes and moving pods, as bits.
#[derive(Clone, Debug)]
struct SimulationQuery {
    removed_nodes: u32,
    /// Whether the request includes the pods of the removed nodes.
    includes_moving_pods: bool,
    /// Whether the request includes the pending pods.
    includes_pending_pods: bool,
    /// More pods that the request includes, on any node.
    other_pods: u64,
    credits: Option<u32>,
}

fn any_query() -> impl Strategy<Value = SimulationQuery> {
    let few = prop_oneof![Just(0_u32), (0..5_u32).prop_map(|node| 1 << node), any::<u32>()];
    let others = prop_oneof![3 => Just(0_u64), 1 => any::<u64>()];
    let credits = prop::option::weighted(0.2, 0..2_u32);
    (few, prop::bool::weighted(0.8), any::<bool>(), others, credits).prop_map(
        |(without, moves, pending, others, credits)| SimulationQuery {
            removed_nodes: without,
            includes_moving_pods: moves,
            includes_pending_pods: pending,
            other_pods: others,
            credits,
        },
    )
}

impl SimulationQuery {
    fn nodes(&self, world: &World) -> BTreeSet<NodeId> {
        let is_gone = |node: &usize| self.removed_nodes >> (node % 32) & 1 == 1;
        (0..world.snapshot.nodes.len()).filter(is_gone).map(NodeId::new).collect()
    }

    fn pods(&self, world: &World) -> Vec<PodId> {
        let without = self.nodes(world);
        let pods = world.snapshot.pods.iter().enumerate().filter(|(index, pod)| {
            let is_there = pod.node.is_some_and(|node| without.contains(&node));
            (self.includes_moving_pods && is_there)
                || (self.includes_pending_pods && pod.node.is_none())
                || self.other_pods >> (index % 64) & 1 == 1
        });
        pods.map(|(index, _)| PodId::new(index)).collect()
    }

    fn credits(&self) -> Option<BTreeMap<String, u32>> {
        self.credits.map(|slots| [("res-0".to_owned(), slots), ("res-1".to_owned(), 1)].into())
    }
}

/// Solves the query from scratch.
fn solve_without_session(world: &World, question: &SimulationQuery) -> karpenter_core::plan::Plan {
    let (pods, without) = (question.pods(world), question.nodes(world));
    let mut options = world.options.clone();
    if let Some(credits) = question.credits() {
        options.reservation_credits = credits;
    }
    let World { snapshot, catalog, .. } = world;
    let request =
        Request { snapshot, catalog, pods: &pods, excluded_nodes: &without, options: &options };
    solve(&request, &mut Fuel::unlimited())
}

fn run_query(
    session: &mut SolverSession<'_, '_>,
    world: &World,
    question: &SimulationQuery,
    stop: StopConditions,
) -> PlacementResult {
    let (pods, without) = (question.pods(world), question.nodes(world));
    let credits = question.credits();
    let request = PlacementRequest {
        credits: credits.as_ref(),
        stop,
        ..PlacementRequest::new(&pods, &without)
    };
    session.solve_request(&request, &mut Fuel::unlimited())
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_session_answers_as_a_fresh_solve_after_any_queries(
        RandomWorld(world) in any_world(),
        questions in prop::collection::vec(any_query(), 1..6),
        nodes_per_block in 1..4_usize,
    ) {
        let World { snapshot, catalog, options, .. } = &world;
        let sizes = ListSizes { nodes_per_block, claims_per_run: 2, ..ListSizes::default() };
        let prepared = PreparedSolver::with_sizes(snapshot, catalog, options, sizes);
        let mut session = prepared.session();
        for (number, question) in questions.iter().enumerate() {
            let expected = PlacementResult::Plan(Box::new(solve_without_session(&world, question)));
            let answer = run_query(&mut session, &world, question, StopConditions::default());
            prop_assert_eq!(&answer, &expected, "question {}", number);
        }
    }

    /// A question that is given up early would have ended like that, and leaves nothing behind.
    #[test]
    fn a_query_stops_early_only_if_its_full_plan_also_fails(
        RandomWorld(world) in any_world(),
        questions in prop::collection::vec(any_query(), 1..4),
        most in 0..3_usize,
    ) {
        let World { snapshot, catalog, options, .. } = &world;
        let prepared = PreparedSolver::new(snapshot, catalog, options);
        let mut session = prepared.session();
        let stop = StopConditions { max_claims: Some(most), on_bound_pod_rejection: true };
        for question in &questions {
            let whole = solve_without_session(&world, question);
            match run_query(&mut session, &world, question, stop) {
                PlacementResult::Plan(plan) => prop_assert_eq!(*plan, whole),
                // NodeClaims whose minValues are lost in the end are in no plan.
                PlacementResult::Stopped(StopReason::TooManyClaims) => {
                    let refused = !whole.rejected.is_empty();
                    prop_assert!(whole.claims.len() > most || refused);
                }
                PlacementResult::Stopped(StopReason::BoundPodRejected(pod)) => {
                    prop_assert!(whole.rejected.contains_key(&pod));
                }
            }
        }
    }
}

#[test]
fn a_prepared_solver_is_shared_between_threads() {
    fn assert_send_and_sync<T: Send + Sync>() {}
    assert_send_and_sync::<PreparedSolver<'_>>();
    assert_send_and_sync::<SolverSession<'_, '_>>();
}

/// Random worlds hardly ever fill a node with volumes.
#[test]
fn volumes_of_one_query_are_detached_before_the_next() {
    let disk = || persistent_volume("csi.test", &[]);
    let world = World::new()
        .persistent_volume("disk-1", disk())
        .persistent_volume("disk-2", disk())
        .volume_claim("one", volume_claim("disk-1", ""))
        .volume_claim("two", volume_claim("disk-2", ""))
        .node(node("a").csi_driver("csi.test", Some(1)))
        .pods([pod("first").mount("one"), pod("second").mount("two")]);
    let World { snapshot, catalog, options, .. } = &world;
    let prepared = PreparedSolver::new(snapshot, catalog, options);
    let mut session = prepared.session();
    for name in ["first", "second", "first"] {
        let pods = [world.pod_id(name)];
        let plan = session.solve(&pods, &BTreeSet::new(), &mut Fuel::unlimited());
        assert_eq!(plan.existing_nodes, [(world.node_id("a"), pods.to_vec())], "{name}");
    }
}

/// Pods that need devices are solved from scratch.
#[test]
fn a_session_also_solves_pods_that_need_devices() {
    let world = World::new()
        .node(node("a"))
        .pods([pod("plain"), pod("picky").resource_claims(&["gpu"])])
        .with_options(|options| options.ignore_dynamic_resources = false);
    let World { snapshot, catalog, options, .. } = &world;
    let prepared = PreparedSolver::new(snapshot, catalog, options);
    let mut session = prepared.session();
    let (pods, without) = (world.pending(), BTreeSet::new());
    let request = Request { snapshot, catalog, pods: &pods, excluded_nodes: &without, options };
    let expected = solve(&request, &mut Fuel::unlimited());
    assert_eq!(expected.rejected.len(), 1, "there is no such claim");
    assert_eq!(session.solve(&pods, &without, &mut Fuel::unlimited()), expected);
}
