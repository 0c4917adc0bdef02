//! Tests of multi-node consolidation: several nodes for at most one (spec 30 §6.6).

use super::*;

#[test]
fn three_large_nodes_become_one_small_one() {
    let world = ["a", "b", "c"].iter().fold(world(), |world, name| {
        world.node(node_of_size(name, 8)).pod(pod(&format!("p{name}")).cpu("7").on_node(name))
    });
    assert_eq!(command_summaries(&run(&world, &upstream())), [], "all are full");
    let world = ["a", "b", "c"].iter().fold(super::world(), |world, name| {
        let small = pod(&format!("p{name}"))
            .cpu("1")
            .on_node(name)
            .pod_anti_affinity(term("hostname").selecting(&[("none", "none")]));
        world.node(node_of_size(name, 8).taint("full=yes:NoSchedule")).pod(small)
    });
    let first = run(&world, &upstream());
    let expected = [(Method::MultiNode, Decision::Replace, vec!["a", "b", "c"])];
    assert_eq!(command_summaries(&first), expected, "30/MUL-1");
    assert_eq!(
        replacement_types(&world, &first),
        ["t4"],
        "30/MUL-1: 8 cpu are too many of their own"
    );
    let best = run(&world, &Settings::default());
    let savings: f64 = best.commands.iter().map(|one| one.savings).sum();
    assert_eq!((first.commands[0].savings, savings), (20.0, 21.0), "each for a small one");
}

#[test]
fn one_candidate_is_left_to_single_node_consolidation() {
    let world = world().node(node_of_size("n", 16)).pod(pod("p").cpu("3").on_node("n"));
    assert_eq!(run(&world, &upstream()).commands[0].method, Method::SingleNode, "30/MUL-7");
}

#[test]
fn the_search_ends_when_its_time_is_used_up() {
    let world = ["a", "b", "c"].iter().fold(world(), |world, name| {
        world.node(node_of_size(name, 8)).pod(pod(&format!("p{name}")).cpu("1").on_node(name))
    });
    let settings = upstream();
    let context = PassContext::new(&world.snapshot, &world.catalog, &settings, now());
    let mut time = SearchFuel { multi: Fuel::after_steps(0), single: Fuel::after_steps(0) };
    let pass = run_pass(&context, Method::Emptiness, &mut time);
    assert_eq!(pass.commands, [], "30/MUL-5");
    assert_eq!(pass.timed_out, [Method::MultiNode, Method::SingleNode], "30/MUL-5, 30/SIN-3");
    assert_eq!(pass.unseen_pools, ["default"], "30/SIN-3");
    assert_eq!(pass.settled, []);
}

#[test]
fn budgets_limit_the_nodes_of_a_multi_node_command() {
    let start = World::empty().types(sizes()).pool(on_demand("default").budget("30%", &[]));
    let world = (0..10).fold(start, |world, number| {
        let name = format!("n{number}");
        world
            .node(node_of_size(&name, 8))
            .pod(pod(&format!("p{number}")).cpu("100m").on_node(&name))
    });
    for settings in [upstream(), Settings::default()] {
        let pass = run(&world, &settings);
        let gone: usize = pass.commands.iter().map(|one| one.candidates.len()).sum();
        assert_eq!(gone, 3, "30/MUL-6");
    }
}

#[test]
fn spot_and_on_demand_nodes_are_consolidated_together() {
    let types = sizes();
    let pool = pool("default").require("capacity-type", Operator::In, &["spot", "on-demand"]);
    let world = World::empty()
        .types(types)
        .pool(pool)
        .node(node_of_size("a", 8).taint("full=yes:NoSchedule"))
        .node(node_of_size("b", 8).taint("full=yes:NoSchedule").label("capacity-type", "spot"))
        .pod(pod("p").cpu("1").on_node("a"))
        .pod(pod("q").cpu("1").on_node("b"));
    let pass = run(&world, &upstream());
    assert_eq!(
        command_summaries(&pass),
        [(Method::MultiNode, Decision::Replace, vec!["a", "b"])],
        "30/MUL-4"
    );
    let claim = pass.commands[0].replacements[0].planned().unwrap();
    let types = claim.requirements.get("karpenter.sh/capacity-type").unwrap();
    assert!(types.has("spot") && !types.has("on-demand"), "a dearer launch has to fail");
}

#[test]
fn multi_node_search_does_not_use_source_types_for_min_values() {
    // t1 alone costs less than the two of t2; minValues ask for two types.
    let pool = on_demand("default").require_min("type", Operator::Exists, &[], 2);
    let world = World::empty()
        .types([sized(1), sized(2)])
        .pool(pool)
        .node(node_of_size("a", 2).taint("full=yes:NoSchedule"))
        .node(node_of_size("b", 2).taint("full=yes:NoSchedule"))
        .pod(pod("p").cpu("400m").on_node("a"))
        .pod(pod("q").cpu("400m").on_node("b"));
    let pass = run(&world, &upstream());
    assert!(command_summaries(&pass).iter().all(|one| one.0 != Method::MultiNode), "30/MUL-3");
}
