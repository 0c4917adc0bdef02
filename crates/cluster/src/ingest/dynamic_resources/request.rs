//! What a claim wants.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{
    CapacityRequirements, DeviceConstraint, DeviceRequest as WireRequest,
    DeviceSelector as WireSelector, DeviceSubRequest, ExactDeviceRequest,
};
use karpenter_core::resources::Quantity;
use karpenter_core::scheduling::dra::{
    Ask, Constraint, Count, DeviceQuery, DeviceRequest, DeviceSelector, Rule,
};

use crate::ingest::{quantity, text};

pub(super) fn read(wire: &WireRequest, problems: &mut Vec<String>) -> DeviceRequest {
    let ask = match (&wire.exactly, &wire.first_available) {
        (Some(exactly), None) => exact(exactly, problems).map(Ask::Exactly),
        (None, Some(alternatives)) => {
            let queries = alternatives.iter().map(|wire| alternative(wire, problems));
            queries.collect::<Option<_>>().map(Ask::FirstAvailable)
        }
        // A field that we do not know, or a mistake.
        (None, None) | (Some(_), Some(_)) => None,
    };
    DeviceRequest { name: wire.name.clone(), ask: ask.unwrap_or(Ask::Unsupported) }
}

fn exact(wire: &ExactDeviceRequest, problems: &mut Vec<String>) -> Option<DeviceQuery> {
    Some(DeviceQuery {
        name: String::new(),
        class: wire.device_class_name.clone(),
        selectors: selectors(wire.selectors.as_ref()),
        count: count(wire.allocation_mode.as_ref(), wire.count)?,
        capacity: shares(wire.capacity.as_ref(), problems),
    })
}

fn alternative(wire: &DeviceSubRequest, problems: &mut Vec<String>) -> Option<DeviceQuery> {
    Some(DeviceQuery {
        name: wire.name.clone(),
        class: wire.device_class_name.clone(),
        selectors: selectors(wire.selectors.as_ref()),
        count: count(wire.allocation_mode.as_ref(), wire.count)?,
        capacity: shares(wire.capacity.as_ref(), problems),
    })
}

fn shares(
    wire: Option<&CapacityRequirements>,
    problems: &mut Vec<String>,
) -> BTreeMap<String, Quantity> {
    let requests = wire.and_then(|capacity| capacity.requests.as_ref());
    quantity::map(requests, "capacity.requests", problems)
}

/// How many devices: one by default. None for a mode that we do not know.
fn count(mode: Option<&String>, count: Option<i64>) -> Option<Count> {
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
        (Some(attribute), _) => Rule::MatchAttribute(attribute.clone()),
        (None, Some(_)) => Rule::DistinctAttribute,
        (None, None) => Rule::Unsupported,
    };
    Constraint { requests: wire.requests.iter().flatten().cloned().collect(), rule }
}
