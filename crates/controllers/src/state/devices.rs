//! Evaluates which devices the selectors of ResourceClaims and DeviceClasses match.

use std::sync::Arc;

use karpenter_core::catalog::Catalog;
use karpenter_core::scheduling::dra::DynamicResourceState;
use karpenter_core::snapshot::Snapshot;
use karpenter_operator::compute::run;
use tracing::{debug, error};

use crate::{Context, device_selectors};

/// Stores the matches of device selectors in the snapshot. Does nothing if DRA requests are
/// ignored. The mirror keeps the matches, so that only new selectors have to be evaluated.
pub(crate) async fn evaluate_device_selectors(
    context: &Context,
    snapshot: &mut Arc<Snapshot>,
    catalog: &Catalog,
) {
    if context.options.ignore_dra_requests || snapshot.dynamic_resources.claims.is_empty() {
        return;
    }
    let (mut state, catalog) =
        (DynamicResourceState::clone(&snapshot.dynamic_resources), catalog.clone());
    let answered = run(context.executor.as_ref(), move || {
        let failures = device_selectors::evaluate(&mut state, &catalog);
        (state.matches, failures)
    });
    let Some((matches, failures)) = answered.await else {
        // Devices without a match result match nothing, and the rest can be decided.
        error!("the device selectors were not evaluated");
        return;
    };
    for (selector, error) in failures {
        debug!(selector, error, "a device selector has no value for some devices");
    }
    if matches != snapshot.dynamic_resources.matches {
        context.mirror.set_device_matches(matches.clone());
        Arc::make_mut(snapshot).dynamic_resources.matches = matches;
    }
}
