//! `nodeclaim.disruption`: decides whether a claim has drifted and whether it is consolidatable.
//!
//! It keeps the conditions `Drifted` and `Consolidatable`. Pods are not watched: what they do
//! reaches the claim as its `lastPodEventTime`, which is watched.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_api::condition_set::{ConditionSet, HasConditions as _, Status, is_true};
use karpenter_api::conditions::{CONSOLIDATABLE, DRIFTED, INITIALIZED, LAUNCHED};
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_api::{annotations, labels};
use karpenter_core::lifecycle::consolidatable;
use karpenter_core::lifecycle::drift::{self, TYPE_CHECK_TTL};
use karpenter_core::lifecycle::static_hash::StaticHash;
use karpenter_core::requirement::Requirements;
use karpenter_operator::cloud::{CloudErrorClass, DriftReason};
use karpenter_operator::harness::{
    Controller, Outcome, Reconcile, ReconcileError, ReconcileResult,
};
use karpenter_operator::watch::{Change, ObjectKey};
use karpenter_operator::write::{Precondition, WriteOutcome, patch_status};
use kube::{Api, Resource, ResourceExt as _};
use tracing::debug;

use crate::provisioner::claim::template_requirements;
use crate::provisioner::decision::empty_catalog;
use crate::ttl_cache::TtlCache;
use crate::{Context, objects};

#[cfg(test)]
mod tests;

pub(crate) fn controller(context: &Context) -> Controller {
    let (managed, by_pool) = (context.clone(), context.clone());
    let disruption = DisruptionReconciler {
        context: context.clone(),
        found_types: TtlCache::new(TYPE_CHECK_TTL),
    };
    let mut controller = Controller::new("nodeclaim.disruption", &context.clock, disruption)
        .for_kind("karpenter.sh", "NodeClaim")
        .workers(context.workers(10, 1000))
        .watch_if(&context.cache.node_claims, move |change| {
            objects::is_managed_claim_change(&managed, change)
        })
        .watch_map(&context.cache.node_pools, move |change| {
            let of_pool =
                |claim: &NodeClaim| objects::label(claim, labels::NODEPOOL) == change.key.name;
            if has_relevant_change(change) { claims(&by_pool, of_pool) } else { Vec::new() }
        });
    for classes in &context.cache.node_classes {
        let (by_class, kind) = (context.clone(), classes.kind().clone());
        controller = classes.watch_map(controller, move |change| {
            claims(&by_class, |claim: &NodeClaim| {
                let class = &claim.spec.node_class_ref;
                class.name == change.key.name && kind.is_kind_of(class)
            })
        });
    }
    controller
}

/// Returns whether the spec or the annotations of a pool have changed.
fn has_relevant_change(change: &Change<NodePool>) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
    let (before, after) = (&before.metadata, &after.metadata);
    before.generation != after.generation || before.annotations != after.annotations
}

fn claims(context: &Context, is_meant: impl Fn(&NodeClaim) -> bool) -> Vec<ObjectKey> {
    let all = context.cache.node_claims.all().into_iter();
    let meant = all.filter(|claim| is_meant(claim) && context.manages_claim(claim));
    meant.map(|claim| ObjectKey::of(claim.as_ref())).collect()
}

struct DisruptionReconciler {
    context: Context,
    /// Claims whose instance type was found in the catalog, by uid.
    found_types: TtlCache<()>,
}

impl Reconcile for DisruptionReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let context = &self.context;
        let claim = context.cache.node_claims.get("", &key.name);
        let is_meant = |claim: &Arc<NodeClaim>| {
            context.manages_claim(claim) && claim.metadata.deletion_timestamp.is_none()
        };
        let Some(claim) = claim.filter(is_meant) else { return Ok(Outcome::Done) };
        let pool = objects::label(claim.as_ref(), labels::NODEPOOL);
        let Some(pool) = context.cache.node_pools.get("", pool) else { return Ok(Outcome::Done) };
        let drift = self.drift(&claim, &pool).await;
        let mut after = claim.as_ref().clone();
        let now = context.clock.now();
        let last_pod_event = after.status.as_ref().and_then(|s| s.last_pod_event_time.clone());
        let mut conditions = after.condition_set(now);
        let (mut has_changed, mut outcome) = match &drift {
            Ok(verdict) => set_drifted(&mut conditions, verdict),
            Err(_) => (false, Outcome::Done),
        };
        if pool.spec.replicas.is_none() {
            let after = consolidate_after(&pool);
            let last_pod_event = last_pod_event.map(|time| time.0);
            let update = set_consolidatable(&mut conditions, after, last_pod_event, now);
            has_changed |= update.0;
            outcome = outcome.sooner(update.1);
        }
        if has_changed {
            let api = Api::all(context.client.clone());
            let written =
                patch_status(&api, claim.as_ref(), &after, Precondition::ResourceVersion).await?;
            if let Some(end) = written.early_outcome() {
                return Ok(end);
            }
            if let WriteOutcome::Applied(claim) = written {
                context.cache.node_claims.apply_write_result(*claim);
            }
        }
        drift.map(|_| outcome)
    }
}

/// The result of a drift check.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// The claim is not launched, so it cannot drift.
    NotLaunched,
    /// The cloud has no such instance. Other controllers handle that.
    NoInstance,
    /// The reason of the drift; none without drift.
    Drifted(Option<DriftReason>),
}

impl DisruptionReconciler {
    async fn drift(&self, claim: &NodeClaim, pool: &NodePool) -> Result<Verdict, ReconcileError> {
        if !is_true(claim.conditions(), LAUNCHED) {
            return Ok(Verdict::NotLaunched);
        }
        let words = empty_catalog(&self.context);
        let of_claim = Requirements::from_labels(labels_of(claim), &words.aliases);
        let requirements = template_requirements(pool, &words);
        let of_pool = drift::from_pool((hash(pool), &requirements), (hash(claim), &of_claim));
        if let Some(found) = of_pool {
            return Ok(Verdict::Drifted(Some(found.name().to_owned())));
        }
        let cloud = &self.context.cloud;
        let (uid, now) = (claim.uid().unwrap_or_default(), self.context.clock.now());
        let created = claim.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
        let has_checked = self.found_types.get(&uid, now).is_some();
        if drift::is_type_check_due(created, has_checked, now) {
            let types = match cloud.instance_types(pool).await {
                Ok(types) => types,
                Err(error) if error.is(CloudErrorClass::NodeClaimNotFound) => {
                    return Ok(Verdict::NoInstance);
                }
                Err(error) => {
                    return Err(drift_error("checking instance type drift", error, claim));
                }
            };
            let reservations = reservation_labels(words.reservation_id_label.as_deref());
            let found = drift::from_catalog(&types, &of_claim, &reservations, &words.well_known);
            if let Some(found) = found {
                return Ok(Verdict::Drifted(Some(found.name().to_owned())));
            }
            self.found_types.insert(&uid, (), now);
        }
        match cloud.is_drifted(claim).await {
            Ok(reason) => Ok(Verdict::Drifted(reason)),
            Err(error) if error.is(CloudErrorClass::NodeClaimNotFound) => Ok(Verdict::NoInstance),
            Err(error) => Err(drift_error("checking cloud provider drift", error, claim)),
        }
    }
}

fn drift_error(
    doing: &str,
    error: karpenter_operator::cloud::CloudError,
    claim: &NodeClaim,
) -> ReconcileError {
    ReconcileError::with_context(format!("getting drift, {doing}"), error)
        .with_field("NodeClaim", claim.name_any())
}

/// Returns the labels that name the capacity reservation of a node.
fn reservation_labels(id_label: Option<&str>) -> BTreeSet<String> {
    let of_aws = [
        labels::aws::CAPACITY_RESERVATION_ID,
        labels::aws::CAPACITY_RESERVATION_TYPE,
        labels::aws::CAPACITY_RESERVATION_INTERRUPTIBLE,
    ];
    of_aws.into_iter().chain(id_label).map(str::to_owned).collect()
}

fn labels_of(claim: &NodeClaim) -> impl Iterator<Item = (&str, &str)> {
    claim.labels().iter().map(|(key, value)| (key.as_str(), value.as_str()))
}

fn hash(object: &impl Resource) -> StaticHash<'_> {
    let notes = object.meta().annotations.as_ref();
    let note = |key: &str| notes.and_then(|notes| notes.get(key)).map(String::as_str);
    StaticHash {
        hash: note(annotations::NODEPOOL_HASH),
        version: note(annotations::NODEPOOL_HASH_VERSION),
    }
}

/// The pool's consolidateAfter; none for Never. What cannot be read is refused by admission, and
/// means Never.
fn consolidate_after(pool: &NodePool) -> Option<SignedDuration> {
    match pool.spec.disruption.as_ref().and_then(|disruption| disruption.consolidate_after.as_ref())
    {
        None => Some(SignedDuration::ZERO),
        Some(after) => after.value().ok().flatten(),
    }
}

/// Sets or clears the condition `Drifted`. Returns whether it has changed, and when to requeue.
fn set_drifted(conditions: &mut ConditionSet<'_>, verdict: &Verdict) -> (bool, Outcome) {
    let has_condition = conditions.get(DRIFTED).is_some();
    let again = Outcome::RequeueAfter(drift::RECHECK_INTERVAL);
    match verdict {
        Verdict::NoInstance => (false, Outcome::Done),
        Verdict::NotLaunched => {
            if has_condition {
                debug!("removing drift status condition, isn't launched");
            }
            (clear(conditions, DRIFTED), Outcome::Done)
        }
        Verdict::Drifted(None) => {
            if has_condition {
                debug!("removing drifted status condition, not drifted");
            }
            (clear(conditions, DRIFTED), again)
        }
        Verdict::Drifted(Some(reason)) => {
            if !has_condition {
                debug!(reason, "marking drifted");
            }
            (conditions.set(DRIFTED, Status::True, reason, reason), again)
        }
    }
}

/// Sets or clears the condition `Consolidatable`. Returns whether it has changed, and when to
/// requeue.
fn set_consolidatable(
    conditions: &mut ConditionSet<'_>,
    after: Option<SignedDuration>,
    last_pod_event: Option<Timestamp>,
    now: Timestamp,
) -> (bool, Outcome) {
    let initialized = conditions.get(INITIALIZED).filter(|condition| condition.status == "True");
    let initialized = initialized.map(|condition| condition.last_transition_time.0);
    let has_condition = conditions.get(CONSOLIDATABLE).is_some();
    let (reason, outcome) = match consolidatable::next(after, initialized, last_pod_event, now) {
        consolidatable::Step::Set => {
            if !has_condition {
                debug!("marking consolidatable");
            }
            return (conditions.set_true(CONSOLIDATABLE), Outcome::Done);
        }
        consolidatable::Step::Clear(why) => (why.text(), Outcome::Done),
        consolidatable::Step::Wait(rest) => {
            (consolidatable::WINDOW_NOT_ELAPSED, Outcome::RequeueAfter(rest))
        }
    };
    if has_condition {
        debug!(reason, "removing consolidatable status condition");
    }
    (clear(conditions, CONSOLIDATABLE), outcome)
}

fn clear(conditions: &mut ConditionSet<'_>, type_: &str) -> bool {
    // Both of ours can be cleared: Ready does not depend on them.
    conditions.clear(type_).is_ok_and(|was_there| was_there)
}
