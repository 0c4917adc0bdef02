//! Tests of savings of commands, their messages, and scores of policy Balanced (spec 30 §7, §12).
#![expect(clippy::float_cmp, reason = "prices here are sums that have no rounding")]

use jiff::Timestamp;
use karpenter_core::disruption::{
    ConsolidationPolicy, Decision, FailureClass, Method, PassContext, PassOutcome, SearchMode,
    Settings, apply_command, instance_type_names, validate,
};
use karpenter_core::pod::OwnerKind;
use karpenter_core::requirement::Operator;
use karpenter_core::scheduling::Fuel;
use karpenter_core::testing::{
    NodeBuilder, PoolBuilder, TypeBuilder, World, instance_type, local_volume, node, offering, pod,
    pool, run_verified_pass, volume_claim,
};

const ZONE: &str = "test-zone-1";

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("in range")
}

fn type_with_cpu(name: &str, cpu: &str) -> TypeBuilder {
    instance_type(name).cpu(cpu).memory("100Gi").pods("100").no_overhead()
}

fn node_of_type(name: &str, of_type: &TypeBuilder) -> NodeBuilder {
    let built = of_type.clone().build();
    node(name).of_type(&built).label("capacity-type", "on-demand").zone(ZONE)
}

fn on_demand() -> PoolBuilder {
    pool("default").require("capacity-type", Operator::In, &["on-demand"])
}

fn pass_outcome(world: &World) -> PassOutcome {
    pass_outcome_with_pool_costs(world, &[])
}

/// Runs a pass with tracked costs of NodePools.
fn pass_outcome_with_pool_costs(world: &World, costs: &[(&str, f64)]) -> PassOutcome {
    let settings = Settings { search: SearchMode::Upstream, ..Settings::default() };
    let mut context = PassContext::new(&world.snapshot, &world.catalog, &settings, now());
    context.pool_costs = costs.iter().map(|&(pool, cost)| (pool.to_owned(), cost)).collect();
    run_verified_pass(&context, Method::Emptiness)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn savings_subtract_the_price_of_all_replacements() {
    let own = type_with_cpu("own", "4").on_demand(ZONE, 0.5);
    let (x, y) = (
        type_with_cpu("x", "1").on_demand(ZONE, 0.2),
        type_with_cpu("y", "1").on_demand(ZONE, 0.15),
    );
    let node = node_of_type("n", &own).disruption_state(|s| {
        s.drifted_at = Some(now());
        s.is_consolidatable = false;
    });
    let world = World::empty()
        .types([x, y])
        .pool(on_demand())
        .node(node.label("type", "gone"))
        .pod(pod("a").cpu("900m").select("type", "x").on_node("n"))
        .pod(pod("b").cpu("900m").select("type", "y").on_node("n"));
    let pass = pass_outcome(&world);
    let command = &pass.commands[0];
    assert_eq!((command.method, command.replacements.len()), (Method::Drift, 2));
    assert!(close(command.savings, -0.35), "an unknown source costs nothing: 30/IF-8");
    let mut known = world.clone();
    let types: Vec<_> = [
        type_with_cpu("x", "1").on_demand(ZONE, 0.2),
        type_with_cpu("y", "1").on_demand(ZONE, 0.15),
    ]
    .into_iter()
    .chain([own])
    .map(|one| std::sync::Arc::new(one.build()))
    .collect();
    known.catalog.pools.insert("default".to_owned(), types.into());
    let label = "node.kubernetes.io/instance-type".to_owned();
    known.snapshot.nodes[0].labels.insert(label, "own".to_owned());
    assert!(close(pass_outcome(&known).commands[0].savings, 0.15), "30/IF-7");
}

#[test]
fn a_command_describes_its_pods_and_nodes() {
    let large = type_with_cpu("large", "16").on_demand(ZONE, 16.0);
    let small = type_with_cpu("small", "4").on_demand(ZONE, 3.0);
    let world = World::empty()
        .types([large.clone(), small])
        .pool(on_demand())
        .node(node_of_type("a", &large).taint("full=yes:NoSchedule"))
        .node(node_of_type("b", &large).taint("full=yes:NoSchedule"))
        .pod(pod("three").cpu("500m").on_node("a").replicas(3))
        .pod(pod("two").cpu("500m").on_node("b").replicas(2))
        .pod(pod("daemon").owner(OwnerKind::DaemonSet).tolerate_all("").on_node("b"));
    let pass = pass_outcome(&world);
    let command = &pass.commands[0];
    assert_eq!(command.pod_count(), 5, "30/IF-6");
    let text = "Underutilized/id: replace: nodepools=[default]: [b, a] -> [1 replacement] \
                (savings: $29.00)";
    assert_eq!(command.describe("id"), text);
    let text = "replace: [a] (part of 2-node consolidation)";
    assert_eq!(command.describe_for_node("a"), text);
    let mut alone = command.clone();
    alone.candidates.truncate(1);
    assert_eq!(alone.describe_for_node("b"), "replace: [b] -> [1 replacement]");
    alone.replacements.clear();
    assert_eq!(alone.describe_for_node("b"), "delete: [b]");
    alone.candidates.clear();
    assert_eq!(alone.decision(), Decision::NoOp);
    assert_eq!((alone.source_price(), alone.pod_count()), (0.0, 0), "30/IF-8");
}

#[test]
fn savings_use_the_launch_price_of_the_replacement_options() {
    let large = type_with_cpu("large", "16").on_demand(ZONE, 16.0);
    let other_zone = offering("on-demand", "test-zone-2", 0.5);
    let mut gone = offering("on-demand", ZONE, 0.25);
    gone.available = false;
    let small = type_with_cpu("small", "4")
        .on_demand(ZONE, 3.0)
        .offering(offering("spot", ZONE, 1.0))
        .offering(other_zone)
        .offering(gone);
    let world = World::empty()
        .types([large.clone(), small])
        .pool(on_demand().policy(ConsolidationPolicy::Balanced))
        .node(node_of_type("n", &large))
        .pod(pod("p").cpu("1").select("zone", ZONE).on_node("n"));
    let pass = pass_outcome(&world);
    assert_eq!(pass.commands[0].savings, 13.0, "30/BAL-12, 30/BAL-13");
    assert_eq!(pass.commands[0].scores[0].savings_fraction, 13.0 / 16.0, "30/BAL-12");
}

#[test]
fn one_node_pool_below_its_threshold_rejects_the_command() {
    let large = type_with_cpu("large", "4").on_demand(ZONE, 4.0);
    let balanced = |name: &str| on_demand().named(name).policy(ConsolidationPolicy::Balanced);
    let with = |cost: f64| {
        let start = World::empty()
            .types([large.clone()])
            .pool(balanced("default"))
            .pool(balanced("other"))
            .node(node_of_type("a", &large))
            .node(node_of_type("b", &large).pool("other"))
            .node(node_of_type("full", &large).pool("other"))
            .node(node("foreign").unmanaged())
            .pod(pod("p").cpu("1").on_node("a"))
            .pod(pod("q").cpu("1").eviction_cost(cost).on_node("b"));
        let world = start.pod(pod("r").cpu("4").do_not_disrupt().on_node("full"));
        pass_outcome_with_pool_costs(&world, &[("other", 10.0)])
    };
    let approved = with(1.0);
    assert_eq!(approved.commands[0].candidates.len(), 2);
    assert_eq!(approved.commands[0].scores.len(), 2, "30/BAL-11");
    let rejected = with(10.0);
    let names: Vec<_> = rejected.commands[0].candidates.iter().map(|one| &one.name).collect();
    assert_eq!(names, ["a"], "30/BAL-11: not both");
}

#[test]
fn blocked_or_well_packed_nodes_are_not_scored() {
    let small = type_with_cpu("small", "4").on_demand(ZONE, 4.0);
    let balanced = || on_demand().policy(ConsolidationPolicy::Balanced);
    let with = |pool: PoolBuilder, cpu: &str| {
        let world = World::empty().types([small.clone()]).pool(pool);
        let world = world
            .node(node_of_type("n", &small))
            .node(node("foreign").unmanaged().resource("cpu", "2"));
        pass_outcome(&world.pod(pod("p").cpu(cpu).on_node("n")))
    };
    assert_eq!(with(balanced().budget("0%", &[]), "1").commands, [], "30/BAL-14");
    assert_eq!(with(balanced(), "3").commands, [], "30/BAL-15");
    assert_eq!(with(balanced(), "1").commands.len(), 1);
}

#[test]
fn prices_that_are_not_a_number_count_as_zero() {
    let strange = type_with_cpu("strange", "4").on_demand(ZONE, f64::NAN);
    let world = World::empty()
        .types([strange.clone()])
        .pool(on_demand().policy(ConsolidationPolicy::Balanced))
        .node(node_of_type("n", &strange))
        .node(node("foreign").unmanaged())
        .pod(pod("p").cpu("1").on_node("n"));
    let pass = pass_outcome(&world);
    // A pool that costs nothing has nothing to save.
    assert_eq!(pass.commands, [], "30/BAL-8");
    assert!(!pass.retained_nodes.iter().any(|kept| kept.text.contains("NaN")), "30/BAL-8");
}

#[test]
fn a_local_volume_does_not_bind_its_pod_to_the_node() {
    let large = type_with_cpu("large", "16").on_demand(ZONE, 16.0);
    let small = type_with_cpu("small", "4").on_demand(ZONE, 3.0);
    let world = World::empty()
        .types([large.clone(), small])
        .pool(on_demand())
        .node(node_of_type("n", &large))
        .volume_claim("data", volume_claim("pv", ""))
        .persistent_volume("pv", local_volume("n"))
        .pod(pod("p").cpu("1").owner(OwnerKind::StatefulSet).mount("data").on_node("n"));
    let pass = pass_outcome(&world);
    assert_eq!(pass.commands[0].decision(), Decision::Replace, "30/SIM-6");
}

#[test]
fn a_command_is_invalid_once_its_node_is_deleting() {
    let large = type_with_cpu("large", "16").on_demand(ZONE, 16.0);
    let small = type_with_cpu("small", "4").on_demand(ZONE, 3.0);
    let mut world = World::empty()
        .types([large.clone(), small])
        .pool(on_demand())
        .node(node_of_type("n", &large))
        .pod(pod("p").cpu("1").on_node("n"));
    let command = pass_outcome(&world).commands.remove(0);
    let claim = command.replacements[0].planned().unwrap();
    let types = [instance_type_names(&world.snapshot, &world.catalog, claim)];
    let check = |world: &World| {
        let settings = Settings::default();
        let context = PassContext::new(&world.snapshot, &world.catalog, &settings, now());
        validate(&context, &command, &types, &mut Fuel::unlimited())
    };
    assert_eq!(check(&world).unwrap().command, command);
    world.snapshot.nodes[0].is_deleting = true;
    let invalid = check(&world).unwrap_err();
    assert_eq!(invalid.class, FailureClass::Churn, "30/SIM-5");
    assert_eq!(invalid.class.name(), "churn");
}

#[test]
fn validation_refreshes_a_command_for_the_current_node_pools() {
    let large = type_with_cpu("large", "16").on_demand(ZONE, 16.0);
    let small = type_with_cpu("small", "4").on_demand(ZONE, 3.0);
    let with = |pools: Vec<PoolBuilder>| {
        let world = World::empty().types([large.clone(), small.clone()]);
        let world = pools.into_iter().fold(world, World::pool);
        world.node(node_of_type("n", &large)).pod(pod("p").cpu("1").on_node("n"))
    };
    let other = || pool("a-pool-that-goes").taint("no=pods:NoSchedule");
    let before = with(vec![other(), on_demand()]);
    let command = pass_outcome(&before).commands.remove(0);
    let claim = command.replacements[0].planned().unwrap();
    let types = [instance_type_names(&before.snapshot, &before.catalog, claim)];
    let mut now_there = with(vec![on_demand()]);
    let settings = Settings::default();
    let context = PassContext::new(&now_there.snapshot, &now_there.catalog, &settings, now());
    let valid = validate(&context, &command, &types, &mut Fuel::unlimited()).unwrap();
    let again = valid.refreshed.replacements[0].planned().unwrap();
    assert_eq!(instance_type_names(&now_there.snapshot, &now_there.catalog, again), types[0]);
    apply_command(&mut now_there.snapshot, &now_there.catalog, &valid.refreshed);
    let pools: Vec<_> = now_there.snapshot.nodes.iter().map(|node| node.pool.clone()).collect();
    assert_eq!(pools, [Some("default".to_owned()), Some("default".to_owned())]);
}
