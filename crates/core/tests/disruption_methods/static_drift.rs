//! Drifted nodes of static NodePools (spec 30 §6.2, spec 45 §8.3).

use super::*;
use karpenter_core::disruption::{Replacement, TerminateFirst};
use karpenter_core::static_capacity::ClaimCounts;

fn fixed(replicas: i64) -> PoolBuilder {
    on_demand("default").replicas(replicas)
}

fn five(pool: PoolBuilder, types: Vec<TypeBuilder>) -> World {
    (0..5).fold(World::empty().types(types).pool(pool), |world, number| {
        world.node(of(&format!("n{number}"), 4).standing(|s| s.drifted_at = Some(now())))
    })
}

fn decide(world: &World, settings: &Settings, active: u32) -> Pass {
    let settings = Settings { static_capacity: true, ..settings.clone() };
    run_with(world, &settings, |seen| {
        let counts = ClaimCounts { active, ..ClaimCounts::default() };
        seen.claims = [("default".to_owned(), counts)].into();
    })
}

fn first() -> Settings {
    Settings { terminate_first_drift: true, ..upstream() }
}

#[test]
fn as_many_are_replaced_as_budgets_and_limits_allow() {
    let limited = |nodes: &str| fixed(5).limit("nodes", nodes);
    #[rustfmt::skip]
    let cases = [
        ("30/SDR-1", fixed(5).budget("2", &[Reason::Drifted]), 5, 2),
        ("30/SDR-2", limited("5"),                             5, 0),
        ("30/SDR-3", limited("7"),                             5, 2),
        ("30/SDR-3", limited("6"),                             5, 1),
        ("30/SDR-4", fixed(5).budget("100%", &[]),             5, 5),
        ("30/SDR-5, 45/TF-13", fixed(1),                       2, 0),
        ("30/SDR-6", fixed(0),                                 5, 0),
    ];
    for (case, pool, active, expected) in cases {
        let world = five(pool, sizes());
        let pass = decide(&world, &upstream(), active);
        assert_eq!(pass.commands.len(), expected, "{case}");
        for command in &pass.commands {
            let pool = "default".to_owned();
            assert_eq!(command.replacements, [Replacement::Template { pool }], "{case}");
        }
    }
    let pass = decide(&five(limited("5"), sizes()), &upstream(), 5);
    let text = "static NodePool is at its node limit and cannot stage a replacement";
    assert_eq!(texts(&pass, NoticeKind::Blocked), [text; 5], "30/SDR-2");
}

#[test]
fn nodes_that_have_not_drifted_or_must_stay_are_left_alone() {
    let held = of("n", 4).standing(|s| {
        s.drifted_at = Some(now());
        s.do_not_disrupt = Some("true".to_owned());
    });
    for node in [of("n", 4), held] {
        let world = World::empty().types(sizes()).pool(fixed(1)).node(node);
        assert_eq!(decide(&world, &upstream(), 1).commands, [], "30/SDR-7");
    }
}

#[test]
fn a_pool_at_its_limit_lets_the_old_node_go_first() {
    let one = |pool: PoolBuilder| {
        World::empty()
            .types(sizes())
            .pool(pool)
            .node(of("n", 4).standing(|s| s.drifted_at = Some(now())))
    };
    let limited = |nodes: &str| fixed(1).limit("nodes", nodes);
    let at_limit = Some(TerminateFirst::StaticAtLimit);
    #[rustfmt::skip]
    let cases = [
        ("45/TF-5 on",       limited("1"),            first(),    Some((Decision::TerminateFirst, at_limit))),
        ("45/TF-5 off",      limited("1"),            upstream(), None),
        ("45/TF-5 unready",  limited("1").unready(),  first(),    None),
        ("45/TF-5 deleting", limited("1").deleting(), first(),    None),
        ("45/TF-6",          limited("2"),            first(),    Some((Decision::Replace, None))),
        ("45/TF-6",          fixed(1),                first(),    Some((Decision::Replace, None))),
    ];
    for (case, pool, settings, expected) in cases {
        let pass = decide(&one(pool), &settings, 1);
        let found = pass.commands.first().map(|one| (one.decision(), one.terminate_first));
        assert_eq!(found, expected, "{case}");
    }
}

#[test]
fn full_reservations_let_who_holds_a_slot_go_first() {
    let full = |id: &str| reserved(id, ZONE, 0);
    let only = || vec![sized(4).named("t4").build_reserved(full("r-1"))];
    let own = |name: &str, id: &str, capacity_type: &str| {
        of(name, 4)
            .label("capacity-type", capacity_type)
            .label("karpenter.test.sh/reservation-id", id)
            .standing(|s| s.drifted_at = Some(now()))
    };
    let pool = || pool("default").replicas(2);
    let text = "static NodePool's capacity reservations are full and cannot stage a replacement";
    let holder = World::empty()
        .types(only())
        .pool(pool().budget("1", &[]))
        .node(own("a", "gone", "reserved"))
        .node(own("b", "r-1", "reserved"));
    let pass = decide(&holder, &first(), 2);
    assert_eq!(said(&pass)[0].2, ["b"], "45/TF-10");
    let why = Some(TerminateFirst::NoReservedCapacity);
    assert_eq!(pass.commands[0].terminate_first, why, "45/TF-7");
    for (case, id, capacity_type) in
        [("45/TF-11 stale", "r-1", "on-demand"), ("45/TF-11 not offered", "gone", "reserved")]
    {
        let world = World::empty().types(only()).pool(pool()).node(own("n", id, capacity_type));
        let pass = decide(&world, &first(), 1);
        assert_eq!(pass.commands, [], "{case}");
        assert_eq!(texts(&pass, NoticeKind::Blocked), [text], "{case}");
    }
    let mut unavailable = offering("on-demand", ZONE, 4.0);
    unavailable.available = false;
    let types = vec![sized(4).build_reserved(full("r-1")).sold(unavailable)];
    let world = World::empty().types(types).pool(pool()).node(own("n", "r-1", "reserved"));
    let pass = decide(&world, &first(), 1);
    assert_eq!(said(&pass)[0].1, Decision::Replace, "45/TF-8");
    // What the template leaves out could be had, and does not help.
    let types = || only().into_iter().chain([sized(8), sized(1)]).collect::<Vec<_>>();
    for (case, pool, expected) in [
        ("45/TF-9", pool().require("type", Operator::In, &["t4"]), Decision::TerminateFirst),
        ("45/TF-9: inside", pool(), Decision::Replace),
    ] {
        let world = World::empty().types(types()).pool(pool).node(own("n", "r-1", "reserved"));
        assert_eq!(said(&decide(&world, &first(), 1))[0].1, expected, "{case}");
    }
}

#[test]
fn a_pool_whose_types_are_not_known_does_not_hold_up_others() {
    let drifted =
        |name: &str, pool: &str| of(name, 4).pool(pool).standing(|s| s.drifted_at = Some(now()));
    for settings in [upstream(), first()] {
        let limited = |name: &str| on_demand(name).replicas(1).limit("nodes", "2");
        let mut world = World::empty()
            .types(sizes())
            .pool(limited("default"))
            .pool(limited("other"))
            .node(drifted("a", "default"))
            .node(drifted("b", "other"));
        let decide = |world: &World| {
            let settings = Settings { static_capacity: true, ..settings.clone() };
            run_with(world, &settings, |seen| {
                let counts = ClaimCounts { active: 1, ..ClaimCounts::default() };
                let pools = ["default", "other"].map(|pool| (pool.to_owned(), counts));
                seen.claims = pools.into();
            })
        };
        let types = world.catalog.pools.remove("default").expect("it has types");
        let pass = decide(&world);
        let replaced = |name| (Method::StaticDrift, Decision::Replace, vec![name]);
        assert_eq!(said(&pass), [replaced("b")], "45/TF-12");
        assert_eq!(texts(&pass, NoticeKind::Blocked), [""; 0], "45/TF-12");
        world.catalog.pools.insert("default".to_owned(), types);
        let pass = decide(&world);
        assert_eq!(said(&pass), [replaced("a"), replaced("b")], "45/TF-12: nothing is used up");
    }
}

trait Reserved {
    fn build_reserved(self, offering: karpenter_core::catalog::Offering) -> TypeBuilder;
}

impl Reserved for TypeBuilder {
    /// The same size, sold in one reservation only.
    fn build_reserved(self, offering: karpenter_core::catalog::Offering) -> TypeBuilder {
        instance_type("t4").cpu("4").memory("100Gi").pods("100").no_overhead().sold(offering)
    }
}
