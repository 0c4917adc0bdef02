//! `nodeclaim.garbagecollection`: deletes claims whose instance no longer exists.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use karpenter_api::conditions::REGISTERED;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_core::lifecycle::ConditionStatus;
use karpenter_core::lifecycle::garbage_collection::{self, Facts};
use karpenter_operator::harness::{
    Controller, Outcome, Reconcile, ReconcileError, ReconcileResult,
};
use karpenter_operator::watch::ObjectKey;
use kube::{Api, ResourceExt as _};
use tracing::debug;

use crate::Context;
use crate::objects::{self, DeleteResult};

#[cfg(test)]
mod tests;

const PERIOD: Duration = Duration::from_mins(2);

/// How many claims are deleted concurrently.
const MAX_CONCURRENT_DELETIONS: usize = 20;

pub(crate) fn controller(context: &Context) -> Controller {
    let collection = GarbageCollectionReconciler(context.clone());
    Controller::new("nodeclaim.garbagecollection", &context.clock, collection).singleton()
}

struct GarbageCollectionReconciler(Context);

impl Reconcile for GarbageCollectionReconciler {
    async fn reconcile(&self, _: &ObjectKey) -> ReconcileResult {
        let Self(context) = self;
        // The claims first: an instance that is launched after the cloud's list has a claim that is
        // not checked.
        let claims = context.cache.node_claims.all();
        let instances = context.cloud.list().await?;
        let instances: BTreeSet<&str> = instances
            .iter()
            .filter(|instance| instance.metadata.deletion_timestamp.is_none())
            .map(objects::provider_id)
            .collect();
        let garbage = claims.into_iter().filter(|claim| is_garbage(context, claim, &instances));
        let collected = futures_util::stream::iter(garbage)
            .map(|claim| collect(context, claim))
            .buffered(MAX_CONCURRENT_DELETIONS)
            .filter_map(|result| std::future::ready(result.err()))
            .collect::<Vec<_>>();
        match ReconcileError::join(collected.await) {
            Some(error) => Err(error),
            None => Ok(Outcome::RequeueAfter(PERIOD)),
        }
    }
}

fn is_garbage(context: &Context, claim: &NodeClaim, instances: &BTreeSet<&str>) -> bool {
    let node = objects::node_of(&context.cache, claim);
    let facts = Facts {
        is_registered: objects::condition_status(claim, REGISTERED) == ConditionStatus::True,
        is_deleting: claim.metadata.deletion_timestamp.is_some(),
        has_instance: instances.contains(objects::provider_id(claim)),
        node_is_ready: node.map(|node| objects::is_ready(&node)),
    };
    if !context.manages_claim(claim) || !garbage_collection::is_garbage(facts) {
        return false;
    }
    // Its id may have been cleared. Checked last, as it reads all nodes.
    let has_lost_id = objects::provider_id(claim).is_empty();
    !(has_lost_id && objects::owned_node(&context.cache, claim).is_some())
}

async fn collect(context: &Context, claim: Arc<NodeClaim>) -> Result<(), ReconcileError> {
    let pods = objects::count_reschedulable_pods(&context.cache, &claim);
    let api = Api::all(context.client.clone());
    if objects::delete(&api, &context.cache.node_claims, claim.as_ref()).await?
        == DeleteResult::Done
    {
        debug!(
            NodeClaim = claim.name_any(),
            Node = objects::node_name(&claim),
            "provider-id" = objects::provider_id(&claim),
            "garbage collecting nodeclaim with no cloudprovider representation"
        );
        objects::count_disrupted(context, &claim, "garbage_collected", Some(pods));
    }
    Ok(())
}
