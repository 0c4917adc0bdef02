//! Several nodes for one at most (spec 30 §6.6).

use super::*;

#[test]
fn three_large_nodes_become_one_small_one() {
    let world = ["a", "b", "c"].iter().fold(world(), |world, name| {
        world.node(of(name, 8)).pod(pod(&format!("p{name}")).cpu("7").on(name))
    });
    assert_eq!(said(&run(&world, &upstream())), [], "all are full");
    let world = ["a", "b", "c"].iter().fold(super::world(), |world, name| {
        let small = pod(&format!("p{name}"))
            .cpu("1")
            .on(name)
            .away_from(term("hostname").selecting(&[("none", "none")]));
        world.node(of(name, 8).taint("full=yes:NoSchedule")).pod(small)
    });
    let first = run(&world, &upstream());
    let expected = [(Method::MultiNode, Decision::Replace, vec!["a", "b", "c"])];
    assert_eq!(said(&first), expected, "30/MUL-1");
    assert_eq!(options(&world, &first), ["t4"], "30/MUL-1: 8 cpu are too many of their own");
    let best = run(&world, &Settings::default());
    let savings: f64 = best.commands.iter().map(|one| one.savings).sum();
    assert_eq!((first.commands[0].savings, savings), (20.0, 21.0), "each for a small one");
}

#[test]
fn one_candidate_is_left_to_the_single_search() {
    let world = world().node(of("n", 16)).pod(pod("p").cpu("3").on("n"));
    assert_eq!(run(&world, &upstream()).commands[0].method, Method::SingleNode, "30/MUL-7");
}

#[test]
fn time_that_is_over_ends_the_search() {
    let world = ["a", "b", "c"].iter().fold(world(), |world, name| {
        world.node(of(name, 8)).pod(pod(&format!("p{name}")).cpu("1").on(name))
    });
    let settings = upstream();
    let seen = Seen::new(&world.snapshot, &world.catalog, &settings, now());
    let mut time = Time { multi: Fuel::steps(0), single: Fuel::steps(0) };
    let pass = pass(&seen, Method::Emptiness, &mut time);
    assert_eq!(pass.commands, [], "30/MUL-5");
    assert_eq!(pass.timed_out, [Method::MultiNode, Method::SingleNode], "30/MUL-5, 30/SIN-3");
    assert_eq!(pass.unseen_pools, ["default"], "30/SIN-3");
    assert_eq!(pass.settled, []);
}

#[test]
fn budgets_cut_the_set() {
    let start = World::empty().types(sizes()).pool(on_demand("default").budget("30%", &[]));
    let world = (0..10).fold(start, |world, number| {
        let name = format!("n{number}");
        world.node(of(&name, 8)).pod(pod(&format!("p{number}")).cpu("100m").on(&name))
    });
    for settings in [upstream(), Settings::default()] {
        let pass = run(&world, &settings);
        let gone: usize = pass.commands.iter().map(|one| one.candidates.len()).sum();
        assert_eq!(gone, 3, "30/MUL-6");
    }
}

#[test]
fn spot_and_on_demand_nodes_go_together() {
    let types = sizes();
    let pool = pool("default").require("capacity-type", Operator::In, &["spot", "on-demand"]);
    let world = World::empty()
        .types(types)
        .pool(pool)
        .node(of("a", 8).taint("full=yes:NoSchedule"))
        .node(of("b", 8).taint("full=yes:NoSchedule").label("capacity-type", "spot"))
        .pod(pod("p").cpu("1").on("a"))
        .pod(pod("q").cpu("1").on("b"));
    let pass = run(&world, &upstream());
    assert_eq!(said(&pass), [(Method::MultiNode, Decision::Replace, vec!["a", "b"])], "30/MUL-4");
    let claim = pass.commands[0].replacements[0].planned().unwrap();
    let types = claim.requirements.get("karpenter.sh/capacity-type").unwrap();
    assert!(types.has("spot") && !types.has("on-demand"), "a dearer launch has to fail");
}

#[test]
fn a_set_whose_own_types_are_needed_for_min_values_is_left_to_the_single_search() {
    // t1 alone costs less than the two of t2; minValues ask for two types.
    let pool = on_demand("default").require_min("type", Operator::Exists, &[], 2);
    let world = World::empty()
        .types([sized(1), sized(2)])
        .pool(pool)
        .node(of("a", 2).taint("full=yes:NoSchedule"))
        .node(of("b", 2).taint("full=yes:NoSchedule"))
        .pod(pod("p").cpu("400m").on("a"))
        .pod(pod("q").cpu("400m").on("b"));
    let pass = run(&world, &upstream());
    assert!(said(&pass).iter().all(|one| one.0 != Method::MultiNode), "30/MUL-3");
}
