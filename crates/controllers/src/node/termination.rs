//! `node.termination`: terminates deleted Nodes without losing the pods that run on them.
//!
//! ```text
//! taint ──▶ drain ──▶ volumes detached ──▶ instance terminated ──▶ finalizer removed
//! ```
//!
//! A Node whose instance no longer exists loses its finalizer at once. A Node without NodeClaim is
//! drained, but this controller does not terminate its instance.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use karpenter_api::condition_set::{self, HasConditions, Status};
use karpenter_api::conditions::{DRAINED, INSTANCE_TERMINATING, VOLUMES_DETACHED};
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::reasons::{messages, nodeclaim as reasons};
use karpenter_api::{annotations, finalizers, labels, taints};
use karpenter_cluster::ingest::conversion;
use karpenter_cluster::wire::Pod;
use karpenter_core::pod::drain_state::PodDrainState;
use karpenter_core::termination::deadline;
use karpenter_core::termination::drain::{self, DeadlineAction};
use karpenter_core::termination::volumes::{self, Attachment, VolumeDetachment};
use karpenter_operator::cloud::CloudErrorClass;
use karpenter_operator::events::definitions as events;
use karpenter_operator::harness::{
    Controller, Outcome, RateLimit, Reconcile, ReconcileError, ReconcileResult,
};
use karpenter_operator::metrics::labels::{Pool, PoolZone};
use karpenter_operator::watch::ObjectKey;
use karpenter_operator::write::{self, Precondition, WriteOutcome};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Resource as _, ResourceExt as _};
use serde_json::json;
use tracing::info;

use super::{Evictions, drain as draining};
use crate::Context;
use crate::objects::{self, claim_of, is_ready, label};

#[cfg(test)]
mod tests;

/// Value of the label that keeps load balancers away.
const BY_KARPENTER: &str = "karpenter";

/// The poll interval for pods and volumes of a terminating Node.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The poll interval for a terminating instance.
const INSTANCE_POLL_INTERVAL: Duration = Duration::from_secs(5);

pub(super) fn controller(context: &Context, evictions: &Evictions) -> Controller {
    let workers = context.workers(100, 5000);
    let filter = context.clone();
    let reconciler =
        TerminationReconciler { context: context.clone(), evictions: evictions.clone() };
    Controller::new("node.termination", &context.clock, reconciler)
        .for_kind("", "Node")
        .workers(workers)
        .rate_limit(&context.clock, RateLimit::termination(workers))
        .watch_if(&context.cache.nodes, move |change| {
            change.after.as_ref().is_some_and(|node| is_terminating(&filter, node))
        })
}

/// Returns whether this controller has to terminate the Node.
fn is_terminating(context: &Context, node: &Node) -> bool {
    let finalizers = node.metadata.finalizers.as_deref().unwrap_or_default();
    node.metadata.deletion_timestamp.is_some()
        && finalizers.iter().any(|finalizer| finalizer == finalizers::TERMINATION)
        && context.manages_node(node)
}

struct TerminationReconciler {
    context: Context,
    evictions: Evictions,
}

/// A Node in termination, with its claim as stored and with the new conditions.
struct TerminatingNode {
    node: Arc<Node>,
    stored: Option<NodeClaim>,
    claim: Option<NodeClaim>,
    deadline: Option<Timestamp>,
}

/// The result of a gate: how to wait, or none to pass.
type Gate = Result<Option<Outcome>, ReconcileError>;

impl Reconcile for TerminationReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let node = self.context.cache.nodes.get("", &key.name);
        match node.filter(|node| is_terminating(&self.context, node)) {
            Some(node) => self.terminate_node(node).await,
            None => Ok(Outcome::Done),
        }
    }
}

impl TerminationReconciler {
    async fn terminate_node(&self, node: Arc<Node>) -> ReconcileResult {
        let claim = self.delete_claim(claim_of(&self.context.cache, &node)).await?;
        if self.is_instance_gone(&node).await? {
            return self.remove_finalizer(&node).await;
        }
        if let Some(end) = self.taint(&node).await?.early_outcome() {
            return Ok(end);
        }
        let deadline = self.deadline(&node, claim.as_ref())?;
        let mut ending = TerminatingNode { node, stored: claim.clone(), claim, deadline };
        let gate = self.gates(&mut ending).await;
        if let Some(end) = self.store_conditions(&ending).await? {
            return Ok(end);
        }
        match gate? {
            Some(wait) => Ok(wait),
            None => self.remove_finalizer(&ending.node).await,
        }
    }

    /// Deletes the claim of the deleted Node, too. Returns the claim afterwards.
    async fn delete_claim(
        &self,
        claim: Option<Arc<NodeClaim>>,
    ) -> Result<Option<NodeClaim>, ReconcileError> {
        let Some(claim) = claim else { return Ok(None) };
        if claim.metadata.deletion_timestamp.is_some() {
            return Ok(Some((*claim).clone()));
        }
        let (cache, name) = (&self.context.cache, claim.name_any());
        let api: Api<NodeClaim> = Api::all(self.context.client.clone());
        let deleted = objects::delete(&api, &cache.node_claims, &claim).await;
        deleted.map_err(|error| ReconcileError::with_context("deleting nodeclaim", error))?;
        let claim = cache.node_claims.get("", &name).unwrap_or(claim);
        Ok(Some((*claim).clone()))
    }

    /// Whether the instance no longer exists. Not checked while the kubelet reports the Node as
    /// ready.
    async fn is_instance_gone(&self, node: &Node) -> Result<bool, ReconcileError> {
        if is_ready(node) {
            return Ok(false);
        }
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
        match self.context.cloud.get(id.unwrap_or_default()).await {
            Ok(_) => Ok(false),
            Err(error) if error.is(CloudErrorClass::NodeClaimNotFound) => Ok(true),
            Err(error) => Err(ReconcileError::with_context("getting nodeclaim", error)),
        }
    }

    fn deadline(
        &self,
        node: &Node,
        claim: Option<&NodeClaim>,
    ) -> Result<Option<Timestamp>, ReconcileError> {
        const KEY: &str = annotations::NODECLAIM_TERMINATION_TIMESTAMP;
        let annotations = claim.and_then(|claim| claim.metadata.annotations.as_ref());
        let Some(text) = annotations.and_then(|all| all.get(KEY)) else { return Ok(None) };
        let about = node.object_ref(&());
        self.context.events.publish(events::termination_grace_period_expiring(about, text));
        let time = deadline::parse(text).map_err(|error| {
            ReconcileError::with_context("parsing annotation", error.to_string())
                .with_field("annotation", KEY)
        })?;
        Ok(Some(time))
    }

    /// Keeps new pods and load balancers away, by a taint and a label.
    async fn taint(&self, node: &Node) -> Result<WriteOutcome<Node>, ReconcileError> {
        let taint = taints::disrupted();
        // The Node is reconciled every second, mostly long after it was tainted.
        if has_taint_and_label(node, &taint) {
            return Ok(WriteOutcome::Unchanged);
        }
        let mut tainted = node.clone();
        let spec = tainted.spec.get_or_insert_default();
        set_taint(spec.taints.get_or_insert_default(), &taint);
        let labels = tainted.metadata.labels.get_or_insert_default();
        labels.insert(labels::EXCLUDE_BALANCERS.to_owned(), BY_KARPENTER.to_owned());
        let api: Api<Node> = Api::all(self.context.client.clone());
        let written = write::patch(&api, node, &tainted, Precondition::ResourceVersion)
            .await
            .map_err(|error| {
                ReconcileError::with_context("tainting node", error)
                    .with_field("taint", taints::display(&taint))
            })?;
        if let WriteOutcome::Applied(node) = &written {
            info!(
                taint.Key = taint.key,
                taint.Value = taint.value.as_deref().unwrap_or_default(),
                taint.Effect = taint.effect,
                "tainted node"
            );
            self.context.cache.nodes.apply_write_result((**node).clone());
        }
        Ok(written)
    }

    async fn gates(&self, ending: &mut TerminatingNode) -> Gate {
        if let Some(wait) = self.await_drain(ending) {
            return Ok(Some(wait));
        }
        if let Some(wait) = self.await_volumes(ending) {
            return Ok(Some(wait));
        }
        let overlooked = self.has_pods_missing_from_cache(ending).await;
        if !matches!(overlooked, Ok(false)) {
            // The cache was incomplete, so the Node may not be drained: drop the new conditions.
            ending.claim.clone_from(&ending.stored);
            return overlooked.map(|_| Some(Outcome::RequeueAfter(DRAIN_POLL_INTERVAL)));
        }
        self.await_instance(ending).await
    }

    fn await_drain(&self, ending: &mut TerminatingNode) -> Option<Outcome> {
        let (context, node, now) = (&self.context, &ending.node, self.context.clock.now());
        let mut claim = ending.claim.as_mut();
        if let Some(claim) = &mut claim
            && condition_set::find(claim.conditions(), DRAINED).is_none()
        {
            let mut conditions = claim.condition_set(now);
            conditions.set(DRAINED, Status::Unknown, reasons::DRAINING, messages::DRAINING);
        }
        let (name, deadline) = (node.name_any(), ending.deadline);
        let waiting =
            draining::drain(context, &self.evictions, &name, deadline, DeadlineAction::ForceDelete);
        if let Some(pods) = waiting {
            let error = format!("{pods} pods are waiting to be evicted");
            context.events.publish(events::failed_draining(node.object_ref(&()), &error));
            return Some(Outcome::RequeueAfter(DRAIN_POLL_INTERVAL));
        }
        let claim = claim?;
        let since = condition_set::find(claim.conditions(), DRAINED)
            .filter(|condition| condition.status == Status::Unknown.as_str())
            .map(|condition| condition.last_transition_time.0);
        if drain::is_drain_too_short(since, now) {
            return Some(Outcome::RequeueAfter(DRAIN_POLL_INTERVAL));
        }
        claim.condition_set(now).set_true(DRAINED);
        None
    }

    fn await_volumes(&self, ending: &mut TerminatingNode) -> Option<Outcome> {
        let (context, now) = (&self.context, self.context.clock.now());
        let name = ending.node.name_any();
        let attached = context.cache.volume_attachments_by_node.get(&name);
        let attachments: Vec<_> = attached
            .iter()
            .map(|attachment| Attachment {
                name: attachment.metadata.name.as_deref().unwrap_or_default(),
                volume: attachment.spec.source.persistent_volume_name.as_deref(),
            })
            .collect();
        let kept = if attachments.is_empty() { BTreeSet::new() } else { self.kept_volumes(&name) };
        let kept: BTreeSet<&str> = kept.iter().map(String::as_str).collect();
        let volumes = volumes::volume_detachment(&attachments, &kept, ending.deadline, now);
        if let VolumeDetachment::Awaiting(names) = &volumes {
            let about = ending.node.object_ref(&());
            context.events.publish(events::awaiting_volume_detachment(about, names));
        }
        if let Some(claim) = &mut ending.claim {
            let mut conditions = claim.condition_set(now);
            match &volumes {
                VolumeDetachment::Detached => conditions.set_true(VOLUMES_DETACHED),
                VolumeDetachment::Awaiting(_) => {
                    let why = reasons::AWAITING_VOLUME_DETACHMENT;
                    conditions.set(VOLUMES_DETACHED, Status::Unknown, why, why)
                }
                VolumeDetachment::TimedOut => {
                    let why = reasons::TERMINATION_GRACE_PERIOD_ELAPSED;
                    conditions.set_false(VOLUMES_DETACHED, why, why)
                }
            };
        }
        matches!(volumes, VolumeDetachment::Awaiting(_))
            .then_some(Outcome::RequeueAfter(DRAIN_POLL_INTERVAL))
    }

    /// PersistentVolumes of pods that stay on the node to its end.
    fn kept_volumes(&self, node: &str) -> BTreeSet<String> {
        let (cache, now) = (&self.context.cache, self.context.clock.now());
        let mut kept = BTreeSet::new();
        for pod in cache.pods_by_node.get(node) {
            if conversion::pod_drain_state(&pod).is_drainable(now) {
                continue;
            }
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            for claim in conversion::volume_claims(&pod) {
                let claim = cache.persistent_volume_claims.get(namespace, &claim);
                kept.extend(claim.and_then(|claim| claim.spec.as_ref()?.volume_name.clone()));
            }
        }
        kept
    }

    /// Returns whether the Node has pods to drain that the cache does not show. The watch may fail
    /// or lag, and the instance would take the pods along. So the pods are listed just before the
    /// instance is terminated for the first time, and the cache learns them.
    async fn has_pods_missing_from_cache(
        &self,
        ending: &TerminatingNode,
    ) -> Result<bool, ReconcileError> {
        let Some(claim) = &ending.stored else { return Ok(false) };
        if condition_set::is_true(claim.conditions(), INSTANCE_TERMINATING) {
            return Ok(false);
        }
        let api: Api<Pod> = Api::all(self.context.client.clone());
        let node = ending.node.name_any();
        let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let listed = api.list(&params).await;
        let pods =
            listed.map_err(|error| ReconcileError::with_context("listing pods", error))?.items;
        let standings: Vec<PodDrainState> = pods.iter().map(conversion::pod_drain_state).collect();
        let now = self.context.clock.now();
        let left = drain::drain(&standings, ending.deadline, DeadlineAction::ForceDelete, now);
        if left.is_some() {
            for pod in pods {
                self.context.cache.pods.apply_write_result(pod);
            }
        }
        Ok(left.is_some())
    }

    async fn await_instance(&self, ending: &mut TerminatingNode) -> Gate {
        let Some(claim) = &mut ending.claim else { return Ok(None) };
        let is_gone = match self.context.cloud.delete(claim).await {
            Ok(()) => false,
            Err(error) if error.is(CloudErrorClass::NodeClaimNotFound) => true,
            Err(error) => return Err(error.into()),
        };
        claim.condition_set(self.context.clock.now()).set_true(INSTANCE_TERMINATING);
        Ok((!is_gone).then_some(Outcome::RequeueAfter(INSTANCE_POLL_INTERVAL)))
    }

    async fn store_conditions(
        &self,
        ending: &TerminatingNode,
    ) -> Result<Option<Outcome>, ReconcileError> {
        let TerminatingNode { stored: Some(stored), claim: Some(claim), node, .. } = ending else {
            return Ok(None);
        };
        let api: Api<NodeClaim> = Api::all(self.context.client.clone());
        let written = write::patch_status(&api, stored, claim, Precondition::ResourceVersion).await;
        match written.map_err(|error| ReconcileError::with_context("updating nodeclaim", error))? {
            WriteOutcome::Conflict => return Ok(Some(Outcome::Requeue)),
            WriteOutcome::Unchanged | WriteOutcome::NotFound => {}
            WriteOutcome::Applied(now) => {
                let was_drained = condition_set::is_true(stored.conditions(), DRAINED);
                if !was_drained && condition_set::is_true(now.conditions(), DRAINED) {
                    self.context
                        .metrics
                        .nodes_drained
                        .inc(&Pool { nodepool: label(&**node, labels::NODEPOOL) });
                }
                self.context.cache.node_claims.apply_write_result(*now);
            }
        }
        Ok(None)
    }

    async fn remove_finalizer(&self, node: &Node) -> ReconcileResult {
        // A strategic patch takes one finalizer out of the list and leaves those of others. The uid
        // keeps it from a Node of that name that came later.
        let patch = json!({"metadata": {
            "uid": node.metadata.uid,
            "$deleteFromPrimitiveList/finalizers": [finalizers::TERMINATION],
        }});
        let api: Api<Node> = Api::all(self.context.client.clone());
        let params = PatchParams::default();
        match api.patch(&node.name_any(), &params, &Patch::Strategic(patch)).await {
            Ok(patched) => {
                // The watch reports a Node that is gone.
                if !patched.finalizers().is_empty() {
                    self.context.cache.nodes.apply_write_result(patched);
                }
            }
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Outcome::Done),
            // A recreated Node, or a server that gave up on concurrent writes: the next reconcile
            // decides.
            Err(kube::Error::Api(status)) if matches!(status.code, 409 | 422) => {
                return Ok(Outcome::Requeue);
            }
            Err(error) => return Err(ReconcileError::with_context("removing finalizer", error)),
        }
        self.count(node);
        info!("deleted node");
        Ok(Outcome::Done)
    }

    fn count(&self, node: &Node) {
        let (metrics, now) = (&self.context.metrics, self.context.clock.now());
        let nodepool = label(node, labels::NODEPOOL);
        let since = |time: Option<Timestamp>| {
            time.map_or(0.0, |time| now.duration_since(time).as_secs_f64())
        };
        let deleted = node.metadata.deletion_timestamp.as_ref().map(|time| time.0);
        let created = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let zone = label(node, labels::ZONE);
        metrics.nodes_terminated.inc(&PoolZone { nodepool, zone });
        metrics.nodes_termination_duration.observe(&Pool { nodepool }, since(deleted));
        metrics.nodes_lifetime_duration.observe(&Pool { nodepool }, since(created));
    }
}

/// Returns whether the Node has the taint and the load balancer label.
fn has_taint_and_label(node: &Node, taint: &Taint) -> bool {
    let is_same = |one: &Taint| one.key == taint.key && one.effect == taint.effect;
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    taints.iter().any(is_same) && label(node, labels::EXCLUDE_BALANCERS) == BY_KARPENTER
}

/// Sets the taint, unless one of its key and effect exists. One with another effect is removed.
fn set_taint(taints: &mut Vec<Taint>, taint: &Taint) {
    if !taints.iter().any(|one| one.key == taint.key && one.effect == taint.effect) {
        taints.retain(|one| one.key != taint.key);
        taints.push(taint.clone());
    }
}
