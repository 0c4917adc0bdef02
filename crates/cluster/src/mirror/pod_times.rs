//! When pods were first seen, first tried and first placed, for metrics and the registration of
//! pools (spec 40 §5.6). Times are set once and never moved by later passes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::Mirror;
use crate::snapshot_view::PodKey;

/// The scheduling times of a pending pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodTimes {
    /// When the provisioner first saw the pod pending.
    pub acknowledged_at: Option<Timestamp>,
    /// When a scheduling pass first decided about the pod, with either result.
    pub decided_at: Option<Timestamp>,
    /// When a scheduling pass first found a place for the pod.
    pub schedulable_at: Option<Timestamp>,
    /// When the pod was first placed on a NodePool whose nodes register.
    pub healthy_at: Option<Timestamp>,
    /// The NodeClaim that it was placed on.
    pub node_claim: Option<String>,
}

/// The times of all pods. Deleting a pod drops its entry.
#[derive(Default)]
pub(super) struct PodTimesIndex {
    by_pod: HashMap<PodKey, Box<PodTimes>>,
    by_claim: BTreeMap<String, BTreeSet<PodKey>>,
}

impl PodTimesIndex {
    pub(super) fn clear(&mut self, name: &(String, String)) {
        if let Some((name, times)) = self.by_pod.remove_entry(name)
            && let Some(claim) = times.node_claim
        {
            self.unmap_from_claim(&claim, &name);
        }
    }

    fn entry(&mut self, name: &PodKey) -> &mut PodTimes {
        self.by_pod.entry(Arc::clone(name)).or_default()
    }

    fn unmap_from_claim(&mut self, claim: &str, name: &PodKey) {
        if let Some(pods) = self.by_claim.get_mut(claim) {
            pods.remove(name);
            if pods.is_empty() {
                self.by_claim.remove(claim);
            }
        }
    }

    fn map_to_claim(&mut self, name: &PodKey, claim: Option<&str>) {
        let claim = claim.map(str::to_owned);
        if let Some(old) = std::mem::replace(&mut self.entry(name).node_claim, claim.clone()) {
            self.unmap_from_claim(&old, name);
        }
        if let Some(claim) = claim {
            self.by_claim.entry(claim).or_default().insert(Arc::clone(name));
        }
    }

    /// Records a decision. Returns the time since acknowledgement for the first one.
    fn record_decision(&mut self, name: &PodKey, now: Timestamp) -> Option<Duration> {
        let times = self.entry(name);
        if times.decided_at.is_some() {
            return None;
        }
        times.decided_at = Some(now);
        let seen = times.acknowledged_at?;
        Some(now.duration_since(seen).try_into().unwrap_or_default())
    }
}

impl Mirror {
    /// Records that a pod is pending; only the first call counts. Deleted pods are ignored, because
    /// their times would never be dropped.
    pub fn acknowledge_pod(&self, namespace: &str, name: &str, now: Timestamp) {
        let mut state = self.state();
        if let Some((name, _)) = state.pods.find(namespace, name) {
            state.times.entry(&name).acknowledged_at.get_or_insert(now);
        }
    }

    /// Records that a scheduling pass found no place for a pod. Returns how long the pod waited if
    /// it is the first decision, for `karpenter_pods_scheduling_decision_duration_seconds`.
    pub fn record_unschedulable(
        &self,
        namespace: &str,
        name: &str,
        now: Timestamp,
    ) -> Option<Duration> {
        let mut state = self.state();
        let (name, _) = state.pods.find(namespace, name)?;
        let waited = state.times.record_decision(&name, now);
        state.times.map_to_claim(&name, None);
        let times = state.times.entry(&name);
        (times.schedulable_at, times.healthy_at) = (None, None);
        waited
    }

    /// Records that a scheduling pass placed a pod on a node of this NodePool; empty for nodes
    /// without one. Returns the same as [`Self::record_unschedulable`]. Bound pods, such as those
    /// of deleting nodes, are ignored.
    pub fn record_placement(
        &self,
        namespace: &str,
        name: &str,
        pool: &str,
        now: Timestamp,
    ) -> Option<Duration> {
        let mut state = self.state();
        let (name, entry) = state.pods.find(namespace, name)?;
        if entry.is_bound() {
            return None;
        }
        let is_healthy = state.workloads.healthy_pools.contains(pool);
        let waited = state.times.record_decision(&name, now);
        let times = state.times.entry(&name);
        times.schedulable_at.get_or_insert(now);
        times.healthy_at = is_healthy.then(|| times.healthy_at.unwrap_or(now));
        waited
    }

    /// Notes the NodeClaim that a pod was placed on.
    pub fn map_pod_to_claim(&self, namespace: &str, name: &str, node_claim: &str) {
        let mut state = self.state();
        if let Some((name, _)) = state.pods.find(namespace, name) {
            state.times.map_to_claim(&name, Some(node_claim));
        }
    }

    /// The times of a pod.
    pub fn pod_times(&self, namespace: &str, name: &str) -> PodTimes {
        let name = (namespace.to_owned(), name.to_owned());
        self.state().times.by_pod.get(&name).map(|times| (**times).clone()).unwrap_or_default()
    }

    /// Forgets the times of a pod that runs or is over.
    pub fn clear_pod_times(&self, namespace: &str, name: &str) {
        self.state().times.clear(&(namespace.to_owned(), name.to_owned()));
    }

    /// The pods that the last decision about them put on a NodeClaim, by namespace and name.
    pub fn pods_mapped_to(&self, node_claim: &str) -> Vec<(String, String)> {
        let state = self.state();
        let names = state.times.by_claim.get(node_claim).into_iter().flatten();
        names.map(|name| (**name).clone()).collect()
    }
}
