//! Defines every event of core: one constructor per row of the spec's table (spec 40 §8.3, spec 45
//! §15.2).
//!
//! Objects are references; `kube::Resource::object_ref` makes one. Texts, types, dedupe values and
//! dedupe timeouts are here and nowhere else.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;

use super::{Event, Severity, SharedLimiter};

/// Reasons of events.
pub mod reasons {
    #![allow(missing_docs)]
    pub const DISRUPTION_BLOCKED: &str = "DisruptionBlocked";
    pub const DISRUPTION_LAUNCHING: &str = "DisruptionLaunching";
    pub const DISRUPTION_TERMINATING: &str = "DisruptionTerminating";
    pub const DISRUPTION_WAITING_READINESS: &str = "DisruptionWaitingReadiness";
    pub const UNCONSOLIDATABLE: &str = "Unconsolidatable";
    pub const CONSOLIDATION_CANDIDATE: &str = "ConsolidationCandidate";
    pub const CONSOLIDATION_REJECTED: &str = "ConsolidationRejected";
    pub const CONSOLIDATION_APPROVED: &str = "ConsolidationApproved";
    pub const FAILED_SCHEDULING: &str = "FailedScheduling";
    pub const NO_COMPATIBLE_INSTANCE_TYPES: &str = "NoCompatibleInstanceTypes";
    pub const NOMINATED: &str = "Nominated";
    pub const NODE_REPAIR_BLOCKED: &str = "NodeRepairBlocked";
    pub const REBOOT_OBSERVED: &str = "RebootObserved";
    pub const REBOOT_FAILED: &str = "RebootFailed";
    pub const DISRUPTED: &str = "Disrupted";
    pub const EVICTED: &str = "Evicted";
    pub const FAILED_DRAINING: &str = "FailedDraining";
    pub const AWAITING_VOLUME_DETACHMENT: &str = "AwaitingVolumeDetachment";
    pub const TERMINATION_GRACE_PERIOD_EXPIRING: &str = "TerminationGracePeriodExpiring";
    pub const FAILED_CONSISTENCY_CHECK: &str = "FailedConsistencyCheck";
    pub const INSUFFICIENT_CAPACITY_ERROR: &str = "InsufficientCapacityError";
    pub const UNREGISTERED_TAINT_MISSING: &str = "UnregisteredTaintMissing";
    pub const NODE_CLASS_NOT_READY: &str = "NodeClassNotReady";
    pub const INVALID_DO_NOT_DISRUPT_ANNOTATION: &str = "InvalidDoNotDisruptAnnotation";
    pub const DO_NOT_DISRUPT_UNTIL: &str = "DoNotDisruptUntil";
    pub const DO_NOT_DISRUPT_GRACE_PERIOD_ELAPSED: &str = "DoNotDisruptGracePeriodElapsed";
    pub const FINALIZED: &str = "Finalized";
}

use Severity::{Normal, Warning};
use reasons as r;

const MINUTE: Duration = Duration::from_mins(1);
/// The longest message of an event about a failed launch, in bytes.
const MAX_LAUNCH_MESSAGE_BYTES: usize = 1024;
/// The most volume attachments that a message names.
const MAX_NAMED_ATTACHMENTS: usize = 5;

/// A launch found no capacity.
pub fn insufficient_capacity(node_claim: ObjectReference, error: &str) -> Event {
    let message = truncated(format!("NodeClaim {} event: {error}", name(&node_claim)));
    deduplicated_by_uid(node_claim, Warning, r::INSUFFICIENT_CAPACITY_ERROR, message)
}

/// A launch for this pod found no capacity.
pub fn insufficient_capacity_for_pod(pod: ObjectReference, node_claim: &str, error: &str) -> Event {
    let message =
        format!("NodeClaim {node_claim} nominated for this pod failed to launch: {error}");
    deduplicated_by_uid(pod, Warning, r::INSUFFICIENT_CAPACITY_ERROR, truncated(message))
        .with_shared_limiter(SharedLimiter::InsufficientCapacity)
}

/// A launch found its node class not ready.
pub fn node_class_not_ready(node_claim: ObjectReference, error: &str) -> Event {
    let message = truncated(format!("NodeClaim {} event: {error}", name(&node_claim)));
    deduplicated_by_uid(node_claim, Warning, r::NODE_CLASS_NOT_READY, message)
}

/// The node booted again in the reboot requested at that time.
pub fn reboot_observed(node_claim: ObjectReference, requested: Timestamp) -> Event {
    let message = "New boot observed (bootID changed); awaiting node readiness";
    reboot_event(node_claim, Normal, r::REBOOT_OBSERVED, message, requested)
}

/// The reboot requested at that time failed.
pub fn reboot_failed(node_claim: ObjectReference, message: &str, requested: Timestamp) -> Event {
    reboot_event(node_claim, Warning, r::REBOOT_FAILED, message, requested)
}

fn reboot_event(
    node_claim: ObjectReference,
    severity: Severity,
    reason: &'static str,
    message: &str,
    requested: Timestamp,
) -> Event {
    let dedupe = [uid(&node_claim), requested.to_string()];
    Event::new(node_claim, severity, reason, message, dedupe).with_dedupe_timeout(30 * MINUTE)
}

/// A node came without the taint that keeps pods away until it is registered.
pub fn unregistered_taint_missing(node_claim: ObjectReference) -> Event {
    let message = "Missing karpenter.sh/unregistered taint which prevents registration related \
                   race conditions on Karpenter-managed nodes";
    deduplicated_by_uid(node_claim, Warning, r::UNREGISTERED_TAINT_MISSING, message)
}

/// A node is not what its claim promised.
pub fn failed_consistency_check(node_claim: ObjectReference, issue: &str) -> Event {
    let dedupe = [uid(&node_claim), issue.to_owned()];
    Event::new(node_claim, Warning, r::FAILED_CONSISTENCY_CHECK, issue, dedupe)
}

/// The pods of a Node, or of a NodeClaim's, have until then. `time` is as its annotation has it.
pub fn termination_grace_period_expiring(object: ObjectReference, time: &str) -> Event {
    let dedupe = [name(&object).to_owned()];
    let message = format!("All pods will be deleted by {time}");
    Event::new(object, Warning, r::TERMINATION_GRACE_PERIOD_EXPIRING, message, dedupe)
}

/// A drain does not go on.
pub fn failed_draining(node: ObjectReference, error: &str) -> Event {
    let dedupe = [name(&node).to_owned()];
    let message = format!("Failed to drain node, {error}");
    Event::new(node, Warning, r::FAILED_DRAINING, message, dedupe)
}

/// A drained node has volumes still.
pub fn awaiting_volume_detachment(node: ObjectReference, attachments: &[&str]) -> Event {
    let dedupe = [name(&node).to_owned()];
    let shown =
        attachments.iter().take(MAX_NAMED_ATTACHMENTS).copied().collect::<Vec<_>>().join(", ");
    let rest = match attachments.len().saturating_sub(MAX_NAMED_ATTACHMENTS) {
        0 => String::new(),
        rest => format!(" and {rest} other(s)"),
    };
    let message = format!("Awaiting deletion of bound volumeattachments ({shown}{rest})");
    Event::new(node, Normal, r::AWAITING_VOLUME_DETACHMENT, message, dedupe)
}

/// A pod was evicted. Upstream compares names of pods alone; here their namespaces count (spec 40
/// Q5).
pub fn evicted(pod: ObjectReference, drain_reason: &str) -> Event {
    let dedupe = namespaced_name(&pod);
    Event::new(pod, Normal, r::EVICTED, format!("Evicted pod: {drain_reason}"), dedupe)
}

/// A pod was deleted, as its node has to end by then.
pub fn disrupted(
    pod: ObjectReference,
    termination_time: Timestamp,
    granted_seconds: i64,
    wanted_seconds: i64,
) -> Event {
    let time = termination_time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC");
    let message = format!(
        "Deleting the pod to accommodate the terminationTime {time} of the node. The pod was \
         granted {granted_seconds} seconds of grace-period of its {wanted_seconds} \
         terminationGracePeriodSeconds. This bypasses the PDB of the pod and the do-not-disrupt \
         annotation."
    );
    let dedupe = namespaced_name(&pod);
    Event::new(pod, Normal, r::DISRUPTED, message, dedupe)
}

/// Returns events that repair is blocked, one for each object.
pub fn node_repair_blocked(
    objects: impl IntoIterator<Item = ObjectReference>,
    message: &str,
) -> Vec<Event> {
    let event = |object| deduplicated_by_uid(object, Warning, r::NODE_REPAIR_BLOCKED, message);
    objects.into_iter().map(|object| event(object).with_dedupe_timeout(15 * MINUTE)).collect()
}

/// A pod's annotation cannot be read.
pub fn invalid_do_not_disrupt_annotation(pod: ObjectReference, why: &str) -> Event {
    let dedupe = [uid(&pod), why.to_owned()];
    let message =
        format!("Invalid karpenter.sh/do-not-disrupt annotation: {why}, ignoring annotation");
    Event::new(pod, Warning, r::INVALID_DO_NOT_DISRUPT_ANNOTATION, message, dedupe)
}

/// A pod's annotation protects it until then.
pub fn do_not_disrupt_until(pod: ObjectReference, time: Timestamp) -> Event {
    let time = time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let message = format!("The karpenter.sh/do-not-disrupt grace period will elapse at {time}");
    let dedupe = [uid(&pod), time];
    Event::new(pod, Normal, r::DO_NOT_DISRUPT_UNTIL, message, dedupe)
}

/// A pod's annotation protects it no longer.
pub fn do_not_disrupt_grace_period_elapsed(pod: ObjectReference) -> Event {
    let message =
        "The karpenter.sh/do-not-disrupt grace period has elapsed, pod is now disruptable";
    deduplicated_by_uid(pod, Normal, r::DO_NOT_DISRUPT_GRACE_PERIOD_ELAPSED, message)
}

/// A pod has a place: on a new claim, on a node, or on a node of a claim.
pub fn nominated(pod: ObjectReference, node_claim: Option<&str>, node: Option<&str>) -> Event {
    let claim = node_claim.map(|name| format!("nodeclaim/{name}"));
    let node = node.map(|name| format!("node/{name}"));
    let places = claim.into_iter().chain(node).collect::<Vec<_>>().join(", ");
    let message = format!("Pod should schedule on: {places}");
    deduplicated_by_uid(pod, Normal, r::NOMINATED, message)
        .with_shared_limiter(SharedLimiter::Nominated)
}

/// A pod has no place.
pub fn failed_scheduling(pod: ObjectReference, error: &str) -> Event {
    deduplicated_by_uid(
        pod,
        Warning,
        r::FAILED_SCHEDULING,
        format!("Failed to schedule pod, {error}"),
    )
    .with_dedupe_timeout(5 * MINUTE)
}

/// A pool can launch nothing.
pub fn no_compatible_instance_types(pool: ObjectReference, because_of_min_values: bool) -> Event {
    let why = if because_of_min_values { " due to minValues incompatibility" } else { "" };
    let message =
        format!("NodePool requirements filtered out all compatible available instance types{why}");
    deduplicated_by_uid(pool, Warning, r::NO_COMPATIBLE_INSTANCE_TYPES, message)
        .with_dedupe_timeout(MINUTE)
}

/// A replacement is being launched.
pub fn disruption_launching(node_claim: ObjectReference, reason: &str) -> Event {
    let dedupe = [uid(&node_claim), reason.to_owned()];
    let message = format!("Launching NodeClaim: {}", title_case(reason));
    Event::new(node_claim, Normal, r::DISRUPTION_LAUNCHING, message, dedupe)
}

/// A replacement is not ready yet.
pub fn disruption_waiting_readiness(node_claim: ObjectReference) -> Event {
    let message = "Waiting on readiness to continue disruption";
    deduplicated_by_uid(node_claim, Normal, r::DISRUPTION_WAITING_READINESS, message)
}

/// A node and its claim go.
pub fn disruption_terminating(
    node: ObjectReference,
    node_claim: ObjectReference,
    reason: &str,
) -> [Event; 2] {
    let event = |object: ObjectReference, kind: &str| {
        let dedupe = [uid(&object), reason.to_owned()];
        let message = format!("Disrupting {kind}: {}", title_case(reason));
        Event::new(object, Normal, r::DISRUPTION_TERMINATING, message, dedupe)
    };
    [event(node, "Node"), event(node_claim, "NodeClaim")]
}

/// Consolidation leaves a node alone.
pub fn unconsolidatable(
    node: ObjectReference,
    node_claim: ObjectReference,
    message: &str,
) -> [Event; 2] {
    [node, node_claim].map(|object| {
        deduplicated_by_uid(object, Normal, r::UNCONSOLIDATABLE, message)
            .with_dedupe_timeout(15 * MINUTE)
    })
}

/// Returns events that a node cannot be disrupted, for its Node and NodeClaim.
pub fn disruption_blocked(
    node: Option<ObjectReference>,
    node_claim: Option<ObjectReference>,
    message: &str,
) -> Vec<Event> {
    let objects = node.into_iter().chain(node_claim);
    objects
        .map(|object| deduplicated_by_uid(object, Normal, r::DISRUPTION_BLOCKED, message))
        .collect()
}

/// The budgets of a pool allow nothing, whatever the reason.
pub fn nodepool_blocked(pool: ObjectReference) -> Event {
    let message = "No allowed disruptions due to blocking budget";
    deduplicated_by_uid(pool, Normal, r::DISRUPTION_BLOCKED, message).with_dedupe_timeout(MINUTE)
}

/// A budget of a pool cannot be understood, so that it allows nothing. Ours.
pub fn nodepool_budgets_invalid(pool: ObjectReference, flaw: &str) -> Event {
    let dedupe = [uid(&pool), flaw.to_owned()];
    let message = format!("No allowed disruptions, {flaw}");
    Event::new(pool, Warning, r::DISRUPTION_BLOCKED, message, dedupe)
}

/// The budgets of a pool allow nothing for a reason.
pub fn nodepool_blocked_for_reason(pool: ObjectReference, reason: &str) -> Event {
    let dedupe = [uid(&pool), reason.to_owned()];
    let message =
        format!("No allowed disruptions for disruption reason {reason} due to blocking budget");
    Event::new(pool, Normal, r::DISRUPTION_BLOCKED, message, dedupe).with_dedupe_timeout(MINUTE)
}

/// Returns events that a consolidation considers the node.
pub fn consolidation_candidate(
    node: ObjectReference,
    node_claim: ObjectReference,
    command: &str,
    savings: f64,
) -> [Event; 2] {
    let message = format!("Consolidation candidate: {command} (savings: ${savings:.2})");
    [node, node_claim].map(|object| {
        let dedupe = [uid(&object), command.to_owned()];
        Event::new(object, Normal, r::CONSOLIDATION_CANDIDATE, &*message, dedupe)
    })
}

/// A node is part of a consolidation that was not carried out.
pub fn consolidation_rejected(
    node: ObjectReference,
    node_claim: ObjectReference,
    command: &str,
    reason: &str,
    savings: f64,
) -> [Event; 2] {
    let message =
        format!("Consolidation rejected: {command}, reason: {reason} (savings: ${savings:.2})");
    [node, node_claim].map(|object| {
        let dedupe = [uid(&object), command.to_owned(), reason.to_owned()];
        Event::new(object, Normal, r::CONSOLIDATION_REJECTED, &*message, dedupe)
    })
}

/// The score that the Balanced policy calculated for a consolidation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BalancedScore {
    /// Savings for disruption.
    pub score: f64,
    /// What it has to be at least.
    pub threshold: f64,
    /// The policy's parameter.
    pub k: i32,
    /// Savings in percent.
    pub savings_percent: f64,
    /// Disruption in percent.
    pub disruption_percent: f64,
}

/// Returns events that the Balanced policy approved a consolidation, one for each object: node and
/// claim, or for several nodes the NodePool.
pub fn consolidation_approved(
    objects: impl IntoIterator<Item = ObjectReference>,
    score: BalancedScore,
) -> Vec<Event> {
    let BalancedScore { score, threshold, k, savings_percent, disruption_percent } = score;
    let message = format!(
        "score {score:.2} >= threshold {threshold:.2} (k: {k}, savings {savings_percent:.1}%, \
         disruption {disruption_percent:.1}%)"
    );
    let event = |object| deduplicated_by_uid(object, Normal, r::CONSOLIDATION_APPROVED, &*message);
    objects.into_iter().map(event).collect()
}

/// A condition has changed; never the same as another.
pub fn condition_transitioned(
    object: ObjectReference,
    condition_type: &str,
    (from, to): (&str, &str),
    reason: &str,
    message: &str,
) -> Event {
    let rest = if message.is_empty() { String::new() } else { format!(", Message: {message}") };
    let message = format!(
        "Status condition transitioned, Type: {condition_type}, Status: {from} -> {to}, \
         Reason: {reason}{rest}"
    );
    Event::new(object, Normal, condition_type.to_owned(), message, [""; 0])
}

/// A finalizer is gone; never the same as another.
pub fn finalized(object: ObjectReference, finalizer: &str) -> Event {
    Event::new(object, Normal, r::FINALIZED, format!("Finalized {finalizer}"), [""; 0])
}

/// Returns an event that is deduplicated by the uid of its object.
fn deduplicated_by_uid(
    object: ObjectReference,
    severity: Severity,
    reason: &'static str,
    message: impl Into<String>,
) -> Event {
    let dedupe = [uid(&object)];
    Event::new(object, severity, reason, message, dedupe)
}

fn uid(object: &ObjectReference) -> String {
    object.uid.clone().unwrap_or_default()
}

fn name(object: &ObjectReference) -> &str {
    object.name.as_deref().unwrap_or_default()
}

fn namespaced_name(pod: &ObjectReference) -> [String; 2] {
    [pod.namespace.clone().unwrap_or_default(), name(pod).to_owned()]
}

/// At most the longest text, cut at a character.
fn truncated(text: String) -> String {
    if text.len() <= MAX_LAUNCH_MESSAGE_BYTES {
        return text;
    }
    let end = text.floor_char_boundary(MAX_LAUNCH_MESSAGE_BYTES - 3);
    format!("{}...", &text[..end])
}

/// Returns the text with the first letter of each word in upper case.
fn title_case(text: &str) -> String {
    let mut starts_word = true;
    let mut titled = String::with_capacity(text.len());
    for letter in text.chars() {
        if starts_word {
            titled.extend(letter.to_uppercase());
        } else {
            titled.push(letter);
        }
        starts_word = letter.is_whitespace();
    }
    titled
}

#[cfg(test)]
mod tests;
