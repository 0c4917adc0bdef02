//! Writes the result of a decision to CapacityBuffers and the mirror (spec 20 §2.2, §3.20).
//!
//! Buffers get their condition Provisioning. The mirror gets the number of virtual pods on each
//! node, so that it does not count as empty.

use std::collections::BTreeMap;

use karpenter_api::capacity_buffer::CapacityBuffer;
use karpenter_api::condition_set::is_true;
use karpenter_api::conditions::{PROVISIONING, READY_FOR_PROVISIONING};
use karpenter_core::buffers::virtual_pods::{
    Placements, ProvisioningCondition, placements, virtual_pods_by_node,
};
use karpenter_operator::harness::ReconcileError;
use karpenter_operator::write::{Precondition, WriteOutcome, patch_status};
use kube::{Api, ResourceExt as _};
use tracing::error;

use super::decision::Decision;
use crate::Context;
use crate::capacity_buffer::condition;

/// Updates the buffers after a decision; none if no pods had to be placed. Failures are logged: the
/// next pass retries them.
pub(super) async fn update_buffers(context: &Context, decision: Option<&Decision>) {
    let plan = decision.and_then(|decision| Some((&decision.snapshot, decision.plan.as_ref()?)));
    let counts = plan.map(|(snapshot, plan)| {
        let by_node = virtual_pods_by_node(snapshot, plan).into_iter();
        let count = |count| u32::try_from(count).unwrap_or(u32::MAX);
        by_node.map(|(node, pods)| (snapshot.node(node).provider_id.clone(), count(pods))).collect()
    });
    context.mirror.set_buffer_pods(counts.unwrap_or_default());
    let placed: BTreeMap<_, _> =
        plan.map(|(snapshot, plan)| placements(snapshot, plan)).unwrap_or_default();
    for buffer in context.cache.capacity_buffers.all() {
        let key = (buffer.namespace().unwrap_or_default(), buffer.name_any());
        if let Err(error) = write_condition(context, &buffer, placed.get(&key).copied()).await {
            let name = format!("{}/{}", key.0, key.1);
            error!(CapacityBuffer = name, error = %error, "failed to update buffer condition");
        }
    }
}

async fn write_condition(
    context: &Context,
    buffer: &CapacityBuffer,
    placements: Option<Placements>,
) -> Result<(), ReconcileError> {
    let status = buffer.status.clone().unwrap_or_default();
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let replicas = status.replicas.map(|replicas| u32::try_from(replicas).unwrap_or(0));
    let is_ready = is_true(conditions, READY_FOR_PROVISIONING);
    let Some(next) = ProvisioningCondition::next(is_ready, replicas, placements) else {
        return Ok(());
    };
    let mut after = buffer.clone();
    let conditions = after.status.get_or_insert_default().conditions.get_or_insert_default();
    let ProvisioningCondition { status, reason, message } = &next;
    let update =
        condition::ConditionUpdate { type_: PROVISIONING, status: *status, reason, message };
    condition::set(conditions, &update, buffer.metadata.generation, context.clock.now());
    let namespace = buffer.namespace().unwrap_or_default();
    let api: Api<CapacityBuffer> = Api::namespaced(context.client.clone(), &namespace);
    // A conflicting write changed the buffer, so another pass follows.
    if let WriteOutcome::Applied(written) =
        patch_status(&api, buffer, &after, Precondition::ResourceVersion).await?
    {
        context.cache.capacity_buffers.apply_write_result(*written);
    }
    Ok(())
}
