//! Drifted nodes (spec 30 §6.3).

use super::*;

fn drifted(name: &str, cpu: u32, seconds_ago: i64) -> NodeBuilder {
    let at = now() - SignedDuration::from_secs(seconds_ago);
    of(name, cpu).standing(|s| {
        s.drifted_at = Some(at);
        s.is_consolidatable = false;
    })
}

#[test]
fn a_drifted_node_goes_for_what_its_pods_need() {
    let world = world().node(drifted("n", 4, 60)).pod(pod("p").cpu("3").on("n"));
    let pass = run(&world, &upstream());
    assert_eq!(said(&pass), [(Method::Drift, Decision::Replace, vec!["n"])], "30/DRF-1");
    let beside = world.clone().node(of("free", 8).standing(|s| s.is_consolidatable = false));
    let pass = run(&beside, &upstream());
    assert_eq!(said(&pass), [(Method::Drift, Decision::Delete, vec!["n"])], "30/DRF-2");
}

#[test]
fn pods_that_fit_nowhere_leave_the_turn_to_the_next() {
    let world = world()
        .node(drifted("old", 4, 600).label("custom", "here"))
        .node(drifted("new", 4, 60))
        .pod(pod("stuck").cpu("1").select("custom", "here").on("old"))
        .pod(pod("p").cpu("4").on("new"));
    let pass = run(&world, &upstream());
    assert_eq!(said(&pass), [(Method::Drift, Decision::Replace, vec!["new"])], "30/DRF-3");
    let told = texts(&pass, NoticeKind::Blocked);
    assert!(told[0].starts_with("Not all pods would schedule, default/stuck =>"), "30/DRF-3");
}

#[test]
fn empty_ones_are_first_then_the_oldest() {
    let never = World::empty().types(sizes()).pool(on_demand("default").never_consolidates());
    let world = never
        .node(drifted("full", 4, 600))
        .node(drifted("empty", 4, 60))
        .pod(pod("p").cpu("3").on("full"));
    let pass = run(&world, &upstream());
    assert_eq!(said(&pass), [(Method::Drift, Decision::Delete, vec!["empty"])], "30/DRF-4");
}

#[test]
fn one_node_may_become_several() {
    let world = World::empty()
        .types([sized(1)])
        .pool(on_demand("default"))
        .node(drifted("n", 4, 60).label("type", "gone"))
        .pod(pod("p").cpu("1").on("n").times(3));
    let pass = run(&world, &upstream());
    assert_eq!(pass.commands[0].replacements.len(), 3, "30/DRF-5");
}

#[test]
fn pods_that_must_not_be_moved_get_no_new_place() {
    let bounded = drifted("n", 4, 60)
        .standing(|s| s.termination_grace_period = Some(SignedDuration::from_mins(5)));
    let world = world().node(bounded).pod(pod("p").cpu("3").do_not_disrupt().on("n"));
    let pass = run(&world, &upstream());
    assert_eq!(said(&pass), [(Method::Drift, Decision::Delete, vec!["n"])], "30/DRF-6");
}

#[test]
fn budgets_and_static_pools_hold_drift_back() {
    let none = World::empty().types(sizes()).pool(on_demand("default").budget("0", &[]));
    let pass = run(&none.node(drifted("n", 4, 60)).pod(pod("p").cpu("3").on("n")), &upstream());
    assert_eq!(pass.commands, [], "30/BUD-16");
    let fixed = World::empty().types(sizes()).pool(pool("default").replicas(1));
    let pass = run(&fixed.node(drifted("n", 4, 60)), &upstream());
    assert_eq!(pass.commands, [], "30/DRF-9");
}
