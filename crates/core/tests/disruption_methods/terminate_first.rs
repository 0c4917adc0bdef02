//! Nodes that go before another can come (spec 45 §8).

use super::*;
use karpenter_core::disruption::TerminateFirst;

/// A drifted node in a reservation with so many slots left.
fn drifted(types: Vec<TypeBuilder>, pools: Vec<PoolBuilder>) -> World {
    let own = of("n", 4)
        .label("capacity-type", "reserved")
        .label("karpenter.test.sh/reservation-id", "r-1")
        .standing(|s| {
            s.drifted_at = Some(now());
            s.is_consolidatable = false;
        });
    let start = World::empty().types(types);
    pools.into_iter().fold(start, World::pool).node(own).pod(pod("p").cpu("3").on("n"))
}

fn reserved_only(left: u32, available: bool) -> Vec<TypeBuilder> {
    let mut offering = reserved("r-1", ZONE, left);
    offering.available = available;
    let own = roomy_type(4);
    vec![own.sold(offering)]
}

fn on() -> Settings {
    Settings { terminate_first_drift: true, ..upstream() }
}

#[test]
fn the_node_goes_first_if_only_its_own_slot_is_left() {
    let any = || vec![pool("default")];
    let full = drifted(reserved_only(0, true), any());
    let pass = run(&full, &on());
    assert_eq!(said(&pass), [(Method::Drift, Decision::TerminateFirst, vec!["n"])], "45/TF-1");
    let why = Some(TerminateFirst::NoReservedCapacity);
    assert_eq!(pass.commands[0].terminate_first, why, "45/TF-1");
    assert_eq!(pass.commands[0].replacements, [], "45/TF-1");
    assert_eq!(pass.commands[0].plan.claims.len(), 1, "the plan says where its pods go then");
    let off = run(&full, &upstream());
    assert_eq!(off.commands, [], "45/TF-1");
    assert!(texts(&off, NoticeKind::Blocked)[0].starts_with("Not all pods would schedule, "));
    let unavailable = run(&drifted(reserved_only(0, false), any()), &on());
    assert_eq!(unavailable.commands, [], "45/TF-3");
    let spare = run(&drifted(reserved_only(1, true), any()), &on());
    assert_eq!(said(&spare)[0].1, Decision::Replace, "45/TF-4 spare slot");
    let fallback = vec![pool("default").weight(10), pool("other").types(sizes())];
    let other = run(&drifted(reserved_only(0, true), fallback), &on());
    assert_eq!(said(&other)[0].1, Decision::Replace, "45/TF-4 other pool");
}

#[test]
fn one_slot_does_not_do_for_two_that_stay_apart() {
    let shy = pod("q").cpu("1").label("app", "p").on("n").away_from(term("hostname"));
    let world = drifted(reserved_only(0, true), vec![pool("default")]).pod(shy);
    let pass = run(&world, &on());
    assert_eq!(pass.commands, [], "45/TF-2");
}
