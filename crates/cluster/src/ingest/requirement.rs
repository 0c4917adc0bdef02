//! Requirements on nodes: selectors, terms of node affinity, items of pools.

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};
use karpenter_api::requirement::Requirement as WireItem;
use karpenter_core::requirement::{Aliases, Operator, Requirement, RequirementItem, Requirements};

/// Returns the requirements of one term. Invalid expressions are left out, with a problem.
///
/// `matchFields` are not read; the pod validation rejects them where they are not allowed.
pub(super) fn term(
    wire: &NodeSelectorTerm,
    aliases: &Aliases,
    problems: &mut Vec<String>,
) -> Requirements {
    let expressions = wire.match_expressions.iter().flatten();
    expressions.filter_map(|wire| expression(wire, aliases, problems)).collect()
}

/// One expression; none if it means nothing, with a problem.
pub(super) fn expression(
    wire: &NodeSelectorRequirement,
    aliases: &Aliases,
    problems: &mut Vec<String>,
) -> Option<Requirement> {
    let NodeSelectorRequirement { key, operator, values } = wire;
    requirement(key, operator, values.as_deref().unwrap_or_default(), None, aliases, problems)
}

/// The requirements of a list in one of our own kinds.
pub(super) fn items(
    wire: &[WireItem],
    aliases: &Aliases,
    problems: &mut Vec<String>,
) -> Requirements {
    let read = |item: &WireItem| {
        let values = item.values.as_deref().unwrap_or_default();
        // Admission rejects values out of range; here they are clamped.
        let min_values = item.min_values.map(|n| u32::try_from(n.max(0)).unwrap_or(u32::MAX));
        requirement(&item.key, &item.operator, values, min_values, aliases, problems)
    };
    wire.iter().filter_map(read).collect()
}

fn requirement(
    key: &str,
    operator: &str,
    values: &[String],
    min_values: Option<u32>,
    aliases: &Aliases,
    problems: &mut Vec<String>,
) -> Option<Requirement> {
    let Some(operator) = Operator::from_name(operator) else {
        problems.push(format!("key {key} has an unsupported operator {operator}"));
        return None;
    };
    let item =
        RequirementItem { key: key.to_owned(), operator, values: values.to_vec(), min_values };
    match Requirement::from_item(&item, aliases) {
        Ok(requirement) => Some(requirement),
        Err(error) => {
            problems.push(error.to_string());
            None
        }
    }
}
