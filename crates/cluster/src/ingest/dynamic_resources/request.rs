//! What a claim wants.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{
    CapacityRequirements, DeviceConstraint, DeviceRequest as WireRequest,
    DeviceSelector as WireSelector, DeviceSubRequest, ExactDeviceRequest,
};
use karpenter_core::resources::Quantity;
use karpenter_core::scheduling::dra::{
    Constraint, ConstraintRule, Count, DeviceQuery, DeviceRequest, DeviceRequestKind,
    DeviceSelector,
};

use crate::ingest::{quantity, text};

pub(super) fn read(wire: &WireRequest, problems: &mut Vec<String>) -> DeviceRequest {
    let device_request = match (&wire.exactly, &wire.first_available) {
        (Some(exactly), None) => exact_query(exactly, problems).map(DeviceRequestKind::Exactly),
        (None, Some(alternatives)) => {
            let queries = alternatives.iter().map(|wire| alternative_query(wire, problems));
            queries.collect::<Option<_>>().map(DeviceRequestKind::FirstAvailable)
        }
        // A field that we do not know, or a mistake.
        (None, None) | (Some(_), Some(_)) => None,
    };
    DeviceRequest {
        name: wire.name.clone(),
        kind: device_request.unwrap_or(DeviceRequestKind::Unsupported),
    }
}

fn exact_query(wire: &ExactDeviceRequest, problems: &mut Vec<String>) -> Option<DeviceQuery> {
    Some(DeviceQuery {
        name: String::new(),
        class: wire.device_class_name.clone(),
        selectors: selectors(wire.selectors.as_ref()),
        count: device_count(wire.allocation_mode.as_ref(), wire.count)?,
        capacity: capacity_requests(wire.capacity.as_ref(), problems),
    })
}

fn alternative_query(wire: &DeviceSubRequest, problems: &mut Vec<String>) -> Option<DeviceQuery> {
    Some(DeviceQuery {
        name: wire.name.clone(),
        class: wire.device_class_name.clone(),
        selectors: selectors(wire.selectors.as_ref()),
        count: device_count(wire.allocation_mode.as_ref(), wire.count)?,
        capacity: capacity_requests(wire.capacity.as_ref(), problems),
    })
}

fn capacity_requests(
    wire: Option<&CapacityRequirements>,
    problems: &mut Vec<String>,
) -> BTreeMap<String, Quantity> {
    let requests = wire.and_then(|capacity| capacity.requests.as_ref());
    quantity::quantity_map(requests, "capacity.requests", problems)
}

/// Returns the number of devices, 1 by default; none for an unknown allocation mode.
fn device_count(mode: Option<&String>, count: Option<i64>) -> Option<Count> {
    match text(mode) {
        "" | "ExactCount" => Some(Count::Exact(u64::try_from(count.unwrap_or(1)).unwrap_or(0))),
        "All" => Some(Count::All),
        _ => None,
    }
}

pub(super) fn selectors(wire: Option<&Vec<WireSelector>>) -> Vec<DeviceSelector> {
    let read = |wire: &WireSelector| match &wire.cel {
        Some(cel) => DeviceSelector::Cel(cel.expression.clone()),
        None => DeviceSelector::Unsupported,
    };
    wire.into_iter().flatten().map(read).collect()
}

pub(super) fn constraint(wire: &DeviceConstraint) -> Constraint {
    let rule = match (&wire.match_attribute, &wire.distinct_attribute) {
        (Some(attribute), _) => ConstraintRule::MatchAttribute(attribute.clone()),
        (None, Some(_)) => ConstraintRule::DistinctAttribute,
        (None, None) => ConstraintRule::Unsupported,
    };
    Constraint { requests: wire.requests.iter().flatten().cloned().collect(), rule }
}
