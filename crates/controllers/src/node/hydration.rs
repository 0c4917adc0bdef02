//! `node.hydration`: labels Nodes with their node class, and restores our finalizer if removed.
//!
//! Without the finalizer, Nodes would be deleted before they are drained. The controller reconciles
//! all Nodes, as the label is what makes one managed.

use karpenter_api::finalizers::TERMINATION;
use karpenter_api::labels;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_operator::harness::{Controller, Outcome, RateLimit, Reconcile, ReconcileResult};
use karpenter_operator::watch::{Change, ObjectKey};
use karpenter_operator::write::{Precondition, WriteOutcome, patch};
use kube::{Api, ResourceExt as _};

use crate::{Context, objects};

#[cfg(test)]
mod tests;

pub(crate) fn controller(context: &Context) -> Controller {
    let cache = context.cache.clone();
    let nodes = move |change: &Change<NodeClaim>| {
        let claim = change.after.as_ref();
        let nodes = claim.map(|claim| objects::nodes_of(&cache, claim)).unwrap_or_default();
        nodes.iter().map(|node| ObjectKey::of(node.as_ref())).collect::<Vec<_>>()
    };
    Controller::new("node.hydration", &context.clock, HydrationReconciler(context.clone()))
        .for_kind("", "Node")
        .workers(context.workers(1000, 5000))
        .rate_limit(&context.clock, RateLimit::REASONABLE)
        .watch(&context.cache.nodes)
        .watch_map(&context.cache.node_claims, nodes)
}

struct HydrationReconciler(Context);

impl Reconcile for HydrationReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let Self(context) = self;
        let Some(node) = context.cache.nodes.get("", &key.name) else {
            return Ok(Outcome::Done);
        };
        let claim = objects::claim_of(&context.cache, &node);
        let Some(claim) = claim.filter(|claim| context.manages_claim(claim)) else {
            return Ok(Outcome::Done);
        };
        let class = &claim.spec.node_class_ref;
        let label = labels::node_class(&class.group, &class.kind);
        let labelled = objects::with_label(node.as_ref(), label, &class.name);
        let has_lost_finalizer = node.labels().contains_key(labels::REGISTERED)
            && node.metadata.deletion_timestamp.is_none()
            && !node.finalizers().iter().any(|one| one == TERMINATION);
        if labelled.is_none() && !has_lost_finalizer {
            return Ok(Outcome::Done);
        }
        let mut after = labelled.unwrap_or_else(|| node.as_ref().clone());
        // The patch replaces the whole list, so it requires an unchanged Node.
        let check =
            if has_lost_finalizer { Precondition::ResourceVersion } else { Precondition::None };
        if has_lost_finalizer {
            after.finalizers_mut().push(TERMINATION.to_owned());
        }
        let api = Api::all(context.client.clone());
        let written = patch(&api, node.as_ref(), &after, check).await?;
        let end = written.early_outcome().unwrap_or_default();
        if let WriteOutcome::Applied(node) = written {
            context.cache.nodes.apply_write_result(*node);
        }
        Ok(end)
    }
}
