//! `eviction-queue`: evicts pods from their nodes, one by one, as their PodDisruptionBudgets allow.
//!
//! Drains add pods; each is retried with backoff until it leaves. Each attempt decides anew how the
//! pod leaves ([`karpenter_core::termination::eviction`]). So a pod whose budget never allows its
//! eviction is deleted at the deadline of its node.
//!
//! Invariant: a pod with an entry is in the queue, or in work. The next reconcile removes entries
//! of deleted pods, so there are at most as many as pods.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{self as whole, Node};
use karpenter_api::condition_set::{self, HasConditions, Status};
use karpenter_api::conditions::DISRUPTION_REASON;
use karpenter_cluster::ingest::conversion;
use karpenter_cluster::wire::Pod;
use karpenter_core::disruption::do_not_disrupt::PodProtection;
use karpenter_core::termination::eviction::{EvictionDecision, QueueEntry};
use karpenter_operator::events::definitions as events;
use karpenter_operator::harness::{
    Controller, Outcome, RateLimit, Reconcile, ReconcileError, ReconcileResult, WorkQueue,
};
use karpenter_operator::metrics::labels::{Code, Reason};
use karpenter_operator::watch::ObjectKey;
use kube::api::{DeleteParams, EvictParams, Preconditions};
use kube::{Api, Resource as _};
use tracing::debug;

use crate::Context;
use crate::objects::claim_of;

#[cfg(test)]
mod tests;

/// The API server's message for a pod with several PodDisruptionBudgets. It has no code of its own.
const MULTIPLE_PDBS_MESSAGE: &str = "This pod has more than one PodDisruptionBudget, which the eviction \
                               subresource does not support.";

/// The drain reason of pods whose node has no disruption reason.
const FORCEFUL_TERMINATION: &str = "Forceful Termination";

/// The pods to evict. Clones share the queue.
#[derive(Clone)]
pub struct Evictions(Arc<Inner>);

struct Inner {
    queue: WorkQueue,
    entries: Mutex<BTreeMap<ObjectKey, PendingEviction>>,
}

/// A pod to evict, with its uid: a pod recreated under the name stays.
struct PendingEviction {
    uid: String,
    entry: QueueEntry,
}

impl Evictions {
    /// An empty queue.
    pub fn new(context: &Context) -> Self {
        let queue = WorkQueue::new(&context.clock, RateLimit::eviction(workers(context)));
        Self(Arc::new(Inner { queue, entries: Mutex::default() }))
    }

    /// Queues the pod for eviction after a pause. If it is queued already, the stricter entry
    /// counts.
    pub fn add(&self, pod: &Pod, entry: QueueEntry, pause: Duration) {
        let key = ObjectKey::of(pod);
        let mut entries = self.entries();
        let present = entries.get(&key).filter(|present| present.uid == uid(pod));
        let is_new = present.is_none();
        let entry = present.map_or(entry, |present| present.entry.merge(entry));
        entries.insert(key.clone(), PendingEviction { uid: uid(pod).to_owned(), entry });
        drop(entries);
        if is_new {
            self.0.queue.add_after(&key.into(), pause);
        }
    }

    /// Whether the pod is queued for eviction.
    pub fn has(&self, pod: &Pod) -> bool {
        self.entry(pod).is_some()
    }

    /// How many pods are queued for eviction.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Whether no pod is queued for eviction.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn entry(&self, pod: &Pod) -> Option<QueueEntry> {
        let entries = self.entries();
        let leaving = entries.get(&ObjectKey::of(pod));
        leaving.filter(|leaving| leaving.uid == uid(pod)).map(|leaving| leaving.entry)
    }

    /// Removes the entry of the pod with that name.
    fn forget(&self, key: &ObjectKey) {
        self.entries().remove(key);
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, PendingEviction>> {
        // Nothing panics while it is held.
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Evictions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evictions").field("pods", &self.len()).finish_non_exhaustive()
    }
}

fn workers(context: &Context) -> usize {
    context.workers(100, 5000)
}

pub(crate) fn controller(context: &Context, evictions: &Evictions) -> Controller {
    let reconciler = EvictionReconciler { context: context.clone(), evictions: evictions.clone() };
    Controller::new("eviction-queue", &context.clock, reconciler)
        .for_kind("", "Pod")
        .workers(workers(context))
        .queue(&evictions.0.queue)
}

struct EvictionReconciler {
    context: Context,
    evictions: Evictions,
}

impl Reconcile for EvictionReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let pod = self.context.cache.pods.get(&key.namespace, &key.name);
        let wanted = pod.and_then(|pod| Some((self.evictions.entry(&pod)?, pod)));
        let Some((entry, pod)) = wanted else {
            // The pod was deleted. A pod recreated under its name is not evicted.
            self.evictions.forget(key);
            return Ok(Outcome::Done);
        };
        match entry.decide(&conversion::pod_drain_state(&pod), self.context.clock.now()) {
            EvictionDecision::Drop => {
                self.evictions.forget(key);
                Ok(Outcome::Done)
            }
            EvictionDecision::ForceDelete { deadline, grace_seconds } => {
                self.force_delete(key, &pod, deadline, grace_seconds).await
            }
            EvictionDecision::Wait(protection) => {
                publish_protection(&self.context, &pod, &protection);
                Ok(Outcome::Requeue)
            }
            EvictionDecision::Evict(protection) => {
                publish_protection(&self.context, &pod, &protection);
                self.evict(key, &pod).await
            }
        }
    }
}

impl EvictionReconciler {
    async fn evict(&self, key: &ObjectKey, pod: &Pod) -> ReconcileResult {
        let delete_options = Some(delete_params_for(pod));
        let params = EvictParams { delete_options, ..EvictParams::default() };
        let status = match self.api::<whole::Pod>(key).evict(&key.name, &params).await {
            Ok(_) => {
                self.count_response("200");
                let reason = drain_reason(&self.context, pod);
                self.context.events.publish(events::evicted(pod.object_ref(&()), &reason));
                self.context.metrics.pods_drained.inc(&Reason { reason: &reason });
                self.evictions.forget(key);
                return Ok(Outcome::Done);
            }
            Err(kube::Error::Api(status)) => status,
            Err(error) => return Err(error.into()),
        };
        self.count_response(&status.code.to_string());
        let has_several = status.message == MULTIPLE_PDBS_MESSAGE;
        match status.code {
            // It is gone, or another pod.
            404 | 409 => {
                self.evictions.forget(key);
                Ok(Outcome::Done)
            }
            code if code == 429 || has_several => {
                Ok(self.handle_pdb_violation(key, pod, has_several))
            }
            _ => Err(kube::Error::Api(status).into()),
        }
    }

    /// Handles an eviction that a PodDisruptionBudget rejects: publishes an event and retries.
    fn handle_pdb_violation(&self, key: &ObjectKey, pod: &Pod, by_several: bool) -> Outcome {
        let Some(node) = node_of(&self.context, pod) else {
            // There is nothing to drain any more. Upstream leaks the entry (spec 45 §17 #8).
            self.evictions.forget(key);
            return Outcome::Done;
        };
        let cause = if by_several {
            "eviction does not support multiple PDBs"
        } else {
            "evicting pod violates a PDB"
        };
        let error = format!("{cause} (Pod={key})");
        self.context.events.publish(events::failed_draining(node.object_ref(&()), &error));
        Outcome::Requeue
    }

    async fn force_delete(
        &self,
        key: &ObjectKey,
        pod: &Pod,
        deadline: Timestamp,
        grace_seconds: u32,
    ) -> ReconcileResult {
        let wanted = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        let wanted = wanted.unwrap_or_default();
        let about = pod.object_ref(&());
        let event = events::disrupted(about, deadline, i64::from(grace_seconds), wanted);
        self.context.events.publish(event);
        let params =
            DeleteParams { grace_period_seconds: Some(grace_seconds), ..delete_params_for(pod) };
        match self.api::<Pod>(key).delete(&key.name, &params).await {
            Ok(answer) => {
                if let Some(deleted) = answer.left() {
                    self.context.cache.pods.apply_write_result(deleted);
                }
            }
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {
                self.evictions.forget(key);
                return Ok(Outcome::Done);
            }
            Err(error) => return Err(ReconcileError::with_context("force-deleting pod", error)),
        }
        debug!(
            namespace = key.namespace,
            name = key.name,
            pod.terminationGracePeriodSeconds = wanted,
            delete.gracePeriodSeconds = grace_seconds,
            nodeclaim.terminationTime = %deadline,
            "deleting pod"
        );
        let reason = drain_reason(&self.context, pod);
        self.context.metrics.pods_drained.inc(&Reason { reason: &reason });
        self.evictions.forget(key);
        Ok(Outcome::Done)
    }

    fn api<K>(&self, key: &ObjectKey) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.context.client.clone(), &key.namespace)
    }

    fn count_response(&self, code: &str) {
        self.context.metrics.pods_eviction_requests.inc(&Code { code });
    }
}

/// Publishes an event that explains an unusual do-not-disrupt annotation of a pod.
pub(crate) fn publish_protection(context: &Context, pod: &Pod, protection: &PodProtection) {
    let about = pod.object_ref(&());
    context.events.publish(match protection {
        PodProtection::Until(time) => events::do_not_disrupt_until(about, *time),
        PodProtection::Elapsed => events::do_not_disrupt_grace_period_elapsed(about),
        PodProtection::Invalid(why) => {
            events::invalid_do_not_disrupt_annotation(about, &why.to_string())
        }
        PodProtection::None | PodProtection::Always | PodProtection::UntilStarted => return,
    });
}

/// Returns why the pod leaves, for events and metrics; empty if unknown.
fn drain_reason(context: &Context, pod: &Pod) -> String {
    let node = node_of(context, pod);
    let Some(claim) = node.and_then(|node| claim_of(&context.cache, &node)) else {
        return String::new();
    };
    condition_set::find(claim.conditions(), DISRUPTION_REASON)
        .filter(|condition| condition.status == Status::True.as_str())
        .map_or(FORCEFUL_TERMINATION.to_owned(), |condition| condition.reason.clone())
}

fn node_of(context: &Context, pod: &Pod) -> Option<Arc<Node>> {
    context.cache.nodes.get("", pod.spec.as_ref()?.node_name.as_deref()?)
}

/// Returns delete options with the uid of the pod, to spare a recreated pod.
fn delete_params_for(pod: &Pod) -> DeleteParams {
    let preconditions = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}
