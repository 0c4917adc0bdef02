//! Drifted nodes (spec 30 §6.3).

use karpenter_core::disruption::set_aside;

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

/// Upstream launches for them, and so does its provisioner.
#[test]
fn pods_that_wait_are_left_to_the_provisioner() {
    let world = world()
        .node(drifted("n", 4, 60))
        .pod(pod("p").cpu("4").on("n"))
        .pod(pod("waits").cpu("14"));
    for (search, nodes) in [(Search::Upstream, 2), (Search::Best, 1), (Search::Deep, 1)] {
        let pass = run(&world, &Settings { search, ..Settings::default() });
        assert_eq!(pass.commands.len(), 1, "{search:?}");
        assert_eq!(pass.commands[0].replacements.len(), nodes, "{search:?}");
    }
}

#[test]
fn pods_whose_replacement_is_under_way_need_no_other() {
    let mut world = world()
        .node(drifted("n", 4, 60))
        .node(of("going", 4).deleting())
        .pod(pod("p").cpu("4").on("n"))
        .pod(pod("q").cpu("3").on("going"))
        .pod(pod("elsewhere").cpu("1").on("going"));
    let pods = |world: &World| {
        let pass = run(world, &Settings::default());
        let pods = pass.commands[0].plan.claims[0].pods.iter();
        pods.map(|&pod| world.snapshot.pod(pod).name.clone()).collect::<BTreeSet<_>>()
    };
    assert_eq!(pods(&world), ["elsewhere", "p", "q"].map(str::to_owned).into());
    set_aside(&mut world.snapshot, &["default/q".to_owned()].into());
    assert_eq!(pods(&world), ["elsewhere", "p"].map(str::to_owned).into());
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
