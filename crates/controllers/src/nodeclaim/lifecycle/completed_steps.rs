//! Records completed lifecycle steps: logs, metrics, and the registration health of the pool.

use karpenter_api::labels::{NODEPOOL, ZONE};
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_core::resources::Resources;
use karpenter_operator::harness::{Outcome, ReconcileResult};
use karpenter_operator::metrics::labels::PoolZone;
use kube::ResourceExt as _;
use tracing::info;

use super::LifecycleReconciler;
use crate::nodepool::registration_health::{ReportResult, report};
use crate::objects;

/// A lifecycle step that has completed.
#[derive(Debug)]
pub(super) enum CompletedStep {
    /// The claim has a node.
    Registered {
        /// Its name.
        node: String,
    },
    /// The node can run pods.
    Initialized {
        /// What pods can have.
        allocatable: Resources,
    },
}

impl LifecycleReconciler {
    /// Records completed steps of a claim, and reports its registration to the pool.
    pub(super) async fn record_completed_steps(
        &self,
        claim: &NodeClaim,
        steps: Vec<CompletedStep>,
    ) -> ReconcileResult {
        let uid = claim.uid().unwrap_or_default();
        let now = self.context.clock.now();
        let provider_id = objects::provider_id(claim);
        for step in steps {
            match step {
                CompletedStep::Registered { node } => {
                    info!("provider-id" = provider_id, Node = node, "registered nodeclaim");
                    self.context.metrics.nodes_created.inc(&PoolZone {
                        nodepool: objects::label(claim, NODEPOOL),
                        zone: objects::label(claim, ZONE),
                    });
                    self.lifecycle_cache.unreported_registrations.insert(&uid, (), now);
                }
                CompletedStep::Initialized { allocatable } => info!(
                    "provider-id" = provider_id,
                    Node = objects::node_name(claim),
                    allocatable = allocatable.json(),
                    "initialized nodeclaim"
                ),
            }
        }
        if self.lifecycle_cache.unreported_registrations.get(&uid, now).is_none() {
            return Ok(Outcome::Done);
        }
        match report(&self.context, claim, true).await? {
            ReportResult::Conflict => Ok(Outcome::Requeue),
            ReportResult::Done => {
                self.lifecycle_cache.unreported_registrations.remove(&uid);
                Ok(Outcome::Done)
            }
        }
    }
}
