//! Registration: the node that came up becomes the claim's (spec 40 §1.3).

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
use karpenter_core::lifecycle::registration::{self, Hook, Step};
use karpenter_operator::cloud::HookWait;
use karpenter_operator::events::list;
use karpenter_operator::harness::{Outcome, Reconciled, Trouble};
use karpenter_operator::write::{Check, Written, patch};
use kube::{Api, Resource as _, ResourceExt as _};
use tracing::{debug, error};

use super::sync::{complete, is_guarded, sync};
use super::tell::News;
use super::{Lifecycle, Pass, refresh};
use crate::objects;

impl Lifecycle {
    pub(super) async fn register(&self, claim: &mut NodeClaim, pass: &mut Pass) -> Reconciled {
        let now = self.context.clock.now();
        let nodes = objects::nodes_of(&self.context.cache, claim);
        match (
            registration::next(objects::status_of(claim, REGISTERED), nodes.len()),
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
        pass: &mut Pass,
    ) -> Reconciled {
        if !is_guarded(node) {
            error!(
                error = "missing taint prevents registration-related race conditions on \
                         Karpenter-managed nodes",
                taint = taints::UNREGISTERED,
                "node claim registration error"
            );
            self.context.events.publish(list::unregistered_taint_missing(claim.object_ref(&())));
        }
        let mut after = node.clone();
        sync(claim, &mut after);
        let hooks = self.ask_hooks(claim).await;
        if hooks.are_done {
            // Hooks may have changed the claim.
            sync(claim, &mut after);
            complete(&mut after);
        }
        let api = Api::all(self.context.client.clone());
        let written = patch(&api, node, &after, Check::Version).await;
        match written.map_err(|error| Trouble::while_("patching node", error))? {
            Written::Unchanged => {}
            Written::Done(node) => self.context.cache.nodes.learn(*node),
            Written::Conflict => return Ok(Outcome::Again),
            Written::Gone => {
                self.node_not_found(claim);
                return Ok(Outcome::Done);
            }
        }
        if !hooks.are_done {
            return hooks.result;
        }
        claim.condition_set(self.context.clock.now()).set_true(REGISTERED);
        claim.status.get_or_insert_default().node_name = Some(node.name_any());
        pass.news.push(News::Registered { node: node.name_any() });
        Ok(Outcome::Done)
    }

    fn node_not_found(&self, claim: &mut NodeClaim) {
        let mut conditions = claim.condition_set(self.context.clock.now());
        let message = messages::NODE_NOT_FOUND;
        conditions.set(REGISTERED, Status::Unknown, NODE_NOT_FOUND, message);
    }

    /// Asks all hooks at once, and puts what they want on the claim.
    async fn ask_hooks(&self, claim: &mut NodeClaim) -> Asked {
        let answers = {
            let claim = &*claim;
            join_all(self.hooks.iter().map(|hook| hook.registered(claim))).await
        };
        let (mut hooks, mut troubles) = (Vec::new(), Vec::new());
        for (answer, hook) in answers.into_iter().zip(&self.hooks) {
            hooks.push(match answer {
                Ok(answer) => {
                    if !answer.labels.is_empty() {
                        claim.labels_mut().extend(answer.labels);
                    }
                    if !answer.annotations.is_empty() {
                        claim.annotations_mut().extend(answer.annotations);
                    }
                    match answer.wait {
                        None => Hook::Done,
                        Some(HookWait::Backoff | HookWait::After(Duration::ZERO)) => Hook::Backoff,
                        Some(HookWait::After(time)) => Hook::After(time),
                    }
                }
                Err(error) => {
                    let doing = format!("registration hook {:?} failed", hook.name());
                    troubles.push(Trouble::while_(doing, error));
                    Hook::Failed
                }
            });
        }
        let all = registration::hooks(&hooks);
        if all.pending.is_empty() {
            return Asked { are_done: true, result: Ok(Outcome::Done) };
        }
        let names: Vec<_> =
            all.pending.iter().map(|&position| self.hooks[position].name()).collect();
        debug!(hooks = ?names, "awaiting registration hooks");
        let message = messages::registration_hooks_pending(&names);
        let mut conditions = claim.condition_set(self.context.clock.now());
        conditions.set(REGISTERED, Status::Unknown, REGISTRATION_HOOK_PENDING, &message);
        let result = match (Trouble::join(troubles), all.after) {
            (Some(trouble), _) => Err(trouble),
            (None, Some(time)) => Ok(Outcome::After(time)),
            (None, None) => Ok(Outcome::Again),
        };
        Asked { are_done: false, result }
    }
}

/// What hooks came to.
struct Asked {
    are_done: bool,
    /// How the step ends if they are not.
    result: Reconciled,
}
