//! What the methods decide (spec 30 §2, §4, §5, §6, §7).
#![expect(clippy::float_cmp, reason = "prices here are sums that have no rounding")]

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use karpenter_core::disruption::{
    ConsolidationPolicy, Decision, Method, NoticeKind, Pass, Reason, Search, Settings, Time,
    World as Seen, pass, recheck,
};
use karpenter_core::pod::Owner;
use karpenter_core::requirement::Operator;
use karpenter_core::scheduling::{Fuel, PreferencePolicy};
use karpenter_core::testing::{
    NodeBuilder, PoolBuilder, TypeBuilder, World, instance_type, node, offering, pod, pool,
    reserved, roomy_type, term,
};

#[path = "disruption_methods/balanced.rs"]
mod balanced;
#[path = "disruption_methods/consolidation.rs"]
mod consolidation;
#[path = "disruption_methods/deep.rs"]
mod deep;
#[path = "disruption_methods/devices.rs"]
mod devices;
#[path = "disruption_methods/drift.rs"]
mod drift;
#[path = "disruption_methods/emptiness.rs"]
mod emptiness;
#[path = "disruption_methods/kept.rs"]
mod kept;
#[path = "disruption_methods/multi.rs"]
mod multi;
#[path = "disruption_methods/relapse.rs"]
mod relapse;
#[path = "disruption_methods/reservations.rs"]
mod reservations;
#[path = "disruption_methods/simulation.rs"]
mod simulation;
#[path = "disruption_methods/single.rs"]
mod single;
#[path = "disruption_methods/spot.rs"]
mod spot;
#[path = "disruption_methods/static_drift.rs"]
mod static_drift;
#[path = "disruption_methods/terminate_first.rs"]
mod terminate_first;

const ZONE: &str = "test-zone-1";

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("in range")
}

/// `t<cpu>` with that many cpu at that price, on demand and for a tenth less as spot.
fn sized(cpu: u32) -> TypeBuilder {
    let price = f64::from(cpu);
    roomy_type(cpu).sold(offering("on-demand", ZONE, price)).sold(offering(
        "spot",
        ZONE,
        price * 0.9,
    ))
}

fn sizes() -> Vec<TypeBuilder> {
    [1, 2, 4, 8, 16].map(sized).to_vec()
}

/// A node of one of these types.
fn of(name: &str, cpu: u32) -> NodeBuilder {
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
    Settings { search: Search::Upstream, ..Settings::default() }
}

fn run(world: &World, settings: &Settings) -> Pass {
    run_with(world, settings, |_| ())
}

fn run_with(world: &World, settings: &Settings, change: impl FnOnce(&mut Seen<'_>)) -> Pass {
    let settings = Settings { scheduling: world.options.clone(), ..settings.clone() };
    let mut seen = Seen::new(&world.snapshot, &world.catalog, &settings, now());
    change(&mut seen);
    pass(&seen, Method::Emptiness, &mut Time::unlimited())
}

/// Method, decision and nodes of each command.
fn said(pass: &Pass) -> Vec<(Method, Decision, Vec<&str>)> {
    let all = pass.commands.iter();
    all.map(|one| {
        let mut nodes: Vec<&str> =
            one.candidates.iter().map(|candidate| candidate.name.as_str()).collect();
        nodes.sort_unstable();
        (one.method, one.decision(), nodes)
    })
    .collect()
}

fn texts(pass: &Pass, kind: NoticeKind) -> Vec<&str> {
    pass.notices.iter().filter(|n| n.kind == kind).map(|n| n.text.as_str()).collect()
}

/// Names of the instance types of the only replacement.
fn options(world: &World, pass: &Pass) -> Vec<String> {
    let claim = pass.commands[0].replacements[0].planned().expect("a planned one");
    let types = world.types_of(&world.snapshot.pool(claim.pool).name);
    claim.instance_types.iter().map(|&at| types[at as usize].name.clone()).collect()
}
