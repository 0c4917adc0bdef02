//! Metrics: the list of names, and handles to record with.
//!
//! [`Metrics`] has a field per metric; each takes a struct of labels, so a value cannot end up
//! under another name. Series of objects go through a [`Store`], which removes the stale ones.
//! Recording is cheap and takes no part in decisions. [`definitions`] has every metric of core.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use crate::clock::Clock;
use crate::cloud::ProviderLabels;
use crate::provider::ProviderFacts;

pub mod conditions;
pub mod definitions;
mod gauges;
mod harness;
pub mod labels;
pub mod nodes;
mod registry;
mod requests;
mod scheduling_runs;
mod store;
mod summary;
#[cfg(test)]
mod tests;

pub use conditions::ConditionMetrics;
pub use definitions::CoreMetrics;
pub use labels::{LabelSet, LabelValues, NoLabels};
pub use nodes::{label_name, resource_type};
pub use registry::{
    Counter, Family, Gauge, Histogram, MetricOpts, MetricType, Registry, Stage, Summary,
};
pub use scheduling_runs::SchedulingRunGuard;
pub use store::{Sample, Store};

use conditions::{DeprecatedConditionMetrics, KindLabels};

/// All metrics of core.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    core: CoreMetrics,
    /// Gauges of nodes.
    pub nodes: nodes::NodeMetrics,
    /// Status conditions of NodeClaims.
    pub nodeclaim_status: ConditionMetrics,
    /// Status conditions of NodePools.
    pub nodepool_status: ConditionMetrics,
    /// Status conditions of Nodes.
    pub node_status: ConditionMetrics,
    /// Status conditions of CapacityBuffers.
    pub capacitybuffer_status: ConditionMetrics,
    /// Status conditions of node classes, by kind.
    node_class_status: BTreeMap<&'static str, ConditionMetrics>,
    controllers: harness::AllControllerWork,
    scheduling_runs: scheduling_runs::SchedulingRuns,
}

/// What the labels of metrics depend on.
#[derive(Clone, Debug, Default)]
pub struct MetricsConfig {
    /// Labels of Nodes that metrics show.
    pub well_known: BTreeSet<String>,
    /// Labels that name the node class of an object.
    pub node_class_labels: Vec<String>,
    /// Group and kind of node classes whose conditions are metrics.
    pub node_class_kinds: Vec<(&'static str, &'static str)>,
}

impl MetricsConfig {
    /// Returns the configuration for a provider with these labels.
    pub fn for_provider(provider: &ProviderFacts, labels: &ProviderLabels) -> Self {
        let classes = &provider.node_classes;
        let reported = classes.iter().filter(|class| class.report.is_some());
        Self {
            well_known: labels.well_known.as_ref().clone(),
            node_class_labels: classes.iter().map(|class| class.label.clone()).collect(),
            node_class_kinds: reported.map(|class| (class.group, class.kind)).collect(),
        }
    }
}

impl Metrics {
    /// Makes them all, in a registry of their own.
    pub fn new(clock: Arc<dyn Clock>, config: &MetricsConfig) -> Self {
        use karpenter_api::labels::{INITIALIZED, NODEPOOL};
        let registry = Registry::new(clock);
        let core = CoreMetrics::new(&registry);
        for consolidation_type in ["multi", "single"] {
            let labels = labels::ConsolidationType { consolidation_type };
            core.voluntary_disruption_consolidation_timeouts.add(&labels, 0.0);
        }
        let work = harness::AllControllerWork::register(&registry, &core);
        let solves = scheduling_runs::SchedulingRuns::register(&registry, &core);
        let deprecated = DeprecatedConditionMetrics::new(&registry);
        let classes = config.node_class_labels.iter().map(String::as_str);
        let claim_labels: Vec<&str> = classes.chain([NODEPOOL]).collect();
        let node_labels: Vec<&str> = claim_labels.iter().copied().chain([INITIALIZED]).collect();
        let kind = |group: &str, kind: &str, labels: &[&str]| KindLabels::new(group, kind, labels);
        let status = |labels: KindLabels, deprecated: Option<&DeprecatedConditionMetrics>| {
            ConditionMetrics::new(&registry, labels, deprecated)
        };
        Self {
            nodes: nodes::NodeMetrics::new(&registry, &config.well_known),
            nodeclaim_status: status(
                kind("karpenter.sh", "NodeClaim", &claim_labels),
                Some(&deprecated),
            ),
            nodepool_status: status(kind("karpenter.sh", "NodePool", &[]), Some(&deprecated)),
            node_status: status(kind("", "Node", &node_labels), None),
            capacitybuffer_status: status(
                kind("autoscaling.x-k8s.io", "CapacityBuffer", &[]),
                Some(&deprecated),
            ),
            node_class_status: config
                .node_class_kinds
                .iter()
                .map(|&(group, of)| (of, status(kind(group, of, &[]), Some(&deprecated))))
                .collect(),
            core,
            controllers: work,
            scheduling_runs: solves,
            registry,
        }
    }

    /// Where they all are, for a provider that adds its own, and for /metrics.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the condition metrics of a kind of node class, if it has them.
    pub fn node_class_status(&self, kind: &str) -> Option<&ConditionMetrics> {
        self.node_class_status.get(kind)
    }
}

impl Deref for Metrics {
    type Target = CoreMetrics;

    fn deref(&self) -> &CoreMetrics {
        &self.core
    }
}

/// Returns the reference page, as Markdown, with the metrics of a provider.
pub fn reference(registry: &Registry, provider: &str) -> String {
    use std::fmt::Write as _;
    let mut text = format!(
        "# Metrics\n\n\
         <!-- Written by `cargo xtask codegen` from crates/operator/src/metrics. -->\n\n\
         Labels of Nodes are those of the {provider} provider; other providers add their own.\n\n\
         | Metric | Type | Stage | Labels | Meaning |\n\
         |---|---|---|---|---|\n"
    );
    for Family { name, metric_type, stage, labels, help, .. } in registry.families() {
        let (metric_type, stage, labels) = (metric_type.name(), stage.name(), labels.join(", "));
        let _ = writeln!(text, "| `{name}` | {metric_type} | {stage} | {labels} | {help} |");
    }
    text
}
