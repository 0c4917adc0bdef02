//! Laws of a solve over random small worlds (spec 20 §8, cases G1, G3).

#[path = "prop_solve/prepared.rs"]
mod prepared;
#[path = "prop_solve/worlds.rs"]
mod worlds;

use std::collections::{BTreeMap, BTreeSet};

use karpenter_core::id::{NodeId, PodId};
use karpenter_core::plan::Plan;
use karpenter_core::reason::Refusal;
use karpenter_core::scheduling::{Fuel, Request, reference, solve};
use karpenter_core::testing::{Outcome, World, solve_listing};
use karpenter_core::verify;
use proptest::prelude::*;
use worlds::{Scene, scene, wide_scene, wild_scene};

/// A plan with names in place of ids.
#[derive(Debug, PartialEq)]
struct Named {
    claims: Vec<String>,
    existing: Vec<(String, Vec<String>)>,
    refused: BTreeMap<String, String>,
    unusable: Vec<(String, bool)>,
    effective_zones: BTreeMap<String, usize>,
}

fn named(outcome: &Outcome) -> Named {
    let (plan, world) = (&outcome.plan, &outcome.before.snapshot);
    let pods = |ids: &[PodId]| ids.iter().map(|&id| world.pod(id).full_name()).collect::<Vec<_>>();
    let claim = |claim: &karpenter_core::plan::PlannedClaim| {
        let pool = &world.pool(claim.pool).name;
        let types = outcome.before.types_of(pool);
        let types: Vec<_> =
            claim.instance_types.iter().map(|&one| &types[one as usize].name).collect();
        format!(
            "{pool} {:?} {types:?} {} {} {:?} {} {:?}",
            pods(&claim.pods),
            claim.requirements,
            claim.requests.json(),
            claim.reservations,
            claim.min_values_relaxed,
            claim.cheapest,
        )
    };
    let refused = plan.refused.iter();
    let unusable = plan.unusable_pools.iter();
    Named {
        claims: plan.claims.iter().map(claim).collect(),
        existing: plan
            .existing
            .iter()
            .map(|(node, ids)| (world.node(*node).name.clone(), pods(ids)))
            .collect(),
        refused: refused.map(|(&id, why)| (world.pod(id).full_name(), why.to_string())).collect(),
        unusable: unusable.map(|one| (world.pool(one.pool).name.clone(), one.min_values)).collect(),
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

/// What each solver has after so many steps. They ask at different points, so their plans differ.
fn cut_short(world: &World, steps: u64) -> [(Plan, Vec<verify::Violation>); 2] {
    let World { snapshot, catalog, options, .. } = world;
    let (pods, without) = (world.pending(), BTreeSet::new());
    let request = Request { snapshot, catalog, pods: &pods, without: &without, options };
    let solvers: [fn(&Request<'_>, &mut Fuel<'_>) -> Plan; 2] = [solve, reference::solve];
    solvers.map(|solve| {
        let plan = solve(&request, &mut Fuel::steps(steps));
        let violations = verify::plan(&request, &plan);
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
    fn plans_keep_the_rules(Scene(world) in scene()) {
        world.solve();
    }

    /// Solving asserts that all solvers give equal plans.
    #[test]
    fn solvers_agree_and_the_same_world_gives_the_same_plan(Scene(world) in wild_scene()) {
        let first = world.solve_unverified();
        prop_assert_eq!(first.plan, world.solve_unverified().plan, "20/G1 20/G3");
    }

    #[test]
    fn the_order_of_lists_does_not_matter(Scene(world) in wild_scene()) {
        let (plan, turned) = (world.solve_unverified(), reversed(&world).solve_unverified());
        prop_assert_eq!(named(&plan), named(&turned), "20/G3");
    }

    /// NodeClaims that list fewer types than they could have are cut alike, minValues and all.
    #[test]
    fn solvers_agree_on_the_cheapest_types(Scene(world) in wild_scene(), listed_types in 1..3_usize) {
        let World { snapshot, catalog, options, .. } = &world;
        let (pods, without) = (world.pending(), BTreeSet::new());
        let request = Request { snapshot, catalog, pods: &pods, without: &without, options };
        let plan = solve_listing(&request, listed_types);
        prop_assert!(plan.claims.iter().all(|claim| claim.instance_types.len() <= listed_types));
    }

    /// Unknown pods and nodes are left out, and a pod that is named twice is placed once.
    #[test]
    fn ids_that_point_nowhere_do_not_matter(Scene(world) in wild_scene()) {
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
    fn plans_without_some_nodes_keep_the_rules(Scene(world) in scene()) {
        let nodes = &world.snapshot.nodes;
        let gone: BTreeSet<_> = (0..nodes.len()).step_by(2).map(NodeId::new).collect();
        let moves = |pod: &karpenter_core::pod::Pod| {
            let runs = pod.is_active() && pod.owner == karpenter_core::pod::Owner::Other;
            runs && pod.node.is_some_and(|node| gone.contains(&node))
        };
        let pods = world.snapshot.pods.iter().enumerate().filter(|(_, pod)| moves(pod));
        let mut pods: Vec<_> = pods.map(|(position, _)| PodId::new(position)).collect();
        pods.extend(world.pending());
        world.solve_for(&pods, &gone);
    }

    #[test]
    fn the_next_loop_finds_a_world_that_it_can_solve(Scene(world) in scene()) {
        let outcome = world.solve();
        let next = outcome.after.solve();
        prop_assert!(next.plan.claims.len() <= outcome.plan.refused.len());
    }

    /// What was placed before the fuel ran out stays as it is and keeps the rules.
    #[test]
    fn a_plan_that_is_cut_short_keeps_the_rules(Scene(world) in scene(), steps in 1..12_u64) {
        for (plan, violations) in cut_short(&world, steps) {
            prop_assert!(violations.is_empty(), "{violations:#?} {plan:#?}");
            let says_why = |refusal: &Refusal| *refusal != Refusal::Pools(Vec::new());
            prop_assert!(plan.refused.values().all(|refusal| says_why(refusal)), "{plan:#?}");
        }
    }
}

proptest! {
    // These take ten times as long.
    #![proptest_config(ProptestConfig { cases: config().cases.div_ceil(16), max_shrink_iters: 100, ..config() })]

    #[test]
    fn solvers_agree_on_more_than_fits_into_a_word(Scene(world) in wide_scene()) {
        world.solve_unverified();
    }
}
