//! `nodeclaim.reboot`: reboots the nodes of claims with the condition `Rebooting`, in place.
//!
//! It does not know why. [`karpenter_core::lifecycle::reboot`] derives the next step from the
//! NodeClaim, its Node and two times in memory; this controller carries it out. A reboot that fails
//! ends in the deletion of the NodeClaim, so that another node takes its place.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use karpenter_api::annotations::{
    NODECLAIM_TERMINATION_TIMESTAMP, REBOOT_PRE_BOOT_ID, REBOOT_TERMINATION_GRACE_PERIOD,
};
use karpenter_api::condition_set::{self, HasConditions, Status};
use karpenter_api::conditions::{INITIALIZED, REBOOTING};
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::reasons::{messages, nodeclaim as reasons};
use karpenter_api::{labels, taints};
use karpenter_core::lifecycle::reboot::{
    DrainBound, Failure, FailureResult, ObservedNode as NodeFacts, POLL_INTERVAL, Phase,
    ProcessMemory, Reboot, Step, operation_id,
};
use karpenter_core::termination::deadline;
use karpenter_core::termination::drain::DeadlineAction;
use karpenter_operator::cloud::CloudErrorClass;
use karpenter_operator::events::definitions as events;
use karpenter_operator::harness::{
    Controller, Outcome, RateLimit, Reconcile, ReconcileError, ReconcileResult,
};
use karpenter_operator::metrics::labels::{NoLabels, RebootResult};
use karpenter_operator::watch::ObjectKey;
use karpenter_operator::write::{self, Precondition, WriteOutcome};
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Resource as _, ResourceExt as _};
use tracing::info;

use crate::Context;
use crate::node::{Evictions, drain};
use crate::objects::{is_ready, nodes_of, provider_id};

#[cfg(test)]
mod tests;

const SUCCEEDED: &str = "succeeded";

/// Returns the controller. It runs whatever the gates are, so that a reboot that has begun ends.
pub(crate) fn controller(context: &Context, evictions: &Evictions) -> Controller {
    let reconciler = RebootReconciler {
        context: context.clone(),
        evictions: evictions.clone(),
        memories: Mutex::default(),
    };
    Controller::new("nodeclaim.reboot", &context.clock, reconciler)
        .for_kind("karpenter.sh", "NodeClaim")
        .workers(10)
        .rate_limit(&context.clock, RateLimit::REASONABLE)
        .watch_if(&context.cache.node_claims, |change| {
            let either = change.after.as_ref().or(change.before.as_ref());
            either.is_some_and(|claim| condition_set::find(claim.conditions(), REBOOTING).is_some())
        })
}

struct RebootReconciler {
    context: Context,
    evictions: Evictions,
    /// The times of running reboots, by name of the claim, with its uid. Entries of ended reboots
    /// and deleted claims are removed.
    memories: Mutex<BTreeMap<String, (String, ProcessMemory)>>,
}

/// The result of a reboot step: a value to continue with, or the outcome.
type StepResult<T> = Result<Result<T, Outcome>, ReconcileError>;

/// Continues with the value of a reboot step, or ends the reconcile.
macro_rules! go_on {
    ($part:expr) => {
        match $part? {
            Ok(value) => value,
            Err(outcome) => return Ok(outcome),
        }
    };
}

impl Reconcile for RebootReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let claim = self.context.cache.node_claims.get("", &key.name);
        let active = claim.as_ref().and_then(|claim| rebooting_condition(claim));
        let (Some(claim), Some((phase, condition))) = (&claim, active) else {
            self.forget(&key.name);
            return Ok(Outcome::Done);
        };
        if claim.metadata.deletion_timestamp.is_some() {
            // Its termination is all that matters now.
            self.forget(&key.name);
            return Ok(Outcome::Done);
        }
        if !self.context.manages_claim(claim) {
            return Ok(Outcome::Done);
        }
        let Some(phase) = phase else { return Ok(Outcome::Done) };
        self.continue_reboot(claim, phase, condition).await
    }
}

impl RebootReconciler {
    async fn continue_reboot(
        &self,
        claim: &NodeClaim,
        phase: Phase,
        condition: &Condition,
    ) -> ReconcileResult {
        let requested = condition.last_transition_time.0;
        let initialized = condition_set::find(claim.conditions(), INITIALIZED);
        let reboot = Reboot {
            phase,
            requested,
            grace_period: annotation(claim, REBOOT_TERMINATION_GRACE_PERIOD),
            pre_boot_id: annotation(claim, REBOOT_PRE_BOOT_ID),
            initialized: initialized.map(|condition| condition.last_transition_time.0),
            memory: self.memory(claim),
        };
        let node = self.node_of(claim)?;
        let facts = node
            .as_deref()
            .map(|node| NodeFacts { boot_id: boot_id(node), is_ready: is_ready(node) });
        let step = reboot.next_step(facts, self.context.clock.now());
        let node = match (step, node) {
            (Step::Fail(failure), node) => {
                return self.fail(claim, node.as_deref(), &reboot, &failure).await;
            }
            (_, None) => return Ok(Outcome::RequeueAfter(POLL_INTERVAL)),
            (step, Some(node)) => (step, node),
        };
        match node {
            (Step::Poll | Step::Fail(_), _) => Ok(Outcome::RequeueAfter(POLL_INTERVAL)),
            (Step::Drain(bound), node) => self.drain(claim, &node, &reboot, bound).await,
            (Step::CallProvider, node) => {
                go_on!(self.add_rebooting_taint(&node).await);
                self.issue_reboot(claim, &node, &reboot).await
            }
            (Step::RecordIssued, node) => {
                go_on!(self.add_rebooting_taint(&node).await);
                self.mark_issued(claim, &node).await
            }
            (Step::Observe { has_booted }, node) => {
                go_on!(self.observe(claim, &node, requested, has_booted).await);
                Ok(Outcome::RequeueAfter(POLL_INTERVAL))
            }
            (Step::Succeed, node) => {
                go_on!(self.observe(claim, &node, requested, true).await);
                self.succeed(claim, &reboot).await
            }
        }
    }

    async fn drain(
        &self,
        claim: &NodeClaim,
        node: &Node,
        reboot: &Reboot<'_>,
        bound: DrainBound,
    ) -> ReconcileResult {
        let node = go_on!(self.add_rebooting_taint(node).await);
        let name = node.name_any();
        let deadline = match bound {
            DrainBound::Until(deadline) => Some(deadline),
            DrainBound::None | DrainBound::Unbounded => None,
        };
        let has_pods = bound != DrainBound::None
            && drain::drain(
                &self.context,
                &self.evictions,
                &name,
                deadline,
                DeadlineAction::Timeout,
            )
            .is_some();
        if let Some(wait) = reboot.after_drain(bound, has_pods, self.context.clock.now()) {
            return Ok(Outcome::RequeueAfter(wait));
        }
        self.remember(claim, |memory, now| {
            memory.issuing.get_or_insert(now);
        });
        // Written before the first call, so that the next process knows that there may have been
        // one, and whether the node has rebooted. Also when the boot has no id.
        let mut noted = claim.clone();
        let annotations = noted.metadata.annotations.get_or_insert_default();
        annotations.insert(REBOOT_PRE_BOOT_ID.to_owned(), boot_id(&node).to_owned());
        let noted = go_on!(self.patch_claim(claim, noted).await);
        self.issue_reboot(&noted, &node, reboot).await
    }

    /// Calls the cloud to reboot the node. Retries have the same operation id.
    async fn issue_reboot(
        &self,
        claim: &NodeClaim,
        node: &Node,
        reboot: &Reboot<'_>,
    ) -> ReconcileResult {
        self.remember(claim, |memory, now| {
            memory.issuing.get_or_insert(now);
        });
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        let before = annotation(claim, REBOOT_PRE_BOOT_ID).unwrap_or_default();
        let id = operation_id(uid, reboot.requested, before);
        let failure = match self.context.cloud.reboot(claim, &id).await {
            Ok(()) => return self.mark_issued(claim, node).await,
            Err(error) if error.is(CloudErrorClass::NodeRebootNotImplemented) => {
                Failure::not_implemented()
            }
            Err(error)
                if error.is(CloudErrorClass::NodeRebootFailed)
                    || error.is(CloudErrorClass::NodeClaimNotFound) =>
            {
                Failure::rejected(&error.to_string())
            }
            Err(error) => return Err(ReconcileError::with_context("issuing reboot", error)),
        };
        self.fail(claim, Some(node), reboot, &failure).await
    }

    /// Marks the reboot as issued and the node as not initialized.
    async fn mark_issued(&self, claim: &NodeClaim, node: &Node) -> ReconcileResult {
        let now = self.context.clock.now();
        let mut issued = claim.clone();
        let message = condition_set::find(claim.conditions(), REBOOTING);
        let message = message.map(|condition| condition.message.clone()).unwrap_or_default();
        let mut conditions = issued.condition_set(now);
        conditions.set(REBOOTING, Status::True, reasons::REBOOT_ISSUED, &message);
        let why = (reasons::REBOOTING, messages::REBOOTING);
        conditions.set(INITIALIZED, Status::Unknown, why.0, why.1);
        let issued = go_on!(self.patch_claim_status(claim, issued).await);
        self.remember(&issued, |memory, now| {
            memory.issued.get_or_insert(now);
        });
        go_on!(self.remove_initialized_label(node).await);
        Ok(Outcome::RequeueAfter(POLL_INTERVAL))
    }

    async fn observe(
        &self,
        claim: &NodeClaim,
        node: &Node,
        requested: Timestamp,
        has_booted: bool,
    ) -> StepResult<()> {
        let node = match self.remove_initialized_label(node).await? {
            Ok(node) => node,
            Err(outcome) => return Ok(Err(outcome)),
        };
        if has_booted {
            if let Err(outcome) = self.remove_rebooting_taint(&node).await? {
                return Ok(Err(outcome));
            }
            self.context.events.publish(events::reboot_observed(claim.object_ref(&()), requested));
        }
        Ok(Ok(()))
    }

    async fn succeed(&self, claim: &NodeClaim, reboot: &Reboot<'_>) -> ReconcileResult {
        let message = "node rebooted and rejoined the cluster";
        go_on!(self.finish(claim, reasons::REBOOT_SUCCEEDED, message).await);
        self.count(SUCCEEDED, reboot.requested);
        let recovery = self.context.clock.now().duration_since(reboot.issued()).as_secs_f64();
        self.context.metrics.nodes_reboot_recovery_duration.observe(&NoLabels, recovery);
        Ok(Outcome::Done)
    }

    async fn fail(
        &self,
        claim: &NodeClaim,
        node: Option<&Node>,
        reboot: &Reboot<'_>,
        failure: &Failure,
    ) -> ReconcileResult {
        if let Some(node) = node {
            go_on!(self.remove_rebooting_taint(node).await);
        }
        let Failure { result, message } = failure;
        if *result == FailureResult::InvalidRequest {
            go_on!(self.finish(claim, reasons::REBOOT_FAILED, message).await);
        } else {
            go_on!(self.replace(claim, reboot.grace_period().ok().flatten()).await);
            self.forget(&claim.name_any());
            let (name, result) = (claim.name_any(), result.name());
            info!(NodeClaim = name, result, "reboot failed, replacing node");
        }
        let event = events::reboot_failed(claim.object_ref(&()), message, reboot.requested);
        self.context.events.publish(event);
        self.count(result.name(), reboot.requested);
        Ok(Outcome::Done)
    }

    /// Deletes the claim. The drain has as much time as the reboot's had.
    async fn replace(&self, claim: &NodeClaim, bound: Option<Duration>) -> StepResult<()> {
        let mut claim = claim.clone();
        if let Some(bound) = bound {
            const KEY: &str = NODECLAIM_TERMINATION_TIMESTAMP;
            let wanted = self.context.clock.now().checked_add(bound).unwrap_or(Timestamp::MAX);
            if let Some(text) = deadline::tighten(annotation(&claim, KEY), wanted) {
                let mut stamped = claim.clone();
                let annotations = stamped.metadata.annotations.get_or_insert_default();
                annotations.insert(KEY.to_owned(), text);
                claim = match self.patch_claim(&claim, stamped).await? {
                    Ok(claim) => claim,
                    Err(outcome) => return Ok(Err(outcome)),
                };
            }
        }
        // Only the observed version is deleted: the reboot may have succeeded in between.
        let resource_version = claim.metadata.resource_version.clone();
        let preconditions = Some(Preconditions { resource_version, uid: None });
        let params = DeleteParams { preconditions, ..DeleteParams::default() };
        match self.claims().delete(&claim.name_any(), &params).await {
            Ok(answer) => {
                if let Some(deleted) = answer.left() {
                    self.context.cache.node_claims.apply_write_result(deleted);
                }
                Ok(Ok(()))
            }
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Err(Outcome::Done)),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Err(Outcome::Requeue)),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the reboot on the claim, and removes its annotation for the next one.
    async fn finish(&self, claim: &NodeClaim, reason: &str, message: &str) -> StepResult<()> {
        let mut clean = claim.clone();
        clean.metadata.annotations.as_mut().map(|all| all.remove(REBOOT_PRE_BOOT_ID));
        let clean = match self.patch_claim(claim, clean).await? {
            Ok(clean) => clean,
            Err(outcome) => return Ok(Err(outcome)),
        };
        let mut ended = clean.clone();
        ended.condition_set(self.context.clock.now()).set_false(REBOOTING, reason, message);
        if let Err(outcome) = self.patch_claim_status(&clean, ended).await? {
            return Ok(Err(outcome));
        }
        self.forget(&claim.name_any());
        info!(NodeClaim = claim.name_any(), reason, "reboot reached terminal outcome");
        Ok(Ok(()))
    }

    fn count(&self, result: &str, requested: Timestamp) {
        let metrics = &self.context.metrics;
        let duration = self.context.clock.now().duration_since(requested).as_secs_f64();
        metrics.nodes_reboots.inc(&RebootResult { result });
        metrics.nodes_reboot_duration.observe(&RebootResult { result }, duration);
    }

    /// Taints the node, so that no pods are scheduled until it is back.
    async fn add_rebooting_taint(&self, node: &Node) -> StepResult<Node> {
        let mut tainted = node.clone();
        let taints = tainted.spec.get_or_insert_default().taints.get_or_insert_default();
        if !taints.iter().any(is_rebooting_taint) {
            taints.push(taints::rebooting());
        }
        self.patch_node(node, tainted, Precondition::ResourceVersion).await
    }

    async fn remove_rebooting_taint(&self, node: &Node) -> StepResult<Node> {
        let mut open = node.clone();
        if let Some(taints) = open.spec.as_mut().and_then(|spec| spec.taints.as_mut()) {
            taints.retain(|taint| !is_rebooting_taint(taint));
        }
        self.patch_node(node, open, Precondition::ResourceVersion).await
    }

    async fn remove_initialized_label(&self, node: &Node) -> StepResult<Node> {
        let mut plain = node.clone();
        plain.metadata.labels.as_mut().map(|all| all.remove(labels::INITIALIZED));
        self.patch_node(node, plain, Precondition::None).await
    }

    async fn patch_node(
        &self,
        before: &Node,
        after: Node,
        check: Precondition,
    ) -> StepResult<Node> {
        let api: Api<Node> = Api::all(self.context.client.clone());
        let written = write::patch(&api, before, &after, check).await?;
        if let WriteOutcome::Applied(node) = &written {
            self.context.cache.nodes.apply_write_result((**node).clone());
        }
        Ok(step_result(written, after))
    }

    async fn patch_claim(&self, before: &NodeClaim, after: NodeClaim) -> StepResult<NodeClaim> {
        let written =
            write::patch(&self.claims(), before, &after, Precondition::ResourceVersion).await?;
        self.learn(&written);
        Ok(step_result(written, after))
    }

    async fn patch_claim_status(
        &self,
        before: &NodeClaim,
        after: NodeClaim,
    ) -> StepResult<NodeClaim> {
        let written =
            write::patch_status(&self.claims(), before, &after, Precondition::ResourceVersion)
                .await?;
        self.learn(&written);
        Ok(step_result(written, after))
    }

    fn learn(&self, written: &WriteOutcome<NodeClaim>) {
        if let WriteOutcome::Applied(claim) = written {
            self.context.cache.node_claims.apply_write_result((**claim).clone());
        }
    }

    fn claims(&self) -> Api<NodeClaim> {
        Api::all(self.context.client.clone())
    }

    fn node_of(&self, claim: &NodeClaim) -> Result<Option<Arc<Node>>, ReconcileError> {
        let mut nodes = nodes_of(&self.context.cache, claim);
        let node = nodes.pop();
        if nodes.is_empty() {
            return Ok(node);
        }
        Err(ReconcileError::new("multiple nodes found")
            .with_field("provider-id", provider_id(claim)))
    }

    fn memory(&self, claim: &NodeClaim) -> ProcessMemory {
        let memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        let known = memories.get(&claim.name_any()).filter(|(of, _)| of == uid);
        known.map(|(_, memory)| *memory).unwrap_or_default()
    }

    fn remember(&self, claim: &NodeClaim, change: impl FnOnce(&mut ProcessMemory, Timestamp)) {
        let mut memory = self.memory(claim);
        change(&mut memory, self.context.clock.now());
        let uid = claim.metadata.uid.clone().unwrap_or_default();
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        memories.insert(claim.name_any(), (uid, memory));
    }

    fn forget(&self, claim: &str) {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner).remove(claim);
    }
}

/// Returns the object after a write, or the outcome that ends the reconcile. `after` is the object
/// that was to be written.
fn step_result<K>(written: WriteOutcome<K>, after: K) -> Result<K, Outcome> {
    match (written.early_outcome(), written) {
        (Some(outcome), _) => Err(outcome),
        (None, WriteOutcome::Applied(object)) => Ok(*object),
        (None, _) => Ok(after),
    }
}

/// Returns the condition of a running reboot. Its phase is none if the reason is unknown.
fn rebooting_condition(claim: &NodeClaim) -> Option<(Option<Phase>, &Condition)> {
    let condition = condition_set::find(claim.conditions(), REBOOTING)?;
    let phase = match condition.reason.as_str() {
        reasons::REBOOT_REQUESTED => Some(Phase::Requested),
        reasons::REBOOT_ISSUED => Some(Phase::Issued),
        _ => None,
    };
    (condition.status == Status::True.as_str()).then_some((phase, condition))
}

fn annotation<'a>(claim: &'a NodeClaim, key: &str) -> Option<&'a str> {
    claim.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn boot_id(node: &Node) -> &str {
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    info.map_or("", |info| info.boot_id.as_str())
}

fn is_rebooting_taint(taint: &k8s_openapi::api::core::v1::Taint) -> bool {
    taint.key == taints::REBOOTING && taint.effect == taints::NO_SCHEDULE
}
