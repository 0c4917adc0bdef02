//! Random small worlds. Every feature is drawn on its own and absent more often than not, so that a
//! failing world shrinks to the features that matter.

use std::fmt;

use jiff::Timestamp;
use karpenter_core::catalog::Offering;
use karpenter_core::requirement::Operator::{self, DoesNotExist, Exists, Gt, In, Lt, NotIn};
use karpenter_core::scheduling::{MinValuesPolicy, Options, PreferencePolicy, ReservedMode};
use karpenter_core::snapshot::{Pool, Service};
use karpenter_core::testing::{
    NodeBuilder, PodBuilder, PoolBuilder, Spread, Term, TypeBuilder, World, allowed_zones, claim,
    instance_type, key, label_selector, node, offering, pod, pool, requirement, reserved, spread,
    storage_class, term, volume,
};
use proptest::prelude::*;
use proptest::{collection, option, sample};

const ZONES: [&str; 3] = ["a", "b", "c"];
const RACKS: [&str; 3] = ["r1", "r2", "r3"];
const APPS: [&str; 3] = ["web", "db", "job"];
const CSI: &str = "csi.test";
const CLAIMS: usize = 4;
/// What most random parts are: absent.
const RARE: f64 = 0.2;

/// A world that prints itself in lines.
#[derive(Clone)]
pub(crate) struct Scene(pub(crate) World);

impl fmt::Debug for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{}", self.0)
    }
}

/// The values of labels that nodes of a tidy world have at least.
const LABELS: [(&str, &str); 5] =
    [("zone", "a"), ("rack", "r1"), ("type", "type-0"), ("integer", "2"), ("nodepool", "none")];

/// A world that solves in milliseconds, where every node has, and every pool defines, each label
/// that pods may ask for.
///
/// Where a label is missing, plans break rules as upstream's do: what contradicts itself on a key
/// becomes "the label must not exist", and a node without the label is taken for a match.
pub(crate) fn scene() -> impl Strategy<Value = Scene> {
    wild_scene().prop_map(|Scene(mut world)| {
        for node in &mut world.snapshot.nodes {
            for (short, value) in LABELS {
                node.labels.entry(key(short).to_owned()).or_insert_with(|| value.to_owned());
            }
            if let Some(object) = &mut node.object {
                object.labels.clone_from(&node.labels);
            }
        }
        world.snapshot.pools.iter_mut().for_each(with_rack);
        Scene(world)
    })
}

/// Lets the nodes of a pool have a rack: its label, or one of those that it allows, or any.
fn with_rack(pool: &mut Pool) {
    let racks = requirement("rack", In, &RACKS);
    let allowed = pool.requirements.get("rack").map(|own| own.intersection(&racks));
    let allowed = allowed.filter(|allowed| !allowed.is_empty()).unwrap_or(racks);
    pool.labels.retain(|_, rack| allowed.has(rack));
    let others = pool.requirements.iter().filter(|own| own.key() != "rack").cloned();
    pool.requirements = others.chain([allowed]).collect();
}

/// A world that solves in milliseconds, with nodes that may lack any label.
pub(crate) fn wild_scene() -> impl Strategy<Value = Scene> {
    let parts = (
        collection::vec(any_type(), 1..5),
        collection::vec(any_pool(), 0..4),
        collection::vec(any_node(), 0..4),
        collection::vec(any_pod(), 1..7),
        collection::vec(any_daemon(), 0..3),
        collection::vec(any_volume(), CLAIMS),
        any_options(),
        option::weighted(RARE, sample::select(&APPS[..])),
    );
    parts.prop_map(|(types, pools, nodes, pods, daemons, volumes, options, service)| {
        let mut world = World::empty().types(named(types, "type", TypeBuilder::named));
        world = named(pools, "pool", PoolBuilder::named).into_iter().fold(world, World::pool);
        world = named(nodes, "node", NodeBuilder::named).into_iter().fold(world, World::node);
        for (number, volume) in volumes.into_iter().enumerate() {
            world = with_claim(world, number, volume);
        }
        for (number, daemon) in daemons.into_iter().enumerate() {
            world = world.daemon(&daemon.named(&format!("daemon-{number}")));
        }
        let node_count = world.snapshot.nodes.len();
        for (number, (pod, home)) in pods.into_iter().enumerate() {
            let pod = pod.named(&format!("pod-{number}"));
            let home = home.filter(|_| node_count > 0).map(|home| home % node_count);
            world = world.pod(match home {
                Some(home) => pod.on(&format!("node-{home}")),
                None => pod,
            });
        }
        for namespace in ["default", "other"] {
            world.snapshot.namespaces.insert(namespace.to_owned(), [].into());
        }
        world.snapshot.services.extend(service.map(|app| Service {
            namespace: "default".to_owned(),
            name: "service".to_owned(),
            selector: Some(label_selector(&[("app", app)]).labels),
        }));
        world.options = options;
        Scene(world)
    })
}

fn named<T>(list: Vec<T>, kind: &str, name: impl Fn(T, &str) -> T) -> Vec<T> {
    let numbered = list.into_iter().enumerate();
    numbered.map(|(number, one)| name(one, &format!("{kind}-{number}"))).collect()
}

/// Some values of a key, with any operator that suits it.
fn expression() -> impl Strategy<Value = (&'static str, Operator, Vec<&'static str>)> {
    let values = |all: &'static [&'static str]| sample::subsequence(all, 1..=all.len());
    let textual = sample::select(&[In, In, In, NotIn, Exists, DoesNotExist][..]);
    let keyed = prop_oneof![
        3 => values(&ZONES).prop_map(|values| ("zone", values)),
        2 => values(&RACKS).prop_map(|values| ("rack", values)),
        1 => values(&["amd64", "arm64"]).prop_map(|values| ("arch", values)),
        1 => values(&["spot", "on-demand", "reserved"]).prop_map(|values| ("capacity-type", values)),
        1 => values(&["type-0", "type-1", "type-2", "nowhere"]).prop_map(|values| ("type", values)),
        1 => values(&["pool-0", "pool-1"]).prop_map(|values| ("nodepool", values)),
    ];
    let textual = (keyed, textual).prop_map(|((key, values), operator)| {
        let has_values = matches!(operator, In | NotIn);
        (key, operator, if has_values { values } else { Vec::new() })
    });
    let bound = (sample::select(&[Gt, Lt][..]), sample::select(&["1", "3", "9"][..]))
        .prop_map(|(operator, bound)| ("integer", operator, vec![bound]));
    prop_oneof![9 => textual, 1 => bound]
}

fn any_pool() -> impl Strategy<Value = PoolBuilder> {
    let parts = (
        option::weighted(RARE, 1..3_i32),
        collection::vec(expression(), 0..2),
        option::weighted(RARE, sample::select(&RACKS[..])),
        option::weighted(RARE, sample::select(&TAINTS[..])),
        option::weighted(RARE, sample::select(&["0", "4", "20"][..])),
        option::weighted(0.1, sample::select(&["0", "1", "2"][..])),
        option::weighted(RARE, (sample::select(&["type", "zone"][..]), 1..4_u32)),
        option::weighted(0.1, Just(60_i64)),
    );
    parts.prop_map(|(weight, requirements, rack, taint, cpu, nodes, min_values, wait)| {
        let mut built = pool("");
        if let Some(weight) = weight {
            built = built.weight(weight);
        }
        for (key, operator, values) in &requirements {
            // The name of a pool is its own, and not for its template to say.
            if *key != "nodepool" {
                built = built.require(key, *operator, values);
            }
        }
        if let Some(rack) = rack {
            built = built.label("rack", rack);
        }
        if let Some(taint) = taint {
            built = built.taint(taint);
        }
        if let Some(cpu) = cpu {
            built = built.limit("cpu", cpu);
        }
        if let Some(nodes) = nodes {
            built = built.limit("nodes", nodes);
        }
        if let Some((key, count)) = min_values {
            built = built.require_min(key, Exists, &[], count);
        }
        match wait {
            Some(seconds) => built.consolidate_after(seconds),
            None => built,
        }
    })
}

const TAINTS: [&str; 3] = ["team=x:NoSchedule", "team=y:NoExecute", "mild=z:PreferNoSchedule"];

fn any_type() -> impl Strategy<Value = TypeBuilder> {
    let sold = (
        sample::select(&ZONES[..]),
        sample::select(&["spot", "on-demand"][..]),
        1..5_u8,
        prop::bool::weighted(0.9),
    );
    let kept = (sample::select(&ZONES[..]), sample::select(&["r-1", "r-2"][..]), 0..3_u32);
    let parts = (
        sample::select(&["1", "2", "4", "8"][..]),
        sample::select(&["2Gi", "4Gi", "16Gi"][..]),
        sample::select(&["2", "5", "50"][..]),
        sample::select(&["amd64", "amd64", "arm64"][..]),
        collection::vec(sold, 1..5),
        option::weighted(RARE, kept),
        option::weighted(RARE, 0..3_u32),
        option::weighted(0.1, Just("2")),
    );
    parts.prop_map(|(cpu, memory, pods, arch, sold, kept, limit, devices)| {
        let mut built = instance_type("").cpu(cpu).memory(memory).pods(pods).arch(arch);
        for (zone, capacity_type, price, available) in sold {
            let offering = offering(capacity_type, zone, f64::from(price) / 10.0);
            built = built.sold(Offering { available, ..offering });
        }
        if let Some((zone, id, left)) = kept {
            built = built.sold(reserved(id, zone, left));
        }
        if let Some(limit) = limit {
            built = built.volume_limit(CSI, limit);
        }
        match devices {
            Some(count) => built.has("example.com/device", count),
            None => built,
        }
    })
}

fn any_node() -> impl Strategy<Value = NodeBuilder> {
    let parts = (
        sample::select(&["pool-0", "pool-0", "pool-1", ""][..]),
        option::weighted(0.8, sample::select(&ZONES[..])),
        option::weighted(0.4, sample::select(&RACKS[..])),
        sample::select(&["1", "4", "16"][..]),
        option::weighted(RARE, sample::select(&TAINTS[..])),
        sample::select(&["ready", "ready", "ready", "starting", "in-flight", "deleting"][..]),
        option::weighted(RARE, option::of(0..3_u32)),
        prop::bool::weighted(0.1),
        option::weighted(RARE, sample::select(&["type-0", "type-1"][..])),
        option::weighted(RARE, 0..120_i64),
    );
    parts.prop_map(|(of, zone, rack, cpu, taint, state, driver, nameless, of_type, event)| {
        let mut built = node("");
        built = if of.is_empty() { built.unmanaged() } else { built.pool(of) };
        built = built.has("cpu", cpu).label("capacity-type", "spot").label("arch", "amd64");
        for (key, value) in [("zone", zone), ("rack", rack), ("type", of_type)] {
            if let Some(value) = value {
                built = built.label(key, value);
            }
        }
        if let Some(taint) = taint {
            built = built.taint(taint);
        }
        if let Some(count) = driver {
            built = built.driver(CSI, count);
        }
        if nameless {
            built = built.no_label("hostname");
        }
        built = built.times(event.map(|_| 0), event);
        match state {
            "starting" => built.starting(),
            "in-flight" => built.in_flight(),
            "deleting" => built.deleting(),
            _ => built,
        }
    })
}

/// What a claim leads to: zones of its volume or class, and whether it is bound.
fn any_volume() -> impl Strategy<Value = (Vec<&'static str>, bool)> {
    (sample::subsequence(&ZONES[..], 0..3), any::<bool>())
}

fn with_claim(world: World, number: usize, (zones, bound): (Vec<&str>, bool)) -> World {
    let name = format!("claim-{number}");
    if bound {
        return world.volume(&name, volume(CSI, &zones)).claim(&name, claim(&name, ""));
    }
    let class = if zones.is_empty() { storage_class(CSI) } else { allowed_zones(CSI, &zones) };
    world.class(&name, class).claim(&name, claim("", &name))
}

fn any_daemon() -> impl Strategy<Value = PodBuilder> {
    let parts = (
        sample::select(&["100m", "500m", "2"][..]),
        collection::vec(expression(), 0..3),
        option::weighted(RARE, sample::select(&[80, 81][..])),
        prop::bool::weighted(0.3),
    );
    parts.prop_map(|(cpu, terms, port, tolerant)| {
        let mut built = pod("").cpu(cpu).memory("10Mi");
        for (key, operator, values) in &terms {
            built = built.or_require(key, *operator, values);
        }
        if let Some(port) = port {
            built = built.host_port(port);
        }
        if tolerant { built.tolerate_all("") } else { built }
    })
}

/// A pod, and where it runs already, if anywhere.
fn any_pod() -> impl Strategy<Value = (PodBuilder, Option<usize>)> {
    let size = (
        sample::select(&["0", "100m", "500m", "1", "3", "7"][..]),
        sample::select(&["0", "100Mi", "1Gi"][..]),
        1..5_usize,
        option::weighted(0.1, Just("1")),
    );
    let who = (sample::select(&APPS[..]), prop::bool::weighted(0.1), 0..3_i64);
    let nodes = (
        option::weighted(RARE, expression()),
        collection::vec(expression(), 0..3),
        collection::vec((1..3_i32, expression()), 0..2),
        option::weighted(RARE, sample::select(&TAINTS[..])),
    );
    let pods = (
        collection::vec(any_spread(), 0..2),
        option::weighted(RARE, any_term()),
        option::weighted(RARE, any_term()),
        option::weighted(RARE, (1..3_i32, any_term())),
        option::weighted(RARE, (1..3_i32, any_term())),
    );
    let rest = (
        option::weighted(RARE, sample::select(&[80, 81][..])),
        option::weighted(RARE, 0..CLAIMS),
        option::weighted(0.1, 0..CLAIMS),
        option::weighted(RARE, any::<usize>()),
    );
    (size, who, nodes, pods, rest).prop_map(|(size, who, nodes, pods, rest)| {
        let (cpu, memory, replicas, devices) = size;
        let (app, elsewhere, age) = who;
        let mut built = pod("").label("app", app).later(age).times(replicas);
        if cpu != "0" {
            built = built.cpu(cpu);
        }
        if memory != "0" {
            built = built.memory(memory);
        }
        if let Some(count) = devices {
            built = built.request("example.com/device", count);
        }
        if elsewhere {
            built = built.namespace("other");
        }
        let (port, first, second, home) = rest;
        if let Some(port) = port {
            built = built.host_port(port);
        }
        // The claims are those of namespace `default`.
        for claim in first.into_iter().chain(second).filter(|_| !elsewhere) {
            built = built.mount(&format!("claim-{claim}"));
        }
        (with_neighbours(with_nodes(built, nodes), pods), home)
    })
}

type Expression = (&'static str, Operator, Vec<&'static str>);
type Nodes = (Option<Expression>, Vec<Expression>, Vec<(i32, Expression)>, Option<&'static str>);

fn with_nodes(mut built: PodBuilder, (first, terms, preferred, taint): Nodes) -> PodBuilder {
    if let Some((key, operator, values)) = first.filter(|(_, operator, _)| *operator == In) {
        let _ = operator;
        built = built.select(key, values[0]);
    }
    for (key, operator, values) in &terms {
        built = built.or_require(key, *operator, values);
    }
    for (weight, (key, operator, values)) in &preferred {
        built = built.prefer(*weight, key, *operator, values);
    }
    match taint {
        Some(taint) => built.tolerate(taint),
        None => built,
    }
}

type Pods = (Vec<Spread>, Option<Term>, Option<Term>, Option<(i32, Term)>, Option<(i32, Term)>);

fn with_neighbours(
    mut built: PodBuilder,
    (spreads, near, away, likes, dislikes): Pods,
) -> PodBuilder {
    built = spreads.into_iter().fold(built, PodBuilder::spread);
    built = near.into_iter().fold(built, PodBuilder::near);
    built = away.into_iter().fold(built, PodBuilder::away_from);
    if let Some((weight, term)) = likes {
        built = built.prefer_near(weight, term);
    }
    match dislikes {
        Some((weight, term)) => built.prefer_away_from(weight, term),
        None => built,
    }
}

const DOMAINS: [&str; 5] = ["zone", "hostname", "hostname", "rack", "capacity-type"];

fn any_spread() -> impl Strategy<Value = Spread> {
    let parts = (
        sample::select(&DOMAINS[..]),
        1..3_i32,
        option::weighted(0.3, sample::select(&APPS[..])),
        prop::bool::weighted(0.3),
        option::weighted(RARE, 1..4_i32),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.2),
    );
    parts.prop_map(|(key, skew, other, soft, domains, ignores_affinity, honors_taints)| {
        let mut built = spread(key, skew);
        if let Some(app) = other {
            built = built.selecting(&[("app", app)]);
        }
        if soft {
            built = built.anyway();
        }
        if let Some(domains) = domains {
            built = built.min_domains(domains);
        }
        if ignores_affinity {
            built = built.ignoring_affinity();
        }
        if honors_taints { built.honoring_taints() } else { built }
    })
}

fn any_term() -> impl Strategy<Value = Term> {
    let parts = (
        sample::select(&DOMAINS[..]),
        option::weighted(0.5, sample::select(&APPS[..])),
        option::weighted(RARE, sample::select(&["default", "other"][..])),
        prop::bool::weighted(0.1),
    );
    parts.prop_map(|(key, app, namespace, everywhere)| {
        let mut built = term(key);
        if let Some(app) = app {
            built = built.selecting(&[("app", app)]);
        }
        if let Some(namespace) = namespace {
            built = built.in_namespace(namespace);
        }
        if everywhere { built.in_namespaces_with(&[]) } else { built }
    })
}

fn any_options() -> impl Strategy<Value = Options> {
    let parts = (
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.9),
        option::weighted(RARE, any_spread()),
        option::weighted(RARE, Just(60_i64)),
        option::weighted(RARE, sample::select(&["r-1", "r-2"][..])),
    );
    parts.prop_map(|(ignore, best_effort, fallback, gate, default, now, credit)| Options {
        preferences: if ignore { PreferencePolicy::Ignore } else { PreferencePolicy::Respect },
        min_values: if best_effort { MinValuesPolicy::BestEffort } else { MinValuesPolicy::Strict },
        reserved: if fallback { ReservedMode::Fallback } else { ReservedMode::Strict },
        reserved_capacity: gate,
        reservation_credits: credit.map(|id| (id.to_owned(), 1)).into_iter().collect(),
        default_spread: default
            .map(|spread| spread.selecting_nothing().build(&[].into()))
            .into_iter()
            .collect(),
        enforce_consolidate_after: now
            .map(|second| Timestamp::from_second(second).expect("in range")),
        ..Options::default()
    })
}
