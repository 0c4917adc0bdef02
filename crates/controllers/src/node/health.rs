//! `node.health`: replaces nodes that stay unhealthy, as before v1.15 (`--legacy-node-repair`).
//!
//! Budgets, PodDisruptionBudgets and do-not-disrupt do not count. What holds it back is the number
//! of unhealthy nodes: with too many of them at once, the cause is elsewhere.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::annotations::NODECLAIM_TERMINATION_TIMESTAMP;
use karpenter_api::labels;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_cluster::ingest::conversion;
use karpenter_core::lifecycle::TerminationMode;
use karpenter_core::lifecycle::repair::legacy::LegacyPolicies;
use karpenter_core::lifecycle::repair::{NodeCondition, is_tolerable, snake_case};
use karpenter_core::termination::deadline;
use karpenter_operator::events::definitions as events;
use karpenter_operator::harness::{
    Controller, Outcome, RateLimit, Reconcile, ReconcileError, ReconcileResult,
};
use karpenter_operator::metrics::labels::{Disrupted, UnhealthyDisrupted};
use karpenter_operator::options::Gate;
use karpenter_operator::watch::{Change, ObjectKey};
use karpenter_operator::write::{self, Precondition, WriteOutcome};
use kube::{Api, Resource as _, ResourceExt as _};
use tracing::{error, info};

use crate::Context;
use crate::objects::{self, DeleteResult, claim_of, label};

#[cfg(test)]
mod tests;

/// The requeue interval while too many nodes are unhealthy.
const BLOCKED_REQUEUE_INTERVAL: Duration = Duration::from_mins(5);

/// The disruption reason in metrics.
const UNHEALTHY: &str = "unhealthy";

/// Returns the controller, if the options and the provider enable it.
pub(super) fn controller(context: &Context) -> Option<Controller> {
    let options = &context.options;
    if !(options.is_enabled(Gate::NodeRepair) && options.legacy_node_repair) {
        return None;
    }
    let policies = context.repair_policies.to_vec();
    if policies.is_empty() {
        return None;
    }
    let (policies, errors) = LegacyPolicies::new(policies);
    for problem in errors {
        error!(error = %problem, "ignoring a repair policy, as its reason regex is invalid");
    }
    let filter = context.clone();
    let reconciler = HealthReconciler { context: context.clone(), policies };
    let controller = Controller::new("node.health", &context.clock, reconciler)
        .for_kind("", "Node")
        .workers(context.workers(10, 1000))
        .rate_limit(&context.clock, RateLimit::REASONABLE)
        .watch_if(&context.cache.nodes, move |change| {
            let is_managed = |node: &Arc<Node>| filter.manages_node(&**node);
            change.after.as_ref().is_some_and(is_managed) && has_condition_change(change)
        });
    Some(controller)
}

/// Returns whether conditions have changed in more than their heartbeats.
fn has_condition_change(change: &Change<Node>) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
    let conditions = |node: &Node| {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.clone());
        conditions.unwrap_or_default()
    };
    let (old, new) = (conditions(before), conditions(after));
    old.len() != new.len()
        || old.iter().any(|old| {
            new.iter().find(|new| new.type_ == old.type_).is_none_or(|new| {
                new.status != old.status || new.last_transition_time != old.last_transition_time
            })
        })
}

struct HealthReconciler {
    context: Context,
    policies: LegacyPolicies,
}

impl Reconcile for HealthReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let context = &self.context;
        let Some(node) = context.cache.nodes.get("", &key.name) else { return Ok(Outcome::Done) };
        if !context.manages_node(&*node) {
            return Ok(Outcome::Done);
        }
        let Some(claim) = claim_of(&context.cache, &node) else { return Ok(Outcome::Done) };
        let conditions = conditions(&node);
        let Some(due) = self.policies.first_due(&conditions) else { return Ok(Outcome::Done) };
        let now = context.clock.now();
        if now < due.due_at {
            let rest = Duration::try_from(due.due_at.duration_since(now)).unwrap_or_default();
            return Ok(Outcome::RequeueAfter(rest));
        }
        if !self.are_enough_peers_healthy(&claim) {
            self.publish_repair_blocked(&node, &claim);
            return Ok(Outcome::RequeueAfter(BLOCKED_REQUEUE_INTERVAL));
        }
        let annotated = self.annotate(&claim).await?;
        if annotated == WriteOutcome::NotFound || claim.metadata.deletion_timestamp.is_some() {
            return Ok(Outcome::Done);
        }
        self.delete(&node, &claim, due.condition_type).await
    }
}

impl HealthReconciler {
    /// Returns whether few enough nodes of the pool or cluster are unhealthy. The cluster counts
    /// for a claim without a pool. Nodes that are unhealthy for a short time, or being deleted,
    /// count.
    fn are_enough_peers_healthy(&self, claim: &NodeClaim) -> bool {
        let pool = pool_of(claim);
        let nodes = self.context.cache.nodes.all();
        let is_peer = |node: &&Arc<Node>| {
            let labels = node.metadata.labels.as_ref();
            pool.is_none_or(|pool| {
                labels
                    .and_then(|labels| labels.get(labels::NODEPOOL))
                    .is_some_and(|own| own == pool)
            })
        };
        let (mut unhealthy, mut population) = (0, 0);
        for node in nodes.iter().filter(is_peer) {
            population += 1;
            unhealthy += usize::from(self.policies.is_unhealthy(&conditions(node)));
        }
        is_tolerable(unhealthy, population)
    }

    fn publish_repair_blocked(&self, node: &Node, claim: &NodeClaim) {
        let mut about = vec![node.object_ref(&()), claim.object_ref(&())];
        let message = match pool_of(claim) {
            None => "more then 20% nodes are unhealthy in the cluster",
            Some(name) => {
                let Some(pool) = self.context.cache.node_pools.get("", name) else { return };
                about.push(pool.object_ref(&()));
                "more than 20% nodes are unhealthy in the nodepool"
            }
        };
        self.context.events.publish_all(events::node_repair_blocked(about, message));
    }

    /// Annotates the claim with the current time as deadline: the drain gets no time.
    async fn annotate(&self, claim: &NodeClaim) -> Result<WriteOutcome<()>, ReconcileError> {
        const KEY: &str = NODECLAIM_TERMINATION_TIMESTAMP;
        let annotations = claim.metadata.annotations.as_ref();
        let present = annotations.and_then(|all| all.get(KEY)).map(String::as_str);
        let Some(text) = deadline::expire_now(present, self.context.clock.now()) else {
            return Ok(WriteOutcome::Unchanged);
        };
        let mut annotated = claim.clone();
        let annotations = annotated.metadata.annotations.get_or_insert_default();
        annotations.insert(KEY.to_owned(), text.clone());
        let api: Api<NodeClaim> = Api::all(self.context.client.clone());
        match write::patch(&api, claim, &annotated, Precondition::None).await? {
            WriteOutcome::Applied(claim) => {
                info!(NodeClaim = claim.name_any(), { KEY } = text, "annotated nodeclaim");
                self.context.cache.node_claims.apply_write_result(*claim);
                Ok(WriteOutcome::Applied(Box::new(())))
            }
            WriteOutcome::Unchanged => Ok(WriteOutcome::Unchanged),
            WriteOutcome::Conflict => Ok(WriteOutcome::Conflict),
            WriteOutcome::NotFound => Ok(WriteOutcome::NotFound),
        }
    }

    async fn delete(&self, node: &Node, claim: &NodeClaim, condition: &str) -> ReconcileResult {
        let api: Api<NodeClaim> = Api::all(self.context.client.clone());
        let deleted = objects::delete(&api, &self.context.cache.node_claims, claim).await?;
        if deleted == DeleteResult::Missing {
            return Ok(Outcome::Done);
        }
        info!(NodeClaim = claim.name_any(), "deleting unhealthy node");
        self.count(node, claim, condition);
        Ok(Outcome::Done)
    }

    fn count(&self, node: &Node, claim: &NodeClaim, condition: &str) {
        let metrics = &self.context.metrics;
        let nodepool = label(node, labels::NODEPOOL);
        let capacity_type = label(node, labels::CAPACITY_TYPE);
        let grace = claim.spec.termination_grace_period.as_ref();
        let termination_mode =
            TerminationMode::of(grace.and_then(|period| period.value().ok())).label();
        let disrupted = Disrupted {
            reason: UNHEALTHY,
            nodepool,
            capacity_type,
            consolidation_policy: "",
            termination_mode,
        };
        metrics.nodeclaims_disrupted.inc(&disrupted);
        let pods = self.context.cache.pods_by_node.get(&node.name_any());
        let pods =
            pods.iter().filter(|pod| conversion::pod_drain_state(pod).is_reschedulable()).count();
        let pods = u32::try_from(pods).unwrap_or(u32::MAX);
        metrics.pods_disruption_initiated.add(&disrupted, f64::from(pods));
        let image = claim.status.as_ref().and_then(|status| status.image_id.as_deref());
        metrics.nodeclaims_unhealthy_disrupted.inc(&UnhealthyDisrupted {
            condition: &snake_case(condition),
            nodepool,
            capacity_type,
            image_id: image.unwrap_or_default(),
            termination_mode,
        });
    }
}

/// The NodePool of a claim; none for one that stands alone.
fn pool_of(claim: &NodeClaim) -> Option<&str> {
    let labels = claim.metadata.labels.as_ref()?;
    labels.get(labels::NODEPOOL).map(String::as_str)
}

/// Returns the conditions of a Node in the form that repair policies read.
fn conditions(node: &Node) -> Vec<NodeCondition<'_>> {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .map(|condition| NodeCondition {
            condition_type: &condition.type_,
            status: &condition.status,
            reason: condition.reason.as_deref().unwrap_or_default(),
            since: condition.last_transition_time.as_ref().map(|time| time.0),
        })
        .collect()
}
