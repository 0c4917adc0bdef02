//! Gauges of nodes. Their labels are the well-known ones, which the provider adds to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::gauges::{self, GaugeFamily};
use super::registry::{MetricOpts, Registry, Stage};
use super::store::Sample;

/// Labels of all node metrics, before the well-known ones.
const FIXED_LABELS: [&str; 3] = ["node_name", "phase", "managed"];

/// Gauges by node and resource.
#[derive(Clone, Debug)]
pub struct NodeMetrics {
    labels: Arc<NodeLabels>,
    /// What pods can have.
    pub allocatable: NodeResourceGauge,
    /// What pods request, those of daemons included.
    pub total_pod_requests: NodeResourceGauge,
    /// The limits of pods, those of daemons included.
    pub total_pod_limits: NodeResourceGauge,
    /// What pods of daemons request.
    pub total_daemon_requests: NodeResourceGauge,
    /// The limits of pods of daemons.
    pub total_daemon_limits: NodeResourceGauge,
    /// Capacity that pods cannot have.
    pub system_overhead: NodeResourceGauge,
    /// Age.
    pub current_lifetime: NodeGauge,
}

/// Names of metric labels, and the label of a Node that each is the value of.
#[derive(Clone, Debug)]
struct NodeLabels(BTreeMap<String, String>);

impl NodeMetrics {
    pub(super) fn new(registry: &Registry, well_known: &BTreeSet<String>) -> Self {
        let mut labels = BTreeMap::new();
        for key in well_known {
            let name = label_name(key);
            // Two keys may have one name; the first keeps it.
            if !FIXED_LABELS.contains(&name.as_str()) && name != "resource_type" {
                labels.entry(name).or_insert_with(|| key.clone());
            }
        }
        let names: Vec<String> = FIXED_LABELS
            .iter()
            .map(|&name| name.to_owned())
            .chain(labels.keys().cloned())
            .collect();
        let with_resource: Vec<String> =
            names.iter().cloned().chain(["resource_type".to_owned()]).collect();
        let gauge = |name: &str, help: &str| {
            let name = format!("karpenter_nodes_{name}");
            let describe = MetricOpts { name: &name, stage: Stage::Beta, help };
            NodeResourceGauge(registry.dynamic_gauge(describe, &with_resource))
        };
        let age = MetricOpts {
            name: "karpenter_nodes_current_lifetime_seconds",
            stage: Stage::Alpha,
            help: "Age of Nodes.",
        };
        Self {
            allocatable: gauge("allocatable", "What pods can have on Nodes, by resource."),
            total_pod_requests: gauge(
                "total_pod_requests",
                "What pods on Nodes request, those of daemons included, by resource.",
            ),
            total_pod_limits: gauge(
                "total_pod_limits",
                "Limits of pods on Nodes, those of daemons included, by resource.",
            ),
            total_daemon_requests: gauge(
                "total_daemon_requests",
                "What pods of daemons on Nodes request, by resource.",
            ),
            total_daemon_limits: gauge(
                "total_daemon_limits",
                "Limits of pods of daemons on Nodes, by resource.",
            ),
            system_overhead: gauge(
                "system_overhead",
                "Capacity of Nodes that pods cannot have, by resource.",
            ),
            current_lifetime: NodeGauge(registry.dynamic_gauge(age, &names)),
            labels: Arc::new(NodeLabels(labels)),
        }
    }

    /// Returns the labels that identify a node in these metrics. `label` returns a label of the
    /// Node.
    pub fn series<'a>(
        &self,
        node_name: &str,
        phase: &str,
        is_managed: bool,
        label: impl Fn(&str) -> Option<&'a str>,
    ) -> NodeSeries {
        let first = [node_name, phase, if is_managed { "true" } else { "false" }];
        let rest = self.labels.0.values().map(|key| label(key).unwrap_or_default());
        NodeSeries(gauges::series_key(first.into_iter().chain(rest)).into())
    }
}

/// What identifies a node in metrics: the values of its labels, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSeries(Arc<str>);

/// A gauge by node and resource.
#[derive(Clone)]
pub struct NodeResourceGauge(GaugeFamily);

impl NodeResourceGauge {
    /// A number for a store.
    pub fn sample(&self, node: &NodeSeries, resource: &str, number: f64) -> Sample {
        let key = gauges::extend_key(&node.0, &resource_type(resource));
        Sample::new(&self.0, key.into(), number)
    }
}

/// A gauge by node.
#[derive(Clone)]
pub struct NodeGauge(GaugeFamily);

impl NodeGauge {
    /// A number for a store.
    pub fn sample(&self, node: &NodeSeries, number: f64) -> Sample {
        Sample::new(&self.0, node.0.clone(), number)
    }
}

/// A resource as the value of the label `resource_type`.
pub fn resource_type(resource: &str) -> String {
    resource.to_lowercase().replace('-', "_")
}

/// The name of a label in metrics: what follows the `/`, in lower case, with `_` for
/// all that a metric may not have.
pub fn label_name(key: &str) -> String {
    let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
    let letter = |letter: char| match letter.to_ascii_lowercase() {
        letter @ ('a'..='z' | '0'..='9' | '_') => letter,
        _ => '_',
    };
    let name: String = name.chars().map(letter).collect();
    // It may neither be empty nor begin with a digit.
    if name.starts_with(|letter: char| !letter.is_ascii_digit()) {
        name
    } else {
        format!("_{name}")
    }
}

macro_rules! debug {
    ($($name:ident)+) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0.name())
            }
        }
    )+};
}

debug!(NodeResourceGauge NodeGauge);
