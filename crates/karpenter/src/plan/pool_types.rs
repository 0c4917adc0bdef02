//! The requirements and instance types of NodePools, without a decision about pods.

use karpenter_api::validation::ProviderRules;
use karpenter_cluster::ingest;
use karpenter_core::catalog::Catalog;
use karpenter_core::requirement::{Requirement, Requirements};
use karpenter_core::snapshot::Pool;
use karpenter_operator::cloud::ProviderLabels;

use super::cluster_objects::ClusterObjects;
use super::ingest_remark::ingest_remark;
use super::provider::ChosenProvider;
use super::report::Remark;

/// NodePools with the instance types that they select from.
#[derive(Debug)]
pub(crate) struct PoolTypes {
    /// The requirements of each NodePool, labels included, by name.
    pub(crate) pools: Vec<(String, Vec<Requirement>)>,
    pub(crate) catalog: Catalog,
    pub(crate) rules: ProviderRules,
    pub(crate) notes: Vec<String>,
    pub(crate) remarks: Vec<Remark>,
}

/// Returns the NodePools among the objects, with the types of the provider.
pub(crate) fn pool_types(mut gathered: ClusterObjects, chosen: ChosenProvider) -> PoolTypes {
    let ChosenProvider { mut settings, types_by_pool, labels, notes } = chosen;
    settings.assume_pools_ready = true;
    let result = ingest::snapshot(&gathered.objects, &settings);
    let mut remarks = std::mem::take(&mut gathered.remarks);
    remarks.extend(result.diagnostics.iter().map(|marked| ingest_remark(marked, &gathered)));
    let ProviderLabels { well_known, reservation_id_label, aliases } = labels;
    let catalog = Catalog { pools: types_by_pool, well_known, reservation_id_label, aliases };
    let named = |pool: &Pool| (pool.name.clone(), pool_requirements(pool, &catalog));
    let pools = result.snapshot.pools.iter().map(named).collect();
    PoolTypes { pools, catalog, rules: settings.rules, notes, remarks }
}

/// Returns the requirements of a pool, with those of its labels.
fn pool_requirements(pool: &Pool, catalog: &Catalog) -> Vec<Requirement> {
    let labels = pool.labels.iter().map(|(key, value)| (&**key, &**value));
    let labels = Requirements::from_labels(labels, &catalog.aliases);
    pool.requirements.iter().chain(labels.iter()).cloned().collect()
}
