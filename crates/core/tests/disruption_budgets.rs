//! Which nodes budgets count, and who keeps to them (spec 30 §4, spec 45 §9.2).

use jiff::Timestamp;
use karpenter_core::disruption::{
    Allowances, Method, Reason, Search, Settings, Time, World as Seen, pass,
};
use karpenter_core::requirement::Operator;
use karpenter_core::testing::{
    NodeBuilder, TypeBuilder, World, node, offering, pod, pool, roomy_type,
};

const ZONE: &str = "test-zone-1";

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("in range")
}

fn sized(cpu: u32) -> TypeBuilder {
    roomy_type(cpu).sold(offering("on-demand", ZONE, f64::from(cpu)))
}

fn of(name: &str, cpu: u32) -> NodeBuilder {
    node(name).of_type(&sized(cpu).build()).label("capacity-type", "on-demand").zone(ZONE)
}

/// Ten good nodes of a pool with this budget.
fn ten(budget: &str) -> World {
    let start = World::empty().types([sized(4)]).pool(pool("default").budget(budget, &[]));
    (0..10).fold(start, |world, number| world.node(of(&format!("n{number}"), 4)))
}

fn left(world: &World, reason: Reason) -> u32 {
    let settings = Settings::default();
    let seen = Seen::new(&world.snapshot, &world.catalog, &settings, now());
    Allowances::new(&seen, reason).left("default")
}

#[test]
fn only_nodes_of_ours_that_are_ready_for_pods_count() {
    let world = ten("100%")
        .node(of("foreign", 4).unmanaged())
        .node(of("starting", 4).starting())
        .node(of("ending", 4).standing(|s| s.is_instance_terminating = true));
    assert_eq!(left(&world, Reason::Drifted), 10, "30/BUD-3");
}

#[test]
fn nodes_that_go_or_are_not_ready_have_spent_their_share() {
    let with = |budget: &str, count: usize, change: fn(&mut karpenter_core::snapshot::Node)| {
        let mut world = ten(budget);
        for node in world.snapshot.nodes.iter_mut().take(count) {
            change(node);
        }
        world
    };
    let going = |count, budget| with(budget, count, |node| node.is_deleting = true);
    let unready = with("100%", 2, |node| node.standing.is_ready = false);
    #[rustfmt::skip]
    let cases = [
        ("30/BUD-4",           going(10, "10%"),  Reason::Empty,     0),
        ("30/BUD-5",           going(2, "100%"),  Reason::Empty,     8),
        ("30/BUD-6, 45/BC-1",  unready.clone(),   Reason::Drifted,   8),
        ("45/BC-1",            unready,           Reason::Unhealthy, 10),
        ("45/BC-2",            going(2, "100%"),  Reason::Unhealthy, 8),
    ];
    for (case, world, reason, expected) in cases {
        assert_eq!(left(&world, reason), expected, "{case}");
    }
}

#[test]
fn each_pool_keeps_to_its_own_budget() {
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
                let world = world.node(of(&own, 4).pool(name));
                let small = pod(&own).cpu("100m").on(&own);
                if with_pods { world.pod(small) } else { world }
            })
        });
        for search in [Search::Upstream, Search::Best] {
            let settings = Settings { search, ..Settings::default() };
            let seen = Seen::new(&world.snapshot, &world.catalog, &settings, now());
            let found = pass(&seen, Method::Emptiness, &mut Time::unlimited());
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
fn a_budget_that_cannot_be_read_stops_its_own_pool_only() {
    let world = World::empty()
        .types([sized(4)])
        .pool(pool("default").budget("x%", &[]))
        .pool(pool("other"))
        .node(of("a", 4))
        .node(of("b", 4).pool("other"));
    let settings = Settings { search: Search::Upstream, ..Settings::default() };
    let seen = Seen::new(&world.snapshot, &world.catalog, &settings, now());
    let found = pass(&seen, Method::Emptiness, &mut Time::unlimited());
    let gone: Vec<_> = found.commands[0].candidates.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(gone, ["b"], "30/LOOP-9");
    let allowances = Allowances::new(&seen, Reason::Empty);
    let (_, broken) = allowances.pools().find(|(name, _)| *name == "default").unwrap();
    assert!(broken.is_blocked() && broken.allowance.problems.len() == 1, "30/LOOP-9");
}

#[test]
fn single_nodes_go_until_the_budget_is_spent() {
    let start = World::empty().types([sized(1), sized(4)]).pool(pool("default").budget("30%", &[]));
    let world = (0..10).fold(start, |world, number| {
        let name = format!("n{number}");
        let tainted = of(&name, 4).taint(&format!("own={number}:NoSchedule"));
        world.node(tainted).pod(pod(&name).cpu("500m").on(&name))
    });
    let settings = Settings { search: Search::Upstream, ..Settings::default() };
    let mut queued = std::collections::BTreeSet::new();
    let mut passes = 0;
    loop {
        let mut seen = Seen::new(&world.snapshot, &world.catalog, &settings, now());
        seen.queued = queued.clone();
        seen.settled = [Method::MultiNode].into();
        let found = pass(&seen, Method::Emptiness, &mut Time::unlimited());
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
