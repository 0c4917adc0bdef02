//! Requirements on nodes: selectors, terms of node affinity, items of pools.

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};
use karpenter_api::requirement::Requirement as WireItem;
use karpenter_core::requirement::{
    Aliases, OperatorError, Requirement, RequirementItem, Requirements,
};

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
    requirement(RequirementItem::parse(key, operator, values.as_deref(), None), aliases, problems)
}

/// The requirements of a list in one of our own kinds.
pub(super) fn items(
    wire: &[WireItem],
    aliases: &Aliases,
    problems: &mut Vec<String>,
) -> Requirements {
    let read = |item: &WireItem| {
        let WireItem { key, operator, values, min_values } = item;
        let item = RequirementItem::parse(key, operator, values.as_deref(), *min_values);
        requirement(item, aliases, problems)
    };
    wire.iter().filter_map(read).collect()
}

fn requirement(
    item: Result<RequirementItem, OperatorError>,
    aliases: &Aliases,
    problems: &mut Vec<String>,
) -> Option<Requirement> {
    let item = item.map_err(|error| problems.push(error.to_string())).ok()?;
    let requirement = Requirement::from_item(&item, aliases);
    requirement.map_err(|error| problems.push(error.to_string())).ok()
}
