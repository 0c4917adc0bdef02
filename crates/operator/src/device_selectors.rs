//! Who answers the selectors of devices, which are CEL (spec 20 §3.19 rule 8).
//!
//! Decisions take the answers as a table. CEL is a language of its own, so whoever puts the process
//! together brings somebody who speaks it.

use std::collections::BTreeMap;
use std::fmt::Debug;

use karpenter_core::catalog::Catalog;
use karpenter_core::scheduling::dra::DynamicResourceState;

/// Somebody who speaks CEL. It is used as `Arc<dyn DeviceSelectors>`.
pub trait DeviceSelectorEvaluator: Debug + Send + Sync {
    /// Answers every selector of a class or claim for every device that is published or may be.
    /// What the state knows already is kept. Returns selectors that have no value for some device,
    /// with the first reason: such a device does not match.
    ///
    /// It takes no longer than some seconds. What is left then is answered at the next call.
    fn evaluate(
        &self,
        state: &mut DynamicResourceState,
        catalog: &Catalog,
    ) -> BTreeMap<String, String>;
}

/// Nobody does: no device matches any selector.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoopDeviceSelectorEvaluator;

impl DeviceSelectorEvaluator for NoopDeviceSelectorEvaluator {
    fn evaluate(&self, _: &mut DynamicResourceState, _: &Catalog) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
}
