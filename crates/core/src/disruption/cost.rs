//! What a node costs, and what it costs to disrupt it (spec 30 §3.6).

use jiff::Timestamp;

use crate::catalog::{CAPACITY_TYPE, InstanceType, Offering};
use crate::labels::ZONE;
use crate::pod::{Owner, Pod};
use crate::snapshot::NodeStanding;
use crate::static_capacity;

/// What it costs to disrupt a node without pods.
pub(super) const BASE: f64 = 1.0;

/// The price per hour of a node of this type, zone and capacity type, if it is known. Whether its
/// offering can be had now does not matter.
pub(super) fn price(
    instance_type: Option<&InstanceType>,
    zone: Option<&str>,
    capacity_type: Option<&str>,
) -> Option<f64> {
    let (zone, capacity_type) = (zone.unwrap_or_default(), capacity_type.unwrap_or_default());
    let is_own = |offering: &&Offering| {
        is(offering, ZONE, zone) && is(offering, CAPACITY_TYPE, capacity_type)
    };
    let own = instance_type?.offerings.iter().find(is_own);
    own.map(|offering| offering.price).filter(|price| !price.is_nan())
}

/// Whether the offering says exactly this about a label; saying nothing is an empty text.
fn is(offering: &Offering, key: &str, value: &str) -> bool {
    let said = offering.requirements.get(key).filter(|said| !said.is_complement());
    said.and_then(|said| said.values().first()).map_or("", String::as_str) == value
}

/// What it costs to move pods that come back elsewhere, and the node's own.
pub(super) fn reschedule_cost<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> f64 {
    pods.into_iter().fold(BASE, |sum, pod| sum + pod.eviction_cost.max(0.0))
}

/// The same of a node that is no candidate: all its pods that are not of DaemonSets.
pub(super) fn standing_cost<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> f64 {
    let counts = |pod: &&Pod| pod.owner != Owner::DaemonSet && !pod.is_terminal();
    reschedule_cost(pods.into_iter().filter(counts))
}

/// What it costs to evict all pods, times the share of its life that the node has left.
pub(super) fn disruption_cost<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    standing: &NodeStanding,
    now: Timestamp,
) -> f64 {
    let cost: f64 = pods.into_iter().map(|pod| pod.eviction_cost).sum();
    let age = now.duration_since(standing.created.unwrap_or(now));
    cost * static_capacity::lifetime_remaining(age, standing.expire_after)
}
