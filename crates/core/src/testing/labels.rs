//! Short names for label keys, and texts for quantities, taints and requirements.

use std::collections::BTreeSet;

use karpenter_grammar::Amount;

use crate::catalog::CAPACITY_TYPE;
use crate::requirement::{Aliases, Operator, Requirement, RequirementItem};
use crate::resources::{Quantity, Resources};
use crate::selector::{LabelSelector, Labels};
use crate::taint::{Taint, TaintEffect};

/// The zones of the fake instance types.
pub const ZONES: [&str; 3] = ["test-zone-1", "test-zone-2", "test-zone-3"];

/// Returns the label key for a short name; other texts are keys already.
pub fn label_key(short: &str) -> &str {
    match short {
        "zone" => "topology.kubernetes.io/zone",
        "region" => "topology.kubernetes.io/region",
        "hostname" => "kubernetes.io/hostname",
        "arch" => "kubernetes.io/arch",
        "os" => "kubernetes.io/os",
        "type" => "node.kubernetes.io/instance-type",
        "capacity-type" => CAPACITY_TYPE,
        "nodepool" => "karpenter.sh/nodepool",
        key => key,
    }
}

/// The well-known labels of the fake provider: the core ones, and those of its instance types.
pub fn well_known() -> BTreeSet<String> {
    let core = ["zone", "region", "arch", "os", "type", "capacity-type", "nodepool"].map(label_key);
    let own = ["node.kubernetes.io/windows-build", "size", "special", "integer"];
    core.into_iter().chain(own).chain([super::RESERVATION_ID]).map(ToOwned::to_owned).collect()
}

/// A requirement on a short key, e.g. `("zone", In, &["a", "b"])`.
pub fn requirement(short: &str, operator: Operator, values: &[&str]) -> Requirement {
    let item = RequirementItem::new(label_key(short), operator, values);
    Requirement::from_item(&item, &Aliases::default()).expect("a bound is one integer")
}

/// A quantity as manifests have it: `500m`, `1.5Gi`, `2M`.
pub fn quantity(text: &str) -> Quantity {
    Amount::parse(text).expect("a quantity").into()
}

/// Resources by name, e.g. `&[("cpu", "2"), ("memory", "4Gi")]`.
pub fn resources(amounts: &[(&str, &str)]) -> Resources {
    amounts.iter().map(|&(name, amount)| (name, quantity(amount))).collect()
}

/// A taint as `key=value:Effect` or `key:Effect`.
pub fn taint(text: &str) -> Taint {
    let (name, effect) = text.rsplit_once(':').expect("key:Effect");
    let (key, value) = name.split_once('=').unwrap_or((name, ""));
    let effect = match effect {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        other => panic!("no such effect: {other}"),
    };
    Taint { key: key.to_owned(), value: value.to_owned(), effect }
}

/// Selects objects with exactly these labels.
pub fn label_selector(labels: &[(&str, &str)]) -> LabelSelector {
    LabelSelector::from_labels(labels_by_short_key(labels))
}

/// Returns labels whose keys are given as short names.
pub(super) fn labels_by_short_key(labels: &[(&str, &str)]) -> Labels {
    labels.iter().map(|&(k, value)| (label_key(k).to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_as_manifests_have_them() {
        let cases = [("500m", "500m"), ("1.5Gi", "1536Mi"), ("2", "2"), ("1.8G", "1800M")];
        for (text, canonical) in cases {
            assert_eq!(quantity(text).canonical(), canonical, "{text}");
        }
    }
}
