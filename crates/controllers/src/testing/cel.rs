//! Device selectors in tests: the CEL of the embedded API server, for attributes that are texts.

use std::collections::BTreeMap;

use karpenter_apiserver::admission::device_selector::{Attribute as Seen, Device, Selector};
use karpenter_core::catalog::Catalog;
use karpenter_core::scheduling::dra::{
    Attribute, DeviceShape, DynamicResourceState, SelectorError,
};
use karpenter_operator::device_selectors::DeviceSelectorEvaluator;

/// What a selector may cost.
const STEPS: u64 = 1_000_000;

#[derive(Debug)]
pub(super) struct Cel;

impl DeviceSelectorEvaluator for Cel {
    fn evaluate(
        &self,
        state: &mut DynamicResourceState,
        catalog: &Catalog,
    ) -> BTreeMap<String, String> {
        state.evaluate_selectors(catalog, &matches);
        BTreeMap::new()
    }
}

fn matches(selector: &str, shape: &DeviceShape) -> Result<bool, SelectorError> {
    let selector = Selector::compile(selector).map_err(SelectorError::Compile)?;
    let texts = shape.attributes.iter().filter_map(|(name, value)| match value {
        Attribute::Text(text) => Some((name.as_str(), Seen::Text(text))),
        _ => None,
    });
    let device = Device { driver: &shape.driver, attributes: texts.collect(), ..Device::default() };
    selector.matches(&device.to_cel(), &mut STEPS.clone()).map_err(SelectorError::Evaluate)
}
