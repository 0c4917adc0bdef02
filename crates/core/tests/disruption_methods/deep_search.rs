//! Tests of the search `deep` (spec 30 §14.4).
//!
//! It replaces several nodes by fewer, and launches replacements in cheap zones only.

use super::*;
use karpenter_core::disruption::{
    Command, FailureClass, ValidatedCommand, ValidationFailure, instance_type_names, validate,
};
use karpenter_core::plan::PlannedNodeClaim;
use karpenter_core::requirement::Requirement;
use karpenter_core::testing::resources;

fn deep() -> Settings {
    Settings { search: SearchMode::Deep, ..Settings::default() }
}

fn priced(name: &str, cpu: u32, price: f64) -> TypeBuilder {
    let one = instance_type(name).cpu(&cpu.to_string()).memory("100Gi").pods("100").no_overhead();
    one.offering(offering("on-demand", ZONE, price)).offering(offering("spot", ZONE, price * 0.9))
}

/// Adds three nodes that each hold two pods of five cpu.
///
/// A taint keeps other pods away.
fn three_half_empty_nodes(of_type: &TypeBuilder, capacity_type: &str, start: World) -> World {
    let built = of_type.clone().build();
    ["a", "b", "c"].iter().fold(start, |world, name| {
        let node = node(name).of_type(&built).label("capacity-type", capacity_type).zone(ZONE);
        let pods = pod(&format!("p{name}")).cpu("5").on_node(name).replicas(2);
        world.node(node.taint("full=yes:NoSchedule")).pod(pods)
    })
}

/// Adds three such nodes at a price of 16 each, of their own type.
///
/// The type fits no third pod, and the NodePool can buy other types.
fn three_nodes_of_own_type(pool: PoolBuilder, others: &[TypeBuilder]) -> World {
    let own = priced("own", 14, 16.0);
    let types = others.iter().cloned().chain([own.clone()]);
    three_half_empty_nodes(&own, "on-demand", World::empty().types(types).pool(pool))
}

fn claims(command: &Command) -> Vec<&PlannedNodeClaim> {
    command.replacements.iter().filter_map(|one| one.planned()).collect()
}

fn names(world: &World, command: &Command) -> Vec<BTreeSet<String>> {
    let names =
        |claim: &&PlannedNodeClaim| instance_type_names(&world.snapshot, &world.catalog, claim);
    claims(command).iter().map(names).collect()
}

fn savings(pass: &PassOutcome) -> f64 {
    pass.commands.iter().map(|one| one.savings).sum()
}

fn validate_command(
    world: &World,
    command: &Command,
    types: &[BTreeSet<String>],
) -> Result<ValidatedCommand, ValidationFailure> {
    let settings = deep();
    let context = PassContext::new(&world.snapshot, &world.catalog, &settings, now());
    validate(&context, command, types, &mut Fuel::unlimited())
}

#[test]
fn three_half_empty_nodes_become_two_smaller_ones() {
    let large = priced("t16", 16, 16.0);
    let start = World::empty().types([large.clone(), priced("t15", 15, 10.0)]);
    let world = three_half_empty_nodes(&large, "on-demand", start.pool(on_demand("default")));
    let best = run(&world, &Settings::default());
    assert_eq!((best.commands.len(), savings(&best)), (3, 18.0), "each for a smaller one");
    let pass = run(&world, &deep());
    let expected = [(Method::MultiNode, Decision::Replace, vec!["a", "b", "c"])];
    assert_eq!(command_summaries(&pass), expected, "30/INV-4");
    assert_eq!(savings(&pass), 28.0);
    let each = BTreeSet::from(["t15".to_owned()]);
    assert_eq!(names(&world, &pass.commands[0]), [each.clone(), each], "none of their own type");
    let text = "Underutilized/id: replace: nodepools=[default]: [a, b, c] -> [2 replacements] \
                (savings: $28.00)";
    assert_eq!(pass.commands[0].describe("id"), text);
}

#[test]
fn nodes_are_not_replaced_by_fewer_of_their_own_type() {
    let large = priced("t16", 16, 16.0);
    let start = World::empty().types([large.clone()]).pool(on_demand("default"));
    assert_eq!(
        command_summaries(&run(&three_half_empty_nodes(&large, "on-demand", start), &deep())),
        []
    );
}

#[test]
fn replacements_together_cost_less_whichever_types_launch() {
    let cases = [(23.0, &["t15", "u15"][..]), (25.0, &["t15"]), (47.0, &["t15"])];
    for (price, expected) in cases {
        let others = [priced("t15", 15, 10.0), priced("u15", 15, price)];
        let world = three_nodes_of_own_type(on_demand("default"), &others);
        let pass = run(&world, &deep());
        let expected: BTreeSet<_> = expected.iter().map(|&name| name.to_owned()).collect();
        let got = names(&world, &pass.commands[0]);
        assert_eq!(got, [expected.clone(), expected], "30/INV-4: {price} beside 10 for 48");
    }
    let world = three_nodes_of_own_type(on_demand("default"), &[priced("t15", 15, 24.0)]);
    assert_eq!(command_summaries(&run(&world, &deep())), [], "30/INV-4: for the same price");
}

#[test]
fn min_values_hold_for_each_of_several_replacements() {
    for (price, commands) in [(23.0, 1), (25.0, 0)] {
        let pool = on_demand("default").require_min("type", Operator::Exists, &[], 2);
        let others = [priced("t15", 15, 10.0), priced("u15", 15, price)];
        let pass = run(&three_nodes_of_own_type(pool, &others), &deep());
        assert_eq!(command_summaries(&pass).len(), commands, "30/INV-6: {price}");
    }
}

#[test]
fn spot_nodes_become_fewer_spot_nodes_only_with_the_feature_gate() {
    let own = priced("own", 14, 16.0);
    let pool = pool("default").require("capacity-type", Operator::In, &["spot"]);
    let start = World::empty().types([own.clone(), priced("t15", 15, 10.0)]).pool(pool);
    let world = three_half_empty_nodes(&own, "spot", start);
    for (spot_to_spot, commands) in [(false, 0), (true, 1)] {
        let pass = run(&world, &Settings { spot_to_spot, ..deep() });
        assert_eq!(command_summaries(&pass).len(), commands, "30/INV-5: {spot_to_spot}");
    }
}

#[test]
fn validation_checks_several_replacements_again() {
    let world = three_nodes_of_own_type(on_demand("default"), &[priced("t15", 15, 10.0)]);
    let command = run(&world, &deep()).commands.remove(0);
    let types = names(&world, &command);
    assert_eq!(
        validate_command(&world, &command, &types).unwrap().command,
        command,
        "nothing has changed"
    );
    let more = world.clone().pod(pod("late").cpu("1").on_node("a"));
    assert_eq!(
        validate_command(&more, &command, &types).unwrap_err().class,
        FailureClass::Scheduling
    );
    let mut fewer = world.clone();
    let mut number = 0;
    fewer.snapshot.pods.retain(|_| {
        number += 1;
        number % 2 == 0
    });
    assert_eq!(
        validate_command(&fewer, &command, &types).unwrap_err().class,
        FailureClass::Scheduling
    );
    let other = [types[0].clone(), BTreeSet::from(["gone".to_owned()])];
    assert_eq!(
        validate_command(&world, &command, &other).unwrap_err().class,
        FailureClass::Scheduling
    );
}

/// A node for 0.5, and a type that is dearer in its own zone and cheaper in two others.
fn zonal(pool: PoolBuilder, pod: karpenter_core::testing::PodBuilder) -> World {
    let spot = |zone: &str, price| offering("spot", zone, price);
    let types = [
        instance_type("own").on_demand(ZONE, 0.5),
        instance_type("other")
            .offering(spot(ZONE, 1.0))
            .offering(spot("test-zone-2", 0.2))
            .offering(spot("test-zone-3", 0.4)),
    ];
    World::empty()
        .types(types)
        .pool(pool)
        .node(node("n").label("type", "own").label("capacity-type", "on-demand").zone(ZONE))
        .pod(pod.cpu("3").on_node("n"))
}

fn zones(command: &Command) -> Vec<&str> {
    let zones = claims(command)[0].requirements.get("topology.kubernetes.io/zone");
    zones.into_iter().flat_map(Requirement::values).map(String::as_str).collect()
}

#[test]
fn a_replacement_launches_only_in_cheaper_zones() {
    let world = zonal(pool("default"), pod("p"));
    assert_eq!(command_summaries(&run(&world, &Settings::default())), [], "30/CON-5");
    let pass = run(&world, &deep());
    assert_eq!(command_summaries(&pass), [(Method::SingleNode, Decision::Replace, vec!["n"])]);
    assert_eq!(zones(&pass.commands[0]), ["test-zone-2", "test-zone-3"], "30/INV-4");
    assert_eq!((replacement_types(&world, &pass), savings(&pass)), (vec!["other".to_owned()], 0.3));
    assert_eq!(claims(&pass.commands[0])[0].lowest_price, Some(0.2));
}

#[test]
fn zones_are_narrowed_only_if_pods_and_node_pools_allow_it() {
    let min = pool("default").require_min("zone", Operator::Exists, &[], 2);
    let cases = [
        ("a pod that has to stay", zonal(pool("default"), pod("p").select("zone", ZONE)), None),
        ("minValues of zones", zonal(min, pod("p")), None),
        (
            "a pod of one cheap zone",
            zonal(pool("default"), pod("p").select("zone", "test-zone-3")),
            Some(vec!["test-zone-3"]),
        ),
    ];
    for (case, world, expected) in cases {
        let pass = run(&world, &deep());
        assert_eq!(pass.commands.first().map(zones), expected, "{case}");
    }
}

#[test]
fn types_with_less_capacity_in_some_zones_are_not_narrowed() {
    let mut world = zonal(pool("default"), pod("p"));
    let types = world.types_of("default").to_vec().into_iter().map(|one| {
        let mut one = karpenter_core::catalog::InstanceType::clone(&one);
        if one.name == "other" {
            std::sync::Arc::make_mut(&mut one.offerings)[0].capacity_override =
                resources(&[("cpu", "64")]);
        }
        std::sync::Arc::new(one)
    });
    let types: Vec<_> = types.collect();
    world.catalog.pools.insert("default".to_owned(), types.into());
    assert_eq!(command_summaries(&run(&world, &deep())), []);
}

#[test]
fn validation_checks_a_narrowed_replacement_again() {
    let world = zonal(pool("default"), pod("p"));
    let command = run(&world, &deep()).commands.remove(0);
    let types = names(&world, &command);
    let valid = validate_command(&world, &command, &types).unwrap();
    assert_eq!(zones(&valid.command), ["test-zone-2", "test-zone-3"], "what is launched");
    let tied = world.clone().pod(pod("late").select("zone", ZONE).on_node("n"));
    assert_eq!(
        validate_command(&tied, &command, &types).unwrap_err().class,
        FailureClass::Scheduling
    );
}
