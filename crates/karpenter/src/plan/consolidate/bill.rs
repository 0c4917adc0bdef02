//! What the nodes of a cluster cost.

use std::collections::BTreeMap;

use karpenter_api::labels;
use karpenter_core::catalog::{Catalog, InstanceType};
use karpenter_core::requirement::Requirements;
use karpenter_core::snapshot::{Node, Snapshot};

/// What the nodes of each NodePool cost per hour. Nodes whose price nobody knows count nothing.
pub(super) fn by_pool(snapshot: &Snapshot, catalog: &Catalog) -> BTreeMap<String, f64> {
    let mut types: BTreeMap<&str, BTreeMap<&str, &InstanceType>> = BTreeMap::new();
    let mut costs = BTreeMap::new();
    for node in snapshot.nodes.iter().filter(|node| node.is_managed) {
        let Some((pool, known)) =
            node.pool.as_deref().and_then(|pool| catalog.pools.get_key_value(pool))
        else {
            continue;
        };
        let by_name = || known.iter().map(|one| (one.name.as_str(), one.as_ref())).collect();
        let types = types.entry(pool).or_insert_with(by_name);
        *costs.entry(pool.clone()).or_default() += price(node, types).unwrap_or(0.0);
    }
    costs
}

fn price(node: &Node, types: &BTreeMap<&str, &InstanceType>) -> Option<f64> {
    let label = |key: &str| node.labels.get(key).map(String::as_str);
    let instance_type = types.get(label(labels::INSTANCE_TYPE)?)?;
    let (zone, capacity_type) = (label(labels::ZONE), label(labels::CAPACITY_TYPE));
    let is = |requirements: &Requirements, key: &str, value: Option<&str>| {
        value.is_none_or(|value| requirements.get(key).is_none_or(|known| known.has(value)))
    };
    let sold = instance_type.offerings.iter().filter(|offering| {
        is(&offering.requirements, labels::ZONE, zone)
            && is(&offering.requirements, labels::CAPACITY_TYPE, capacity_type)
    });
    sold.map(|offering| offering.price).min_by(f64::total_cmp)
}
