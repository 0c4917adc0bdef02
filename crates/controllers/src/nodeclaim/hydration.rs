//! `nodeclaim.hydration`: claims of older releases get the label of their node class.

use karpenter_api::labels;
use karpenter_operator::harness::{Controller, Limit, Outcome, Reconcile, Reconciled};
use karpenter_operator::watch::ObjectKey;
use karpenter_operator::write::{Check, Written, patch};
use kube::Api;

use crate::{Context, objects};

#[cfg(test)]
mod tests;

pub(crate) fn controller(context: &Context) -> Controller {
    let managed = context.clone();
    Controller::new("nodeclaim.hydration", &context.clock, Hydration(context.clone()))
        .of("karpenter.sh", "NodeClaim")
        .workers(context.workers(1000, 5000))
        .limit(&context.clock, Limit::REASONABLE)
        .watch_if(&context.cache.node_claims, move |change| {
            objects::is_of_managed_claim(&managed, change)
        })
}

struct Hydration(Context);

impl Reconcile for Hydration {
    async fn reconcile(&self, key: &ObjectKey) -> Reconciled {
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
        let written = patch(&api, claim.as_ref(), &labelled, Check::Nothing).await?;
        let end = written.end().unwrap_or_default();
        if let Written::Done(claim) = written {
            context.cache.node_claims.learn(*claim);
        }
        Ok(end)
    }
}
