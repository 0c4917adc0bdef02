//! Repair as a method (spec 45 §5, §8).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karpenter_core::disruption::{
    Command, Decision, Method, NoticeKind, Pass, RebootHistory, RepairRules, Replacement, Search,
    Settings, TerminateFirst, Time, World as Seen, pass,
};
use karpenter_core::lifecycle::repair::policy::{Policies, RepairAction, RepairPolicy};
use karpenter_core::requirement::Operator;
use karpenter_core::snapshot::NodeCondition;
use karpenter_core::static_capacity::ClaimCounts;
use karpenter_core::testing::{
    NodeBuilder, PoolBuilder, TypeBuilder, World, node, offering, pod, pool, reserved, roomy_type,
};

const ZONE: &str = "test-zone-1";

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("in range")
}

fn policy(condition: &str, regex: &str, grace: Option<u64>, priority: u8) -> RepairPolicy {
    RepairPolicy {
        condition_type: condition.to_owned(),
        condition_status: "False".to_owned(),
        reason_regex: regex.to_owned(),
        toleration_duration: Duration::from_mins(30),
        termination_grace_period: grace.map(Duration::from_mins),
        priority,
        action: RepairAction::ReplaceNode,
    }
}

/// Ready=False is replaced, more urgent with reason High; Disk=False restarts.
fn policies(grace: Option<u64>) -> Policies {
    let reboot =
        RepairPolicy { action: RepairAction::RebootNode, ..policy("Disk", "Fixable", grace, 0) };
    let all = vec![policy("Ready", "", grace, 0), policy("Ready", "High", grace, 50), reboot];
    Policies::new(all).expect("a set that makes sense")
}

fn sized(cpu: u32) -> TypeBuilder {
    roomy_type(cpu).sold(offering("on-demand", ZONE, f64::from(cpu)))
}

fn healthy(name: &str) -> NodeBuilder {
    node(name)
        .of_type(&sized(4).build())
        .label("capacity-type", "on-demand")
        .zone(ZONE)
        .standing(|s| s.is_consolidatable = false)
}

fn broken(name: &str, condition: &str, reason: &str, minutes: i64) -> NodeBuilder {
    let bad = NodeCondition {
        condition_type: condition.to_owned(),
        status: "False".to_owned(),
        reason: reason.to_owned(),
        since: Some(now() - SignedDuration::from_mins(minutes)),
    };
    healthy(name).standing(|s| {
        s.conditions = vec![bad];
        s.is_ready = condition != "Ready";
    })
}

fn world(pool: PoolBuilder) -> World {
    World::empty().types([sized(4)]).pool(pool)
}

fn on_demand() -> PoolBuilder {
    pool("default").require("capacity-type", Operator::In, &["on-demand"])
}

fn run(world: &World, policies: &Policies, change: impl FnOnce(&mut Seen<'_>)) -> Pass {
    let settings =
        Settings { search: Search::Upstream, static_capacity: true, ..Settings::default() };
    run_with(world, policies, &settings, change)
}

fn run_with(
    world: &World,
    policies: &Policies,
    settings: &Settings,
    change: impl FnOnce(&mut Seen<'_>),
) -> Pass {
    let history = RebootHistory::default();
    let mut seen = Seen::new(&world.snapshot, &world.catalog, settings, now());
    seen.repair = Some(RepairRules { policies, history: &history });
    change(&mut seen);
    pass(&seen, Method::Repair, &mut Time::unlimited())
}

fn repairs(pass: &Pass) -> Vec<&Command> {
    pass.commands.iter().filter(|command| command.method == Method::Repair).collect()
}

fn told(pass: &Pass, kind: NoticeKind) -> Vec<&str> {
    pass.notices.iter().filter(|one| one.kind == kind).map(|one| one.text.as_str()).collect()
}

#[test]
fn a_broken_node_is_replaced_or_goes() {
    let full = world(on_demand()).node(broken("n", "Ready", "", 31)).pod(pod("p").cpu("3").on("n"));
    let found = run(&full, &policies(None), |_| ());
    assert_eq!(repairs(&found)[0].decision(), Decision::Replace, "45/RM-1");
    assert_eq!(repairs(&found)[0].replacements.len(), 1, "45/RM-1");
    let empty = world(on_demand()).node(broken("n", "Ready", "", 31));
    let found = run(&empty, &policies(None), |_| ());
    assert_eq!(repairs(&found)[0].decision(), Decision::Delete, "45/RM-2");
    let early = world(on_demand()).node(broken("n", "Ready", "", 29));
    let found = run(&early, &policies(None), |_| ());
    assert_eq!((repairs(&found).len(), found.notices.len()), (0, 0), "45/RM-3");
    let off = run(&empty, &policies(None), |seen| seen.repair = None);
    assert_eq!(repairs(&off).len(), 0, "45/RM-27");
}

#[test]
fn annotations_of_the_node_are_those_of_repair() {
    const VETO: &str = "repair is blocked through the \"karpenter.sh/do-not-repair\" annotation";
    let with = |change: fn(&mut karpenter_core::snapshot::NodeStanding)| {
        let world = world(on_demand()).node(broken("n", "Ready", "", 31).standing(change));
        run(&world.pod(pod("p").cpu("1").do_not_disrupt().on("n")), &policies(Some(5)), |_| ())
    };
    let vetoed = with(|s| s.do_not_repair = true);
    assert_eq!(repairs(&vetoed).len(), 0, "45/RM-4");
    assert_eq!(told(&vetoed, NoticeKind::Blocked), [VETO], "45/RM-4, 45/RM-5");
    let held = with(|s| s.do_not_disrupt = Some("true".to_owned()));
    assert_eq!(repairs(&held).len(), 1, "45/RM-4");
}

#[test]
fn pods_that_must_not_be_moved_need_a_bound() {
    let world = world(on_demand())
        .node(broken("n", "Ready", "", 31))
        .pod(pod("p").cpu("1").do_not_disrupt().on("n"));
    let unbounded = run(&world, &policies(None), |_| ());
    let text = "repair requires a termination grace period to bypass blocking pods";
    assert_eq!(told(&unbounded, NoticeKind::Blocked), [text], "45/RM-6");
    let bounded = run(&world, &policies(Some(5)), |_| ());
    let command = repairs(&bounded)[0];
    assert_eq!(command.drain_bound, Some(SignedDuration::from_mins(5)), "45/RM-6");
    let placed: Vec<_> = command.plan.claims.iter().flat_map(|claim| &claim.pods).collect();
    assert_eq!(placed, [&world.pod_id("p")], "45/RM-6: the plan contains that pod");
}

#[test]
fn the_bound_is_never_longer_than_the_claims_own() {
    let with = |own: Option<i64>, policy: Option<u64>| {
        let own = own.map(SignedDuration::from_mins);
        let node = broken("n", "Ready", "", 31).standing(|s| s.termination_grace_period = own);
        run(&world(on_demand()).node(node), &policies(policy), |_| ()).commands[0].drain_bound
    };
    let minutes = |count| Some(SignedDuration::from_mins(count));
    assert_eq!(with(Some(5), Some(20)), minutes(5), "45/RM-13");
    assert_eq!(with(None, Some(0)), minutes(0), "45/RM-12");
    assert_eq!(with(Some(5), None), None, "inherits");
}

#[test]
fn budgets_count_ready_nodes_only_for_others() {
    let world = world(on_demand().budget("0", &[])).node(broken("n", "Ready", "", 31));
    let found = run(&world, &policies(Some(5)), |_| ());
    assert_eq!(repairs(&found).len(), 0, "45/RM-7");
    let free = super_world("100%");
    let found = run(&free, &policies(Some(5)), |_| ());
    assert_eq!(repairs(&found)[0].drain_bound, Some(SignedDuration::from_mins(5)), "45/RM-7");
    let starting = broken("n", "Ready", "", 31).starting();
    let world = self::world(on_demand().budget("0", &[])).node(starting);
    let found = run(&world, &policies(None), |seen| {
        seen.nominated = [("test:///n".to_owned(), Timestamp::MAX)].into();
    });
    assert_eq!(repairs(&found).len(), 1, "45/RM-17");
}

fn super_world(budget: &str) -> World {
    world(on_demand().budget(budget, &[])).node(broken("n", "Ready", "", 31))
}

#[test]
fn too_many_broken_nodes_are_not_the_nodes_fault() {
    let with = |unhealthy: usize, all: usize| {
        let nodes = (0..all).fold(world(on_demand()), |world, number| {
            let name = format!("n{number}");
            let minutes = if number == 0 { 31 } else { 1 };
            let is_broken = number < unhealthy;
            let broken = broken(&name, "Ready", "", minutes);
            world.node(if is_broken { broken } else { healthy(&name) })
        });
        run(&nodes, &policies(None), |_| ())
    };
    let tripped = with(3, 10);
    assert_eq!(repairs(&tripped).len(), 0, "45/RM-8");
    let text = "more than 20% of nodes in nodepool \"default\" are unhealthy";
    assert_eq!(told(&tripped, NoticeKind::RepairBlocked), [text], "45/RM-8");
    assert_eq!(repairs(&with(1, 3)).len(), 1, "45/RM-9");
}

#[test]
fn the_most_urgent_node_is_first() {
    let first = |nodes: [NodeBuilder; 2]| {
        let healthy = (0..8).fold(world(on_demand()), |w, n| w.node(healthy(&format!("h{n}"))));
        let world = nodes.into_iter().fold(healthy, World::node);
        run(&world, &policies(None), |_| ()).commands[0].candidates[0].name.clone()
    };
    let high = |minutes| broken("high", "Ready", "High", minutes);
    assert_eq!(first([broken("a", "Ready", "", 60), high(60)]), "high", "45/RM-10");
    assert_eq!(first([broken("a", "Ready", "", 180), high(60)]), "a", "45/RM-10: it starves");
    let same = [broken("b", "Ready", "", 60), broken("a", "Ready", "", 60)];
    assert_eq!(first(same), "a", "45/RM-11");
}

#[test]
fn what_can_be_restarted_is_restarted_twice_a_day() {
    let world = world(on_demand()).node(broken("n", "Disk", "Fixable", 31));
    let policies = policies(Some(5));
    let with = |history: &RebootHistory, uid: &str| {
        let mut world = world.clone();
        world.snapshot.nodes[0].standing.node_claim_uid = uid.to_owned();
        let settings = Settings::default();
        let mut seen = Seen::new(&world.snapshot, &world.catalog, &settings, now());
        seen.repair = Some(RepairRules { policies: &policies, history });
        let found = pass(&seen, Method::Repair, &mut Time::unlimited());
        let command = repairs(&found)[0].clone();
        let is_escalated = command.repair.as_ref().unwrap().is_escalated;
        (command.decision(), command.savings, is_escalated)
    };
    let mut history = RebootHistory::default();
    assert_eq!(with(&history, "uid"), (Decision::Reboot, 0.0, false), "45/RM-20");
    history.record("uid", now() - SignedDuration::from_hours(2));
    assert_eq!(with(&history, "uid").0, Decision::Reboot);
    history.record("uid", now() - SignedDuration::from_hours(1));
    assert_eq!(with(&history, "uid"), (Decision::Delete, 4.0, true), "45/RM-22");
    assert_eq!(with(&history, "other").0, Decision::Reboot, "45/RM-23");
    let mut old = RebootHistory::default();
    old.record("uid", now() - SignedDuration::from_hours(26));
    old.record("uid", now() - SignedDuration::from_hours(25));
    assert_eq!(with(&old, "uid").0, Decision::Reboot, "45/RM-22");
}

#[test]
fn static_pools_need_room_for_the_replacement() {
    let with = |pool: PoolBuilder, settings: Settings| {
        let nodes = (0..4).fold(world(pool), |w, n| w.node(healthy(&format!("h{n}"))));
        let world = nodes.node(broken("n", "Ready", "", 31));
        run_with(&world, &policies(None), &settings, |seen| {
            let counts = ClaimCounts { active: 5, ..ClaimCounts::default() };
            seen.claims = [("default".to_owned(), counts)].into();
        })
    };
    let fixed = || on_demand().replicas(5);
    let off = || Settings { search: Search::Upstream, ..Settings::default() };
    let replace = vec![Replacement::Template { pool: "default".to_owned() }];
    let free = with(fixed(), off());
    assert_eq!(repairs(&free)[0].replacements, replace, "45/RM-24");
    let full = with(fixed().limit("nodes", "5"), off());
    let text = "static NodePool is at its node limit and cannot stage a replacement";
    assert_eq!(told(&full, NoticeKind::Blocked), [text], "45/RM-24");
    let room = with(fixed().limit("nodes", "6"), off());
    assert_eq!(repairs(&room)[0].replacements, replace, "45/RM-24, 45/TF-6");
    let drift = Settings { terminate_first_drift: true, ..off() };
    let other = with(fixed().limit("nodes", "5"), drift);
    assert_eq!(repairs(&other).len(), 0, "45/TF-14");
    let on = || Settings { terminate_first_repair: true, ..off() };
    let first = with(fixed().limit("nodes", "5"), on());
    let why = Some(TerminateFirst::StaticAtLimit);
    assert_eq!(repairs(&first)[0].terminate_first, why, "45/TF-5");
    let too_many = with(on_demand().replicas(4), on());
    assert_eq!(repairs(&too_many).len(), 0, "45/TF-13");
}

#[test]
fn a_pool_whose_types_are_not_known_does_not_hold_up_the_repair_of_others() {
    let named = |name: &str| {
        let on_demand = pool(name).require("capacity-type", Operator::In, &["on-demand"]);
        on_demand.replicas(5).limit("nodes", "6")
    };
    let start = World::empty().types([sized(4)]).pool(named("default")).pool(named("other"));
    let mut world = (0..4).fold(start, |world, number| {
        let two = ["default", "other"].map(|pool| (pool, format!("{pool}-{number}")));
        two.iter().fold(world, |world, (pool, name)| world.node(healthy(name).pool(pool)))
    });
    // The first in line is of the pool that is not known.
    world = world
        .node(broken("a", "Ready", "", 90).pool("default"))
        .node(broken("b", "Ready", "", 31).pool("other"));
    let repaired = |world: &World| {
        let settings = Settings {
            search: Search::Upstream,
            static_capacity: true,
            terminate_first_repair: true,
            ..Settings::default()
        };
        let found = run_with(world, &policies(None), &settings, |seen| {
            let counts = ClaimCounts { active: 5, ..ClaimCounts::default() };
            seen.claims = ["default", "other"].map(|pool| (pool.to_owned(), counts)).into();
        });
        let command = repairs(&found)[0];
        (command.candidates[0].name.clone(), command.decision())
    };
    let types = world.catalog.pools.remove("default").expect("it has types");
    assert_eq!(repaired(&world), ("b".to_owned(), Decision::Replace), "45/TF-12");
    world.catalog.pools.insert("default".to_owned(), types);
    assert_eq!(repaired(&world), ("a".to_owned(), Decision::Replace), "45/TF-12: nothing is lost");
}

#[test]
fn a_full_reservation_lets_the_broken_node_go_first() {
    let full = sized(4).named("t4");
    let types = roomy_type(4);
    let node = broken("n", "Ready", "", 31)
        .of_type(&full.build())
        .label("capacity-type", "reserved")
        .label("karpenter.test.sh/reservation-id", "r-1");
    let world = World::empty()
        .types([types.sold(reserved("r-1", ZONE, 0))])
        .pool(pool("default"))
        .node(node)
        .pod(pod("p").cpu("1").do_not_disrupt().on("n"));
    let settings =
        Settings { search: Search::Upstream, terminate_first_repair: true, ..Settings::default() };
    let found = run_with(&world, &policies(Some(5)), &settings, |_| ());
    let command = repairs(&found)[0];
    assert_eq!(command.terminate_first, Some(TerminateFirst::NoReservedCapacity), "45/TF-15");
    let placed: Vec<_> = command.plan.claims.iter().flat_map(|claim| &claim.pods).collect();
    assert_eq!(placed, [&world.pod_id("p")], "45/TF-15: the plan contains that pod");
}
