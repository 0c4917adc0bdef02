//! What selectors of devices, which are CEL, have to be told about.

use std::collections::BTreeMap;

use karpenter_core::catalog::Catalog;
use karpenter_core::scheduling::dra::{Ask, DeviceSelector, DynamicState};
use karpenter_operator::devices::DeviceSelectors as _;

use super::report::Remark;
use crate::device_selectors::Cel;

/// Answers every selector of a class or claim for every device. A selector that has no value for a
/// device does not match it, and is worth a remark: to a pod it looks as if there were no device.
pub(super) fn evaluate_selectors(state: &mut DynamicState, catalog: &Catalog) -> Vec<Remark> {
    let failures = Cel.evaluate(state, catalog);
    remarks(state, &failures)
}

fn remarks(state: &DynamicState, failures: &BTreeMap<String, String>) -> Vec<Remark> {
    let classes = state.classes.iter().flat_map(|(name, class)| {
        class.selectors.iter().map(move |selector| (format!("DeviceClass {name}"), selector))
    });
    let claims = state.claims.iter().flat_map(|(key, claim)| {
        let queries = claim.requests.iter().flat_map(|request| match &request.ask {
            Ask::Exactly(query) => std::slice::from_ref(query),
            Ask::FirstAvailable(queries) => queries,
            Ask::Unsupported => &[],
        });
        let selectors = queries.flat_map(|query| &query.selectors);
        selectors.map(move |selector| (format!("ResourceClaim {key}"), selector))
    });
    let told = classes.chain(claims).filter_map(|(object, selector)| {
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
    told.collect()
}
