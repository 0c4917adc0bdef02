//! Wraps a cloud provider to apply NodeOverlays to its instance types (spec 40 §6.1, spec 45 §3.1).
//!
//! The NodeOverlay controller evaluates overlays with the wrapped provider, and
//! [publishes](OverlayStore::publish) the result; all other controllers use this decorator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use karpenter_api::nodepool::NodePool;
use karpenter_core::catalog::InstanceTypes;
use karpenter_core::overlay::Overrides;

use super::{CloudError, CloudFuture, CloudProvider, CloudResult};
use crate::harness::ReconcileError;

#[cfg(test)]
mod tests;

/// What the last evaluation found. Readers see one evaluation or the next, never a mixture.
#[derive(Debug, Default)]
pub struct OverlayStore {
    evaluation: RwLock<Arc<Evaluation>>,
}

#[derive(Debug, Default)]
struct Evaluation {
    evaluated_pools: BTreeSet<String>,
    overrides: Overrides,
    /// The last instance types of each NodePool, before and after: overlays apply once to the same
    /// list.
    applied_types: Mutex<BTreeMap<String, (InstanceTypes, InstanceTypes)>>,
}

impl OverlayStore {
    /// Nothing evaluated yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the evaluation. `pools` are the evaluated NodePools; others wait for the next
    /// evaluation.
    pub fn publish(&self, pools: BTreeSet<String>, overrides: Overrides) {
        let evaluated = Arc::new(Evaluation {
            evaluated_pools: pools,
            overrides,
            applied_types: Mutex::default(),
        });
        *self.evaluation.write().unwrap_or_else(PoisonError::into_inner) = evaluated;
    }

    /// The types of a pool with its overlays. The same ones give the same answer, shared.
    pub fn apply(&self, pool: &str, types: &InstanceTypes) -> CloudResult<InstanceTypes> {
        let evaluated = self.evaluation.read().unwrap_or_else(PoisonError::into_inner).clone();
        if !evaluated.evaluated_pools.contains(pool) {
            return Err(CloudError::UnevaluatedNodePool(pool.to_owned()));
        }
        let known = |known: &BTreeMap<String, (InstanceTypes, InstanceTypes)>| {
            let (before, after) = known.get(pool)?;
            Arc::ptr_eq(before, types).then(|| Arc::clone(after))
        };
        let lock = || evaluated.applied_types.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(after) = known(&lock()) {
            return Ok(after);
        }
        let after = evaluated.overrides.apply(pool, types);
        lock().insert(pool.to_owned(), (Arc::clone(types), Arc::clone(&after)));
        Ok(after)
    }
}

/// A cloud provider whose instance types have NodeOverlays applied.
#[derive(Debug)]
pub struct OverlayDecorator {
    inner: Arc<dyn CloudProvider>,
    /// None where the gate is off.
    store: Option<Arc<OverlayStore>>,
}

impl OverlayDecorator {
    /// The cloud with what the store has; with no store, which is when the gate is off, the types
    /// are the cloud's own.
    pub fn new(inner: Arc<dyn CloudProvider>, store: Option<Arc<OverlayStore>>) -> Self {
        Self { inner, store }
    }
}

impl super::CloudDecorator for OverlayDecorator {
    fn inner(&self) -> &dyn CloudProvider {
        &*self.inner
    }

    fn instance_types<'a>(&'a self, node_pool: &'a NodePool) -> CloudFuture<'a, InstanceTypes> {
        Box::pin(async move {
            let pool = node_pool.metadata.name.as_deref().unwrap_or_default();
            let types = self.inner.instance_types(node_pool).await.map_err(|error| {
                let doing = "getting cloud provider instance types";
                CloudError::other(Box::new(
                    ReconcileError::with_context(doing, error).with_field("NodePool", pool),
                ))
            })?;
            match &self.store {
                Some(store) => store.apply(pool, &types),
                None => Ok(types),
            }
        })
    }
}
