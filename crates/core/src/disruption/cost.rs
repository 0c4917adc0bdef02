//! What a node costs, and what it costs to disrupt it (spec 30 §3.6).

use jiff::Timestamp;

use crate::catalog::{CAPACITY_TYPE, InstanceType, Offering};
use crate::labels::ZONE;
use crate::pod::{OwnerKind, Pod};
use crate::snapshot::NodeDisruptionState;
use crate::static_capacity;

/// The reschedule cost of a node without pods.
pub(super) const BASE_COST: f64 = 1.0;

/// The price per hour of a node of this type, zone and capacity type, if it is known. Whether its
/// offering can be had now does not matter.
pub(super) fn price(
    instance_type: Option<&InstanceType>,
    zone: Option<&str>,
    capacity_type: Option<&str>,
) -> Option<f64> {
    let (zone, capacity_type) = (zone.unwrap_or_default(), capacity_type.unwrap_or_default());
    let is_own = |offering: &&Offering| {
        has_label_value(offering, ZONE, zone)
            && has_label_value(offering, CAPACITY_TYPE, capacity_type)
    };
    let own = instance_type?.offerings.iter().find(is_own);
    own.map(|offering| offering.price).filter(|price| !price.is_nan())
}

/// Whether an offering has this value of a label; without one it is empty.
fn has_label_value(offering: &Offering, key: &str, value: &str) -> bool {
    let requirement =
        offering.requirements.get(key).filter(|requirement| !requirement.is_complement());
    requirement.and_then(|requirement| requirement.values().first()).map_or("", String::as_str)
        == value
}

/// Returns the cost of rescheduling pods, plus the base cost of the node.
pub(super) fn reschedule_cost<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> f64 {
    pods.into_iter().fold(BASE_COST, |sum, pod| sum + pod.eviction_cost.max(0.0))
}

/// Returns the reschedule cost of a node that is no candidate.
/// It counts all pods that are not of DaemonSets and have not ended.
pub(super) fn non_candidate_cost<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> f64 {
    let counts = |pod: &&Pod| pod.owner != OwnerKind::DaemonSet && !pod.is_terminal();
    reschedule_cost(pods.into_iter().filter(counts))
}

/// What it costs to evict all pods, times the share of its life that the node has left.
pub(super) fn disruption_cost<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    standing: &NodeDisruptionState,
    now: Timestamp,
) -> f64 {
    let cost: f64 = pods.into_iter().map(|pod| pod.eviction_cost).sum();
    let age = now.duration_since(standing.node_claim_created_at.unwrap_or(now));
    cost * static_capacity::lifetime_remaining(age, standing.expire_after)
}
