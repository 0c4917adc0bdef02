//! Limits of NodePools (spec 20 §3.13, cases C26–C30).

use karpenter_core::requirement::Operator::In;
use karpenter_core::testing::{PodBuilder, World, ZONES, node, pod, pool, resources, spread, term};

/// Pods that share no node.
fn apart(name: &str) -> PodBuilder {
    pod(name)
        .label("app", "foo")
        .pod_anti_affinity(term("hostname").selecting(&[("app", "foo")]))
        .cpu("1.5")
}

#[test]
fn a_pool_over_its_limit_gets_no_node() {
    let world = World::empty()
        .pool(pool("default").limit("cpu", "20"))
        .node(node("a").capacity(resources(&[("cpu", "100")])).taint("x:NoSchedule"))
        .pod(pod("web"));
    let outcome = world.solve();
    assert_eq!(
        outcome.rejection("web"),
        "all available instance types exceed limits for nodepool (NodePool=default)",
        "20/C26"
    );
}

#[test]
fn a_node_counts_with_the_largest_type_that_it_may_become() {
    let world =
        World::empty().pool(pool("default").limit("cpu", "3")).pods([apart("a"), apart("b")]);
    let outcome = world.solve();
    assert_eq!(outcome.new_nodes(), 1, "20/C27");
    assert_eq!(outcome.rejected().len(), 1, "20/C27");
}

#[test]
fn nodes_of_earlier_loops_count_against_the_limit() {
    let world = World::empty().pool(pool("default").limit("cpu", "2")).pod(pod("a").cpu("1.75"));
    let first = world.solve();
    assert_eq!(first.rejected(), [""; 0], "20/C28");
    let second = first.resulting_world.pod(pod("b").cpu("1.75")).solve();
    assert_eq!(second.rejected(), ["b"], "20/C28");
    assert_eq!(
        second.rejection("b"),
        "all available instance types exceed limits for nodepool (NodePool=default)",
        "20/C28"
    );
}

#[test]
fn the_nodes_limit_holds_across_loops() {
    let mut world = World::empty().pool(pool("default").limit("nodes", "2"));
    for name in ["a", "b"] {
        let outcome = world.pod(apart(name)).solve();
        assert_eq!(outcome.new_nodes(), 1, "20/C29: {name}");
        world = outcome.resulting_world;
    }
    let outcome = world.pod(apart("c")).solve();
    assert_eq!(
        outcome.rejection("c"),
        "node limits have been exhausted for nodepool (NodePool=default)",
        "20/C29"
    );
}

/// The number is not counted down inside one solve, as upstream has it.
#[test]
fn one_batch_may_exceed_the_nodes_limit() {
    let world = World::empty().pool(pool("default").limit("nodes", "1"));
    let outcome = world.pods([apart("a"), apart("b"), apart("c")]).solve();
    assert_eq!(outcome.new_nodes(), 3, "20/Q10");
}

#[test]
fn a_zone_of_an_exhausted_node_pool_still_counts_for_the_spread() {
    let world = World::empty()
        .pool(pool("two-zones").require("zone", In, &ZONES[..2]))
        .pool(pool("third-zone").require("zone", In, &ZONES[2..]).limit("cpu", "0"))
        .pod(pod("web").replicas(10).zone_spread(1));
    let outcome = world.solve();
    assert_eq!(
        outcome.pods_by_label("zone", "web"),
        [(ZONES[0], 1), (ZONES[1], 1)].into(),
        "20/C30"
    );
    assert_eq!(outcome.rejected().len(), 8, "20/C30");
    let easier = World::empty().pool(pool("two-zones").require("zone", In, &ZONES[..2]));
    let outcome = easier.pod(pod("web").replicas(10).spread(spread("zone", 1))).solve();
    assert_eq!(outcome.skew("zone", "web"), [5, 5], "20/C30: without the pool");
}

#[test]
fn the_rejection_names_every_node_pool_in_trial_order() {
    let world = World::empty()
        .pool(pool("a").limit("cpu", "0"))
        .pool(pool("b").limit("nodes", "0").weight(10))
        .pod(pod("web"));
    assert_eq!(
        world.solve().rejection("web"),
        "node limits have been exhausted for nodepool (NodePool=b); \
         all available instance types exceed limits for nodepool (NodePool=a)"
    );
}
