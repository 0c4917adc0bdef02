//! Tests of budgets: which nodes they count, and which methods respect them (spec 30 §4, spec 45
//! §9.2).

use jiff::Timestamp;
use karpenter_core::disruption::{
    Allowances, Method, PassContext, Reason, SearchFuel, SearchMode, Settings, run_pass,
};
use karpenter_core::requirement::Operator;
use karpenter_core::testing::{
    NodeBuilder, TypeBuilder, World, cpu_bound_type, node, offering, pod, pool,
};

const ZONE: &str = "test-zone-1";

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("in range")
}

fn sized(cpu: u32) -> TypeBuilder {
    cpu_bound_type(cpu).offering(offering("on-demand", ZONE, f64::from(cpu)))
}

fn node_of_size(name: &str, cpu: u32) -> NodeBuilder {
    node(name).of_type(&sized(cpu).build()).label("capacity-type", "on-demand").zone(ZONE)
}

/// Returns a world with ten ready nodes of a NodePool with this budget.
fn world_of_ten_nodes(budget: &str) -> World {
    let start = World::empty().types([sized(4)]).pool(pool("default").budget(budget, &[]));
    (0..10).fold(start, |world, number| world.node(node_of_size(&format!("n{number}"), 4)))
}

fn remaining_disruptions(world: &World, reason: Reason) -> u32 {
    let settings = Settings::default();
    let context = PassContext::new(&world.snapshot, &world.catalog, &settings, now());
    Allowances::new(&context, reason).remaining("default")
}

#[test]
fn only_initialized_managed_nodes_count_for_the_budget() {
    let world = world_of_ten_nodes("100%")
        .node(node_of_size("foreign", 4).unmanaged())
        .node(node_of_size("starting", 4).uninitialized())
        .node(node_of_size("ending", 4).disruption_state(|s| s.is_instance_terminating = true));
    assert_eq!(remaining_disruptions(&world, Reason::Drifted), 10, "30/BUD-3");
}

#[test]
fn deleting_and_unready_nodes_use_up_the_budget() {
    let with =
        |budget: &str, count: usize, change: fn(&mut karpenter_core::snapshot::StateNode)| {
            let mut world = world_of_ten_nodes(budget);
            for node in world.snapshot.nodes.iter_mut().take(count) {
                change(node);
            }
            world
        };
    let going = |count, budget| with(budget, count, |node| node.is_deleting = true);
    let unready = with("100%", 2, |node| node.disruption_state.is_ready = false);
    #[rustfmt::skip]
    let cases = [
        ("30/BUD-4",           going(10, "10%"),  Reason::Empty,     0),
        ("30/BUD-5",           going(2, "100%"),  Reason::Empty,     8),
        ("30/BUD-6, 45/BC-1",  unready.clone(),   Reason::Drifted,   8),
        ("45/BC-1",            unready,           Reason::Unhealthy, 10),
        ("45/BC-2",            going(2, "100%"),  Reason::Unhealthy, 8),
    ];
    for (case, world, reason, expected) in cases {
        assert_eq!(remaining_disruptions(&world, reason), expected, "{case}");
    }
}

#[test]
fn nodes_of_other_pools_do_not_count_against_the_budget() {
    let names: Vec<String> = (0..10).map(|number| format!("pool{number}")).collect();
    for with_pods in [false, true] {
        let start = World::empty().types([sized(1), sized(4)]);
        let pools = names.iter().fold(start, |world, name| {
            let pool = pool(name).require("capacity-type", Operator::In, &["on-demand"]);
            world.pool(pool.budget("2", &[]))
        });
        let world = names.iter().fold(pools, |world, name| {
            (0..3).fold(world, |world, number| {
                let own = format!("{name}-{number}");
                let world = world.node(node_of_size(&own, 4).pool(name));
                let small = pod(&own).cpu("100m").on_node(&own);
                if with_pods { world.pod(small) } else { world }
            })
        });
        for search in [SearchMode::Upstream, SearchMode::Best] {
            let settings = Settings { search, ..Settings::default() };
            let context = PassContext::new(&world.snapshot, &world.catalog, &settings, now());
            let found = run_pass(&context, Method::Emptiness, &mut SearchFuel::unlimited());
            assert!(!found.commands.is_empty());
            for name in &names {
                let gone = found.commands.iter().flat_map(|command| &command.candidates);
                let gone = gone.filter(|one| one.pool == *name).count();
                assert!(gone <= 2, "30/BUD-15: {gone} of {name}");
            }
        }
    }
}

#[test]
fn an_unparsable_budget_blocks_only_its_own_node_pool() {
    let world = World::empty()
        .types([sized(4)])
        .pool(pool("default").budget("x%", &[]))
        .pool(pool("other"))
        .node(node_of_size("a", 4))
        .node(node_of_size("b", 4).pool("other"));
    let settings = Settings { search: SearchMode::Upstream, ..Settings::default() };
    let context = PassContext::new(&world.snapshot, &world.catalog, &settings, now());
    let found = run_pass(&context, Method::Emptiness, &mut SearchFuel::unlimited());
    let gone: Vec<_> = found.commands[0].candidates.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(gone, ["b"], "30/LOOP-9");
    let allowances = Allowances::new(&context, Reason::Empty);
    let (_, broken) = allowances.pools().find(|(name, _)| *name == "default").unwrap();
    assert!(broken.is_blocked() && broken.allowance.problems.len() == 1, "30/LOOP-9");
}

#[test]
fn single_node_consolidation_stops_when_the_budget_is_used_up() {
    let start = World::empty().types([sized(1), sized(4)]).pool(pool("default").budget("30%", &[]));
    let world = (0..10).fold(start, |world, number| {
        let name = format!("n{number}");
        let tainted = node_of_size(&name, 4).taint(&format!("own={number}:NoSchedule"));
        world.node(tainted).pod(pod(&name).cpu("500m").on_node(&name))
    });
    let settings = Settings { search: SearchMode::Upstream, ..Settings::default() };
    let mut queued = std::collections::BTreeSet::new();
    let mut passes = 0;
    loop {
        let mut context = PassContext::new(&world.snapshot, &world.catalog, &settings, now());
        context.queued = queued.clone();
        context.settled = [Method::MultiNode].into();
        let found = run_pass(&context, Method::Emptiness, &mut SearchFuel::unlimited());
        let Some(command) = found.commands.first() else {
            assert_eq!(found.settled, [], "30/MEMO-2");
            break;
        };
        assert_eq!(command.candidates.len(), 1);
        queued.insert(command.candidates[0].provider_id.clone());
        passes += 1;
        assert!(passes < 9);
    }
    assert_eq!(passes, 3, "30/SIN-5");
}
