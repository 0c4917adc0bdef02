//! `nodepool.registrationhealth`: reports whether the nodes of a pool register.
//!
//! [`RegistrationHealth`] keeps the outcomes of the last claims of each pool. `nodeclaim.lifecycle`
//! reports to it and sets the pool's condition. The controller here resets both when the pool or
//! its node class changes, and restores the outcomes from the condition after a restart.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use karpenter_api::condition_set::{HasConditions as _, Status, find};
use karpenter_api::conditions::{LAUNCHED, NODE_REGISTRATION_HEALTHY};
use karpenter_api::labels::NODEPOOL;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_api::reasons::messages;
use karpenter_api::reasons::nodepool::REGISTRATION_FAILED;
use karpenter_core::lifecycle::registration_health::{self, Health, Outcomes, PoolFacts};
use karpenter_operator::harness::{
    Controller, Outcome, Reconcile, ReconcileError, ReconcileResult,
};
use karpenter_operator::watch::ObjectKey;
use karpenter_operator::write::{Precondition, WriteOutcome, patch_status};
use kube::{Api, ResourceExt as _};

use crate::{Context, objects};

#[cfg(test)]
mod tests;

/// The outcomes of the last claims of pools, by the uid of the pool. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct RegistrationHealth(Arc<Mutex<BTreeMap<String, Outcomes>>>);

impl RegistrationHealth {
    /// Returns the registration health of the pool.
    pub fn of(&self, pool_uid: &str) -> Health {
        self.state().get(pool_uid).map_or(Health::Unknown, Outcomes::health)
    }

    fn health_with(&self, pool_uid: &str, has_registered: bool) -> Health {
        let outcomes = self.state().get(pool_uid).cloned().unwrap_or_default();
        outcomes.health_with(has_registered)
    }

    fn insert(&self, pool_uid: &str, has_registered: bool) {
        self.state().entry(pool_uid.to_owned()).or_default().record(has_registered);
    }

    fn set(&self, pool_uid: &str, health: Health) {
        self.state().insert(pool_uid.to_owned(), Outcomes::seeded_with(health));
    }

    /// Removes the outcomes of all other pools.
    fn retain(&self, pools: &[Arc<NodePool>]) {
        let uids: std::collections::BTreeSet<_> = pools.iter().filter_map(|p| p.uid()).collect();
        self.state().retain(|uid, _| uids.contains(uid));
    }

    fn state(&self) -> MutexGuard<'_, BTreeMap<String, Outcomes>> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportResult {
    /// It is noted, or there is no pool that it concerns.
    Done,
    /// The pool has changed meanwhile: report again.
    Conflict,
}

/// Reports to the pool of a claim whether the claim became a node.
pub(crate) async fn report(
    context: &Context,
    claim: &NodeClaim,
    has_registered: bool,
) -> Result<ReportResult, ReconcileError> {
    let Some(pool) = pool_of(context, claim) else {
        return Ok(ReportResult::Done);
    };
    let uid = pool.uid().unwrap_or_default();
    let mut after = pool.as_ref().clone();
    let mut conditions = after.condition_set(context.clock.now());
    let is_false = conditions
        .get(NODE_REGISTRATION_HEALTHY)
        .is_some_and(|condition| condition.status == Status::False.as_str());
    let has_changed = match context.registration_health.health_with(&uid, has_registered) {
        Health::Healthy if has_registered => conditions.set_true(NODE_REGISTRATION_HEALTHY),
        Health::Unhealthy if !has_registered && !is_false => {
            let (reason, message) = failure_reason(claim);
            conditions.set_false(NODE_REGISTRATION_HEALTHY, reason, message)
        }
        _ => false,
    };
    if has_changed {
        let api = Api::all(context.client.clone());
        let written =
            patch_status(&api, pool.as_ref(), &after, Precondition::ResourceVersion).await;
        let written = written.map_err(|error| {
            ReconcileError::with_context("patching nodepool status", error)
                .with_field("NodePool", pool.name_any())
        })?;
        match written {
            WriteOutcome::Conflict => return Ok(ReportResult::Conflict),
            WriteOutcome::Applied(pool) => context.cache.node_pools.apply_write_result(*pool),
            WriteOutcome::Unchanged | WriteOutcome::NotFound => {}
        }
    }
    context.registration_health.insert(&uid, has_registered);
    Ok(ReportResult::Done)
}

/// Returns the pool that the claim was made of. A pool recreated under its name is another one.
fn pool_of(context: &Context, claim: &NodeClaim) -> Option<Arc<NodePool>> {
    let pool = context.cache.node_pools.get("", objects::label(claim, NODEPOOL))?;
    let is_owner = claim
        .owner_references()
        .iter()
        .any(|owner| owner.kind == "NodePool" && Some(&owner.uid) == pool.metadata.uid.as_ref());
    is_owner.then_some(pool)
}

/// Returns the reason and the message why the claim did not become a node.
fn failure_reason(claim: &NodeClaim) -> (&str, &str) {
    match find(claim.conditions(), LAUNCHED) {
        Some(launched) if launched.status != Status::True.as_str() => {
            (&launched.reason, &launched.message)
        }
        _ => (REGISTRATION_FAILED, messages::REGISTRATION_FAILED),
    }
}

pub(crate) fn controller(context: &Context) -> Controller {
    let managed = context.clone();
    let controller = Controller::new(
        "nodepool.registrationhealth",
        &context.clock,
        RegistrationHealthReconciler(context.clone()),
    );
    let controller = controller
        .for_kind("karpenter.sh", "NodePool")
        .workers(context.workers(10, 1000))
        .watch_if(&context.cache.node_pools, move |change| {
            let pool = change.after.as_ref().or(change.before.as_ref());
            pool.is_some_and(|pool| managed.manages_pool(pool))
        });
    super::watch_node_classes(controller, context)
}

struct RegistrationHealthReconciler(Context);

impl Reconcile for RegistrationHealthReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let Self(context) = self;
        let Some(pool) = context.cache.node_pools.get("", &key.name) else {
            context.registration_health.retain(&context.cache.node_pools.all());
            return Ok(Outcome::Done);
        };
        // Kinds that are not ours are not found.
        let class = context.cache.node_class(&pool.spec.template.spec.node_class_ref);
        let Some(class) = class else { return Ok(Outcome::Done) };
        let health = &context.registration_health;
        let uid = pool.uid().unwrap_or_default();
        let condition = find(pool.conditions(), NODE_REGISTRATION_HEALTHY);
        if health.of(&uid) == Health::Unknown {
            match condition.map(|condition| condition.status.as_str()) {
                Some("True") => health.set(&uid, Health::Healthy),
                Some("False") => health.set(&uid, Health::Unhealthy),
                _ => {}
            }
        }
        let status = pool.status.as_ref();
        let class_generation = class.metadata.generation.unwrap_or_default();
        let facts = PoolFacts {
            condition_generation: condition.map(|c| c.observed_generation.unwrap_or_default()),
            generation: pool.metadata.generation.unwrap_or_default(),
            class_observed_generation: status
                .and_then(|status| status.node_class_observed_generation)
                .unwrap_or_default(),
            class_generation,
        };
        if !registration_health::is_outdated(facts) {
            return Ok(Outcome::Done);
        }
        let mut after = pool.as_ref().clone();
        after.condition_set(context.clock.now()).set_unknown(NODE_REGISTRATION_HEALTHY);
        after.status.get_or_insert_default().node_class_observed_generation =
            Some(class_generation);
        let api = Api::all(context.client.clone());
        let written =
            patch_status(&api, pool.as_ref(), &after, Precondition::ResourceVersion).await?;
        let end = written.early_outcome().unwrap_or_default();
        if let WriteOutcome::Applied(pool) = written {
            health.set(&uid, Health::Unknown);
            context.cache.node_pools.apply_write_result(*pool);
        }
        Ok(end)
    }
}
