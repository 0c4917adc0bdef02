//! Selectors of devices, which are CEL: the core decides with a table of answers, and the CEL is
//! that of the embedded API server.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use karpenter_apiserver::admission::device::{Attribute as Seen, Device, Prepared, Selector};
use karpenter_core::catalog::Catalog;
use karpenter_core::scheduling::dra::{
    Ask, Attribute, DeviceSelector, DeviceShape, DynamicState, SelectorError,
};

use super::report::Remark;

/// What all selectors and devices may cost together: seconds, and far more than real ones need.
const STEPS: u64 = 100_000_000;

/// A selector and what became of it.
struct Known {
    compiled: Result<Selector, String>,
    /// Why it has no value for the first such device.
    failure: Option<String>,
}

/// Answers every selector of a class or claim for every device. A selector that has no value for a
/// device does not match it, and is worth a remark: to a pod it looks as if there were no device.
pub(super) fn evaluate_selectors(state: &mut DynamicState, catalog: &Catalog) -> Vec<Remark> {
    let known: RefCell<BTreeMap<String, Known>> = RefCell::default();
    let steps = Cell::new(STEPS);
    // By where they are in memory, which is where they stay while selectors are evaluated.
    let prepared: RefCell<BTreeMap<*const DeviceShape, Prepared>> = RefCell::default();
    state.evaluate_selectors(catalog, &|text, shape| {
        let mut known = known.borrow_mut();
        if !known.contains_key(text) {
            let new = Known { compiled: Selector::compile(text), failure: None };
            known.insert(text.to_owned(), new);
        }
        let Some(Known { compiled, failure }) = known.get_mut(text) else { return Ok(false) };
        let selector = compiled.as_ref().map_err(|error| SelectorError::Compile(error.clone()))?;
        let mut left = steps.get();
        let mut prepared = prepared.borrow_mut();
        let device = if shape.driver.is_empty() {
            &device(shape).prepare()
        } else {
            prepared.entry(shape).or_insert_with(|| device(shape).prepare())
        };
        let answer = selector.matches(device, &mut left);
        steps.set(left);
        answer.map_err(|error| {
            // A device of nobody is asked about first, to find selectors that do not compile.
            if !shape.driver.is_empty() {
                failure.get_or_insert_with(|| error.clone());
            }
            SelectorError::Evaluate(error)
        })
    });
    remarks(state, &known.into_inner())
}

fn remarks(state: &DynamicState, known: &BTreeMap<String, Known>) -> Vec<Remark> {
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
        let failure = known.get(text)?.failure.as_ref()?;
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

fn device(shape: &DeviceShape) -> Device<'_> {
    let attributes = shape.attributes.iter().map(|(name, attribute)| {
        let seen = match attribute {
            Attribute::Text(value) => Seen::Text(value),
            Attribute::Int(value) => Seen::Int(*value),
            Attribute::Bool(value) => Seen::Bool(*value),
            Attribute::Version(value) => Seen::Version(value),
        };
        (name.as_str(), seen)
    });
    let capacity = shape.capacity.iter();
    Device {
        driver: &shape.driver,
        attributes: attributes.collect(),
        capacity: capacity.map(|(name, c)| (name.as_str(), c.value.canonical())).collect(),
        allow_multiple_allocations: shape.allows_multiple,
    }
}
