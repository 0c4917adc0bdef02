//! `nodeclaim.hydration`: labels claims of older releases with their node class.

use karpenter_api::labels;
use karpenter_operator::harness::{Controller, Outcome, RateLimit, Reconcile, ReconcileResult};
use karpenter_operator::watch::ObjectKey;
use karpenter_operator::write::{Precondition, WriteOutcome, patch};
use kube::Api;

use crate::{Context, objects};

#[cfg(test)]
mod tests;

pub(crate) fn controller(context: &Context) -> Controller {
    let managed = context.clone();
    Controller::new("nodeclaim.hydration", &context.clock, HydrationReconciler(context.clone()))
        .for_kind("karpenter.sh", "NodeClaim")
        .workers(context.workers(1000, 5000))
        .rate_limit(&context.clock, RateLimit::REASONABLE)
        .watch_if(&context.cache.node_claims, move |change| {
            objects::is_managed_claim_change(&managed, change)
        })
}

struct HydrationReconciler(Context);

impl Reconcile for HydrationReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let Self(context) = self;
        let claim = context.cache.node_claims.get("", &key.name);
        let Some(claim) = claim.filter(|claim| context.manages_claim(claim)) else {
            return Ok(Outcome::Done);
        };
        let class = &claim.spec.node_class_ref;
        let label = labels::node_class(&class.group, &class.kind);
        let Some(labelled) = objects::with_label(claim.as_ref(), label, &class.name) else {
            return Ok(Outcome::Done);
        };
        let api = Api::all(context.client.clone());
        let written = patch(&api, claim.as_ref(), &labelled, Precondition::None).await?;
        let end = written.early_outcome().unwrap_or_default();
        if let WriteOutcome::Applied(claim) = written {
            context.cache.node_claims.apply_write_result(*claim);
        }
        Ok(end)
    }
}
