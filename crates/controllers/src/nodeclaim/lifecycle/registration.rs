//! Registers the node of a claim (spec 40 §1.3).

use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::condition_set::Status;
use karpenter_api::conditions::REGISTERED;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::reasons::messages;
use karpenter_api::reasons::nodeclaim::{
    MULTIPLE_NODES_FOUND, NODE_NOT_FOUND, REGISTRATION_HOOK_PENDING,
};
use karpenter_api::taints;
use karpenter_core::lifecycle::registration::{self, HookResult, Step};
use karpenter_operator::cloud::HookRequeue;
use karpenter_operator::events::definitions;
use karpenter_operator::harness::{Outcome, ReconcileError, ReconcileResult};
use karpenter_operator::write::{Precondition, WriteOutcome, patch};
use kube::{Api, Resource as _, ResourceExt as _};
use tracing::{debug, error};

use super::completed_steps::CompletedStep;
use super::node_sync::{is_tainted_or_registered, mark_registered, sync_node};
use super::{LifecycleReconciler, StepResults, refresh};
use crate::objects;

impl LifecycleReconciler {
    pub(super) async fn register(
        &self,
        claim: &mut NodeClaim,
        pass: &mut StepResults,
    ) -> ReconcileResult {
        let now = self.context.clock.now();
        let nodes = objects::nodes_of(&self.context.cache, claim);
        match (
            registration::next(objects::condition_status(claim, REGISTERED), nodes.len()),
            nodes.first(),
        ) {
            (Step::Settled, _) => refresh(claim, REGISTERED, now),
            (Step::MultipleNodesFound, _) => {
                let message = messages::MULTIPLE_NODES_FOUND;
                claim.condition_set(now).set_false(REGISTERED, MULTIPLE_NODES_FOUND, message);
            }
            (Step::Sync, Some(node)) => return self.register_node(claim, node, pass).await,
            (Step::NodeNotFound | Step::Sync, _) => self.node_not_found(claim),
        }
        Ok(Outcome::Done)
    }

    async fn register_node(
        &self,
        claim: &mut NodeClaim,
        node: &Node,
        pass: &mut StepResults,
    ) -> ReconcileResult {
        if !is_tainted_or_registered(node) {
            error!(
                error = "missing taint prevents registration-related race conditions on \
                         Karpenter-managed nodes",
                taint = taints::UNREGISTERED,
                "node claim registration error"
            );
            self.context
                .events
                .publish(definitions::unregistered_taint_missing(claim.object_ref(&())));
        }
        let mut after = node.clone();
        sync_node(claim, &mut after);
        let hooks = self.run_hooks(claim).await;
        if hooks.are_done {
            // Hooks may have changed the claim.
            sync_node(claim, &mut after);
            mark_registered(&mut after);
        }
        let api = Api::all(self.context.client.clone());
        let written = patch(&api, node, &after, Precondition::ResourceVersion).await;
        match written.map_err(|error| ReconcileError::with_context("patching node", error))? {
            WriteOutcome::Unchanged => {}
            WriteOutcome::Applied(node) => self.context.cache.nodes.apply_write_result(*node),
            WriteOutcome::Conflict => return Ok(Outcome::Requeue),
            WriteOutcome::NotFound => {
                self.node_not_found(claim);
                return Ok(Outcome::Done);
            }
        }
        if !hooks.are_done {
            return hooks.result;
        }
        claim.condition_set(self.context.clock.now()).set_true(REGISTERED);
        claim.status.get_or_insert_default().node_name = Some(node.name_any());
        pass.completed_steps.push(CompletedStep::Registered { node: node.name_any() });
        Ok(Outcome::Done)
    }

    fn node_not_found(&self, claim: &mut NodeClaim) {
        let mut conditions = claim.condition_set(self.context.clock.now());
        let message = messages::NODE_NOT_FOUND;
        conditions.set(REGISTERED, Status::Unknown, NODE_NOT_FOUND, message);
    }

    /// Runs all registration hooks and adds their labels and annotations to the claim.
    async fn run_hooks(&self, claim: &mut NodeClaim) -> HookResults {
        let answers = {
            let claim = &*claim;
            join_all(self.hooks.iter().map(|hook| hook.check_registration(claim))).await
        };
        let (mut hooks, mut errors) = (Vec::new(), Vec::new());
        for (answer, hook) in answers.into_iter().zip(&self.hooks) {
            hooks.push(match answer {
                Ok(answer) => {
                    if !answer.labels.is_empty() {
                        claim.labels_mut().extend(answer.labels);
                    }
                    if !answer.annotations.is_empty() {
                        claim.annotations_mut().extend(answer.annotations);
                    }
                    match answer.requeue {
                        None => HookResult::Done,
                        Some(HookRequeue::Backoff | HookRequeue::After(Duration::ZERO)) => {
                            HookResult::Backoff
                        }
                        Some(HookRequeue::After(time)) => HookResult::RequeueAfter(time),
                    }
                }
                Err(error) => {
                    let doing = format!("registration hook {:?} failed", hook.name());
                    errors.push(ReconcileError::with_context(doing, error));
                    HookResult::Failed
                }
            });
        }
        let all = registration::combine_hook_results(&hooks);
        if all.pending.is_empty() {
            return HookResults { are_done: true, result: Ok(Outcome::Done) };
        }
        let names: Vec<_> =
            all.pending.iter().map(|&position| self.hooks[position].name()).collect();
        debug!(hooks = ?names, "awaiting registration hooks");
        let message = messages::registration_hooks_pending(&names);
        let mut conditions = claim.condition_set(self.context.clock.now());
        conditions.set(REGISTERED, Status::Unknown, REGISTRATION_HOOK_PENDING, &message);
        let result = match (ReconcileError::join(errors), all.requeue_after) {
            (Some(error), _) => Err(error),
            (None, Some(time)) => Ok(Outcome::RequeueAfter(time)),
            (None, None) => Ok(Outcome::Requeue),
        };
        HookResults { are_done: false, result }
    }
}

/// The result of all registration hooks.
struct HookResults {
    are_done: bool,
    /// The result of the step if hooks are pending.
    result: ReconcileResult,
}
