//! Shows the state of a world: nodes with their cost and load, workloads with the progress of their
//! pods. It follows the API and writes the [`Timeline`] as it goes.

mod pods;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::labels;
use karpenter_core::catalog::InstanceType;
use karpenter_operator::clock::Clock;
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::watch;

pub use self::pods::{PodState, message_of, pod_state, workload_of};
use self::pods::{amounts, requests_of};
use crate::timeline::{Counts, Subject, Timeline};
use karpenter_operator::watch::{Informer, Notifier};

/// How long changes are gathered before an update: pods come in groups.
const GATHER: Duration = Duration::from_secs(1);

/// A world at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct View {
    pub now: Timestamp,
    /// By name.
    pub nodes: Vec<NodeView>,
    /// By name.
    pub workloads: Vec<WorkloadView>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NodeView {
    pub name: String,
    pub node_pool: String,
    pub instance_type: String,
    pub zone: String,
    pub capacity_type: String,
    /// US dollars per hour, if the catalog has it.
    pub price: Option<f64>,
    pub state: NodeState,
    pub pods: u32,
    /// Millicores that pods request, and those that the node has.
    pub cpu: (u64, u64),
    /// Bytes.
    pub memory: (u64, u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    Starting,
    Ready,
    Cordoned,
    /// It was ready, and is heard of no more.
    NotReady,
    Ending,
}

impl NodeState {
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Cordoned => "cordoned",
            Self::NotReady => "not ready",
            Self::Ending => "ending",
        }
    }
}

/// How many pods of a workload are in each state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkloadView {
    pub name: String,
    pub pods: BTreeMap<PodState, u32>,
    /// Why some do not fit, in the scheduler's words.
    pub message: Option<String>,
}

impl View {
    pub fn price_per_hour(&self) -> f64 {
        // The sum of no floats is -0.
        self.nodes.iter().filter_map(|node| node.price).fold(0.0, |sum, price| sum + price)
    }

    /// Pods in a state, over all workloads.
    pub fn count(&self, state: PodState) -> u32 {
        self.workloads.iter().filter_map(|workload| workload.pods.get(&state)).sum()
    }

    /// Whether every pod is where it wants to be.
    pub fn is_settled(&self) -> bool {
        let moving =
            [PodState::Pending, PodState::Unschedulable, PodState::Bound, PodState::Ending];
        moving.iter().all(|state| self.count(*state) == 0)
    }
}

/// US dollars per hour by instance type, zone and capacity type.
#[derive(Debug, Default)]
pub struct Prices(BTreeMap<(String, String, String), f64>);

impl Prices {
    pub fn of<'a>(types: impl IntoIterator<Item = &'a Arc<InstanceType>>) -> Self {
        let mut prices = BTreeMap::new();
        for instance_type in types {
            for offering in instance_type.offerings.iter() {
                let value = |key| {
                    let requirement = offering.requirements.get(key)?;
                    requirement.values().first().cloned()
                };
                let key = (
                    instance_type.name.clone(),
                    value(labels::ZONE).unwrap_or_default(),
                    value(labels::CAPACITY_TYPE).unwrap_or_default(),
                );
                prices.insert(key, offering.price);
            }
        }
        Self(prices)
    }

    fn get(&self, instance_type: &str, zone: &str, capacity_type: &str) -> Option<f64> {
        let key = (instance_type.to_owned(), zone.to_owned(), capacity_type.to_owned());
        self.0.get(&key).copied()
    }
}

/// Follows the world: a view after each change, and an entry for what changed.
pub async fn follow(
    client: Client,
    clock: Arc<dyn Clock>,
    prices: Prices,
    timeline: Timeline,
    views: watch::Sender<View>,
) -> Infallible {
    let wake = Notifier::default();
    let pods: Informer<Pod> = Informer::new(Api::all(client.clone()), &clock, &wake);
    let nodes: Informer<Node> = Informer::new(Api::all(client), &clock, &wake);
    let feeds = Box::pin(future::join(pods.run(), nodes.run()));
    let work = Box::pin(async {
        loop {
            wake.notified().await;
            clock.sleep(GATHER).await;
            if !(pods.is_synced() && nodes.is_synced()) {
                continue;
            }
            let now = clock.now();
            record_node_changes(&nodes, &prices, &timeline, now);
            record_pod_changes(&pods, &timeline, now);
            views.send_replace(view(&pods, &nodes, &prices, now));
        }
    });
    match future::select(feeds, work).await {
        future::Either::Left(((never, _), _)) | future::Either::Right((never, _)) => never,
    }
}

fn record_node_changes(
    nodes: &Informer<Node>,
    prices: &Prices,
    timeline: &Timeline,
    now: Timestamp,
) {
    for change in nodes.take_changes() {
        let state = |node: &Option<Arc<Node>>| node.as_ref().map(|node| node_state(node));
        let (before, after) = (state(&change.before), state(&change.after));
        if before == after {
            continue;
        }
        let name = &change.key.name;
        let text = match (before, after, &change.after) {
            (None, Some(_), Some(node)) => {
                let row = node_view(node, prices);
                let price = row.price.map_or(String::new(), |price| format!(", ${price:.4}/h"));
                let (description, zone, capacity) =
                    (row.instance_type, row.zone, row.capacity_type);
                format!("{name} joins: {description}, {zone}, {capacity}{price}")
            }
            (_, Some(state), _) => format!("{name} is {}", state.name()),
            _ => format!("{name} is gone"),
        };
        timeline.add(now, Subject::Node, &text);
    }
}

fn record_pod_changes(pods: &Informer<Pod>, timeline: &Timeline, now: Timestamp) {
    let mut counts = Counts::default();
    for change in pods.take_changes() {
        let state = |pod: &Option<Arc<Pod>>| pod.as_ref().map(|pod| pod_state(pod));
        let (before, after) = (state(&change.before), state(&change.after));
        let Some(pod) = change.after.as_ref().or(change.before.as_ref()) else {
            continue;
        };
        if before == after {
            continue;
        }
        let description = match after {
            None => "gone".to_owned(),
            Some(state @ (PodState::Bound | PodState::Running)) => {
                let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
                format!("{} on {}", state.name(), node.unwrap_or_default())
            }
            Some(PodState::Unschedulable) => format!("do not fit: {}", message_of(pod)),
            Some(state) => state.name().to_owned(),
        };
        counts.add(workload_of(pod), description);
    }
    for line in counts.into_lines() {
        timeline.add(now, Subject::Pods, &line);
    }
}

fn view(pods: &Informer<Pod>, nodes: &Informer<Node>, prices: &Prices, now: Timestamp) -> View {
    let mut rows: BTreeMap<String, NodeView> =
        nodes.all().iter().map(|node| (node.name_any(), node_view(node, prices))).collect();
    let mut workloads: BTreeMap<String, WorkloadView> = BTreeMap::new();
    for pod in pods.all() {
        let state = pod_state(&pod);
        let name = workload_of(&pod);
        let row = workloads
            .entry(name.clone())
            .or_insert_with(|| WorkloadView { name, ..WorkloadView::default() });
        *row.pods.entry(state).or_default() += 1;
        if state == PodState::Unschedulable {
            row.message.get_or_insert_with(|| message_of(&pod));
        }
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
        if let Some(row) = rows.get_mut(node).filter(|_| state.uses_capacity()) {
            let (cpu, memory) = requests_of(&pod);
            row.pods += 1;
            row.cpu.0 += cpu;
            row.memory.0 += memory;
        }
    }
    View { now, nodes: rows.into_values().collect(), workloads: workloads.into_values().collect() }
}

fn node_view(node: &Node, prices: &Prices) -> NodeView {
    let label = |key: &str| node.labels().get(key).cloned().unwrap_or_default();
    let (instance_type, zone) = (label(labels::INSTANCE_TYPE), label(labels::ZONE));
    let capacity_type = label(labels::CAPACITY_TYPE);
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let (cpu, memory) = allocatable.map(amounts).unwrap_or_default();
    NodeView {
        name: node.name_any(),
        node_pool: label(labels::NODEPOOL),
        price: prices.get(&instance_type, &zone, &capacity_type),
        instance_type,
        zone,
        capacity_type,
        state: node_state(node),
        pods: 0,
        cpu: (0, cpu),
        memory: (0, memory),
    }
}

/// How far a node is.
pub fn node_state(node: &Node) -> NodeState {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready");
    let is_ready = ready.is_some_and(|condition| condition.status == "True");
    let was_ready = ready.is_some_and(|condition| condition.status == "Unknown");
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
    match () {
        () if node.metadata.deletion_timestamp.is_some() => NodeState::Ending,
        () if was_ready => NodeState::NotReady,
        () if !is_ready => NodeState::Starting,
        () if is_cordoned => NodeState::Cordoned,
        () => NodeState::Ready,
    }
}
