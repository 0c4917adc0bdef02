//! What decisions about disruption look at, gathered once for a pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_api::nodepool::NodePool;
use karpenter_core::catalog::Catalog;
use karpenter_core::disruption::{Command, apply};
use karpenter_core::snapshot::Snapshot;
use karpenter_operator::cloud::CloudErrorClass;
use tracing::error;

use crate::Context;
use crate::provisioner::decide::words;
use crate::state::answer_selectors;

/// The cluster, and what can be launched in it. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Sight {
    pub(crate) snapshot: Arc<Snapshot>,
    /// Pools whose instance types are not known are absent.
    pub(crate) catalog: Arc<Catalog>,
    /// Our pools as they were, by name.
    pub(crate) pools: Arc<BTreeMap<String, Arc<NodePool>>>,
    pub(crate) now: Timestamp,
}

impl Sight {
    pub(crate) async fn take(context: &Context) -> Self {
        let now = context.clock.now();
        let mut snapshot = context.mirror.snapshot(now);
        let named = |name: &String| {
            let pool = context.cache.node_pools.get("", name)?;
            Some((name.clone(), pool))
        };
        let pools: BTreeMap<_, _> = snapshot.managed_pools.keys().filter_map(named).collect();
        let mut catalog = words(context);
        for (name, pool) in &pools {
            match context.cloud.instance_types(pool).await {
                Ok(types) if types.is_empty() => {}
                Ok(types) => {
                    catalog.pools.insert(name.clone(), types);
                }
                Err(error) if error.is(CloudErrorClass::UnevaluatedNodePool) => {
                    error!(NodePool = name, "skipping, node overlays are not applied");
                }
                Err(error) => {
                    error!(NodePool = name, error = %error, "failed listing instance types");
                }
            }
        }
        answer_selectors(context, &mut snapshot, &catalog).await;
        Self { snapshot, catalog: Arc::new(catalog), pools: Arc::new(pools), now }
    }

    /// Makes it the cluster as it will be when a command is carried out.
    pub(crate) fn apply(&mut self, command: &Command) {
        apply(Arc::make_mut(&mut self.snapshot), &self.catalog, command);
    }
}
