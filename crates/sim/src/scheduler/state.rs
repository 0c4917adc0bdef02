//! The scheduler's state: applies changes to cache and queue, and returns decisions. It neither
//! waits nor calls the API.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod as WirePod, PodSpec, PodStatus};

use super::cache::{PendingPod, SchedulerCache};
use super::fit_error::{Blockers, FitError};
use super::placement::{Placement, schedule_pod};
use super::pod_info::PodInfo;
use super::queue::Queue;
use karpenter_operator::watch::ObjectKey;

/// The `schedulerName` of pods that this scheduler places.
pub const SCHEDULER_NAME: &str = "default-scheduler";

/// What became of a pod.
#[derive(Debug)]
pub struct Decision {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// Its node, on which it counts from now on, or why it has none.
    pub outcome: Result<Placement, FitError>,
}

/// The cache, queue and pending pods of the scheduler, without any API calls.
#[derive(Debug, Default)]
pub struct SchedulerState {
    cache: SchedulerCache,
    queue: Queue,
    pending: BTreeMap<ObjectKey, PendingPod>,
    /// Pods whose binding has been decided and not been seen yet.
    assumed: BTreeMap<ObjectKey, Arc<PodInfo>>,
    /// The blockers that changes may have removed since the last retry.
    removed_blockers: Blockers,
}

impl SchedulerState {
    /// Returns the cache, to apply changes of the cluster to it.
    /// Pass the blockers that they remove to [`Self::unblock`].
    pub fn cache_mut(&mut self) -> &mut SchedulerCache {
        &mut self.cache
    }

    /// Records that these blockers may be removed, so that pods are retried.
    pub fn unblock(&mut self, by: Blockers) {
        self.removed_blockers |= by;
    }

    /// A pod came, has changed or is gone.
    pub fn set_pod(&mut self, key: &ObjectKey, wire: Option<&WirePod>, now: Timestamp) {
        let Some(wire) = wire.filter(|wire| !is_finished(wire.status.as_ref())) else {
            self.assumed.remove(key);
            self.dequeue(key);
            self.removed_blockers |= self.cache.remove_pod(key);
            return;
        };
        let pod = PodInfo::read(wire);
        if pod.node.is_some() {
            self.assumed.remove(key);
            self.dequeue(key);
            self.removed_blockers |= self.cache.set_pod(pod);
            return;
        }
        if self.assumed.get(key).is_some_and(|assumed| assumed.uid == pod.uid) {
            // Seen as it was before it was bound.
            return;
        }
        self.assumed.remove(key);
        self.removed_blockers |= self.cache.remove_pod(key);
        if is_schedulable(wire.spec.as_ref()) && !pod.is_terminating {
            self.enqueue(pod, now);
        } else {
            self.dequeue(key);
        }
    }

    /// Schedules the next pod that is due; returns the decision.
    pub fn schedule_next(&mut self, now: Timestamp) -> Option<Decision> {
        let helps = std::mem::take(&mut self.removed_blockers);
        if helps != Blockers::NONE {
            self.queue.retry_unblocked(helps, now);
        }
        let key = self.queue.first(now)?;
        let Some(pending) = self.pending.get(&key) else {
            self.queue.remove(&key);
            return None;
        };
        let pod = Arc::clone(&pending.pod);
        let outcome = schedule_pod(pending, &self.cache);
        match &outcome {
            Ok(placement) => {
                self.cache.next_start = placement.next_start;
                self.dequeue(&key);
                let bound = PodInfo { node: Some(placement.node.clone()), ..PodInfo::clone(&pod) };
                self.removed_blockers |= self.cache.set_pod(bound);
                self.assumed.insert(key, Arc::clone(&pod));
            }
            Err(unfit) => self.queue.mark_unschedulable(&key, unfit.blockers(), now),
        }
        Some(Decision { pod, outcome })
    }

    /// A placement could not be carried out: the pod is tried again after a while.
    pub fn forget(&mut self, key: &ObjectKey, now: Timestamp) {
        let Some(pod) = self.assumed.remove(key) else { return };
        self.removed_blockers |= self.cache.remove_pod(key);
        self.enqueue(PodInfo::clone(&pod), now);
        self.queue.requeue_with_backoff(key, now);
    }

    /// When the next pod is due if nothing changes.
    pub fn next_time(&self) -> Option<Timestamp> {
        self.queue.next_time()
    }

    fn enqueue(&mut self, pod: PodInfo, now: Timestamp) {
        let known = self.pending.get(&pod.key);
        if known.is_some_and(|known| is_same(&known.pod, &pod)) {
            return;
        }
        if known.is_some_and(|known| known.pod.uid != pod.uid) {
            self.queue.remove(&pod.key);
        }
        let (key, priority, created) = (pod.key.clone(), pod.priority, pod.created);
        let pending = self.cache.prepare(pod);
        if let Some(known) = self.pending.insert(key.clone(), pending) {
            self.cache.release(&known);
        }
        self.queue.add(&key, priority, created, now);
    }

    fn dequeue(&mut self, key: &ObjectKey) {
        self.queue.remove(key);
        if let Some(pending) = self.pending.remove(key) {
            self.cache.release(&pending);
        }
    }
}

fn is_same(known: &PodInfo, pod: &PodInfo) -> bool {
    known.uid == pod.uid
        && known.labels == pod.labels
        && known.requirements == pod.requirements
        && known.priority == pod.priority
}

fn is_finished(status: Option<&PodStatus>) -> bool {
    let phase = status.and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn is_schedulable(spec: Option<&PodSpec>) -> bool {
    spec.is_some_and(|spec| {
        matches!(spec.scheduler_name.as_deref(), None | Some("" | SCHEDULER_NAME))
            && spec.scheduling_gates.as_ref().is_none_or(Vec::is_empty)
    })
}
