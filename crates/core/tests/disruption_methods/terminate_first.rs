//! Nodes that go before another can come (spec 45 §8).

use super::*;
use karpenter_core::disruption::TerminateFirstReason;

/// A drifted node in a reservation with so many slots left.
fn drifted(types: Vec<TypeBuilder>, pools: Vec<PoolBuilder>) -> World {
    let own = node_of_size("n", 4)
        .label("capacity-type", "reserved")
        .label("karpenter.test.sh/reservation-id", "r-1")
        .disruption_state(|s| {
            s.drifted_at = Some(now());
            s.is_consolidatable = false;
        });
    let start = World::empty().types(types);
    pools.into_iter().fold(start, World::pool).node(own).pod(pod("p").cpu("3").on_node("n"))
}

fn reserved_only(left: u32, available: bool) -> Vec<TypeBuilder> {
    let mut offering = reserved("r-1", ZONE, left);
    offering.available = available;
    let own = cpu_bound_type(4);
    vec![own.offering(offering)]
}

fn terminate_first_settings() -> Settings {
    Settings { terminate_first_drift: true, ..upstream() }
}

#[test]
fn the_node_terminates_first_if_only_its_own_slot_remains() {
    let any = || vec![pool("default")];
    let full = drifted(reserved_only(0, true), any());
    let pass = run(&full, &terminate_first_settings());
    assert_eq!(
        command_summaries(&pass),
        [(Method::Drift, Decision::TerminateFirst, vec!["n"])],
        "45/TF-1"
    );
    let why = Some(TerminateFirstReason::NoReservedCapacity);
    assert_eq!(pass.commands[0].terminate_first, why, "45/TF-1");
    assert_eq!(pass.commands[0].replacements, [], "45/TF-1");
    assert_eq!(pass.commands[0].plan.claims.len(), 1, "the plan says where its pods go then");
    let off = run(&full, &upstream());
    assert_eq!(off.commands, [], "45/TF-1");
    assert!(
        notice_texts(&off, NodeEventKind::Blocked)[0].starts_with("Not all pods would schedule, ")
    );
    let unavailable = run(&drifted(reserved_only(0, false), any()), &terminate_first_settings());
    assert_eq!(unavailable.commands, [], "45/TF-3");
    let spare = run(&drifted(reserved_only(1, true), any()), &terminate_first_settings());
    assert_eq!(command_summaries(&spare)[0].1, Decision::Replace, "45/TF-4 spare slot");
    let fallback = vec![pool("default").weight(10), pool("other").types(sizes())];
    let other = run(&drifted(reserved_only(0, true), fallback), &terminate_first_settings());
    assert_eq!(command_summaries(&other)[0].1, Decision::Replace, "45/TF-4 other pool");
}

#[test]
fn one_slot_is_not_enough_for_two_pods_with_anti_affinity() {
    let shy = pod("q").cpu("1").label("app", "p").on_node("n").pod_anti_affinity(term("hostname"));
    let world = drifted(reserved_only(0, true), vec![pool("default")]).pod(shy);
    let pass = run(&world, &terminate_first_settings());
    assert_eq!(pass.commands, [], "45/TF-2");
}
