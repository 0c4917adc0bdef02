//! `nodeclaim.expiration`: deletes claims that are older than their `expireAfter`.

use karpenter_api::nodeclaim::NodeClaim;
use karpenter_core::lifecycle::expiration::{self, Step};
use karpenter_operator::harness::{Controller, Outcome, Reconcile, ReconcileResult};
use karpenter_operator::watch::ObjectKey;
use kube::Api;
use tracing::debug;

use crate::Context;
use crate::objects::{self, DeleteResult};

#[cfg(test)]
mod tests;

pub(crate) fn controller(context: &Context) -> Controller {
    let managed = context.clone();
    Controller::new("nodeclaim.expiration", &context.clock, ExpirationReconciler(context.clone()))
        .for_kind("karpenter.sh", "NodeClaim")
        .watch_if(&context.cache.node_claims, move |change| {
            objects::is_managed_claim_change(&managed, change)
        })
}

struct ExpirationReconciler(Context);

impl Reconcile for ExpirationReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let Self(context) = self;
        let Some(claim) = context.cache.node_claims.get("", &key.name) else {
            return Ok(Outcome::Done);
        };
        if !context.manages_claim(&claim) || claim.metadata.deletion_timestamp.is_some() {
            return Ok(Outcome::Done);
        }
        let expire_after = claim.spec.expire_after.as_ref();
        // An invalid duration counts as none: admission rejects it.
        let expire_after = expire_after.and_then(|after| after.value().ok().flatten());
        let Some(created) = claim.metadata.creation_timestamp.as_ref() else {
            return Ok(Outcome::Done);
        };
        match expiration::next(created.0, expire_after, context.clock.now()) {
            Step::Never => Ok(Outcome::Done),
            Step::Wait(time) => Ok(Outcome::RequeueAfter(time)),
            Step::Delete => expire(context, &claim).await,
        }
    }
}

async fn expire(context: &Context, claim: &NodeClaim) -> ReconcileResult {
    let pods = objects::count_reschedulable_pods(&context.cache, claim);
    let api = Api::all(context.client.clone());
    if objects::delete(&api, &context.cache.node_claims, claim).await? == DeleteResult::Done {
        debug!(Node = objects::node_name(claim), "deleting expired nodeclaim");
        objects::count_disrupted(context, claim, "expired", Some(pods));
    }
    Ok(Outcome::Done)
}
