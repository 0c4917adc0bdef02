//! What NodePools and reservations allow together.

use std::collections::BTreeMap;

use super::Level;
use super::planned_cluster::{PlannedCluster, PlannedNodeKind, types_of};
use super::violation::Violation;
use crate::id::NodeId;
use crate::plan::Plan;
use crate::resources::{NODES, Quantity, Resources};

pub(super) fn check(
    places: &PlannedCluster<'_>,
    plan: &Plan,
    level: Level,
    found: &mut Vec<Violation>,
) {
    if level == Level::Complete {
        check_pool_limits(places, found);
    }
    check_reservations(places, plan, found);
}

/// Checks that nodes and NodeClaims stay within the limits of their NodePools.
///
/// A NodeClaim counts as the largest instance type that it may become.
fn check_pool_limits(places: &PlannedCluster<'_>, found: &mut Vec<Violation>) {
    let snapshot = places.request.snapshot;
    for pool in snapshot.pools.iter().filter(|pool| !pool.limits.is_empty()) {
        let claims = places.nodes.iter().filter_map(|place| match &place.kind {
            PlannedNodeKind::Claim { claim, pool: own, list, .. } if own.name == pool.name => {
                Some(types_of(claim, list))
            }
            _ => None,
        });
        let mut used = Resources::default();
        let mut has_claims = false;
        for types in claims {
            used.add(&Resources::max(types.map(|own| &*own.capacity)));
            has_claims = true;
        }
        if !has_claims {
            continue;
        }
        let mut nodes = 0_i64;
        for (position, node) in snapshot.nodes.iter().enumerate() {
            let is_removed = places.request.excluded_nodes.contains(&NodeId::new(position));
            if node.pool.as_ref() == Some(&pool.name) && !node.is_deleting && !is_removed {
                used.add(&node.capacity);
                nodes += 1;
            }
        }
        let is_exceeded = |(resource, limit): &(&str, Quantity)| match *resource {
            // Only whether there may be another one at all.
            NODES => Quantity::from_units(nodes) >= *limit,
            resource => used.amount(resource) > *limit,
        };
        for (resource, _) in pool.limits.iter().filter(is_exceeded) {
            found.push(Violation::Limit { pool: pool.name.clone(), resource: resource.to_owned() });
        }
    }
}

/// Checks that no reservation has more NodeClaims than slots.
fn check_reservations(places: &PlannedCluster<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    if plan.claims.iter().all(|claim| claim.reservations.is_empty()) {
        return;
    }
    let request = &places.request;
    let label = request.catalog.reservation_id_label.as_deref();
    let mut slots: BTreeMap<&str, u32> = BTreeMap::new();
    let pools = request.snapshot.pools.iter();
    let lists = pools.filter_map(|pool| request.catalog.pools.get(&pool.name));
    let types = lists.flat_map(|list| list.iter());
    for offering in types.flat_map(|own| &*own.offerings).filter(|offering| offering.is_reserved())
    {
        let id = offering.reservation_id(label).unwrap_or_default();
        let least = slots.entry(id).or_insert(offering.reservation_capacity);
        *least = offering.reservation_capacity.min(*least);
    }
    let mut held: BTreeMap<&str, u32> = BTreeMap::new();
    for id in plan.claims.iter().flat_map(|claim| &claim.reservations) {
        *held.entry(id).or_insert(0) += 1;
    }
    for (id, held) in held {
        let credit = request.options.reservation_credits.get(id).copied().unwrap_or(0);
        let slots = slots.get(id).map_or(0, |slots| slots.saturating_add(credit));
        if held > slots {
            found.push(Violation::Reservation { id: id.to_owned() });
        }
    }
}
