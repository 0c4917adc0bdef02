//! Calculates the costs of a cluster's nodes.

use std::collections::BTreeMap;

use karpenter_api::labels;
use karpenter_core::catalog::{Catalog, InstanceType};
use karpenter_core::requirement::Requirements;
use karpenter_core::snapshot::{Snapshot, StateNode};

/// The hourly costs of nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NodeCosts {
    /// Per hour, by NodePool.
    pub(super) by_pool: BTreeMap<String, f64>,
    /// Nodes whose price is unknown, also those of no NodePool, by name. They cost nothing.
    pub(super) unpriced: Vec<String>,
}

/// Sums the prices of the nodes by NodePool.
pub(super) fn node_costs(snapshot: &Snapshot, catalog: &Catalog) -> NodeCosts {
    let mut types: BTreeMap<&str, BTreeMap<&str, &InstanceType>> = BTreeMap::new();
    let mut bill = NodeCosts::default();
    // In the order of names: sums in another order may differ in the last digits.
    let mut nodes: Vec<&StateNode> = snapshot.nodes.iter().map(|node| &**node).collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    for node in nodes {
        let pool = node.pool.as_deref().filter(|_| node.is_managed);
        let known = pool.and_then(|pool| catalog.pools.get_key_value(pool)).map(|(pool, known)| {
            let by_name = || known.iter().map(|one| (one.name.as_str(), one.as_ref())).collect();
            let price = node_price(node, types.entry(pool).or_insert_with(by_name));
            // Also a pool without a price is one.
            let sum = bill.by_pool.entry(pool.clone()).or_default();
            *sum += price.unwrap_or(0.0);
            price
        });
        if known.flatten().is_none() {
            bill.unpriced.push(node.name.clone());
        }
    }
    bill
}

fn node_price(node: &StateNode, types: &BTreeMap<&str, &InstanceType>) -> Option<f64> {
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
