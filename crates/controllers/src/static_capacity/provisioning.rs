//! `static.provisioning`: creates the NodeClaims that a static pool lacks.

use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt as _};
use karpenter_api::condition_set::{HasConditions as _, is_true};
use karpenter_api::conditions::READY;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_cluster::mirror::Mirror;
use karpenter_core::static_capacity::{ClaimCounts, Provision, provision};
use karpenter_operator::harness::{
    Controller, Outcome, Reconcile, ReconcileError, ReconcileResult,
};
use karpenter_operator::metrics::labels::NodeClaimsCreated;
use karpenter_operator::watch::{Change, ObjectKey};
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use tracing::info;

use super::{WORKERS, is_resized, pool_of, static_pool};
use crate::provisioner::{claim, decision};
use crate::{Context, objects};

#[cfg(test)]
mod tests;

/// The retry interval until the mirror has synced once.
const UNSYNCED_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How many claims are created concurrently.
const MAX_CONCURRENT_CREATIONS: usize = 100;
/// The resource that limits the number of nodes.
const NODES: &str = "nodes";

pub(super) fn controller(context: &Context) -> Controller {
    let provisioning = ProvisioningReconciler { context: context.clone() };
    let of_claims = context.clone();
    Controller::new("static.provisioning", &context.clock, provisioning)
        .for_kind("karpenter.sh", "NodePool")
        .workers(WORKERS)
        .watch_if(&context.cache.node_pools, |change| {
            is_resized(change) || has_become_ready(change)
        })
        .watch_map(&context.cache.node_claims, move |change| {
            let claim = change.before.as_ref().filter(|_| is_deleted_or_deleting(change));
            claim.and_then(|claim| pool_of(&of_claims, claim))
        })
}

/// Returns whether a pool has become ready.
fn has_become_ready(change: &Change<NodePool>) -> bool {
    let is_ready = |pool: Option<&NodePool>| pool.is_some_and(|p| is_true(p.conditions(), READY));
    !is_ready(change.before.as_deref()) && is_ready(change.after.as_deref())
}

/// Returns whether a claim was removed, or its deletion has begun.
fn is_deleted_or_deleting(change: &Change<NodeClaim>) -> bool {
    let is_deleted = |claim: &NodeClaim| claim.metadata.deletion_timestamp.is_some();
    let before = change.before.as_ref().is_some_and(|claim| is_deleted(claim));
    change.after.as_ref().is_none_or(|claim| !before && is_deleted(claim))
}

struct ProvisioningReconciler {
    context: Context,
}

impl Reconcile for ProvisioningReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let context = &self.context;
        let Some((pool, replicas)) = static_pool(context, &key.name) else {
            return Ok(Outcome::Done);
        };
        if !is_true(pool.conditions(), READY) {
            return Ok(Outcome::Done);
        }
        let mirror = &context.mirror;
        // Without the sync, existing claims would be created again.
        if !mirror.has_synced() && !mirror.is_synced(context.clock.now()) {
            return Ok(Outcome::RequeueAfter(UNSYNCED_RETRY_INTERVAL));
        }
        let step = reserve(mirror, &pool, replicas);
        match step {
            Provision::Enough => {}
            Provision::LimitReached => info!(NodePool = key.name, "nodepool node limit reached"),
            Provision::Create(count) => self.create(&pool, replicas, count).await?,
        }
        Ok(Outcome::RequeueAfter(
            step.requeue_after().try_into().unwrap_or(UNSYNCED_RETRY_INTERVAL),
        ))
    }
}

/// Reserves nodes and returns how many claims to create.
fn reserve(mirror: &Mirror, pool: &NodePool, replicas: i64) -> Provision {
    let name = pool.name_any();
    let counts = mirror.node_counts(&name);
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let claims = ClaimCounts {
        active: count(counts.active),
        pending_disruption: count(counts.pending_disruption),
        ..ClaimCounts::default()
    };
    // The mirror applies the limit at the moment of the reservation; other controllers reserve as
    // well.
    let Provision::Create(wanted) = provision(replicas, None, claims) else {
        return Provision::Enough;
    };
    let limit = node_limit(pool).unwrap_or(i64::MAX);
    let granted = mirror.reserve_nodes(&name, limit, i64::from(wanted));
    match u32::try_from(granted) {
        Ok(granted) if granted > 0 => Provision::Create(granted),
        _ => Provision::LimitReached,
    }
}

/// A reserved node under the limit of a pool, released when it is dropped.
pub(crate) struct Reservation<'a> {
    mirror: &'a Mirror,
    pool: &'a str,
}

impl<'a> Reservation<'a> {
    /// Reserves one node under the pool's limit. None if the limit is reached.
    pub(crate) fn reserve_one(
        mirror: &'a Mirror,
        pool: &'a str,
        limit: Option<i64>,
    ) -> Option<Self> {
        let granted = mirror.reserve_nodes(pool, limit.unwrap_or(i64::MAX), 1);
        (granted == 1).then_some(Self { mirror, pool })
    }
}

/// Returns how many nodes the pool may have.
pub(crate) fn node_limit(pool: &NodePool) -> Option<i64> {
    let limits = objects::resources(pool.spec.limits.as_ref());
    limits.get(NODES).map(|limit| i64::try_from(limit.units()).unwrap_or(i64::MAX))
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.mirror.release_nodes(self.pool, 1);
    }
}

impl ProvisioningReconciler {
    async fn create(
        &self,
        pool: &NodePool,
        replicas: i64,
        count: u32,
    ) -> Result<(), ReconcileError> {
        let (context, name) = (&self.context, pool.name_any());
        let current = context.mirror.node_counts(&name).active;
        info!(
            NodePool = name,
            current,
            desired = replicas,
            "provision-count" = count,
            "provisioning nodeclaims to satisfy replica count"
        );
        let reserved: Vec<_> =
            (0..count).map(|_| Reservation { mirror: &context.mirror, pool: &name }).collect();
        let words = decision::empty_catalog(context);
        let mut rng = context.rng.fork("static").fork(&context.clock.now().to_string());
        let creations: Vec<BoxFuture<'_, Result<(), ReconcileError>>> = reserved
            .into_iter()
            .map(|reservation| {
                let mut claim = claim::from_template(pool, &mut rng, &words);
                claim::apply_provider_defaults(&mut claim, self.context.cloud.as_ref());
                let creation: BoxFuture<'_, _> = Box::pin(self.create_one(reservation, claim));
                creation
            })
            .collect();
        let results: Vec<_> =
            stream::iter(creations).buffer_unordered(MAX_CONCURRENT_CREATIONS).collect().await;
        match ReconcileError::join(results.into_iter().filter_map(Result::err)) {
            None => Ok(()),
            Some(error) => Err(ReconcileError::with_context("creating nodeclaims", error)),
        }
    }

    async fn create_one(
        &self,
        reservation: Reservation<'_>,
        claim: NodeClaim,
    ) -> Result<(), ReconcileError> {
        let context = &self.context;
        let api: Api<NodeClaim> = Api::all(context.client.clone());
        let created = api.create(&PostParams::default(), &claim).await;
        let created =
            created.map_err(|error| ReconcileError::with_context("creating node claim", error))?;
        info!(NodePool = reservation.pool, NodeClaim = created.name_any(), "created nodeclaim");
        context.metrics.nodeclaims_created.inc(&NodeClaimsCreated {
            reason: "provisioned",
            nodepool: reservation.pool,
            min_values_relaxed: "false",
        });
        // Counted before the reservation ends, so that there is no moment between.
        context.cache.node_claims.apply_write_result(created);
        drop(reservation);
        Ok(())
    }
}
