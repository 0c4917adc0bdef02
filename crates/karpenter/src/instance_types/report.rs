//! The JSON form of selected instance types.

use std::collections::BTreeMap;

use karpenter_api::labels;
use karpenter_core::catalog::Offering;
use karpenter_core::requirement::Requirement;
use karpenter_core::resources::Resources;
use serde::Serialize;

use super::selection::{SelectedType, Selection, values};

/// An instance type as programs read it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstanceTypeReport {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node_pool: Option<String>,
    pub(crate) labels: BTreeMap<String, LabelValues>,
    pub(crate) capacity: BTreeMap<String, String>,
    pub(crate) allocatable: BTreeMap<String, String>,
    pub(crate) overhead: BTreeMap<String, String>,
    pub(crate) offerings: Vec<OfferingReport>,
}

/// The value of a label, or all values that its nodes may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum LabelValues {
    One(String),
    Several(Vec<String>),
}

/// A way to buy an instance type.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OfferingReport {
    pub(crate) zone: String,
    pub(crate) capacity_type: String,
    pub(crate) price: f64,
    pub(crate) available: bool,
}

/// Returns the reports of at most `limit` types of each selection.
pub(crate) fn reports(selections: &[Selection], limit: usize) -> Vec<InstanceTypeReport> {
    let of_selection = |selection: &Selection| -> Vec<InstanceTypeReport> {
        let node_pool = selection.node_pool.as_ref();
        selection.types.iter().take(limit).map(|selected| report(selected, node_pool)).collect()
    };
    selections.iter().flat_map(of_selection).collect()
}

fn report(selected: &SelectedType, node_pool: Option<&String>) -> InstanceTypeReport {
    let instance_type = &selected.instance_type;
    let label = |requirement: &Requirement| {
        let mut values: Vec<_> = requirement.values().iter().cloned().collect();
        let values = match (values.pop(), values.is_empty()) {
            (None, _) => return None,
            (Some(value), true) => LabelValues::One(value),
            (Some(last), false) => {
                values.push(last);
                LabelValues::Several(values)
            }
        };
        Some((requirement.key().to_owned(), values))
    };
    InstanceTypeReport {
        name: instance_type.name.clone(),
        node_pool: node_pool.cloned(),
        labels: instance_type.requirements.iter().filter_map(label).collect(),
        capacity: quantities(&instance_type.capacity),
        allocatable: quantities(&instance_type.allocatable()),
        overhead: quantities(&instance_type.overhead),
        offerings: selected.offerings.iter().map(offering_report).collect(),
    }
}

fn offering_report(offering: &Offering) -> OfferingReport {
    let text = |key: &str| values(offering, key).collect::<Vec<_>>().join(",");
    OfferingReport {
        zone: text(labels::ZONE),
        capacity_type: text(labels::CAPACITY_TYPE),
        price: offering.price,
        available: offering.available,
    }
}

fn quantities(resources: &Resources) -> BTreeMap<String, String> {
    resources.iter().map(|(name, amount)| (name.to_owned(), amount.canonical())).collect()
}
