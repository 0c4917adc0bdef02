//! The zone that the constraints of a pending pod leave, for a metric (spec 20 §4.9).

use std::collections::BTreeSet;

use super::relaxable_pod::RelaxablePod;
use super::topology::{Topology, domains};
use crate::labels::ZONE;
use crate::rejection::TopologyKind;
use crate::requirement::{Operator, Requirement, Requirements};

/// Returns the zone of a pod, `flexible` or `none`.
pub(super) fn effective_zone(topology: &Topology<'_>, relaxable: &RelaxablePod<'_>) -> String {
    let Some(by_topology) = by_topology(topology, relaxable) else { return "none".to_owned() };
    let own = domains(&relaxable.strict, ZONE);
    let by_volumes = by_volumes(&relaxable.volume_topologies);
    let candidates = if own.operator() == Operator::In {
        own.values().clone()
    } else if let Some(zones) = &by_volumes {
        zones.clone()
    } else if !by_topology.is_empty() {
        by_topology.clone()
    } else {
        return "flexible".to_owned();
    };
    let mut left = candidates.into_iter().filter(|zone| {
        own.has(zone)
            && by_volumes.as_ref().is_none_or(|zones| zones.contains(zone))
            && (by_topology.is_empty() || by_topology.contains(zone))
    });
    match (left.next(), left.next()) {
        (Some(zone), None) => zone,
        (Some(_), Some(_)) => "flexible".to_owned(),
        (None, _) => "none".to_owned(),
    }
}

/// Returns the zones that all groups of the pod allow; empty allows any.
///
/// None if some group allows no zone.
fn by_topology(topology: &Topology<'_>, relaxable: &RelaxablePod<'_>) -> Option<BTreeSet<String>> {
    let anywhere = Requirement::exists(ZONE);
    let pod_domains = domains(&relaxable.all, ZONE);
    let mut common: Option<BTreeSet<String>> = None;
    for group in topology.owned(relaxable.id).filter(|group| group.identity.key == ZONE) {
        let valid: BTreeSet<String> = if group.identity.kind == TopologyKind::Spread {
            let valid = group.valid_spread(relaxable.pod, &pod_domains, &anywhere);
            valid.into_iter().map(str::to_owned).collect()
        } else {
            group
                .next_domains(relaxable.pod, &pod_domains, &anywhere, &|_, _| None)
                .values()
                .clone()
        };
        if valid.is_empty() {
            return None;
        }
        common = Some(common.map_or(valid.clone(), |common| &common & &valid));
    }
    Some(common.unwrap_or_default())
}

/// Returns the zones of all topologies of the pod's volumes.
///
/// None if one of them does not restrict zones.
fn by_volumes(alternatives: &[Requirements]) -> Option<BTreeSet<String>> {
    let zones = |place: &Requirements| {
        let zones = place.get(ZONE).filter(|zones| zones.operator() == Operator::In)?;
        Some(zones.values().clone())
    };
    let all: Option<Vec<_>> = alternatives.iter().map(zones).collect();
    all.filter(|all| !all.is_empty()).map(|all| all.into_iter().flatten().collect())
}
