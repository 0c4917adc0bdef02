//! Launch: the cloud makes an instance (spec 40 §1.2, spec 45 §12.1).

use karpenter_api::condition_set::Status;
use karpenter_api::conditions::LAUNCHED;
use karpenter_api::labels;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::reasons::messages;
use karpenter_api::reasons::nodeclaim::LAUNCH_FAILED;
use karpenter_core::lifecycle::ConditionStatus;
use karpenter_core::lifecycle::launch::{self, Consequence, Failure, Step};
use karpenter_operator::cloud::{CloudError, CloudErrorClass};
use karpenter_operator::events::list;
use karpenter_operator::harness::Trouble;
use kube::{Resource as _, ResourceExt as _};
use tracing::{error, info};

use super::{Lifecycle, refresh};
use crate::objects::{self, Deleted};

/// What became of the claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Launched {
    /// It is there.
    Stays,
    /// It was deleted: it cannot be launched now.
    Deleted,
}

impl Lifecycle {
    pub(super) async fn launch(&self, claim: &mut NodeClaim) -> Result<Launched, Trouble> {
        let now = self.context.clock.now();
        let uid = claim.uid().unwrap_or_default();
        let status = objects::status_of(claim, LAUNCHED);
        let remembered = self.memory.launches.get(&uid, now);
        let launched = match (launch::next(status, remembered.is_some()), remembered) {
            (Step::Settled, _) => {
                refresh(claim, LAUNCHED, now);
                if status == ConditionStatus::True {
                    self.memory.launches.remove(&uid);
                }
                return Ok(Launched::Stays);
            }
            (Step::TakeOver, Some(launched)) => launched,
            (Step::TakeOver | Step::Create, _) => match self.create(claim).await {
                Ok(launched) => {
                    self.memory.launches.insert(&uid, launched.clone(), now);
                    log(&launched);
                    launched
                }
                Err(error) => return self.failed(claim, error).await,
            },
        };
        take_over(claim, &launched);
        claim.condition_set(self.context.clock.now()).set_true(LAUNCHED);
        Ok(Launched::Stays)
    }

    async fn create(&self, claim: &NodeClaim) -> Result<NodeClaim, CloudError> {
        let launched = self.context.cloud.create(claim).await?;
        if objects::provider_id(&launched).is_empty() {
            return Err(CloudError::other("the cloud launched an instance without a provider id"));
        }
        Ok(launched)
    }

    async fn failed(&self, claim: &mut NodeClaim, error: CloudError) -> Result<Launched, Trouble> {
        match launch::failed(failure(&error)) {
            Consequence::Delete { reason, is_told } => {
                if is_told {
                    self.tell_of_no_capacity(claim, &error.to_string());
                }
                error!(%error, "failed launching nodeclaim");
                let claims = &self.context.cache.node_claims;
                if objects::delete(&self.api(), claims, claim).await? == Deleted::Done {
                    objects::count_disrupted(&self.context, claim, reason, None);
                }
                Ok(Launched::Deleted)
            }
            Consequence::Retry { .. } => {
                let text = error.to_string();
                let (reason, message) = match error.launch_failure() {
                    Some((reason, message)) => (reason, message.to_owned()),
                    None => (LAUNCH_FAILED, messages::launch_failed(&text)),
                };
                let mut conditions = claim.condition_set(self.context.clock.now());
                conditions.set(LAUNCHED, Status::Unknown, reason, &message);
                Err(Trouble::while_("launching nodeclaim", error))
            }
        }
    }

    /// Events for the claim, and for the pods that it was made for and that still wait for a node.
    fn tell_of_no_capacity(&self, claim: &NodeClaim, error: &str) {
        let (events, name) = (&self.context.events, claim.name_any());
        events.publish(list::insufficient_capacity(claim.object_ref(&()), error));
        for (namespace, pod) in self.context.mirror.pods_mapped_to(&name) {
            // Virtual pods are nowhere.
            let Some(pod) = self.context.cache.pods.get(&namespace, &pod) else { continue };
            let is_bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
            if !is_bound && !objects::is_terminal(&pod) && !objects::is_terminating(&pod) {
                let pod = pod.object_ref(&());
                events.publish(list::insufficient_capacity_for_pod(pod, &name, error));
            }
        }
    }
}

fn failure(error: &CloudError) -> Failure {
    if error.is(CloudErrorClass::InsufficientCapacity) {
        Failure::InsufficientCapacity
    } else if error.is(CloudErrorClass::NodeClassNotReady) {
        Failure::NodeClassNotReady
    } else if error.is(CloudErrorClass::Create) {
        Failure::Explained
    } else {
        Failure::Other
    }
}

/// Puts what the cloud answered on the claim. Labels of the claim win over those of the cloud, and
/// annotations of the cloud over those of the claim.
pub(super) fn take_over(claim: &mut NodeClaim, launched: &NodeClaim) {
    let labels = launch::overlaid(launched.labels(), claim.labels());
    let annotations = launch::overlaid(claim.annotations(), launched.annotations());
    *claim.labels_mut() = labels;
    *claim.annotations_mut() = annotations;
    let from = launched.status.clone().unwrap_or_default();
    let status = claim.status.get_or_insert_default();
    status.provider_id = from.provider_id;
    status.image_id = from.image_id;
    status.capacity = from.capacity;
    status.allocatable = from.allocatable;
}

fn log(launched: &NodeClaim) {
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
