//! Launches the instance of a claim (spec 40 §1.2, spec 45 §12.1).

use karpenter_api::condition_set::Status;
use karpenter_api::conditions::LAUNCHED;
use karpenter_api::labels;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::reasons::messages;
use karpenter_api::reasons::nodeclaim::LAUNCH_FAILED;
use karpenter_core::lifecycle::ConditionStatus;
use karpenter_core::lifecycle::launch::{self, Failure, FailureAction, Step};
use karpenter_operator::cloud::{CloudError, CloudErrorClass};
use karpenter_operator::events::definitions;
use karpenter_operator::harness::ReconcileError;
use kube::{Resource as _, ResourceExt as _};
use tracing::{error, info};

use super::{LifecycleReconciler, refresh};
use crate::objects::{self, DeleteResult};

/// The result of the launch step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LaunchResult {
    /// The claim exists.
    Kept,
    /// The claim was deleted, as it cannot be launched now.
    Deleted,
}

impl LifecycleReconciler {
    pub(super) async fn launch(
        &self,
        claim: &mut NodeClaim,
    ) -> Result<LaunchResult, ReconcileError> {
        let now = self.context.clock.now();
        let uid = claim.uid().unwrap_or_default();
        let status = objects::condition_status(claim, LAUNCHED);
        let remembered = self.lifecycle_cache.launches.get(&uid, now);
        let launched = match (launch::next(status, remembered.is_some()), remembered) {
            (Step::Settled, _) => {
                refresh(claim, LAUNCHED, now);
                if status == ConditionStatus::True {
                    self.lifecycle_cache.launches.remove(&uid);
                }
                return Ok(LaunchResult::Kept);
            }
            (Step::Adopt, Some(launched)) => launched,
            (Step::Adopt | Step::Create, _) => match self.create(claim).await {
                Ok(launched) => {
                    self.lifecycle_cache.launches.insert(&uid, launched.clone(), now);
                    log_launched(&launched);
                    launched
                }
                Err(error) => return self.handle_launch_failure(claim, error).await,
            },
        };
        adopt_launch(claim, &launched);
        claim.condition_set(self.context.clock.now()).set_true(LAUNCHED);
        Ok(LaunchResult::Kept)
    }

    async fn create(&self, claim: &NodeClaim) -> Result<NodeClaim, CloudError> {
        let launched = self.context.cloud.create(claim).await?;
        if objects::provider_id(&launched).is_empty() {
            return Err(CloudError::other("the cloud launched an instance without a provider id"));
        }
        Ok(launched)
    }

    async fn handle_launch_failure(
        &self,
        claim: &mut NodeClaim,
        error: CloudError,
    ) -> Result<LaunchResult, ReconcileError> {
        match launch::failure_action(failure_class(&error)) {
            FailureAction::Delete { reason, is_reported } => {
                if is_reported {
                    self.publish_insufficient_capacity(claim, &error.to_string());
                }
                error!(%error, "failed launching nodeclaim");
                let claims = &self.context.cache.node_claims;
                if objects::delete(&self.api(), claims, claim).await? == DeleteResult::Done {
                    objects::count_disrupted(&self.context, claim, reason, None);
                }
                Ok(LaunchResult::Deleted)
            }
            FailureAction::Retry { .. } => {
                let text = error.to_string();
                let (reason, message) = match error.launch_failure() {
                    Some((reason, message)) => (reason, message.to_owned()),
                    None => (LAUNCH_FAILED, messages::launch_failed(&text)),
                };
                let mut conditions = claim.condition_set(self.context.clock.now());
                conditions.set(LAUNCHED, Status::Unknown, reason, &message);
                Err(ReconcileError::with_context("launching nodeclaim", error))
            }
        }
    }

    /// Publishes events for the claim and its pods that still wait.
    fn publish_insufficient_capacity(&self, claim: &NodeClaim, error: &str) {
        let (events, name) = (&self.context.events, claim.name_any());
        events.publish(definitions::insufficient_capacity(claim.object_ref(&()), error));
        for (namespace, pod) in self.context.mirror.pods_mapped_to(&name) {
            // Virtual pods are not in the cache.
            let Some(pod) = self.context.cache.pods.get(&namespace, &pod) else { continue };
            let is_bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
            if !is_bound && !objects::is_terminal(&pod) && !objects::is_terminating(&pod) {
                let pod = pod.object_ref(&());
                events.publish(definitions::insufficient_capacity_for_pod(pod, &name, error));
            }
        }
    }
}

fn failure_class(error: &CloudError) -> Failure {
    if error.is(CloudErrorClass::InsufficientCapacity) {
        Failure::InsufficientCapacity
    } else if error.is(CloudErrorClass::NodeClassNotReady) {
        Failure::NodeClassNotReady
    } else if error.is(CloudErrorClass::Create) {
        Failure::ProviderMessage
    } else {
        Failure::Other
    }
}

/// Copies the cloud's answer to a launch to the claim. Labels of the claim win over those of the
/// cloud, and annotations of the cloud over those of the claim.
pub(super) fn adopt_launch(claim: &mut NodeClaim, launched: &NodeClaim) {
    let labels = launch::merge_maps(launched.labels(), claim.labels());
    let annotations = launch::merge_maps(claim.annotations(), launched.annotations());
    *claim.labels_mut() = labels;
    *claim.annotations_mut() = annotations;
    let from = launched.status.clone().unwrap_or_default();
    let status = claim.status.get_or_insert_default();
    status.provider_id = from.provider_id;
    status.image_id = from.image_id;
    status.capacity = from.capacity;
    status.allocatable = from.allocatable;
}

fn log_launched(launched: &NodeClaim) {
    let allocatable = launched.status.as_ref().and_then(|status| status.allocatable.as_ref());
    info!(
        "provider-id" = objects::provider_id(launched),
        "instance-type" = objects::label(launched, labels::INSTANCE_TYPE),
        zone = objects::label(launched, labels::ZONE),
        "capacity-type" = objects::label(launched, labels::CAPACITY_TYPE),
        allocatable = objects::resources(allocatable).json(),
        "launched nodeclaim"
    );
}
