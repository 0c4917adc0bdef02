//! `nodeclaim.lifecycle`: launches, registers, initializes and finalizes NodeClaims.
//!
//! ```text
//! finalizer ─▶ launch ─▶ registration ─▶ initialization ─▶ save ─▶ record ─▶ liveness
//! deleted:     deadline ─▶ nodes ─▶ instance ─▶ finalizer
//! ```
//!
//! Every step runs in every pass, on a copy of the claim; [`save`] writes what they changed. Steps
//! are logged and counted after they are written, so once. Start reading at
//! [`LifecycleReconciler::run_steps`].
//!
//! Invariants, also when the process is killed at any point:
//! - nothing is launched before our finalizer is on the claim, so no claim is removed before its
//!   instance;
//! - this process launches once for a claim ([`lifecycle_cache`]); the next process calls the
//!   provider again, which knows the claim by name;
//! - the finalizer is removed when the cloud no longer has the instance, or when there was none.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::ResourceSlice;
use karpenter_api::condition_set::{HasConditions as _, Status, find};
use karpenter_api::conditions::REGISTERED;
use karpenter_api::finalizers::TERMINATION;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_core::lifecycle::ConditionStatus;
use karpenter_operator::cloud::RegistrationHook;
use karpenter_operator::harness::{
    Controller, Outcome, RateLimit, Reconcile, ReconcileError, ReconcileResult,
};
use karpenter_operator::watch::{Change, Index, ObjectKey};
use karpenter_operator::write::{Precondition, WriteOutcome, patch};
use kube::{Api, ResourceExt as _};

use crate::{Context, objects};

mod completed_steps;
mod finalize;
mod initialization;
mod launch;
mod lifecycle_cache;
mod liveness;
mod node_sync;
mod registration;
mod save;
#[cfg(test)]
mod tests;

use completed_steps::CompletedStep;
use launch::LaunchResult;
use lifecycle_cache::LifecycleCache;
use save::SaveResult;

pub(crate) fn controller(context: &Context) -> Controller {
    let hooks = context.cloud.registration_hooks();
    let lifecycle = LifecycleReconciler::new(context, hooks);
    let workers = context.workers(1000, 5000);
    let (managed, by_node, by_slice) = (context.clone(), context.clone(), context.clone());
    let controller = Controller::new("nodeclaim.lifecycle", &context.clock, lifecycle)
        .for_kind("karpenter.sh", "NodeClaim")
        .workers(workers)
        .rate_limit(&context.clock, RateLimit::lifecycle(workers))
        .watch_if(&context.cache.node_claims, move |change| {
            objects::is_managed_claim_change(&managed, change)
        })
        .watch_map(&context.cache.nodes, move |change| {
            objects::claim_keys_of_node_change(&by_node, change)
        });
    if context.options.ignore_dra_requests {
        return controller;
    }
    controller
        .watch_map(&context.cache.resource_slices, move |change| claims_of_slice(&by_slice, change))
}

/// Returns the claims of the node that has the devices of the slice.
fn claims_of_slice(context: &Context, change: &Change<ResourceSlice>) -> Vec<ObjectKey> {
    let slice = change.after.as_ref().or(change.before.as_ref());
    let name = slice.and_then(|slice| initialization::node_of_slice(slice));
    let node: Option<Arc<Node>> = name.and_then(|name| context.cache.nodes.get("", name));
    let key = ObjectKey::default();
    objects::claim_keys_of_node_change(context, &Change { key, before: None, after: node })
}

struct LifecycleReconciler {
    context: Context,
    hooks: Vec<Arc<dyn RegistrationHook>>,
    lifecycle_cache: LifecycleCache,
    /// Slices of devices by the name of the node that they are on.
    slices: Index<ResourceSlice>,
}

impl Reconcile for LifecycleReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let Some(claim) = self.context.cache.node_claims.get("", &key.name) else {
            return Ok(Outcome::Done);
        };
        if !self.context.manages_claim(&claim) {
            return Ok(Outcome::Done);
        }
        if claim.metadata.deletion_timestamp.is_some() {
            return self.finalize(&claim).await;
        }
        match self.ensure_finalizer(&claim).await? {
            Ok(claim) => self.run_steps(&claim).await,
            Err(end) => Ok(end),
        }
    }
}

impl LifecycleReconciler {
    fn new(context: &Context, hooks: Vec<Arc<dyn RegistrationHook>>) -> Self {
        let slices = Index::new(&context.cache.resource_slices, |slice| {
            initialization::node_of_slice(slice)
        });
        Self { context: context.clone(), hooks, lifecycle_cache: LifecycleCache::new(), slices }
    }

    fn api(&self) -> Api<NodeClaim> {
        Api::all(self.context.client.clone())
    }

    /// Returns the claim with our finalizer, which it adds if necessary. The finalizer is added
    /// before anything is launched; without it an instance could outlive its claim. The inner error
    /// is the outcome that ends the reconcile.
    async fn ensure_finalizer(
        &self,
        claim: &Arc<NodeClaim>,
    ) -> Result<Result<NodeClaim, Outcome>, ReconcileError> {
        let mut after = claim.as_ref().clone();
        if after.finalizers().iter().any(|finalizer| finalizer == TERMINATION) {
            return Ok(Ok(after));
        }
        after.finalizers_mut().push(TERMINATION.to_owned());
        let written =
            patch(&self.api(), claim.as_ref(), &after, Precondition::ResourceVersion).await?;
        if let Some(end) = written.early_outcome() {
            return Ok(Err(end));
        }
        if let WriteOutcome::Applied(answer) = written {
            after = *answer;
            self.context.cache.node_claims.apply_write_result(after.clone());
        }
        Ok(Ok(after))
    }

    /// Returns the claim with its provider id, restored from its node if cleared. Without the id,
    /// the instance would count as gone, or stay when the claim is deleted.
    fn with_provider_id(&self, mut claim: NodeClaim) -> NodeClaim {
        let is_registered = objects::condition_status(&claim, REGISTERED) == ConditionStatus::True;
        if is_registered
            && objects::provider_id(&claim).is_empty()
            && let Some(node) = objects::owned_node(&self.context.cache, &claim)
        {
            let id = objects::node_provider_id(&node).to_owned();
            claim.status.get_or_insert_default().provider_id = Some(id);
        }
        claim
    }

    /// Runs all steps of a claim that is not being deleted.
    async fn run_steps(&self, before: &NodeClaim) -> ReconcileResult {
        let mut claim = self.with_provider_id(before.clone());
        let mut pass = StepResults::default();
        match self.launch(&mut claim).await {
            Ok(LaunchResult::Deleted) => return Ok(Outcome::Done),
            Ok(LaunchResult::Kept) => {}
            Err(error) => pass.errors.push(error),
        }
        let registered = self.register(&mut claim, &mut pass).await;
        pass.add(registered);
        let initialized = self.initialize(&mut claim, &mut pass).await;
        pass.add(initialized);
        match self.save(before, &claim).await {
            Ok(SaveResult::Gone) => return Ok(Outcome::Done),
            Ok(SaveResult::Conflict) => pass.add(Ok(Outcome::Requeue)),
            Ok(SaveResult::Done) => {
                let recorded = self
                    .record_completed_steps(&claim, std::mem::take(&mut pass.completed_steps))
                    .await;
                pass.add(recorded);
            }
            Err(error) => pass.errors.push(error),
        }
        let alive = self.check_liveness(&claim).await;
        pass.add(alive);
        match ReconcileError::join(pass.errors) {
            Some(error) => Err(error),
            None => Ok(pass.outcome),
        }
    }
}

/// The results of the steps of one pass.
#[derive(Debug, Default)]
struct StepResults {
    outcome: Outcome,
    errors: Vec<ReconcileError>,
    /// Steps to record after the claim is saved.
    completed_steps: Vec<CompletedStep>,
}

impl StepResults {
    fn add(&mut self, result: ReconcileResult) {
        match result {
            Ok(outcome) => self.outcome = self.outcome.sooner(outcome),
            Err(error) => self.errors.push(error),
        }
    }
}

/// Sets a condition to its current value, for the current generation of the claim.
fn refresh(claim: &mut NodeClaim, condition: &str, now: jiff::Timestamp) {
    let Some(known) = find(claim.conditions(), condition).cloned() else { return };
    let all = [Status::True, Status::False];
    let status = all.into_iter().find(|status| status.as_str() == known.status);
    let status = status.unwrap_or(Status::Unknown);
    claim.condition_set(now).set(condition, status, &known.reason, &known.message);
}
