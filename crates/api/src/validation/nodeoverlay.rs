//! Runtime validation of a NodeOverlay (spec 10 §4.3).

use super::requirement::missing_value_error;
use super::{Findings, ProviderRules, RequirementView, requirement};
use crate::nodeoverlay::NodeOverlaySpec;

/// Checks an overlay: its requirements, then the resources that it wants to state.
pub fn nodeoverlay(spec: &NodeOverlaySpec, provider: &ProviderRules) -> Findings {
    let mut findings = Findings::default();
    for item in &spec.requirements {
        let view = RequirementView::from(item);
        let found = requirement(view, provider);
        if let Some(errors) = found.message() {
            findings.add_error(format!("invalid value: {errors} in requirements, restricted"));
        }
        findings.warnings.extend(found.warnings);
        // A pool may write NotIn without values for Exists; an overlay may not.
        if view.operator == "NotIn" && view.values.is_empty() {
            findings.add_error(missing_value_error(view.key, view.operator));
        }
    }
    for (name, quantity) in spec.capacity.iter().flatten() {
        if provider.is_well_known_resource(name) {
            findings.add_error(format!("invalid capacity: {name} in resource, restricted"));
        }
        // As for the limits of a pool: a text that means nothing stays with its object.
        if let Err(error) = quantity.value() {
            findings.add_error(format!("invalid value: {error} in capacity[{name}]"));
        }
    }
    findings
}

#[cfg(test)]
mod tests;
