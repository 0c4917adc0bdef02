//! Laws of a solve over random small worlds (spec 20 §8, cases G1, G3).

#[path = "prop_solve/prepared_solver.rs"]
mod prepared_solver;
#[path = "prop_solve/worlds.rs"]
mod worlds;

use std::collections::{BTreeMap, BTreeSet};

use karpenter_core::id::{NodeId, PodId};
use karpenter_core::plan::Plan;
use karpenter_core::rejection::PodRejection;
use karpenter_core::scheduling::{Fuel, Request, reference, solve};
use karpenter_core::testing::{Outcome, World, solve_with_type_limit};
use karpenter_core::verify;
use proptest::prelude::*;
use worlds::{RandomWorld, any_labelled_world, any_large_world, any_world};

/// A plan with names in place of ids.
#[derive(Debug, PartialEq)]
struct NamedPlan {
    claims: Vec<String>,
    existing_nodes: Vec<(String, Vec<String>)>,
    rejected: BTreeMap<String, String>,
    unusable: Vec<(String, bool)>,
    effective_zones: BTreeMap<String, usize>,
}

fn named_plan(outcome: &Outcome) -> NamedPlan {
    let (plan, world) = (&outcome.plan, &outcome.initial_world.snapshot);
    let pods = |ids: &[PodId]| ids.iter().map(|&id| world.pod(id).full_name()).collect::<Vec<_>>();
    let claim = |claim: &karpenter_core::plan::PlannedNodeClaim| {
        let pool = &world.pool(claim.pool).name;
        let types = outcome.initial_world.types_of(pool);
        let types: Vec<_> =
            claim.instance_types.iter().map(|&one| &types[one as usize].name).collect();
        format!(
            "{pool} {:?} {types:?} {} {} {:?} {} {:?}",
            pods(&claim.pods),
            claim.requirements,
            claim.requests.json(),
            claim.reservations,
            claim.min_values_relaxed,
            claim.lowest_price,
        )
    };
    let refused = plan.rejected.iter();
    let unusable = plan.unusable_pools.iter();
    NamedPlan {
        claims: plan.claims.iter().map(claim).collect(),
        existing_nodes: plan
            .existing_nodes
            .iter()
            .map(|(node, ids)| (world.node(*node).name.clone(), pods(ids)))
            .collect(),
        rejected: refused.map(|(&id, why)| (world.pod(id).full_name(), why.to_string())).collect(),
        unusable: unusable
            .map(|one| (world.pool(one.pool).name.clone(), one.misses_min_values))
            .collect(),
        effective_zones: plan.effective_zones.clone(),
    }
}

/// The same world with every list turned around.
fn reversed(world: &World) -> World {
    let mut turned = world.clone();
    turned.snapshot.pools.reverse();
    turned.snapshot.nodes.reverse();
    turned.snapshot.daemons.reverse();
    turned.snapshot.pods.reverse();
    let last = world.snapshot.nodes.len().saturating_sub(1);
    for pod in &mut turned.snapshot.pods {
        pod.node = pod.node.map(|node| NodeId::new(last - node.index()));
    }
    turned
}

/// Returns each solver's plan after so many steps, with its violations.
///
/// The solvers check the fuel at different points, so their plans differ.
fn cut_short_plans(world: &World, steps: u64) -> [(Plan, Vec<verify::Violation>); 2] {
    let World { snapshot, catalog, options, .. } = world;
    let (pods, without) = (world.pending(), BTreeSet::new());
    let request = Request { snapshot, catalog, pods: &pods, excluded_nodes: &without, options };
    let solvers: [fn(&Request<'_>, &mut Fuel<'_>) -> Plan; 2] = [solve, reference::solve];
    solvers.map(|solve| {
        let plan = solve(&request, &mut Fuel::after_steps(steps));
        let violations = verify::check_plan(&request, &plan, verify::Level::Complete);
        (plan, violations)
    })
}

/// A quarter of the usual number of worlds, since each is solved several times. More are asked for
/// with PROPTEST_CASES.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases / 4, failure_persistence: None, ..usual }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn plans_have_no_violations(RandomWorld(world) in any_labelled_world()) {
        world.solve();
    }

    /// Solving asserts that all solvers give equal plans.
    #[test]
    fn solvers_agree_and_solving_is_deterministic(RandomWorld(world) in any_world()) {
        let first = world.solve_unverified();
        prop_assert_eq!(first.plan, world.solve_unverified().plan, "20/G1 20/G3");
    }

    #[test]
    fn the_order_of_snapshot_lists_does_not_change_the_plan(RandomWorld(world) in any_world()) {
        let (plan, turned) = (world.solve_unverified(), reversed(&world).solve_unverified());
        prop_assert_eq!(named_plan(&plan), named_plan(&turned), "20/G3");
    }

    /// NodeClaims that list fewer types than they could have are cut alike, minValues and all.
    #[test]
    fn solvers_agree_on_the_cheapest_types(RandomWorld(world) in any_world(), listed_types in 1..3_usize) {
        let World { snapshot, catalog, options, .. } = &world;
        let (pods, without) = (world.pending(), BTreeSet::new());
        let request = Request { snapshot, catalog, pods: &pods, excluded_nodes: &without, options };
        let plan = solve_with_type_limit(&request, listed_types);
        prop_assert!(plan.claims.iter().all(|claim| claim.instance_types.len() <= listed_types));
    }

    /// Unknown pods and nodes are left out, and a pod that is named twice is placed once.
    #[test]
    fn unknown_ids_are_ignored(RandomWorld(world) in any_world()) {
        let (pods, without) = (world.pending(), BTreeSet::new());
        let plain = world.solve_for_unverified(&pods, &without);
        let unknown = PodId::new(world.snapshot.pods.len() + 5);
        let more: Vec<_> = [unknown].into_iter().chain(pods.clone()).chain(pods).collect();
        let gone = BTreeSet::from([NodeId::new(world.snapshot.nodes.len() + 5)]);
        let mut odd = world;
        odd.options.explain.insert(unknown);
        prop_assert_eq!(plain.plan, odd.solve_for_unverified(&more, &gone).plan);
    }

    /// Pods that move from nodes that are taken away, as consolidation asks.
    #[test]
    fn plans_without_removed_nodes_have_no_violations(RandomWorld(world) in any_labelled_world()) {
        let nodes = &world.snapshot.nodes;
        let gone: BTreeSet<_> = (0..nodes.len()).step_by(2).map(NodeId::new).collect();
        let moves = |pod: &karpenter_core::pod::Pod| {
            let runs = pod.is_active() && pod.owner == karpenter_core::pod::OwnerKind::Other;
            runs && pod.node.is_some_and(|node| gone.contains(&node))
        };
        let pods = world.snapshot.pods.iter().enumerate().filter(|(_, pod)| moves(pod));
        let mut pods: Vec<_> = pods.map(|(position, _)| PodId::new(position)).collect();
        pods.extend(world.pending());
        world.solve_for(&pods, &gone);
    }

    #[test]
    fn the_next_loop_can_solve_the_resulting_world(RandomWorld(world) in any_labelled_world()) {
        let outcome = world.solve();
        let next = outcome.resulting_world.solve();
        prop_assert!(next.plan.claims.len() <= outcome.plan.rejected.len());
    }

    /// What was placed before the fuel ran out stays as it is and keeps the rules.
    #[test]
    fn a_plan_that_is_cut_short_has_no_violations(RandomWorld(world) in any_labelled_world(), steps in 1..12_u64) {
        for (plan, violations) in cut_short_plans(&world, steps) {
            prop_assert!(violations.is_empty(), "{violations:#?} {plan:#?}");
            let has_reasons = |refusal: &PodRejection| *refusal != PodRejection::Pools(Vec::new());
            prop_assert!(plan.rejected.values().all(|refusal| has_reasons(refusal)), "{plan:#?}");
        }
    }
}

proptest! {
    // These take ten times as long.
    #![proptest_config(ProptestConfig { cases: config().cases.div_ceil(16), max_shrink_iters: 100, ..config() })]

    #[test]
    fn solvers_agree_on_worlds_larger_than_a_bit_set_word(RandomWorld(world) in any_large_world()) {
        world.solve_unverified();
    }
}
