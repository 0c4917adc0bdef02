//! `state.nodeclaimgc`: removes NodeClaims from the mirror that were deleted right after creation.
//!
//! The mirror would wait for a claim that was never launched and does not exist (spec 40 §5.7).
//! Upstream writes into its state beside its informers and may do so too late. Here only informers
//! feed the mirror, so there is nothing to remove, unless there is a bug.

use std::collections::BTreeSet;
use std::time::Duration;

use karpenter_operator::harness::{Controller, Outcome, Reconcile, ReconcileResult};
use karpenter_operator::watch::ObjectKey;
use tracing::warn;

use crate::Context;

/// How often the NodeClaims of the mirror are compared with the informer.
const REQUEUE_INTERVAL: Duration = Duration::from_secs(15);

pub(super) fn controller(context: &Context) -> Controller {
    let reconcile = NodeClaimGcReconciler { context: context.clone() };
    Controller::new("state.nodeclaimgc", &context.clock, reconcile).singleton()
}

struct NodeClaimGcReconciler {
    context: Context,
}

impl Reconcile for NodeClaimGcReconciler {
    async fn reconcile(&self, _: &ObjectKey) -> ReconcileResult {
        remove_deleted_claims(&self.context);
        Ok(Outcome::RequeueAfter(REQUEUE_INTERVAL))
    }
}

/// Removes claims that the informer does not have from the mirror.
pub(super) fn remove_deleted_claims(context: &Context) {
    if context.mirror.stale_node_claims(&BTreeSet::new()).is_empty() {
        return;
    }
    let claims = context.cache.node_claims.all();
    let known = claims.iter().filter_map(|claim| claim.metadata.name.clone()).collect();
    for name in context.mirror.stale_node_claims(&known) {
        warn!(NodeClaim = name, "forgetting a nodeclaim that does not exist");
        let claim = context.cache.node_claims.get("", &name);
        context.mirror.set_node_claim(&name, claim);
    }
}
