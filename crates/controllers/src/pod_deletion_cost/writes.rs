//! `pod.deletioncost.queue`: writes costs to pods, one by one.
//!
//! The last wanted cost counts. A concurrent change of a pod wins: the next ranking sees it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use karpenter_cluster::wire::Pod;
use karpenter_core::disruption::pod_deletion_cost::DesiredCost;
use karpenter_operator::harness::{
    Controller, Outcome, RateLimit, Reconcile, ReconcileResult, WorkQueue,
};
use karpenter_operator::metrics::labels::WriteResult;
use karpenter_operator::watch::ObjectKey;
use karpenter_operator::write::{Precondition, WriteOutcome, patch};
use kube::{Api, ResourceExt as _};
use tracing::debug;

use super::{POD_DELETION_COST, has_cost};
use crate::Context;

/// The wanted costs. Clones share them.
#[derive(Clone)]
pub(super) struct Writes(Arc<Inner>);

struct Inner {
    work: WorkQueue,
    /// By name, with the uid: a pod that gets the name of another is not meant.
    wanted: Mutex<BTreeMap<ObjectKey, (String, DesiredCost)>>,
}

fn workers(context: &Context) -> usize {
    context.workers(100, 5000)
}

pub(super) fn controller(context: &Context, writes: &Writes) -> Controller {
    let reconciler = CostWriteReconciler { context: context.clone(), writes: writes.clone() };
    Controller::new("pod.deletioncost.queue", &context.clock, reconciler)
        .for_kind("", "Pod")
        .workers(workers(context))
        .queue(&writes.0.work)
}

impl Writes {
    pub(super) fn new(context: &Context) -> Self {
        let limit = RateLimit::eviction(workers(context));
        let work = WorkQueue::new(&context.clock, limit);
        Self(Arc::new(Inner { work, wanted: Mutex::default() }))
    }

    /// Queues the write of this cost to the pod.
    pub(super) fn add(&self, pod: &Pod, wanted: DesiredCost) {
        let key = ObjectKey::of(pod);
        let uid = pod.uid().unwrap_or_default();
        let is_new = self.wanted().insert(key.clone(), (uid, wanted)).is_none();
        if is_new {
            self.0.work.add(key);
        }
    }

    fn get(&self, key: &ObjectKey) -> Option<(String, DesiredCost)> {
        self.wanted().get(key).cloned()
    }

    /// Removes the wanted cost, unless it has changed meanwhile.
    fn complete(&self, key: &ObjectKey, done: &(String, DesiredCost)) -> Outcome {
        let mut wanted = self.wanted();
        match wanted.get(key) {
            Some(now) if now != done => Outcome::Requeue,
            _ => {
                wanted.remove(key);
                Outcome::Done
            }
        }
    }

    fn wanted(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, (String, DesiredCost)>> {
        // Nothing panics while it is held.
        self.0.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct CostWriteReconciler {
    context: Context,
    writes: Writes,
}

impl Reconcile for CostWriteReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let Some(item) = self.writes.get(key) else { return Ok(Outcome::Done) };
        let (uid, wanted) = &item;
        let pod = self.context.cache.pods.get(&key.namespace, &key.name);
        let Some(pod) = pod.filter(|pod| pod.metadata.uid.as_ref() == Some(uid)) else {
            return Ok(self.writes.complete(key, &item));
        };
        if has_cost(&pod, *wanted) {
            self.count("skipped_unchanged");
            return Ok(self.writes.complete(key, &item));
        }
        let mut after = pod.as_ref().clone();
        let annotations = after.metadata.annotations.get_or_insert_default();
        match wanted {
            Some(cost) => annotations.insert(POD_DELETION_COST.to_owned(), cost.to_string()),
            None => annotations.remove(POD_DELETION_COST),
        };
        let api: Api<Pod> = Api::namespaced(self.context.client.clone(), &key.namespace);
        let written = patch(&api, pod.as_ref(), &after, Precondition::ResourceVersion).await;
        let result = match written.inspect_err(|_| self.count("error"))? {
            WriteOutcome::Applied(pod) => {
                self.context.cache.pods.apply_write_result(*pod);
                "updated"
            }
            WriteOutcome::Unchanged => "skipped_unchanged",
            WriteOutcome::NotFound => {
                debug!("skipping pod annotation update, target not found");
                "skipped_notfound"
            }
            WriteOutcome::Conflict => {
                debug!("skipping pod annotation update, write raced");
                "skipped_conflict"
            }
        };
        self.count(result);
        Ok(self.writes.complete(key, &item))
    }
}

impl CostWriteReconciler {
    fn count(&self, result: &str) {
        let writes = &self.context.metrics.pod_deletion_cost_pod_annotation_writes;
        writes.inc(&WriteResult { result });
    }
}
