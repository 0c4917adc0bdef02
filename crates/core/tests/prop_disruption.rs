//! What every pass keeps, on random clusters (spec 30 §14.5).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use karpenter_core::catalog::{InstanceType, SPOT, worst_launch_price};
use karpenter_core::disruption::{
    Allowances, CandidateIndex, Command, ConsolidationPolicy, Method, PassContext, PassOutcome,
    PoolScore, Reason, SearchFuel, SearchMode, Settings, apply_command, run_pass,
};
use karpenter_core::id::{NodeId, PodId};
use karpenter_core::plan::PlannedNodeClaim;
use karpenter_core::pod::OwnerKind;
use karpenter_core::requirement::Operator;
use karpenter_core::resources::Resources;
use karpenter_core::scheduling::demand::{demand, is_provisionable};
use karpenter_core::scheduling::{Fuel, Options, Request, ReservedMode, min_values, solve};
use karpenter_core::selector::{LabelSelector, Selector};
use karpenter_core::snapshot::{PodDisruptionBudget, Snapshot};
use karpenter_core::testing::{
    NodeBuilder, PoolBuilder, SeededRng, TypeBuilder, World, instance_type, node, offering, pod,
    pool, run_verified_pass, term,
};
use proptest::prelude::*;

const ZONES: [&str; 2] = ["test-zone-1", "test-zone-2"];
const SEARCHES: [SearchMode; 3] = [SearchMode::Upstream, SearchMode::Best, SearchMode::Deep];

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("in range")
}

fn sized(cpu: u32, family: &str, factors: [f64; 2]) -> TypeBuilder {
    let mut one = instance_type(&format!("{family}{cpu}"))
        .cpu(&cpu.to_string())
        .memory(&format!("{}Gi", cpu * 4))
        .pods("40")
        .no_overhead();
    for (zone, factor) in ZONES.iter().zip(factors) {
        let price = f64::from(cpu) * factor;
        one = one.offering(offering("on-demand", zone, price));
        one = one.offering(offering("spot", zone, price * 0.625));
    }
    one
}

/// Prices are sums of powers of two, so that their sums are exact: upstream moves pods for a saving
/// in the last digits, others do not, and that is not what the laws here are about.
fn types() -> Vec<TypeBuilder> {
    let families =
        [("a", [1.0, 1.125]), ("b", [1.25, 1.375]), ("c", [0.9375, 1.0625]), ("d", [3.0, 0.6875])];
    let of = |(family, factors): (&'static str, [f64; 2])| {
        [1, 2, 4, 8, 16].map(move |cpu| sized(cpu, family, factors))
    };
    families.into_iter().flat_map(of).collect()
}

/// A cluster with a bit of everything.
fn cluster(rng: &mut SeededRng) -> World {
    let mut world = World::empty().types(types());
    let pools = ["one", "two"];
    for name in pools {
        world = world.pool(some_pool(name, rng));
    }
    if rng.next_u64().is_multiple_of(3) {
        return half_empty(world, rng);
    }
    for number in 0..2 + rng.next_u64() % 9 {
        let name = format!("n{number:02}");
        world = world.node(some_node(&name, rng.pick(&pools), rng));
        for index in 0..rng.next_u64() % 6 {
            world = world.pod(some_pod(&format!("{name}-{index}"), rng).on_node(&name));
        }
    }
    if rng.next_u64().is_multiple_of(3) {
        world = world.pod(pod("pending").cpu(rng.pick(&["500m", "3", "40"])));
    }
    if rng.next_u64().is_multiple_of(3) {
        let budget = PodDisruptionBudget {
            namespace: "default".to_owned(),
            name: "pdb".to_owned(),
            selector: Selector::Matching(LabelSelector {
                labels: [("held".to_owned(), "yes".to_owned())].into(),
                ..LabelSelector::default()
            }),
            blocks_all: false,
            disruptions_allowed: i32::from(rng.next_u64().is_multiple_of(2)),
            always_evicts_unhealthy: false,
        };
        world.snapshot.disruption_budgets = vec![budget].into();
    }
    world
}

/// Nodes with some pods each and nothing that keeps them.
fn simple(rng: &mut SeededRng) -> World {
    let pool = pool("one").require("capacity-type", Operator::In, &["on-demand"]);
    let mut world = World::empty().types(types()).pool(pool.budget("100%", &[]));
    for number in 0..3 + rng.next_u64() % 8 {
        let name = format!("n{number:02}");
        let of_type = sized(rng.pick(&[4, 8, 16]), "b", [1.25, 1.375]).build();
        let node = node(&name).of_type(&of_type).pool("one").zone(rng.pick(&ZONES));
        world = world.node(node.label("capacity-type", "on-demand"));
        for index in 0..rng.next_u64() % 5 {
            let cpu = rng.pick(&["250m", "500m", "1", "2", "3"]);
            world = world.pod(pod(&format!("{name}-{index}")).cpu(cpu).on_node(&name));
        }
    }
    world
}

/// Large and dear nodes that take no more pods, so that only others can replace them.
fn half_empty(mut world: World, rng: &mut SeededRng) -> World {
    for number in 0..3 + rng.next_u64() % 6 {
        let name = format!("n{number:02}");
        let of_type = sized(16, "b", [1.25, 1.375]).build();
        let node = node(&name).of_type(&of_type).pool(rng.pick(&["one", "two"]));
        let capacity_type = rng.pick(&["on-demand", "on-demand", "spot"]);
        let node = node.zone(rng.pick(&ZONES)).label("capacity-type", capacity_type);
        world = world.node(node.taint("full=yes:NoSchedule"));
        for index in 0..=rng.next_u64() % 2 {
            let pod = pod(&format!("{name}-{index}")).cpu(rng.pick(&["3", "5", "5"]));
            world = world.pod(pod.on_node(&name));
        }
    }
    world
}

fn some_pool(name: &str, rng: &mut SeededRng) -> PoolBuilder {
    let capacity: &[&str] = match rng.next_u64() % 3 {
        0 => &["on-demand"],
        1 => &["spot"],
        _ => &["spot", "on-demand"],
    };
    let mut pool = pool(name).require("capacity-type", Operator::In, capacity);
    if rng.next_u64().is_multiple_of(4) {
        pool = pool.policy(ConsolidationPolicy::Balanced);
    }
    if rng.next_u64().is_multiple_of(4) {
        pool = pool.require_min("type", Operator::Exists, &[], 3);
    }
    // Whose price depends on the zone.
    if rng.next_u64().is_multiple_of(4) {
        pool = pool.require("type", Operator::In, &["d1", "d2", "d4", "d8", "d16"]);
    }
    match rng.next_u64() % 4 {
        0 => pool.budget("1", &[]),
        1 => pool.budget("50%", &[]),
        2 => pool.budget("2", &[Reason::Underutilized]),
        _ => pool,
    }
}

fn some_node(name: &str, pool: &str, rng: &mut SeededRng) -> NodeBuilder {
    let types = types();
    let of = usize::try_from(rng.next_u64()).unwrap_or(0) % types.len();
    let built = node(name)
        .of_type(&types[of].clone().build())
        .pool(pool)
        .zone(rng.pick(&ZONES))
        .label("capacity-type", rng.pick(&["on-demand", "spot"]));
    match rng.next_u64() % 12 {
        0 => built.uninitialized(),
        1 => built.deleting(),
        2 => built.disruption_state(|s| s.is_consolidatable = false),
        3 => built.disruption_state(|s| s.drifted_at = Some(now())),
        4 => built.disruption_state(|s| s.do_not_disrupt = Some("true".to_owned())),
        5 => built.disruption_state(|s| s.is_ready = false),
        _ => built,
    }
}

fn some_pod(name: &str, rng: &mut SeededRng) -> karpenter_core::testing::PodBuilder {
    let cpu = rng.pick(&["100m", "250m", "500m", "1", "2", "3"]);
    let built = pod(name).cpu(cpu).memory(rng.pick(&["128Mi", "1Gi", "4Gi"]));
    match rng.next_u64() % 14 {
        0 => built.do_not_disrupt(),
        1 => built.owner(OwnerKind::DaemonSet),
        2 => built.label("held", "yes"),
        3 => built
            .label("app", "shy")
            .pod_anti_affinity(term("hostname").selecting(&[("app", "shy")])),
        4 => built.select("zone", rng.pick(&ZONES)),
        5 => built.eviction_cost(-1.0),
        6 => built.label("app", "even").zone_spread(1),
        _ => built,
    }
}

fn pass_outcome(world: &World, settings: &Settings) -> PassOutcome {
    let context = PassContext::new(&world.snapshot, &world.catalog, settings, now());
    run_verified_pass(&context, Method::Emptiness)
}

fn settings(search: SearchMode, spot_to_spot: bool) -> Settings {
    Settings { search, spot_to_spot, ..Settings::default() }
}

/// Returns the savings of all commands but drift, which may well cost something.
fn savings(pass: &PassOutcome) -> f64 {
    let saving = pass.commands.iter().filter(|command| command.reason() != Reason::Drifted);
    saving.map(|command| command.savings).sum()
}

/// Returns the commands by names, so that the order of lists does not matter.
fn command_names(
    world: &World,
    pass: &PassOutcome,
) -> Vec<(Method, Vec<String>, Vec<Vec<String>>)> {
    let shown = |command: &Command| {
        let nodes = command.candidates.iter().map(|one| one.name.clone()).collect();
        let claims = command.replacements.iter().filter_map(|one| one.planned());
        let names = |claim: &PlannedNodeClaim| {
            options(world, claim).into_iter().map(|one| one.name.clone()).collect()
        };
        (command.method, nodes, claims.map(names).collect())
    };
    pass.commands.iter().map(shown).collect()
}

fn options<'w>(world: &'w World, claim: &PlannedNodeClaim) -> Vec<&'w InstanceType> {
    let types = world.types_of(&world.snapshot.pool(claim.pool).name);
    claim.instance_types.iter().map(|&at| &*types[at as usize]).collect()
}

/// Checks INV-1, INV-2 and INV-10: candidates are eligible, unique and within budgets.
fn check_candidates(world: &World, settings: &Settings, pass: &PassOutcome) {
    let context = PassContext::new(&world.snapshot, &world.catalog, settings, now());
    let index = CandidateIndex::new(&context);
    let mut gone = BTreeSet::new();
    let mut spent: BTreeMap<(&str, Reason), u32> = BTreeMap::new();
    for command in &pass.commands {
        for one in &command.candidates {
            let found = index.candidate(one.node, command.method.class());
            assert!(found.is_ok(), "30/INV-1: {} {found:?}", one.name);
            assert!(gone.insert(one.node), "30/INV-10: {} twice", one.name);
            for reason in Reason::ALL {
                // A node that is not ready has spent its share already.
                let is_ready = world.snapshot.node(one.node).disruption_state.is_ready;
                *spent.entry((&one.pool, reason)).or_default() +=
                    u32::from(is_ready && command.reason() == reason);
            }
        }
    }
    for ((pool, reason), spent) in spent {
        let left = Allowances::new(&context, reason).remaining(pool);
        assert!(spent <= left, "30/INV-2: {spent} of {left} in {pool} for {reason}");
    }
    for command in &pass.commands {
        for (node, pods) in &command.plan.existing_nodes {
            let moved = pods.iter().any(|pod| {
                let on = world.snapshot.pod(*pod).node;
                on.is_some_and(|on| command.candidates.iter().any(|one| one.node == on))
            });
            assert!(!moved || !gone.contains(node), "30/INV-10: a destination goes");
        }
    }
}

/// Checks INV-3: one simulation places the pods of each command.
///
/// The simulation runs on the cluster that the commands before it leave.
fn check_placements(world: &World, pass: &PassOutcome) {
    let mut snapshot = world.snapshot.clone();
    let options = Options {
        reserved_mode: ReservedMode::Fallback,
        enforce_consolidate_after: Some(now()),
        ..Options::default()
    };
    for command in &pass.commands {
        if command.reason() == Reason::Underutilized {
            let without: BTreeSet<NodeId> = command.candidates.iter().map(|c| c.node).collect();
            let mut pods = demand(&snapshot).to_place;
            pods.extend(command.candidates.iter().flat_map(|one| one.movable.clone()));
            let catalog = &world.catalog;
            let request = Request {
                snapshot: &snapshot,
                catalog,
                pods: &pods,
                excluded_nodes: &without,
                options: &options,
            };
            let plan = solve(&request, &mut Fuel::unlimited());
            let lost = plan.rejected.keys().find(|pod| !is_provisionable(snapshot.pod(**pod)));
            assert_eq!(lost, None, "30/INV-3: a pod without a place");
            assert!(plan.claims.len() <= command.replacements.len(), "30/INV-3");
            for (node, pods) in &plan.existing_nodes {
                let is_moved = |pod: &&karpenter_core::id::PodId| {
                    snapshot.pod(**pod).node.is_some_and(|on| without.contains(&on))
                };
                let node = snapshot.node(*node);
                let counts = pods.iter().find(is_moved).is_none() || node.is_initialized;
                assert!(counts, "30/INV-3: {} is not ready", node.name);
            }
        }
        apply_command(&mut snapshot, &world.catalog, command);
    }
    check_node_capacity(&snapshot, pass);
}

/// Checks that no destination node exceeds its allocatable resources.
fn check_node_capacity(snapshot: &Snapshot, pass: &PassOutcome) {
    let moving = pass.commands.iter().filter(|one| one.reason() == Reason::Underutilized);
    let targets: BTreeSet<NodeId> =
        moving.flat_map(|command| &command.plan.existing_nodes).map(|(node, _)| *node).collect();
    for target in targets {
        let mut used = Resources::default();
        let on_it = snapshot.pods.iter().filter(|pod| pod.node == Some(target));
        for pod in on_it.filter(|pod| !pod.is_terminal()) {
            used.add(&pod.spec.requests);
        }
        let node = snapshot.node(target);
        let free = node.allocatable.subtract(&used);
        let is_over = free.iter().any(|(_, left)| left.nanos() < 0);
        assert!(!is_over, "30/INV-3: {} holds too much: {free:?}", node.name);
    }
}

/// INV-4, INV-5, INV-6, INV-7.
fn check_replacements(world: &World, settings: &Settings, pass: &PassOutcome) {
    for command in pass.commands.iter().filter(|c| c.reason() == Reason::Underutilized) {
        let (gone, come) = (command.candidates.len(), command.replacements.len());
        let is_fewer = settings.search == SearchMode::Deep && come < gone;
        assert!(come <= 1 || is_fewer, "{gone} nodes for {come}");
        let mut dearest = 0.0;
        let ceiling = command.source_price();
        let is_spot = command.candidates.iter().all(|c| c.capacity_type.as_deref() == Some(SPOT));
        for claim in command.replacements.iter().filter_map(|one| one.planned()) {
            let options = options(world, claim);
            assert!(!options.is_empty());
            let mut most: f64 = 0.0;
            for one in &options {
                let launchable = one.offerings.iter().filter(|offering| offering.is_launchable());
                let (requirements, known) = (&claim.requirements, &world.catalog.well_known);
                let worst = worst_launch_price(launchable, requirements, known);
                let worst = worst.expect("an option can be launched");
                most = most.max(worst);
            }
            dearest += most;
            let admits = claim.requirements.get("karpenter.sh/capacity-type");
            let admits = admits.is_none_or(|types| types.has(SPOT));
            if is_spot && admits {
                assert!(settings.spot_to_spot, "30/INV-5");
                let needed = if command.candidates.len() == 1 { 15 } else { 1 };
                assert!(options.len() >= needed, "30/INV-5: {} options", options.len());
            }
            let offered = options.iter().map(|one| &*one.requirements);
            assert!(
                min_values::required_type_count(&claim.requirements, offered).is_ok(),
                "30/INV-6"
            );
        }
        assert!(come == 0 || dearest < ceiling, "30/INV-4: {dearest} for {ceiling}");
        assert!(command.scores.iter().all(PoolScore::is_approved), "30/INV-7");
    }
}

/// The same cluster with its lists turned round.
fn reversed(world: &World) -> World {
    let mut turned = world.clone();
    let last = turned.snapshot.nodes.len();
    turned.snapshot.nodes.reverse();
    turned.snapshot.pods.reverse();
    turned.snapshot.pools.reverse();
    for pod in &mut turned.snapshot.pods {
        pod.node = pod.node.map(|node| NodeId::new(last - 1 - node.index()));
    }
    turned
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_pass_keeps_the_invariants(seed in any::<u64>(), spot_to_spot in any::<bool>()) {
        let world = cluster(&mut SeededRng::new(seed));
        for search in SEARCHES {
            let settings = settings(search, spot_to_spot);
            let pass = pass_outcome(&world, &settings);
            check_candidates(&world, &settings, &pass);
            check_placements(&world, &pass);
            check_replacements(&world, &settings, &pass);
            let kept = pass.retained_nodes.len();
            let gone: usize = pass.commands.iter().map(|one| one.candidates.len()).sum();
            prop_assert_eq!(kept + gone, world.snapshot.nodes.len(), "each node goes or stays");
        }
    }

    #[test]
    fn pruning_does_not_change_the_commands(seed in any::<u64>()) {
        let world = cluster(&mut SeededRng::new(seed));
        for search in SEARCHES {
            let all = settings(search, true);
            let pruned = pass_outcome(&world, &all);
            let full = pass_outcome(&world, &Settings { prune: false, ..all });
            prop_assert_eq!(command_names(&world, &pruned), command_names(&world, &full), "30/INV-12");
        }
    }

    #[test]
    fn the_order_of_snapshot_lists_does_not_change_the_commands(seed in any::<u64>()) {
        let world = cluster(&mut SeededRng::new(seed));
        let turned = reversed(&world);
        for search in SEARCHES {
            let settings = settings(search, true);
            let (one, other) = (pass_outcome(&world, &settings), pass_outcome(&turned, &settings));
            prop_assert_eq!(command_names(&world, &one), command_names(&turned, &other), "30/INV-11");
        }
    }

    #[test]
    fn a_deeper_search_saves_no_less(seed in any::<u64>()) {
        let world = cluster(&mut SeededRng::new(seed));
        let upstream = savings(&pass_outcome(&world, &settings(SearchMode::Upstream, true)));
        let best = savings(&pass_outcome(&world, &settings(SearchMode::Best, true)));
        prop_assert!(best >= upstream - 1e-9, "{} after {}", best, upstream);
        let deep = savings(&pass_outcome(&world, &settings(SearchMode::Deep, true)));
        prop_assert!(deep >= best - 1e-9, "{} after {}", deep, best);
    }

    #[test]
    fn passes_come_to_an_end_and_never_raise_the_cost(seed in any::<u64>()) {
        let mut world = cluster(&mut SeededRng::new(seed));
        for pod in &mut world.snapshot.pods {
            pod.unschedulable = false;
        }
        for search in SEARCHES {
            let mut world = world.clone();
            let settings = settings(search, true);
            let mut passes = 0;
            loop {
                let pass = pass_outcome(&world, &settings);
                let sensible = pass.commands.iter().all(|command| {
                    command.reason() == Reason::Drifted || command.savings >= 0.0
                });
                prop_assert!(sensible, "30/INV-13: a command costs money");
                if pass.commands.iter().all(|command| command.reason() == Reason::Drifted) {
                    break;
                }
                world = world_after_pass(&world, &pass, LaunchChoice::MostExpensive);
                passes += 1;
                prop_assert!(passes < 60, "30/INV-13: no end");
            }
        }
    }
}

/// No law, so always the same clusters: what comes after a pass is foreseen, and pods may go
/// elsewhere in the end. Of 20,000 random clusters one ended dearer, a quarter ended cheaper.
#[test]
fn the_final_cost_is_at_most_that_of_the_upstream_search() {
    let mut seeds = SeededRng::new(7);
    let (mut upstreams, mut bests) = (0.0, 0.0);
    for _ in 0..300 {
        let seed = seeds.next_u64();
        let world = simple(&mut SeededRng::new(seed));
        let upstream = final_cluster_cost(world.clone(), SearchMode::Upstream);
        let best = final_cluster_cost(world, SearchMode::Best);
        assert!(best <= upstream, "{best} after {upstream} with seed {seed}");
        upstreams += upstream;
        bests += best;
    }
    assert!(bests < upstreams * 0.97, "{bests} after {upstreams}");
}

/// Which of the planned instance types and offerings is launched.
#[derive(Clone, Copy)]
enum LaunchChoice {
    Cheapest,
    MostExpensive,
}

/// Returns the hourly cost of the nodes when no pass finds any more commands.
fn final_cluster_cost(mut world: World, search: SearchMode) -> f64 {
    let settings = settings(search, true);
    for _ in 0..60 {
        let mut context = PassContext::new(&world.snapshot, &world.catalog, &settings, now());
        // As a controller tracks it.
        context.pool_costs = [("one".to_owned(), cluster_cost(&context))].into();
        let pass = run_pass(&context, Method::Emptiness, &mut SearchFuel::unlimited());
        if pass.commands.is_empty() {
            break;
        }
        world = world_after_pass(&world, &pass, LaunchChoice::Cheapest);
    }
    cluster_cost(&PassContext::new(&world.snapshot, &world.catalog, &settings, now()))
}

fn cluster_cost(context: &PassContext<'_>) -> f64 {
    let index = CandidateIndex::new(context);
    let candidates = index.candidates(karpenter_core::disruption::DisruptionClass::Graceful);
    candidates.iter().map(|one| one.price).sum()
}

/// Returns the world after the commands of a pass.
fn world_after_pass(world: &World, pass: &PassOutcome, launched: LaunchChoice) -> World {
    let mut next = world.clone();
    for command in &pass.commands {
        let before = next.snapshot.nodes.len();
        apply_command(&mut next.snapshot, &world.catalog, command);
        // A replacement that is only for pending pods is not among the nodes.
        let is_moved = |pod: &PodId| {
            let on = world.snapshot.pod(*pod).node;
            command.candidates.iter().any(|one| Some(one.node) == on)
        };
        let claims = command.replacements.iter().filter_map(|one| one.planned());
        let claims = claims.filter(|claim| claim.pods.iter().any(is_moved));
        let nodes: Vec<usize> = (before..next.snapshot.nodes.len()).collect();
        for (claim, index) in claims.zip(nodes) {
            launch(world, &mut next, claim, index, launched);
        }
    }
    let going: Vec<NodeId> = (0..next.snapshot.nodes.len())
        .map(NodeId::new)
        .filter(|node| next.snapshot.node(*node).is_deleting)
        .collect();
    // Deleted nodes lose their pods, but stay in the list so that ids hold.
    next.snapshot.pods.retain(|pod| !pod.node.is_some_and(|node| going.contains(&node)));
    for node in going {
        next.snapshot.nodes[node.index()].is_managed = false;
    }
    next
}

fn launch(
    world: &World,
    next: &mut World,
    claim: &PlannedNodeClaim,
    index: usize,
    launched: LaunchChoice,
) {
    let pool = world.snapshot.pool(claim.pool).name.clone();
    let known = &world.catalog.well_known;
    let all = options(world, claim).into_iter().flat_map(|one| {
        let suits = one.offerings.iter().filter(|offering| {
            claim.requirements.compatible(&offering.requirements, known).is_ok()
        });
        suits.map(move |offering| (one, offering))
    });
    let bought = match launched {
        LaunchChoice::Cheapest => all.min_by(|a, b| a.1.price.total_cmp(&b.1.price)),
        LaunchChoice::MostExpensive => all.max_by(|a, b| a.1.price.total_cmp(&b.1.price)),
    };
    let Some((of_type, offering)) = bought else { return };
    let label = |key: &str| {
        let value = offering.requirements.get(key).and_then(|one| one.values().first());
        value.expect("an offering says where and how")
    };
    let name = format!("new-{index:03}");
    let built = node(&name)
        .of_type(of_type)
        .pool(&pool)
        .zone(label("topology.kubernetes.io/zone"))
        .label("capacity-type", label("karpenter.sh/capacity-type"))
        .build();
    next.snapshot.nodes[index] = built.into();
}
