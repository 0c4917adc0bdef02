//! `metrics.pod`: publishes where pods are, and how long they took to start (spec 40 §8.1, spec 45
//! §15.1).
//!
//! [`progress`] decides what follows from a pod and what was seen of it before. The numbers of pods
//! that have not started are set anew every 30 seconds; all others only change with the pod or with
//! the labels of its node.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::labels;
use karpenter_cluster::wire::Pod;
use karpenter_operator::harness::{Controller, Outcome, Reconcile, ReconcileResult};
use karpenter_operator::metrics::labels::{DynamicResources, PodName, PodNameDynamic, PodState};
use karpenter_operator::metrics::{NoLabels, Sample, Store};
use karpenter_operator::watch::{Change, ObjectKey};
use kube::ResourceExt as _;

use self::progress::{Facts, PendingMeasurements, Progress, progress};
use crate::{Context, objects};

mod progress;
#[cfg(test)]
mod tests;

const REQUEUE_INTERVAL: Duration = Duration::from_secs(30);

pub(super) fn controller(context: &Context) -> Controller {
    let gauges = PodGauges {
        context: context.clone(),
        store: Store::new(),
        pending_measurements: Mutex::default(),
    };
    let of_node = context.cache.pods_by_node.clone();
    Controller::new("metrics.pod", &context.clock, gauges)
        .for_kind("", "Pod")
        .watch(&context.cache.pods)
        .watch_map(&context.cache.nodes, move |change| {
            let pods =
                if is_relabelled(change) { of_node.get(&change.key.name) } else { Vec::new() };
            pods.iter().map(|pod| ObjectKey::of(pod.as_ref())).collect::<Vec<_>>()
        })
}

/// Whether the labels of a node have changed, which pods on it show.
fn is_relabelled(change: &Change<Node>) -> bool {
    let [before, after] = [&change.before, &change.after]
        .map(|node| node.as_ref().and_then(|node| node.metadata.labels.as_ref()));
    before != after
}

struct PodGauges {
    context: Context,
    store: Store<ObjectKey>,
    /// The measurements of pods that have not started or are not bound.
    pending_measurements: Mutex<HashMap<ObjectKey, PendingMeasurements>>,
}

impl Reconcile for PodGauges {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let Some(pod) = self.context.cache.pods.get(&key.namespace, &key.name) else {
            self.set_measurements(key, PendingMeasurements::default());
            self.store.delete(key);
            return Ok(Outcome::Done);
        };
        let facts = self.facts(key, &pod);
        let progress = progress(self.measurements(key), &facts);
        self.set_measurements(key, progress.measurements);
        let dynamic_resources = text(has_resource_claims(&pod));
        let mut samples = vec![self.state(key, &pod)];
        samples.extend(self.waiting(key, &facts, &progress, dynamic_resources));
        // The gauges of a pod that has not started grow with time.
        let is_on_its_way =
            samples.len() > 1 || progress.measurements != PendingMeasurements::default();
        self.store.update(key, samples);
        self.observe(&facts, &progress, dynamic_resources);
        if progress.is_over {
            self.context.mirror.clear_pod_times(&key.namespace, &key.name);
        }
        Ok(if is_on_its_way { Outcome::RequeueAfter(REQUEUE_INTERVAL) } else { Outcome::Done })
    }
}

impl PodGauges {
    fn measurements(&self, key: &ObjectKey) -> PendingMeasurements {
        let memory = self.pending_measurements.lock().unwrap_or_else(PoisonError::into_inner);
        memory.get(key).copied().unwrap_or_default()
    }

    fn set_measurements(&self, key: &ObjectKey, now: PendingMeasurements) {
        let mut memory = self.pending_measurements.lock().unwrap_or_else(PoisonError::into_inner);
        if now == PendingMeasurements::default() {
            memory.remove(key);
        } else {
            memory.insert(key.clone(), now);
        }
    }

    fn facts(&self, key: &ObjectKey, pod: &Pod) -> Facts {
        let created = pod.creation_timestamp().map(|time| time.0);
        Facts {
            is_pending: phase(pod) == "Pending",
            is_terminal: objects::is_terminal(pod),
            has_node: !node_name(pod).is_empty(),
            created: created.unwrap_or_else(|| self.context.clock.now()),
            ready: true_since(pod, "Ready"),
            scheduled: true_since(pod, "PodScheduled"),
            times: self.context.mirror.pod_times(&key.namespace, &key.name),
        }
    }

    /// Returns the series of the pod's state.
    fn state(&self, key: &ObjectKey, pod: &Pod) -> Sample {
        let node_name = node_name(pod);
        let node = self.context.cache.nodes.get("", node_name);
        let of_node = |label: &'static str| {
            node.as_ref().map(|node| objects::label(node.as_ref(), label)).unwrap_or_default()
        };
        let owner = owner(pod);
        let nodepool = of_node(labels::NODEPOOL);
        let labels = PodState {
            name: &key.name,
            namespace: &key.namespace,
            owner: &owner,
            node: node_name,
            scheduled: text(!node_name.is_empty()),
            nodepool,
            zone: of_node(labels::ZONE),
            arch: of_node(labels::ARCH),
            capacity_type: of_node(labels::CAPACITY_TYPE),
            instance_type: of_node(labels::INSTANCE_TYPE),
            phase: phase(pod),
            ready: text(true_since(pod, "Ready").is_some()),
            managed: text(!nodepool.is_empty()),
        };
        self.context.metrics.pods_state.sample(&labels, 1.0)
    }

    /// Returns the series of how long the pod has been waiting.
    fn waiting(
        &self,
        key: &ObjectKey,
        facts: &Facts,
        progress: &Progress,
        dynamic_resources: &str,
    ) -> Vec<Sample> {
        let (metrics, now) = (&self.context.metrics, self.context.clock.now());
        let (name, namespace) = (key.name.as_str(), key.namespace.as_str());
        let age = |since: Timestamp| now.duration_since(since).as_secs_f64();
        let schedulable = facts.times.schedulable_at;
        let mut samples = Vec::new();
        let labels = PodName { name, namespace };
        if progress.is_unstarted {
            samples.push(metrics.pods_unstarted_time.sample(&labels, age(facts.created)));
            let provisioning = &metrics.pods_provisioning_unstarted_time;
            samples.extend(schedulable.map(|since| provisioning.sample(&labels, age(since))));
        }
        if let Some(since) = progress.undecided {
            let undecided = &metrics.pods_provisioning_scheduling_undecided_time;
            samples.push(undecided.sample(&labels, age(since)));
        }
        if progress.is_unbound {
            let labels = PodNameDynamic { name, namespace, dynamic_resources };
            samples.push(metrics.pods_unbound_time.sample(&labels, age(facts.created)));
            let provisioning = &metrics.pods_provisioning_unbound_time;
            samples.extend(schedulable.map(|since| provisioning.sample(&labels, age(since))));
        }
        samples
    }

    /// Observes how long the pod took to start and to be bound.
    fn observe(&self, facts: &Facts, progress: &Progress, dynamic_resources: &str) {
        let metrics = &self.context.metrics;
        let Facts { created, ref times, .. } = *facts;
        let took = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64();
        if let Some(ready) = progress.started {
            metrics.pods_startup_duration.observe(&NoLabels, took(created, ready));
            if let Some(schedulable) = times.schedulable_at {
                let histogram = &metrics.pods_provisioning_startup_duration;
                histogram.observe(&NoLabels, took(schedulable, ready));
            }
        }
        if let Some(scheduled) = progress.bound {
            let labels = DynamicResources { dynamic_resources };
            metrics.pods_bound_duration.observe(&labels, took(created, scheduled));
            if let Some(schedulable) = times.schedulable_at {
                let histogram = &metrics.pods_provisioning_bound_duration;
                histogram.observe(&labels, took(schedulable, scheduled));
            }
        }
    }
}

/// Returns the owner of the pod as an API path; empty without owner.
fn owner(pod: &Pod) -> String {
    let Some(owner) = pod.owner_references().first() else { return String::new() };
    let (kind, namespace) = (owner.kind.to_lowercase(), pod.namespace().unwrap_or_default());
    format!("/apis/{}/namespaces/{namespace}/{kind}s/{}", owner.api_version, owner.name)
}

/// Since when a condition is True, if it is.
fn true_since(pod: &Pod, condition: &str) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|c| c.type_ == condition && c.status == "True")?;
    let since = found.last_transition_time.as_ref().or(pod.metadata.creation_timestamp.as_ref());
    since.map(|since| since.0)
}

/// Returns whether the pod uses ResourceClaims.
fn has_resource_claims(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let mut of_containers = containers.filter_map(|container| container.resources.as_ref());
    spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty())
        || of_containers.any(|own| own.claims.as_ref().is_some_and(|claims| !claims.is_empty()))
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

fn text(is: bool) -> &'static str {
    if is { "true" } else { "false" }
}
