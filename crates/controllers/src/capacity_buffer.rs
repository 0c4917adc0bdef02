//! `capacitybuffer`: resolves the pods that CapacityBuffers keep capacity for (spec 40 §6.2, spec
//! 45 §14; gate CapacityBuffer).
//!
//! The mirror makes the virtual pods itself, from the same objects, so there is no cache of them to
//! refresh: this controller writes the result to the buffer's status and wakes the provisioner.

use std::sync::Arc;
use std::time::Duration;

use karpenter_api::capacity_buffer::CapacityBuffer;
use karpenter_api::conditions::READY_FOR_PROVISIONING;
use karpenter_operator::harness::{
    Controller, Outcome, RateLimit, Reconcile, ReconcileError, ReconcileResult,
};
use karpenter_operator::options::Gate;
use karpenter_operator::watch::{Change, Index, Informer, ObjectKey};
use karpenter_operator::write::{Precondition, WriteOutcome, patch_status};
use kube::{Api, Resource, ResourceExt as _};

use self::resolve::{Resolution, resolve};
use crate::Context;

pub(crate) mod condition;
mod resolve;
#[cfg(test)]
mod tests;

const REQUEUE_INTERVAL: Duration = Duration::from_secs(30);
/// How long to wait before a retry after a conflicting write.
const CONFLICT_RETRY_INTERVAL: Duration = Duration::from_secs(1);
const WORKERS: usize = 10;

/// The controller, if the gate is on.
pub(crate) fn all(context: &Context) -> Vec<Controller> {
    if !context.options.feature_gates.is_enabled(Gate::CapacityBuffer) {
        return Vec::new();
    }
    let (cache, clock) = (&context.cache, &context.clock);
    let buffers = &cache.capacity_buffers;
    let by_template = Index::new(buffers, |buffer: &CapacityBuffer| {
        buffer.spec.pod_template_ref.as_ref().map(|template| template.name.as_str())
    });
    let by_workload = Index::new(buffers, |buffer: &CapacityBuffer| {
        buffer.spec.scalable_ref.as_ref().map(|workload| workload.name.as_str())
    });
    let controller = Controller::new(
        "capacitybuffer",
        clock,
        CapacityBufferReconciler { context: context.clone() },
    )
    .for_kind("autoscaling.x-k8s.io", "CapacityBuffer")
    .workers(WORKERS)
    .rate_limit(clock, RateLimit::REASONABLE)
    .watch(buffers)
    .watch_map(&cache.pod_templates, move |change| {
        keys_in_namespace(&by_template.get(&change.key.name), &change.key.namespace)
    });
    let controller = watch_workloads(controller, &cache.deployments, "Deployment", &by_workload);
    let controller = watch_workloads(controller, &cache.stateful_sets, "StatefulSet", &by_workload);
    vec![watch_workloads(controller, &cache.replica_sets, "ReplicaSet", &by_workload)]
}

/// Reconciles the buffers that name a workload of the kind when its generation changes.
fn watch_workloads<K>(
    controller: Controller,
    workloads: &Informer<K>,
    kind: &'static str,
    by_workload: &Index<CapacityBuffer>,
) -> Controller
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    let by_workload = by_workload.clone();
    controller.watch_map(workloads, move |change: &Change<K>| {
        let generation = |object: &Option<Arc<K>>| object.as_ref().map(|o| o.meta().generation);
        if generation(&change.before) == generation(&change.after) {
            return Vec::new();
        }
        let mut buffers = by_workload.get(&change.key.name);
        buffers.retain(|buffer| {
            buffer.spec.scalable_ref.as_ref().is_some_and(|workload| {
                let group = workload.api_group.as_deref().unwrap_or_default();
                workload.kind == kind && matches!(group, "" | "apps")
            })
        });
        keys_in_namespace(&buffers, &change.key.namespace)
    })
}

fn keys_in_namespace(buffers: &[Arc<CapacityBuffer>], namespace: &str) -> Vec<ObjectKey> {
    let keys = buffers.iter().map(|buffer| ObjectKey::of(buffer.as_ref()));
    keys.filter(|key| key.namespace == namespace).collect()
}

struct CapacityBufferReconciler {
    context: Context,
}

impl Reconcile for CapacityBufferReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let context = &self.context;
        let Some(buffer) = context.cache.capacity_buffers.get(&key.namespace, &key.name) else {
            // Nodes that the buffer kept free may be removed now.
            context.batcher.trigger_unnamed();
            return Ok(Outcome::Done);
        };
        let found = resolve(&context.cache, &buffer);
        let after = with_resolution_status(&buffer, &found, context.clock.now());
        let api: Api<CapacityBuffer> = Api::namespaced(context.client.clone(), &key.namespace);
        match patch_status(&api, &buffer, &after, Precondition::ResourceVersion).await? {
            WriteOutcome::Unchanged => {}
            WriteOutcome::Applied(written) => {
                context.cache.capacity_buffers.apply_write_result(*written);
            }
            WriteOutcome::Conflict | WriteOutcome::NotFound => {
                return Ok(Outcome::RequeueAfter(CONFLICT_RETRY_INTERVAL));
            }
        }
        if let Resolution::Failed { message, .. } = found {
            return Err(ReconcileError::with_context("resolving capacity buffer", message));
        }
        context.batcher.trigger(&buffer.uid().unwrap_or_default());
        Ok(Outcome::RequeueAfter(REQUEUE_INTERVAL))
    }
}

/// Returns the buffer with the resolution in its status.
fn with_resolution_status(
    buffer: &CapacityBuffer,
    found: &Resolution,
    now: jiff::Timestamp,
) -> CapacityBuffer {
    use karpenter_api::reasons::{capacity_buffer as reasons, messages};
    let mut after = buffer.clone();
    let generation = after.metadata.generation;
    let status = after.status.get_or_insert_default();
    status.provisioning_strategy.clone_from(&buffer.spec.provisioning_strategy);
    let (is_ready, reason, message) = match found {
        Resolution::Resolved { replicas, template } => {
            status.replicas = Some(i32::try_from(*replicas).unwrap_or(i32::MAX));
            let (name, generation) = template.clone().unzip();
            status.pod_template_ref = name;
            status.pod_template_generation = generation;
            (true, reasons::RESOLVED, messages::RESOLVED)
        }
        Resolution::Missing { reason, message } => (false, *reason, message.as_str()),
        Resolution::Unset => (false, reasons::RESOLUTION_FAILED, messages::NO_REFERENCE),
        Resolution::Failed { message } => (false, reasons::RESOLUTION_FAILED, message.as_str()),
    };
    let update = condition::ConditionUpdate {
        type_: READY_FOR_PROVISIONING,
        status: is_ready,
        reason,
        message,
    };
    condition::set(status.conditions.get_or_insert_default(), &update, generation, now);
    after
}
