//! Reserved capacity (spec 20 §3.14, spec 45 §11.1, cases C37–C43, E9, RS-1–RS-7).

use karpenter_core::catalog::Offering;
use karpenter_core::requirement::Operator::In;
use karpenter_core::scheduling::ReservedMode;
use karpenter_core::testing::{
    Outcome, PodBuilder, PoolBuilder, RESERVATION_ID, TypeBuilder, World, instance_type, pod, pool,
    reserved, term,
};

const ZONE: &str = "test-zone-1";
const HELD: &str = "one or more instance types with compatible reserved offerings are available, \
                    but could not be reserved";

/// Small and medium have a reservation of one instance each, large has none.
fn three_sizes() -> [TypeBuilder; 3] {
    let sized = |name: &str, size: &str| instance_type(name).cpu(size).memory(&format!("{size}Gi"));
    let dearer = Offering { price: 0.002, ..reserved("r-medium", ZONE, 1) };
    [
        sized("large", "6"),
        sized("medium", "3").also_sold(dearer),
        sized("small", "2").also_sold(reserved("r-small", ZONE, 1)),
    ]
}

/// Pods for small nodes that share none.
fn apart() -> PodBuilder {
    pod("web").away_from(term("hostname")).require("type", In, &["small"])
}

fn small_with(id: &str) -> TypeBuilder {
    instance_type("small").cpu("2").memory("2Gi").also_sold(reserved(id, ZONE, 1))
}

/// The pods that found a place in a loop, with what their nodes are.
fn placed(outcome: &Outcome) -> Vec<(String, String)> {
    let names = outcome.plan.claims.iter().flat_map(|claim| &claim.pods);
    let names = names.map(|&id| outcome.before.snapshot.pod(id).name.clone());
    names
        .map(|name| {
            let of_type = outcome.label_of(&name, "type").to_owned();
            (of_type, outcome.label_of(&name, RESERVATION_ID).to_owned())
        })
        .collect()
}

#[track_caller]
fn deferred(outcome: &Outcome, case: &str) {
    for (id, why) in &outcome.plan.refused {
        let name = &outcome.before.snapshot.pod(*id).name;
        assert!(why.is_reserved(), "{case}: {name} waits: {why}");
    }
}

#[test]
fn pods_wait_for_reserved_nodes_before_they_pay() {
    let first = World::of(three_sizes()).pod(pod("web").times(3).cpu("1800m")).solve();
    assert_eq!(placed(&first), [("small".into(), "r-small".into())], "20/C37");
    assert_eq!(first.claim_of("web-0").reservations, ["r-medium", "r-small"], "20/C37: holds both");
    deferred(&first, "20/C37");
    assert_eq!(first.refusal("web-1"), HELD, "20/C37");
    let second = first.after.solve();
    assert_eq!(placed(&second), [("medium".into(), "r-medium".into())], "20/C37");
    let third = second.after.solve();
    assert_eq!(placed(&third), [("small".into(), String::new())], "20/C37");
    assert_eq!(third.refused(), [""; 0], "20/C37");
}

#[test]
fn pools_share_a_reservation() {
    let from = |name: &str, pool: &str| apart().named(name).require("nodepool", In, &[pool]);
    let world = World::empty().types(three_sizes()).pool(pool("np-1")).pool(pool("np-2"));
    let outcome = world.pods([from("web-1", "np-1"), from("web-2", "np-2")]).solve();
    assert_eq!(placed(&outcome), [("small".into(), "r-small".into())], "20/C38");
    assert_eq!(outcome.refused().len(), 1, "20/C38");
    deferred(&outcome, "20/C38");
    let next = outcome.after.solve();
    assert_eq!(placed(&next), [("small".into(), String::new())], "20/C38: next loop");
}

#[test]
fn pools_with_reservations_of_their_own_do_not_wait_for_each_other() {
    let from = |name: &str, pool: &str| apart().named(name).require("nodepool", In, &[pool]);
    let world = World::empty()
        .types(three_sizes())
        .pool(pool("np-1"))
        .pool(pool("np-2").types([small_with("r-distinct")]))
        .pods([from("web-1", "np-1"), from("web-2", "np-2")]);
    let outcome = world.solve();
    assert_eq!(outcome.label_of("web-1", RESERVATION_ID), "r-small", "20/C39");
    assert_eq!(outcome.label_of("web-2", RESERVATION_ID), "r-distinct", "20/C39");
}

#[test]
fn two_reservations_of_one_type_are_held_together() {
    let both = small_with("r-small").also_sold(reserved("r-small-2", ZONE, 2));
    let mut outcome = World::of([both]).pod(apart().times(4)).solve();
    let mut counts = vec![outcome.new_nodes()];
    for _ in 0..2 {
        deferred(&outcome, "20/C40");
        outcome = outcome.after.solve();
        counts.push(outcome.new_nodes());
    }
    // Upstream's fake provider fills the reservation that is listed first, so the second loop finds
    // one of each, or two of the second, and in either case places one pod.
    assert_eq!(counts, [2, 1, 1], "20/C40");
    assert_eq!(outcome.label_of("web-3", RESERVATION_ID), "", "20/C40: the last one pays");
}

#[test]
fn a_pod_waits_for_the_heavy_pool_instead_of_taking_a_lighter_one() {
    let world = World::empty()
        .pool(pool("heavy").weight(100).types([small_with("r-small")]))
        .pool(pool("light").weight(50).types([small_with("r-fallback")]))
        .pod(apart().times(2));
    let first = world.solve();
    assert_eq!(placed(&first), [("small".into(), "r-small".into())], "20/C41");
    deferred(&first, "20/C41");
    let second = first.after.solve();
    assert_eq!(second.pool_of("web-1"), "heavy", "20/C41");
    assert_eq!(second.label_of("web-1", RESERVATION_ID), "", "20/C41");
}

#[test]
fn waiting_for_a_reservation_relaxes_nothing() {
    let world = World::empty()
        .pool(pool("np-1").types([small_with("r-small")]))
        .pool(pool("np-2").types([small_with("r-distinct")]))
        .pod(apart().times(2).prefer(1, "nodepool", In, &["np-1"]));
    let first = world.solve();
    assert_eq!((first.new_nodes(), first.pool_of("web-0")), (1, "np-1"), "20/C42");
    deferred(&first, "20/C42");
    let second = first.after.solve();
    assert_eq!(second.pool_of("web-1"), "np-1", "20/C42: still preferred, and paid for");
    assert_eq!(second.label_of("web-1", RESERVATION_ID), "", "20/C42");
}

#[test]
fn pods_share_a_reserved_node() {
    let world = World::of(three_sizes()).pod(
        pod("web")
            .times(2)
            .near(term("zone"))
            .require("type", In, &["small"])
            .require("nodepool", In, &["default"])
            .require("capacity-type", In, &["reserved"])
            .require("zone", In, &[ZONE]),
    );
    let outcome = world.solve();
    assert_eq!(outcome.sizes(), [2], "20/C43");
    assert_eq!(outcome.label_of("web-1", RESERVATION_ID), "r-small", "20/C43");
    assert_eq!(
        outcome.requirement_of("web-0", "capacity-type"),
        "karpenter.sh/capacity-type In [reserved]",
        "20/E9"
    );
    assert_eq!(
        outcome.requirement_of("web-0", RESERVATION_ID),
        format!("{RESERVATION_ID} In [r-small]"),
        "20/E9"
    );
}

/// One type, sold in all the default ways and in this one.
fn with_reservation(offering: Offering) -> TypeBuilder {
    instance_type("reserved-type").also_sold(offering)
}

fn reserved_only() -> PoolBuilder {
    pool("reserved").weight(100).require("capacity-type", In, &["reserved"])
}

#[test]
fn a_full_reservation_and_nothing_else_places_no_pod() {
    let world = World::empty()
        .types([with_reservation(reserved("r-full", ZONE, 0))])
        .pool(reserved_only())
        .pod(pod("web"));
    let outcome = world.solve();
    assert_eq!(outcome.new_nodes(), 0, "45/RS-1: strict");
    deferred(&outcome, "45/RS-1");
    assert_eq!(
        outcome.refusal("web"),
        "all compatible reserved offerings are full and no on-demand or spot fallback is available",
        "45/RS-1"
    );
    let outcome = world.with(|options| options.reserved = ReservedMode::Fallback).solve();
    assert_eq!(outcome.new_nodes(), 0, "45/RS-1: fallback");
    assert_eq!(
        outcome.refusal("web"),
        "the only compatible reserved offering is full; falling through to other NodePools",
        "45/RS-1"
    );
    let refusal = outcome.plan.refused.values().next().unwrap();
    assert!(!refusal.is_reserved(), "45/RS-1: a plain error");
}

#[test]
fn a_full_reservation_does_not_block_other_ways_to_buy() {
    let world = World::of([with_reservation(reserved("r-full", ZONE, 0))]).pod(pod("web"));
    let outcome = world.solve();
    let claim = outcome.claim_of("web");
    assert_eq!(claim.reservations, [""; 0], "45/RS-2");
    let capacity = claim.requirements.get("karpenter.sh/capacity-type");
    assert!(capacity.is_none_or(|types| types.has("on-demand")), "45/RS-2");
    assert_ne!(outcome.label_of("web", "capacity-type"), "reserved", "45/RS-2: not launched there");
}

#[test]
fn a_reservation_with_room_is_taken() {
    let world = World::of([with_reservation(reserved("r-1", ZONE, 1))]).pod(pod("web"));
    let outcome = world.solve();
    assert_eq!(outcome.claim_of("web").reservations, ["r-1"], "45/RS-3");
    assert_eq!(outcome.label_of("web", RESERVATION_ID), "r-1", "45/RS-3");
    assert_eq!(outcome.label_of("web", "capacity-type"), "reserved", "45/RS-3");
}

#[test]
fn an_unavailable_reservation_is_no_way_to_buy_whatever_room_it_has() {
    let gone = Offering { available: false, ..reserved("r-1", ZONE, 5) };
    for mode in [ReservedMode::Strict, ReservedMode::Fallback] {
        let world = World::empty().types([with_reservation(gone.clone())]).pool(reserved_only());
        let world = world.with(|options| options.reserved = mode).pod(pod("web"));
        let outcome = world.solve();
        assert_eq!(outcome.refused(), ["web"], "45/RS-4: {mode:?}");
    }
}

#[test]
fn a_full_reservation_falls_through_to_a_lighter_pool_in_simulations() {
    let world = World::empty()
        .types([with_reservation(reserved("r-full", ZONE, 0))])
        .pool(reserved_only())
        .pool(pool("paid").weight(1).require("capacity-type", In, &["on-demand"]))
        .pod(pod("web"));
    let outcome = world.clone().with(|options| options.reserved = ReservedMode::Fallback).solve();
    assert_eq!(outcome.pool_of("web"), "paid", "45/RS-5");
    assert_eq!(world.solve().refused(), ["web"], "45/RS-5: strict waits");
}

#[test]
fn a_credit_is_one_slot_and_no_more() {
    let world = World::empty()
        .types([with_reservation(reserved("r-full", ZONE, 0))])
        .pool(reserved_only())
        .pod(pod("web").times(2).away_from(term("hostname")));
    let credited = |id: &str| {
        let credits = [(id.to_owned(), 1)].into();
        world.clone().with(|options| options.reservation_credits = credits).solve()
    };
    let outcome = credited("r-full");
    assert_eq!(outcome.new_nodes(), 1, "45/RS-6");
    assert_eq!(outcome.claim_of("web-0").reservations, ["r-full"], "45/RS-6");
    assert_eq!(outcome.refusal("web-1"), HELD, "45/RS-6");
    assert_eq!(credited("r-unknown").refused().len(), 2, "45/RS-7");
}

#[test]
fn simulations_go_on_without_a_reservation_that_others_hold() {
    let world = World::of([small_with("r-small")]).pod(apart().times(2));
    let outcome = world.with(|options| options.reserved = ReservedMode::Fallback).solve();
    assert_eq!(outcome.new_nodes(), 2);
    assert_eq!(outcome.claim_of("web-0").reservations, ["r-small"]);
    assert_eq!(outcome.claim_of("web-1").reservations, [""; 0]);
}

#[test]
fn without_the_gate_nothing_is_held() {
    let world = World::of([small_with("r-small")]).pod(apart().times(2));
    let outcome = world.with(|options| options.reserved_capacity = false).solve();
    assert_eq!(outcome.new_nodes(), 2);
    assert!(outcome.plan.claims.iter().all(|claim| claim.reservations.is_empty()));
}
