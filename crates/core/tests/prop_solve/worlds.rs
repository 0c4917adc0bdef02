//! Random small worlds. Every feature is drawn on its own and absent more often than not, so that a
//! failing world shrinks to the features that matter.

use std::fmt;

use jiff::Timestamp;
use karpenter_core::requirement::Operator::In;
use karpenter_core::scheduling::{MinValuesPolicy, Options, PreferencePolicy, ReservedMode};
use karpenter_core::selector::LabelSelector;
use karpenter_core::snapshot::{Pool, Service, WorkloadKey};
use karpenter_core::testing::{
    PoolBuilder, TypeBuilder, World, label_key, label_selector, requirement,
};
use proptest::prelude::*;
use proptest::{collection, option, sample};

mod large_worlds;
mod nodes;
mod pods;
mod pools;

pub(crate) use large_worlds::any_large_world;
use nodes::{any_node, any_volume, with_volume_claim};
use pods::{any_daemon, any_pod, any_spread};
use pools::{any_pool, any_type};

const ZONES: [&str; 3] = ["a", "b", "c"];
const RACKS: [&str; 3] = ["r1", "r2", "r3"];
const APPS: [&str; 3] = ["web", "db", "job"];
const CSI: &str = "csi.test";
const CLAIMS: usize = 4;
/// The zone's name in the past.
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
/// Controllers of pods: API group, kind, name. The last one has no selector that counts.
const CONTROLLERS: [(&str, &str, &str); 4] = [
    ("apps", "ReplicaSet", "set"),
    ("apps", "StatefulSet", "state"),
    ("", "ReplicationController", "old"),
    ("batch", "Job", "job"),
];
/// What most random parts are: absent.
const RARE: f64 = 0.2;

/// A world that prints itself as lines of text.
#[derive(Clone)]
pub(crate) struct RandomWorld(pub(crate) World);

impl fmt::Debug for RandomWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{}", self.0)
    }
}

/// The values of labels that nodes of a tidy world have at least.
const LABELS: [(&str, &str); 5] =
    [("zone", "a"), ("rack", "r1"), ("type", "type-0"), ("integer", "2"), ("nodepool", "none")];

/// Generates small worlds where nodes and NodePools have all labels.
///
/// These are the labels that pods may require. A solve takes milliseconds.
///
/// Where a label is missing, plans break rules as upstream's do: requirements that contradict each
/// other on a key become "the label must not exist", and a node without the label is taken for a
/// match.
pub(crate) fn any_labelled_world() -> impl Strategy<Value = RandomWorld> {
    any_world().prop_map(|RandomWorld(mut world)| {
        for node in &mut world.snapshot.nodes {
            let node = &mut **node;
            let name = node.name.clone();
            for (short, value) in LABELS.into_iter().chain([("hostname", name.as_str())]) {
                node.labels.entry(label_key(short).to_owned()).or_insert_with(|| value.to_owned());
            }
            let zone = node.labels[label_key("zone")].clone();
            node.labels.insert(BETA_ZONE.to_owned(), zone);
            if let Some(object) = &mut node.object {
                object.labels.clone_from(&node.labels);
            }
        }
        world.snapshot.pools.iter_mut().for_each(with_rack);
        RandomWorld(world)
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

/// Generates small worlds with nodes that may lack any label.
///
/// A solve takes milliseconds.
pub(crate) fn any_world() -> impl Strategy<Value = RandomWorld> {
    let parts = (
        collection::vec(any_type(), 1..5),
        collection::vec(any_pool(), 0..4),
        collection::vec(any_node(), 0..4),
        collection::vec(any_pod(), 1..7),
        collection::vec(any_daemon(), 0..3),
        collection::vec(any_volume(), CLAIMS),
        any_options(),
        collection::vec(any_service(), 0..3),
    );
    parts.prop_map(|(types, pools, nodes, pods, daemons, volumes, options, services)| {
        let mut world = World::empty().types(named(types, "type", TypeBuilder::named));
        world = named(pools, "pool", PoolBuilder::named).into_iter().fold(world, World::pool);
        for (number, (node, odd)) in nodes.into_iter().enumerate() {
            world = world.node(node.named(&format!("node-{number}")));
            odd.apply(&mut world.snapshot.nodes[number]);
        }
        for (number, volume) in volumes.into_iter().enumerate() {
            world = with_volume_claim(world, number, volume);
        }
        for (number, daemon) in daemons.into_iter().enumerate() {
            world = world.daemon(&daemon.named(&format!("daemon-{number}")));
        }
        let node_count = world.snapshot.nodes.len();
        for (number, (pod, home)) in pods.into_iter().enumerate() {
            let pod = pod.named(&format!("pod-{number}"));
            world = world.pod(match home.filter(|_| node_count > 0) {
                Some(home) => home.bind(pod, &format!("node-{}", home.node % node_count)),
                None => pod,
            });
        }
        for namespace in ["default", "other"] {
            world.snapshot.namespaces.insert(namespace.to_owned(), [].into());
        }
        world.snapshot.services = services.into();
        world.snapshot.workloads = workloads().into();
        world.options = options;
        RandomWorld(world)
    })
}

fn any_service() -> impl Strategy<Value = Service> {
    const SELECTORS: [Option<(&str, &str)>; 5] =
        [Some(("app", "web")), Some(("app", "db")), Some(("revision", "1")), Some(("", "")), None];
    let namespace = sample::select(&["default", "default", "other"][..]);
    (namespace, sample::select(&SELECTORS[..])).prop_map(|(namespace, selector)| Service {
        namespace: namespace.to_owned(),
        name: "service".to_owned(),
        selector: selector.map(|pair| {
            let pairs = if pair.0.is_empty() { vec![] } else { vec![pair] };
            label_selector(&pairs).labels
        }),
    })
}

/// The selectors of controllers.
fn workloads() -> std::collections::BTreeMap<WorkloadKey, LabelSelector> {
    let selectors = [("app", "web"), ("revision", "1"), ("app", "db"), ("app", "job")];
    let workload = |((group, kind, name), pair): ((&str, &str, &str), (&str, &str))| {
        let [group, kind, name] = [group, kind, name].map(str::to_owned);
        let key = WorkloadKey { group, kind, namespace: "default".to_owned(), name };
        (key, label_selector(&[pair]))
    };
    CONTROLLERS.into_iter().zip(selectors).map(workload).collect()
}

fn named<T>(list: Vec<T>, kind: &str, name: impl Fn(T, &str) -> T) -> Vec<T> {
    let numbered = list.into_iter().enumerate();
    numbered.map(|(number, one)| name(one, &format!("{kind}-{number}"))).collect()
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
        reserved_mode: if fallback { ReservedMode::Fallback } else { ReservedMode::Strict },
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
