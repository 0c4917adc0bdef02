//! Repair as a method (spec 45 §5, §8).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karpenter_core::disruption::{
    Command, Decision, Method, NodeEventKind, PassContext, PassOutcome, RebootHistory, RepairRules,
    Replacement, SearchFuel, SearchMode, Settings, TerminateFirstReason, run_pass,
};
use karpenter_core::lifecycle::repair::policy::{Policies, RepairAction, RepairPolicy};
use karpenter_core::requirement::Operator;
use karpenter_core::snapshot::NodeCondition;
use karpenter_core::static_capacity::ClaimCounts;
use karpenter_core::testing::{
    NodeBuilder, PoolBuilder, TypeBuilder, World, cpu_bound_type, node, offering, pod, pool,
    reserved, run_verified_pass,
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
    cpu_bound_type(cpu).offering(offering("on-demand", ZONE, f64::from(cpu)))
}

fn healthy(name: &str) -> NodeBuilder {
    node(name)
        .of_type(&sized(4).build())
        .label("capacity-type", "on-demand")
        .zone(ZONE)
        .disruption_state(|s| s.is_consolidatable = false)
}

fn unhealthy_node(name: &str, condition: &str, reason: &str, minutes: i64) -> NodeBuilder {
    let bad = NodeCondition {
        condition_type: condition.to_owned(),
        status: "False".to_owned(),
        reason: reason.to_owned(),
        last_transition_time: Some(now() - SignedDuration::from_mins(minutes)),
    };
    healthy(name).disruption_state(|s| {
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

fn run(
    world: &World,
    policies: &Policies,
    change: impl FnOnce(&mut PassContext<'_>),
) -> PassOutcome {
    let settings =
        Settings { search: SearchMode::Upstream, static_capacity: true, ..Settings::default() };
    run_with(world, policies, &settings, change)
}

fn run_with(
    world: &World,
    policies: &Policies,
    settings: &Settings,
    change: impl FnOnce(&mut PassContext<'_>),
) -> PassOutcome {
    let history = RebootHistory::default();
    let mut context = PassContext::new(&world.snapshot, &world.catalog, settings, now());
    context.repair = Some(RepairRules { policies, history: &history });
    change(&mut context);
    run_verified_pass(&context, Method::Repair)
}

fn repairs(pass: &PassOutcome) -> Vec<&Command> {
    pass.commands.iter().filter(|command| command.method == Method::Repair).collect()
}

fn notice_texts(pass: &PassOutcome, kind: NodeEventKind) -> Vec<&str> {
    pass.node_events.iter().filter(|one| one.kind == kind).map(|one| one.text.as_str()).collect()
}

#[test]
fn an_unhealthy_node_is_replaced_or_deleted() {
    let full = world(on_demand())
        .node(unhealthy_node("n", "Ready", "", 31))
        .pod(pod("p").cpu("3").on_node("n"));
    let found = run(&full, &policies(None), |_| ());
    assert_eq!(repairs(&found)[0].decision(), Decision::Replace, "45/RM-1");
    assert_eq!(repairs(&found)[0].replacements.len(), 1, "45/RM-1");
    let empty = world(on_demand()).node(unhealthy_node("n", "Ready", "", 31));
    let found = run(&empty, &policies(None), |_| ());
    assert_eq!(repairs(&found)[0].decision(), Decision::Delete, "45/RM-2");
    let early = world(on_demand()).node(unhealthy_node("n", "Ready", "", 29));
    let found = run(&early, &policies(None), |_| ());
    assert_eq!((repairs(&found).len(), found.node_events.len()), (0, 0), "45/RM-3");
    let off = run(&empty, &policies(None), |context| context.repair = None);
    assert_eq!(repairs(&off).len(), 0, "45/RM-27");
}

#[test]
fn repair_obeys_do_not_repair_and_ignores_do_not_disrupt() {
    const VETO: &str = "repair is blocked through the \"karpenter.sh/do-not-repair\" annotation";
    let with = |change: fn(&mut karpenter_core::snapshot::NodeDisruptionState)| {
        let world =
            world(on_demand()).node(unhealthy_node("n", "Ready", "", 31).disruption_state(change));
        run(&world.pod(pod("p").cpu("1").do_not_disrupt().on_node("n")), &policies(Some(5)), |_| ())
    };
    let vetoed = with(|s| s.do_not_repair = true);
    assert_eq!(repairs(&vetoed).len(), 0, "45/RM-4");
    assert_eq!(notice_texts(&vetoed, NodeEventKind::Blocked), [VETO], "45/RM-4, 45/RM-5");
    let held = with(|s| s.do_not_disrupt = Some("true".to_owned()));
    assert_eq!(repairs(&held).len(), 1, "45/RM-4");
}

#[test]
fn do_not_disrupt_pods_need_a_termination_grace_period() {
    let world = world(on_demand())
        .node(unhealthy_node("n", "Ready", "", 31))
        .pod(pod("p").cpu("1").do_not_disrupt().on_node("n"));
    let unbounded = run(&world, &policies(None), |_| ());
    let text = "repair requires a termination grace period to bypass blocking pods";
    assert_eq!(notice_texts(&unbounded, NodeEventKind::Blocked), [text], "45/RM-6");
    let bounded = run(&world, &policies(Some(5)), |_| ());
    let command = repairs(&bounded)[0];
    assert_eq!(command.drain_bound, Some(SignedDuration::from_mins(5)), "45/RM-6");
    let placed: Vec<_> = command.plan.claims.iter().flat_map(|claim| &claim.pods).collect();
    assert_eq!(placed, [&world.pod_id("p")], "45/RM-6: the plan contains that pod");
}

#[test]
fn the_drain_bound_is_at_most_that_of_the_node_claim() {
    let with = |own: Option<i64>, policy: Option<u64>| {
        let own = own.map(SignedDuration::from_mins);
        let node = unhealthy_node("n", "Ready", "", 31)
            .disruption_state(|s| s.termination_grace_period = own);
        run(&world(on_demand()).node(node), &policies(policy), |_| ()).commands[0].drain_bound
    };
    let minutes = |count| Some(SignedDuration::from_mins(count));
    assert_eq!(with(Some(5), Some(20)), minutes(5), "45/RM-13");
    assert_eq!(with(None, Some(0)), minutes(0), "45/RM-12");
    assert_eq!(with(Some(5), None), None, "inherits");
}

#[test]
fn repair_respects_budgets_except_for_uninitialized_nodes() {
    let world = world(on_demand().budget("0", &[])).node(unhealthy_node("n", "Ready", "", 31));
    let found = run(&world, &policies(Some(5)), |_| ());
    assert_eq!(repairs(&found).len(), 0, "45/RM-7");
    let free = world_with_budget("100%");
    let found = run(&free, &policies(Some(5)), |_| ());
    assert_eq!(repairs(&found)[0].drain_bound, Some(SignedDuration::from_mins(5)), "45/RM-7");
    let starting = unhealthy_node("n", "Ready", "", 31).uninitialized();
    let world = self::world(on_demand().budget("0", &[])).node(starting);
    let found = run(&world, &policies(None), |context| {
        context.nominated = [("test:///n".to_owned(), Timestamp::MAX)].into();
    });
    assert_eq!(repairs(&found).len(), 1, "45/RM-17");
}

fn world_with_budget(budget: &str) -> World {
    world(on_demand().budget(budget, &[])).node(unhealthy_node("n", "Ready", "", 31))
}

#[test]
fn repair_is_blocked_if_too_many_nodes_are_unhealthy() {
    let with = |unhealthy: usize, all: usize| {
        let nodes = (0..all).fold(world(on_demand()), |world, number| {
            let name = format!("n{number}");
            let minutes = if number == 0 { 31 } else { 1 };
            let is_broken = number < unhealthy;
            let broken = unhealthy_node(&name, "Ready", "", minutes);
            world.node(if is_broken { broken } else { healthy(&name) })
        });
        run(&nodes, &policies(None), |_| ())
    };
    let tripped = with(3, 10);
    assert_eq!(repairs(&tripped).len(), 0, "45/RM-8");
    let text = "more than 20% of nodes in nodepool \"default\" are unhealthy";
    assert_eq!(notice_texts(&tripped, NodeEventKind::RepairBlocked), [text], "45/RM-8");
    assert_eq!(repairs(&with(1, 3)).len(), 1, "45/RM-9");
}

#[test]
fn repair_takes_the_most_urgent_node_first() {
    let first = |nodes: [NodeBuilder; 2]| {
        let healthy = (0..8).fold(world(on_demand()), |w, n| w.node(healthy(&format!("h{n}"))));
        let world = nodes.into_iter().fold(healthy, World::node);
        run(&world, &policies(None), |_| ()).commands[0].candidates[0].name.clone()
    };
    let high = |minutes| unhealthy_node("high", "Ready", "High", minutes);
    assert_eq!(first([unhealthy_node("a", "Ready", "", 60), high(60)]), "high", "45/RM-10");
    assert_eq!(
        first([unhealthy_node("a", "Ready", "", 180), high(60)]),
        "a",
        "45/RM-10: it starves"
    );
    let same = [unhealthy_node("b", "Ready", "", 60), unhealthy_node("a", "Ready", "", 60)];
    assert_eq!(first(same), "a", "45/RM-11");
}

#[test]
fn a_node_is_rebooted_at_most_twice_a_day() {
    let world = world(on_demand()).node(unhealthy_node("n", "Disk", "Fixable", 31));
    let policies = policies(Some(5));
    let with = |history: &RebootHistory, uid: &str| {
        let mut world = world.clone();
        world.snapshot.nodes[0].disruption_state.node_claim_uid = uid.to_owned();
        let settings = Settings::default();
        let mut context = PassContext::new(&world.snapshot, &world.catalog, &settings, now());
        context.repair = Some(RepairRules { policies: &policies, history });
        let found = run_pass(&context, Method::Repair, &mut SearchFuel::unlimited());
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
fn repair_of_a_static_node_pool_respects_its_node_limit() {
    let with = |pool: PoolBuilder, settings: Settings| {
        let nodes = (0..4).fold(world(pool), |w, n| w.node(healthy(&format!("h{n}"))));
        let world = nodes.node(unhealthy_node("n", "Ready", "", 31));
        run_with(&world, &policies(None), &settings, |context| {
            let counts = ClaimCounts { active: 5, ..ClaimCounts::default() };
            context.static_claims = [("default".to_owned(), counts)].into();
        })
    };
    let fixed = || on_demand().replicas(5);
    let off = || Settings { search: SearchMode::Upstream, ..Settings::default() };
    let replace = vec![Replacement::Template { pool: "default".to_owned() }];
    let free = with(fixed(), off());
    assert_eq!(repairs(&free)[0].replacements, replace, "45/RM-24");
    let full = with(fixed().limit("nodes", "5"), off());
    let text = "static NodePool is at its node limit and cannot stage a replacement";
    assert_eq!(notice_texts(&full, NodeEventKind::Blocked), [text], "45/RM-24");
    let below_limit = with(fixed().limit("nodes", "6"), off());
    assert_eq!(repairs(&below_limit)[0].replacements, replace, "45/RM-24, 45/TF-6");
    let drift = Settings { terminate_first_drift: true, ..off() };
    let other = with(fixed().limit("nodes", "5"), drift);
    assert_eq!(repairs(&other).len(), 0, "45/TF-14");
    let on = || Settings { terminate_first_repair: true, ..off() };
    let first = with(fixed().limit("nodes", "5"), on());
    let why = Some(TerminateFirstReason::StaticAtLimit);
    assert_eq!(repairs(&first)[0].terminate_first, why, "45/TF-5");
    let too_many = with(on_demand().replicas(4), on());
    assert_eq!(repairs(&too_many).len(), 0, "45/TF-13");
}

#[test]
fn a_node_pool_with_unknown_types_does_not_block_other_repairs() {
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
        .node(unhealthy_node("a", "Ready", "", 90).pool("default"))
        .node(unhealthy_node("b", "Ready", "", 31).pool("other"));
    let repaired = |world: &World| {
        let settings = Settings {
            search: SearchMode::Upstream,
            static_capacity: true,
            terminate_first_repair: true,
            ..Settings::default()
        };
        let found = run_with(world, &policies(None), &settings, |context| {
            let counts = ClaimCounts { active: 5, ..ClaimCounts::default() };
            context.static_claims =
                ["default", "other"].map(|pool| (pool.to_owned(), counts)).into();
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
fn with_a_full_reservation_the_unhealthy_node_terminates_first() {
    let full = sized(4).named("t4");
    let types = cpu_bound_type(4);
    let node = unhealthy_node("n", "Ready", "", 31)
        .of_type(&full.build())
        .label("capacity-type", "reserved")
        .label("karpenter.test.sh/reservation-id", "r-1");
    let world = World::empty()
        .types([types.offering(reserved("r-1", ZONE, 0))])
        .pool(pool("default"))
        .node(node)
        .pod(pod("p").cpu("1").do_not_disrupt().on_node("n"));
    let settings = Settings {
        search: SearchMode::Upstream,
        terminate_first_repair: true,
        ..Settings::default()
    };
    let found = run_with(&world, &policies(Some(5)), &settings, |_| ());
    let command = repairs(&found)[0];
    assert_eq!(command.terminate_first, Some(TerminateFirstReason::NoReservedCapacity), "45/TF-15");
    let placed: Vec<_> = command.plan.claims.iter().flat_map(|claim| &claim.pods).collect();
    assert_eq!(placed, [&world.pod_id("p")], "45/TF-15: the plan contains that pod");
}
