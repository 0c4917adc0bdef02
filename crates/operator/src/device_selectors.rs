//! The interface that evaluates CEL selectors of devices (spec 20 §3.19 rule 8).
//!
//! Decisions take the results as a table. CEL is a language of its own, so the process passes in an
//! implementation.

use std::collections::BTreeMap;
use std::fmt::Debug;

use karpenter_core::catalog::Catalog;
use karpenter_core::scheduling::dra::DynamicResourceState;

/// Evaluates CEL device selectors. It is used as `Arc<dyn DeviceSelectorEvaluator>`.
pub trait DeviceSelectorEvaluator: Debug + Send + Sync {
    /// Evaluates every selector of a class or claim for all published and possible devices. Results
    /// in the state are kept. Returns selectors that have no value for some device, with the first
    /// reason: such a device does not match.
    ///
    /// It takes no longer than some seconds. The next call evaluates the rest.
    fn evaluate(
        &self,
        state: &mut DynamicResourceState,
        catalog: &Catalog,
    ) -> BTreeMap<String, String>;
}

/// An evaluator without CEL: no device matches any selector.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoopDeviceSelectorEvaluator;

impl DeviceSelectorEvaluator for NoopDeviceSelectorEvaluator {
    fn evaluate(&self, _: &mut DynamicResourceState, _: &Catalog) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
}
