//! Evaluates the CEL selectors of devices (spec 20 §3.19 rule 8).
//!
//! CEL is no part of the core: its decisions read the results from a table.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use karpenter_cel::device_selector::{Attribute as DeviceAttribute, CelDevice, Device, Selector};
use karpenter_core::catalog::Catalog;
use karpenter_core::scheduling::dra::{
    Attribute, DeviceShape, DynamicResourceState, SelectorError,
};

/// The cost limit of all selectors and devices together: seconds, far above real needs.
const MAX_STEPS: u64 = 100_000_000;

/// A compiled selector and its first failure.
struct CompiledSelector {
    compiled: Result<Selector, String>,
    /// Why it has no value for the first such device.
    failure: Option<String>,
}

/// Evaluates every selector of a class or claim for all published and possible devices.
///
/// Results in the state are kept. Returns selectors that have no value for some device, with the
/// first reason: such a device does not match. It takes some seconds at most; the next call
/// evaluates the rest.
pub fn evaluate(state: &mut DynamicResourceState, catalog: &Catalog) -> BTreeMap<String, String> {
    evaluate_within(state, catalog, MAX_STEPS)
}

fn evaluate_within(
    state: &mut DynamicResourceState,
    catalog: &Catalog,
    most: u64,
) -> BTreeMap<String, String> {
    let known: RefCell<BTreeMap<String, CompiledSelector>> = RefCell::default();
    let steps = Cell::new(most);
    // By where they are in memory, which is where they stay while selectors are evaluated.
    let prepared: RefCell<BTreeMap<*const DeviceShape, CelDevice>> = RefCell::default();
    state.evaluate_selectors(catalog, &|text, shape| {
        let mut known = known.borrow_mut();
        if !known.contains_key(text) {
            let new = CompiledSelector { compiled: Selector::compile(text), failure: None };
            known.insert(text.to_owned(), new);
        }
        let Some(CompiledSelector { compiled, failure }) = known.get_mut(text) else {
            return Ok(false);
        };
        let selector = compiled.as_ref().map_err(|error| SelectorError::Compile(error.clone()))?;
        let mut left = steps.get();
        if left == 0 {
            return Err(SelectorError::NotEvaluated);
        }
        let mut prepared = prepared.borrow_mut();
        let device = if shape.driver.is_empty() {
            &cel_device(shape).to_cel()
        } else {
            prepared.entry(shape).or_insert_with(|| cel_device(shape).to_cel())
        };
        let answer = selector.matches(device, &mut left);
        steps.set(left);
        answer.map_err(|error| {
            if left == 0 {
                // It is not the selector that took too long, but all of them together.
                return SelectorError::NotEvaluated;
            }
            // A device without a driver is evaluated first, to find selectors that do not compile.
            if !shape.driver.is_empty() {
                failure.get_or_insert_with(|| error.clone());
            }
            SelectorError::Evaluate(error)
        })
    });
    let failed = known.into_inner().into_iter();
    failed.filter_map(|(text, known)| Some((text, known.failure?))).collect()
}

fn cel_device(shape: &DeviceShape) -> Device<'_> {
    let attributes = shape.attributes.iter().map(|(name, attribute)| {
        let seen = match attribute {
            Attribute::Text(value) => DeviceAttribute::Text(value),
            Attribute::Int(value) => DeviceAttribute::Int(*value),
            Attribute::Bool(value) => DeviceAttribute::Bool(*value),
            Attribute::Version(value) => DeviceAttribute::Version(value),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use karpenter_core::scheduling::dra::{
        Device as PublishedDevice, DeviceClass, DeviceSelector, NodeAccess, Slice,
    };

    use super::*;

    /// Returns three different devices and a long selector.
    fn state_with_three_devices() -> DynamicResourceState {
        let device = |number: i64| {
            let attributes = BTreeMap::from([("number".to_owned(), Attribute::Int(number))]);
            let shape = DeviceShape { driver: "d".into(), attributes, ..DeviceShape::default() };
            let name = number.to_string().as_str().into();
            PublishedDevice { name, shape: Arc::new(shape), consumes: Vec::new() }
        };
        let slice = Slice {
            driver: "d".into(),
            pool: "p".into(),
            generation: 1,
            slice_count: 1,
            owner_node: None,
            node_access: NodeAccess::AllNodes,
            devices: (0..3).map(device).collect(),
            counters: Vec::new(),
        };
        let long = "[1, 2, 3, 4, 5, 6, 7, 8].all(a, a > 0)".to_owned();
        let class = DeviceClass { selectors: vec![DeviceSelector::Cel(long)] };
        let mut state = DynamicResourceState::default();
        state.slices.push(Arc::new(slice));
        state.classes.insert("gpu".to_owned(), Arc::new(class));
        state
    }

    #[test]
    fn selectors_that_run_out_of_steps_are_evaluated_later() {
        let catalog = Catalog::default();
        let mut whole = state_with_three_devices();
        evaluate(&mut whole, &catalog);
        let (mut part, mut calls) = (state_with_three_devices(), 0);
        while part.matches != whole.matches {
            let failures = evaluate_within(&mut part, &catalog, 100);
            assert_eq!(failures, BTreeMap::new(), "it is no failure of the selector");
            calls += 1;
            assert!(calls < 100, "it gets further each time");
        }
        assert!(calls > 1, "one call was not enough");
    }
}
