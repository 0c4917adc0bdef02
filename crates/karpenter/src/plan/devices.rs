//! Evaluates the CEL selectors of devices and reports those that fail.

use std::collections::BTreeMap;

use karpenter_controllers::device_selectors;
use karpenter_core::catalog::Catalog;
use karpenter_core::scheduling::dra::{DeviceRequestKind, DeviceSelector, DynamicResourceState};

use super::report::Remark;

/// Evaluates every selector of a class or claim for every device. A selector that has no value for
/// a device does not match it, and is worth a remark: for a pod the device does not exist.
pub(super) fn evaluate_selectors(
    state: &mut DynamicResourceState,
    catalog: &Catalog,
) -> Vec<Remark> {
    let failures = device_selectors::evaluate(state, catalog);
    failure_remarks(state, &failures)
}

fn failure_remarks(
    state: &DynamicResourceState,
    failures: &BTreeMap<String, String>,
) -> Vec<Remark> {
    let classes = state.classes.iter().flat_map(|(name, class)| {
        class.selectors.iter().map(move |selector| (format!("DeviceClass {name}"), selector))
    });
    let claims = state.claims.iter().flat_map(|(key, claim)| {
        let queries = claim.requests.iter().flat_map(|request| match &request.kind {
            DeviceRequestKind::Exactly(query) => std::slice::from_ref(query),
            DeviceRequestKind::FirstAvailable(queries) => queries,
            DeviceRequestKind::Unsupported => &[],
        });
        let selectors = queries.flat_map(|query| &query.selectors);
        selectors.map(move |selector| (format!("ResourceClaim {key}"), selector))
    });
    let remarks = classes.chain(claims).filter_map(|(object, selector)| {
        let DeviceSelector::Cel(text) = selector else { return None };
        let failure = failures.get(text)?;
        Some(Remark {
            object,
            place: None,
            field: None,
            problem: format!("selector {text:?} has no value for some devices: {failure}"),
            fix: failure.contains("no such key").then(|| {
                "ask first whether a device has it: has(device.attributes[...].name) && ..."
                    .to_owned()
            }),
            left_out: false,
            broken: false,
        })
    });
    remarks.collect()
}
