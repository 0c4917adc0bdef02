//! What the methods decide (spec 30 §2, §4, §5, §6, §7).
#![expect(clippy::float_cmp, reason = "prices here are sums that have no rounding")]

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use karpenter_core::disruption::{
    ConsolidationPolicy, Decision, Method, NodeEventKind, PassContext, PassOutcome, Reason,
    SearchFuel, SearchMode, Settings, recheck_candidates, run_pass,
};
use karpenter_core::pod::OwnerKind;
use karpenter_core::requirement::Operator;
use karpenter_core::scheduling::{Fuel, PreferencePolicy};
use karpenter_core::testing::{
    NodeBuilder, PoolBuilder, TypeBuilder, World, cpu_bound_type, instance_type, node, offering,
    pod, pool, reserved, run_verified_pass, term,
};

#[path = "disruption_methods/balanced.rs"]
mod balanced;
#[path = "disruption_methods/consolidation.rs"]
mod consolidation;
#[path = "disruption_methods/deep_search.rs"]
mod deep_search;
#[path = "disruption_methods/devices.rs"]
mod devices;
#[path = "disruption_methods/drift.rs"]
mod drift;
#[path = "disruption_methods/emptiness.rs"]
mod emptiness;
#[path = "disruption_methods/failed_consolidation.rs"]
mod failed_consolidation;
#[path = "disruption_methods/multi_node.rs"]
mod multi_node;
#[path = "disruption_methods/reservations.rs"]
mod reservations;
#[path = "disruption_methods/simulation.rs"]
mod simulation;
#[path = "disruption_methods/single_node.rs"]
mod single_node;
#[path = "disruption_methods/spot_to_spot.rs"]
mod spot_to_spot;
#[path = "disruption_methods/static_drift.rs"]
mod static_drift;
#[path = "disruption_methods/terminate_first.rs"]
mod terminate_first;
#[path = "disruption_methods/unconsolidated_nodes.rs"]
mod unconsolidated_nodes;

const ZONE: &str = "test-zone-1";

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("in range")
}

/// `t<cpu>` with that many cpu at that price, on demand and for a tenth less as spot.
fn sized(cpu: u32) -> TypeBuilder {
    let price = f64::from(cpu);
    cpu_bound_type(cpu).offering(offering("on-demand", ZONE, price)).offering(offering(
        "spot",
        ZONE,
        price * 0.9,
    ))
}

fn sizes() -> Vec<TypeBuilder> {
    [1, 2, 4, 8, 16].map(sized).to_vec()
}

/// Returns an on-demand node of the type [`sized`] with this many cpu.
fn node_of_size(name: &str, cpu: u32) -> NodeBuilder {
    let one = sized(cpu).build();
    node(name).of_type(&one).label("capacity-type", "on-demand").zone(ZONE)
}

fn on_demand(name: &str) -> PoolBuilder {
    pool(name).require("capacity-type", Operator::In, &["on-demand"])
}

fn world() -> World {
    World::empty().types(sizes()).pool(on_demand("default"))
}

fn upstream() -> Settings {
    Settings { search: SearchMode::Upstream, ..Settings::default() }
}

fn run(world: &World, settings: &Settings) -> PassOutcome {
    run_with(world, settings, |_| ())
}

fn run_with(
    world: &World,
    settings: &Settings,
    change: impl FnOnce(&mut PassContext<'_>),
) -> PassOutcome {
    let settings = Settings { scheduling: world.options.clone(), ..settings.clone() };
    let mut context = PassContext::new(&world.snapshot, &world.catalog, &settings, now());
    change(&mut context);
    run_verified_pass(&context, Method::Emptiness)
}

/// Returns method, decision and sorted nodes of each command.
fn command_summaries(pass: &PassOutcome) -> Vec<(Method, Decision, Vec<&str>)> {
    let all = pass.commands.iter();
    all.map(|one| {
        let mut nodes: Vec<&str> =
            one.candidates.iter().map(|candidate| candidate.name.as_str()).collect();
        nodes.sort_unstable();
        (one.method, one.decision(), nodes)
    })
    .collect()
}

fn notice_texts(pass: &PassOutcome, kind: NodeEventKind) -> Vec<&str> {
    pass.node_events.iter().filter(|n| n.kind == kind).map(|n| n.text.as_str()).collect()
}

/// Returns the instance type names of the first command's replacement.
fn replacement_types(world: &World, pass: &PassOutcome) -> Vec<String> {
    let claim = pass.commands[0].replacements[0].planned().expect("a planned one");
    let types = world.types_of(&world.snapshot.pool(claim.pool).name);
    claim.instance_types.iter().map(|&at| types[at as usize].name.clone()).collect()
}
