//! Records commands in logs and metrics (spec 30 §12, spec 45 §15).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use karpenter_api::labels;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_core::catalog::{CAPACITY_TYPE, ON_DEMAND, RESERVED, SPOT};
use karpenter_core::disruption::{Candidate, Command, Reason, Replacement};
use karpenter_core::lifecycle::TerminationMode;
use karpenter_core::lifecycle::repair::snake_case;
use karpenter_core::plan::PlannedNodeClaim;
use karpenter_operator::metrics::labels::{
    Decision, PoolDecision, TerminateFirst, UnhealthyDisrupted,
};
use karpenter_operator::telemetry::{JsonField, json};
use kube::Resource as _;
use serde_json::{Value, json as value};
use tracing::info;

use super::observation::Observation;
use crate::provisioner::claim_creation;
use crate::{Context, objects};

#[cfg(test)]
mod tests;

/// Returns a disruption reason as a metric label.
pub(super) fn reason_label(reason: Reason) -> String {
    reason.name().to_lowercase()
}

/// Returns the reason of a command as a metric label.
pub(super) fn command_reason_label(command: &Command) -> String {
    reason_label(command.reason())
}

/// Returns references to the Node and the NodeClaim of a candidate, if they exist.
pub(super) fn references(
    context: &Context,
    candidate: &Candidate,
) -> (Option<ObjectReference>, Option<ObjectReference>) {
    let node = context.cache.nodes.get("", &candidate.name);
    let claim = context.cache.node_claims.get("", &candidate.node_claim);
    (node.map(|node| node.object_ref(&())), claim.map(|claim| claim.object_ref(&())))
}

/// The log fields of a command (spec 30 §12.4).
#[derive(Debug)]
pub(super) struct CommandLogFields {
    pub(super) decision: &'static str,
    pub(super) disrupted_count: usize,
    pub(super) replacement_count: usize,
    pub(super) pod_count: usize,
    pub(super) disrupted: JsonField,
    pub(super) replacements: JsonField,
}

impl CommandLogFields {
    pub(super) fn of(observation: &Observation, command: &Command) -> Self {
        let disrupted: Vec<Value> = command
            .candidates
            .iter()
            .map(|candidate| {
                value!({
                    "Node": {"name": candidate.name},
                    "NodeClaim": {"name": candidate.node_claim},
                    "instance-type": candidate.instance_type_label,
                    "capacity-type": candidate.capacity_type.as_deref().unwrap_or_default(),
                })
            })
            .collect();
        let is_only = command.replacements.len() == 1;
        let replacements: Vec<Value> =
            command.replacements.iter().map(|one| replacement(observation, one, is_only)).collect();
        Self {
            decision: command.decision().name(),
            disrupted_count: command.candidates.len(),
            replacement_count: command.replacements.len(),
            pod_count: command.pod_count(),
            disrupted: json(&disrupted),
            replacements: json(&replacements),
        }
    }
}

fn replacement(observation: &Observation, replacement: &Replacement, is_only: bool) -> Value {
    let Some(planned) = replacement.planned() else { return value!({}) };
    let mut shown = value!({"capacity-type": capacity_type(planned)});
    if is_only {
        let pool = &observation.snapshot.pool(planned.pool).name;
        shown["instance-types"] =
            value!(claim_creation::instance_type_names(pool, &observation.catalog, planned));
    }
    shown
}

/// Returns the capacity type that a replacement would get first.
fn capacity_type(planned: &PlannedNodeClaim) -> &'static str {
    let admitted = planned.requirements.get(CAPACITY_TYPE);
    let is_admitted =
        |name: &&&'static str| admitted.is_none_or(|requirement| requirement.has(name));
    [RESERVED, SPOT, ON_DEMAND].iter().find(is_admitted).copied().unwrap_or(ON_DEMAND)
}

/// Counts a started command.
pub(super) fn count_decision(context: &Context, command: &Command) {
    let (metrics, reason) = (&context.metrics, command_reason_label(command));
    let decision = command.decision().name();
    let consolidation_type = command.method.consolidation_type();
    for nodepool in command.pools() {
        metrics.voluntary_disruption_decisions_by_nodepool.inc(&PoolDecision {
            nodepool,
            decision,
            reason: &reason,
            consolidation_type,
        });
        if let Some(why) = command.terminate_first {
            metrics.voluntary_disruption_terminate_first_decisions.inc(&TerminateFirst {
                nodepool,
                reason: &reason,
                terminate_first_reason: why.name(),
            });
        }
    }
    let labels = Decision { decision, reason: &reason, consolidation_type };
    metrics.voluntary_disruption_decisions.inc(&labels);
}

/// Counts the failed replacements of a command.
#[expect(clippy::cast_precision_loss, reason = "a few replacements")]
pub(super) fn count_failure(context: &Context, command: &Command, replacements: usize) {
    let labels = Decision {
        decision: command.decision().name(),
        reason: &command_reason_label(command),
        consolidation_type: command.method.consolidation_type(),
    };
    context.metrics.voluntary_disruption_queue_failures.add(&labels, replacements as f64);
}

/// Returns the consolidation policies of a command as metric labels, by pool. Empty for other
/// commands.
pub(super) fn consolidation_policies(
    observation: &Observation,
    command: &Command,
) -> BTreeMap<String, String> {
    let pools = command.pools().into_iter().filter(|_| command.method.is_validated());
    let policy = |name: &str| {
        let pool = observation.snapshot.managed_pools.get(name)?;
        Some((name.to_owned(), snake_case(pool.policy.name())))
    };
    pools.filter_map(policy).collect()
}

/// Counts a disrupted or rebooted node under the consolidation policy of its pool.
pub(super) fn count_disrupted(
    context: &Context,
    policies: &BTreeMap<String, String>,
    command: &Command,
    candidate: &Candidate,
    claim: &NodeClaim,
) {
    let policy = policies.get(&candidate.pool).map(String::as_str).unwrap_or_default();
    let reason = command_reason_label(command);
    objects::count_consolidated(context, claim, &reason, policy, Some(candidate.pods.len()));
    let Some(condition) = repaired_condition(command) else { return };
    let grace_period = claim.spec.termination_grace_period.as_ref();
    let grace_period = grace_period.and_then(|period| period.value().ok());
    let image = claim.status.as_ref().and_then(|status| status.image_id.as_deref());
    context.metrics.nodeclaims_unhealthy_disrupted.inc(&UnhealthyDisrupted {
        condition: &snake_case(condition),
        nodepool: objects::label(claim, labels::NODEPOOL),
        capacity_type: objects::label(claim, labels::CAPACITY_TYPE),
        image_id: image.unwrap_or_default(),
        termination_mode: TerminationMode::of(command.drain_bound.or(grace_period)).label(),
    });
}

/// Returns the condition that repair selected.
fn repaired_condition(command: &Command) -> Option<&str> {
    command.repair.as_ref().map(|chosen| chosen.repair.selected.condition_type.as_str())
}

/// Returns the condition that repair selected, as `type/reason`.
pub(super) fn repair_cause(command: &Command) -> String {
    let selected = command.repair.as_ref().map(|chosen| &chosen.repair.selected);
    let text = selected.map(|one| format!("{}/{}", one.condition_type, one.reason));
    text.unwrap_or_default()
}

/// Logs the repair policy that selected each node (spec 45 §5.4).
pub(super) fn log_repair(command: &Command) {
    let Some(chosen) = &command.repair else { return };
    let (repair, selected) = (&chosen.repair, &chosen.repair.selected);
    let bound = repair.grace_period.as_ref();
    for candidate in &command.candidates {
        info!(
            Node = candidate.name,
            condition = selected.condition_type,
            status = selected.status,
            reason = selected.reason,
            "reason-regex" = selected.policy.reason_regex,
            fallback = repair.is_fallback(),
            action = repair.action.name(),
            "eligible-at" = %repair.eligible,
            "reboot-escalated" = chosen.is_escalated,
            "termination-grace-period" = bound.map(|(period, _)| format!("{period:?}")),
            "termination-grace-period-condition" = bound.map(|(_, condition)| condition.as_str()),
            "selected repair policy"
        );
    }
}
