//! Policy Balanced (spec 30 §7).

use super::*;

fn balanced() -> PoolBuilder {
    on_demand("default").policy(ConsolidationPolicy::Balanced)
}

#[test]
fn a_command_needs_savings_that_outweigh_its_disruption() {
    // One node of 4 dollars with one pod that could go, in a pool of such.
    let with = |cost: f64| {
        let world = World::empty().types([sized(4)]).pool(balanced());
        let world = world
            .node(node_of_size("n", 4))
            .pod(pod("p").cpu("1").eviction_cost(cost).on_node("n"));
        let daemon = pod("daemon").cpu("1").owner(OwnerKind::DaemonSet).on_node("n");
        let nodes = (0..3).fold(world.pod(daemon), |world, number| {
            let name = format!("full{number}");
            world.node(node_of_size(&name, 4)).pod(pod(&name).cpu("3").on_node(&name))
        });
        run(&nodes, &upstream())
    };
    let pass = with(1.0);
    assert_eq!(command_summaries(&pass), [(Method::SingleNode, Decision::Delete, vec!["n"])]);
    let score = &pass.commands[0].scores[0];
    // A quarter of the price for two of eight.
    assert_eq!((score.savings_fraction, score.disruption_fraction), (0.25, 0.25));
    let text = "score 1.00 >= threshold 0.50 (k: 2, savings 25.0%, disruption 25.0%)";
    assert_eq!(score.event_text(), text);
    let pass = with(10.0);
    assert_eq!(command_summaries(&pass), [], "eleven of seventeen is too much for a quarter");
    let kept = pass.retained_nodes.iter().find(|kept| kept.node == "n").unwrap();
    assert!(kept.text.starts_with("Savings are not worth the disruption"), "{}", kept.text);
    let scores: Vec<_> = pass.rejected_scores.iter().map(|score| score.score() < 0.5).collect();
    assert!(scores.contains(&true), "{:?}", pass.rejected_scores);
}

#[test]
fn the_only_node_of_a_balanced_node_pool_can_be_removed() {
    let world = World::empty()
        .types([sized(4)])
        .pool(balanced())
        .node(node_of_size("n", 4))
        .node(node("foreign").unmanaged())
        .pod(pod("p").cpu("1").on_node("n"));
    let pass = run(&world, &upstream());
    assert_eq!(command_summaries(&pass).len(), 1, "30/BAL-9");
    assert_eq!(pass.commands[0].scores[0].score(), 1.0, "30/BAL-9");
}

#[test]
fn only_balanced_node_pools_are_scored() {
    let world = World::empty()
        .types([sized(4)])
        .pool(balanced())
        .pool(on_demand("other"))
        .node(node_of_size("a", 4))
        .node(node_of_size("b", 4).pool("other"))
        .node(node("foreign").unmanaged())
        .pod(pod("p").cpu("1").on_node("a"))
        .pod(pod("q").cpu("1").on_node("b"));
    let pass = run(&world, &upstream());
    assert_eq!(command_summaries(&pass), [(Method::MultiNode, Decision::Delete, vec!["a", "b"])]);
    let scores = &pass.commands[0].scores;
    assert_eq!(scores.len(), 1, "30/BAL-10");
    assert_eq!(scores[0].savings_fraction, 1.0, "30/BAL-10: half of eight for four");
}

#[test]
fn the_score_uses_tracked_node_pool_costs() {
    let world = World::empty()
        .types([sized(4)])
        .pool(balanced())
        .node(node_of_size("n", 4))
        .node(node("foreign").unmanaged())
        .pod(pod("p").cpu("1").on_node("n"));
    let pass = run_with(&world, &upstream(), |context| {
        context.pool_costs = [("default".to_owned(), 400.0)].into();
    });
    assert_eq!(command_summaries(&pass), [], "a hundredth of the price for all of the disruption");
}
