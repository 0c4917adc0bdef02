//! NodeOverlays (spec 20 §3.21).

use karpenter_api::nodeoverlay::NodeOverlay;
use karpenter_api::requirement::{OverlayRequirement, Requirement as Item};
use karpenter_api::validation::{self, ProviderRules};
use karpenter_core::overlay::{NamedOverlay, Overlay, PriceChange};
use karpenter_core::requirement::Aliases;

use super::{Objects, Reader, quantity, requirement};

/// Returns all NodeOverlays, also the unusable ones: the evaluation reports the result of each.
pub(super) fn read(objects: &Objects, reader: &mut Reader<'_>) -> Vec<NamedOverlay> {
    if !reader.settings.gates.node_overlay {
        return Vec::new();
    }
    let mut overlays = Vec::with_capacity(objects.node_overlays.len());
    for wire in &objects.node_overlays {
        let overlay = node_overlay(wire, &reader.settings.rules, reader.aliases);
        reader.report_problems("NodeOverlay", &wire.metadata, overlay.problem.as_slice());
        overlays.push(overlay);
    }
    overlays
}

/// Returns one NodeOverlay; its problem states why it cannot be used.
pub fn node_overlay(
    wire: &NodeOverlay,
    provider: &ProviderRules,
    aliases: &Aliases,
) -> NamedOverlay {
    let spec = &wire.spec;
    let mut problems = validation::nodeoverlay(spec, provider).errors;
    // The validation names everything that is unreadable in requirements and capacity.
    let mut already_reported = Vec::new();
    let items: Vec<_> = spec.requirements.iter().map(item).collect();
    let requirements = requirement::items(&items, aliases, &mut already_reported);
    let capacity =
        quantity::field_resources(spec.capacity.as_ref(), "spec.capacity", &mut already_reported);
    // Admission rejects an overlay with both; an absolute price is more exact than a change.
    let price = spec.price.as_ref().or(spec.price_adjustment.as_ref());
    let price = match price.map(|text| PriceChange::parse(text)) {
        None => None,
        Some(Ok(price)) => Some(price),
        Some(Err(error)) => {
            problems.push(error.to_string());
            None
        }
    };
    NamedOverlay {
        name: wire.metadata.name.clone().unwrap_or_default(),
        requirements,
        overlay: Overlay { weight: spec.weight, price, capacity },
        problem: (!problems.is_empty()).then(|| problems.join("; ")),
    }
}

fn item(wire: &OverlayRequirement) -> Item {
    Item {
        key: wire.key.clone(),
        operator: wire.operator.clone(),
        values: wire.values.clone(),
        min_values: None,
    }
}
