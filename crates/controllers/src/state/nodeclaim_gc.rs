//! `state.nodeclaimgc`: forgets NodeClaims that were made and deleted in one moment.
//!
//! What was never launched and does not exist would be waited for (spec 40 §5.7). Upstream writes
//! into its state beside its informers and may do so too late. Here only informers feed the mirror,
//! so there is nothing to find, unless there is a mistake somewhere.

use std::collections::BTreeSet;
use std::time::Duration;

use karpenter_operator::harness::{Controller, Outcome, Reconcile, ReconcileResult};
use karpenter_operator::watch::ObjectKey;
use tracing::warn;

use crate::Context;

/// How long a NodeClaim may be unknown to the informer.
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

/// Forgets them now.
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
