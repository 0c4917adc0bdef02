//! Drifted nodes of static NodePools (spec 30 §6.2, spec 45 §8.3).

use super::*;
use karpenter_core::disruption::{Replacement, TerminateFirstReason};
use karpenter_core::static_capacity::ClaimCounts;

fn static_pool(replicas: i64) -> PoolBuilder {
    on_demand("default").replicas(replicas)
}

fn five_drifted_nodes(pool: PoolBuilder, types: Vec<TypeBuilder>) -> World {
    (0..5).fold(World::empty().types(types).pool(pool), |world, number| {
        world.node(
            node_of_size(&format!("n{number}"), 4).disruption_state(|s| s.drifted_at = Some(now())),
        )
    })
}

fn pass_outcome(world: &World, settings: &Settings, active: u32) -> PassOutcome {
    let settings = Settings { static_capacity: true, ..settings.clone() };
    run_with(world, &settings, |context| {
        let counts = ClaimCounts { active, ..ClaimCounts::default() };
        context.static_claims = [("default".to_owned(), counts)].into();
    })
}

fn terminate_first_settings() -> Settings {
    Settings { terminate_first_drift: true, ..upstream() }
}

#[test]
fn static_drift_replaces_as_many_nodes_as_budgets_and_limits_allow() {
    let limited = |nodes: &str| static_pool(5).limit("nodes", nodes);
    #[rustfmt::skip]
    let cases = [
        ("30/SDR-1", static_pool(5).budget("2", &[Reason::Drifted]), 5, 2),
        ("30/SDR-2", limited("5"),                             5, 0),
        ("30/SDR-3", limited("7"),                             5, 2),
        ("30/SDR-3", limited("6"),                             5, 1),
        ("30/SDR-4", static_pool(5).budget("100%", &[]),             5, 5),
        ("30/SDR-5, 45/TF-13", static_pool(1),                       2, 0),
        ("30/SDR-6", static_pool(0),                                 5, 0),
    ];
    for (case, pool, active, expected) in cases {
        let world = five_drifted_nodes(pool, sizes());
        let pass = pass_outcome(&world, &upstream(), active);
        assert_eq!(pass.commands.len(), expected, "{case}");
        for command in &pass.commands {
            let pool = "default".to_owned();
            assert_eq!(command.replacements, [Replacement::Template { pool }], "{case}");
        }
    }
    let pass = pass_outcome(&five_drifted_nodes(limited("5"), sizes()), &upstream(), 5);
    let text = "static NodePool is at its node limit and cannot stage a replacement";
    assert_eq!(notice_texts(&pass, NodeEventKind::Blocked), [text; 5], "30/SDR-2");
}

#[test]
fn static_drift_skips_nodes_that_are_protected_or_not_drifted() {
    let held = node_of_size("n", 4).disruption_state(|s| {
        s.drifted_at = Some(now());
        s.do_not_disrupt = Some("true".to_owned());
    });
    for node in [node_of_size("n", 4), held] {
        let world = World::empty().types(sizes()).pool(static_pool(1)).node(node);
        assert_eq!(pass_outcome(&world, &upstream(), 1).commands, [], "30/SDR-7");
    }
}

#[test]
fn a_static_node_pool_at_its_limit_terminates_the_node_first() {
    let one = |pool: PoolBuilder| {
        World::empty()
            .types(sizes())
            .pool(pool)
            .node(node_of_size("n", 4).disruption_state(|s| s.drifted_at = Some(now())))
    };
    let limited = |nodes: &str| static_pool(1).limit("nodes", nodes);
    let at_limit = Some(TerminateFirstReason::StaticAtLimit);
    #[rustfmt::skip]
    let cases = [
        ("45/TF-5 on",       limited("1"),            terminate_first_settings(),    Some((Decision::TerminateFirst, at_limit))),
        ("45/TF-5 off",      limited("1"),            upstream(), None),
        ("45/TF-5 unready",  limited("1").unready(),  terminate_first_settings(),    None),
        ("45/TF-5 deleting", limited("1").deleting(), terminate_first_settings(),    None),
        ("45/TF-6",          limited("2"),            terminate_first_settings(),    Some((Decision::Replace, None))),
        ("45/TF-6",          static_pool(1),                terminate_first_settings(),    Some((Decision::Replace, None))),
    ];
    for (case, pool, settings, expected) in cases {
        let pass = pass_outcome(&one(pool), &settings, 1);
        let found = pass.commands.first().map(|one| (one.decision(), one.terminate_first));
        assert_eq!(found, expected, "{case}");
    }
}

#[test]
fn with_full_reservations_the_reserved_node_terminates_first() {
    let full = |id: &str| reserved(id, ZONE, 0);
    let only = || vec![sized(4).named("t4").build_reserved(full("r-1"))];
    let own = |name: &str, id: &str, capacity_type: &str| {
        node_of_size(name, 4)
            .label("capacity-type", capacity_type)
            .label("karpenter.test.sh/reservation-id", id)
            .disruption_state(|s| s.drifted_at = Some(now()))
    };
    let pool = || pool("default").replicas(2);
    let text = "static NodePool's capacity reservations are full and cannot stage a replacement";
    let holder = World::empty()
        .types(only())
        .pool(pool().budget("1", &[]))
        .node(own("a", "gone", "reserved"))
        .node(own("b", "r-1", "reserved"));
    let pass = pass_outcome(&holder, &terminate_first_settings(), 2);
    assert_eq!(command_summaries(&pass)[0].2, ["b"], "45/TF-10");
    let why = Some(TerminateFirstReason::NoReservedCapacity);
    assert_eq!(pass.commands[0].terminate_first, why, "45/TF-7");
    for (case, id, capacity_type) in
        [("45/TF-11 stale", "r-1", "on-demand"), ("45/TF-11 not offered", "gone", "reserved")]
    {
        let world = World::empty().types(only()).pool(pool()).node(own("n", id, capacity_type));
        let pass = pass_outcome(&world, &terminate_first_settings(), 1);
        assert_eq!(pass.commands, [], "{case}");
        assert_eq!(notice_texts(&pass, NodeEventKind::Blocked), [text], "{case}");
    }
    let mut unavailable = offering("on-demand", ZONE, 4.0);
    unavailable.available = false;
    let types = vec![sized(4).build_reserved(full("r-1")).offering(unavailable)];
    let world = World::empty().types(types).pool(pool()).node(own("n", "r-1", "reserved"));
    let pass = pass_outcome(&world, &terminate_first_settings(), 1);
    assert_eq!(command_summaries(&pass)[0].1, Decision::Replace, "45/TF-8");
    // What the template leaves out could be had, and does not help.
    let types = || only().into_iter().chain([sized(8), sized(1)]).collect::<Vec<_>>();
    for (case, pool, expected) in [
        ("45/TF-9", pool().require("type", Operator::In, &["t4"]), Decision::TerminateFirst),
        ("45/TF-9: inside", pool(), Decision::Replace),
    ] {
        let world = World::empty().types(types()).pool(pool).node(own("n", "r-1", "reserved"));
        assert_eq!(
            command_summaries(&pass_outcome(&world, &terminate_first_settings(), 1))[0].1,
            expected,
            "{case}"
        );
    }
}

#[test]
fn a_node_pool_with_unknown_types_does_not_block_other_pools() {
    let drifted = |name: &str, pool: &str| {
        node_of_size(name, 4).pool(pool).disruption_state(|s| s.drifted_at = Some(now()))
    };
    for settings in [upstream(), terminate_first_settings()] {
        let limited = |name: &str| on_demand(name).replicas(1).limit("nodes", "2");
        let mut world = World::empty()
            .types(sizes())
            .pool(limited("default"))
            .pool(limited("other"))
            .node(drifted("a", "default"))
            .node(drifted("b", "other"));
        let decide = |world: &World| {
            let settings = Settings { static_capacity: true, ..settings.clone() };
            run_with(world, &settings, |context| {
                let counts = ClaimCounts { active: 1, ..ClaimCounts::default() };
                let pools = ["default", "other"].map(|pool| (pool.to_owned(), counts));
                context.static_claims = pools.into();
            })
        };
        let types = world.catalog.pools.remove("default").expect("it has types");
        let pass = decide(&world);
        let replaced = |name| (Method::StaticDrift, Decision::Replace, vec![name]);
        assert_eq!(command_summaries(&pass), [replaced("b")], "45/TF-12");
        assert_eq!(notice_texts(&pass, NodeEventKind::Blocked), [""; 0], "45/TF-12");
        world.catalog.pools.insert("default".to_owned(), types);
        let pass = decide(&world);
        assert_eq!(
            command_summaries(&pass),
            [replaced("a"), replaced("b")],
            "45/TF-12: nothing is used up"
        );
    }
}

trait BuildReserved {
    fn build_reserved(self, offering: karpenter_core::catalog::Offering) -> TypeBuilder;
}

impl BuildReserved for TypeBuilder {
    /// The same size, sold in one reservation only.
    fn build_reserved(self, offering: karpenter_core::catalog::Offering) -> TypeBuilder {
        instance_type("t4").cpu("4").memory("100Gi").pods("100").no_overhead().offering(offering)
    }
}
