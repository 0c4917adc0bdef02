//! Prices of NodeOverlays for instance types that have none (spec 51 §7.4).

use std::collections::BTreeMap;

use karpenter_api::labels::INSTANCE_TYPE;
use karpenter_api::nodeoverlay::NodeOverlay;

/// Returns the prices that overlays set on instance types alone; later overlays win.
///
/// An overlay counts if its validation succeeded, it has `spec.price`, and its only requirement
/// lists instance types.
pub fn overlay_prices<'a>(
    overlays: impl IntoIterator<Item = &'a NodeOverlay>,
) -> BTreeMap<String, f64> {
    let mut prices = BTreeMap::new();
    for overlay in overlays {
        let [requirement] = overlay.spec.requirements.as_slice() else { continue };
        let price = overlay.spec.price.as_deref().and_then(|text| text.parse::<f64>().ok());
        let Some(price) = price.filter(|price| price.is_finite() && *price >= 0.0) else {
            continue;
        };
        if requirement.key == INSTANCE_TYPE && requirement.operator == "In" && is_valid(overlay) {
            let names = requirement.values.iter().flatten();
            prices.extend(names.map(|name| (name.clone(), price)));
        }
    }
    prices
}

fn is_valid(overlay: &NodeOverlay) -> bool {
    let conditions = overlay.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|known| known.type_ == "ValidationSucceeded" && known.status == "True")
}
