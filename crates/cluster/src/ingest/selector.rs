//! Label selectors.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector as WireSelector, LabelSelectorRequirement,
};
use karpenter_api::grammar::{label_value_errors, qualified_name_errors};
use karpenter_core::selector::{Condition, Expression, LabelSelector, Selector};

/// What a selector selects. One that is absent selects nothing, and so does one that cannot be
/// read, with a problem.
pub(super) fn selector(
    wire: Option<&WireSelector>,
    field: &str,
    problems: &mut Vec<String>,
) -> Selector {
    match wire.map(label_selector) {
        Some(Ok(parts)) => Selector::Matching(parts),
        Some(Err(error)) => {
            problems.push(format!("{field}: {error}"));
            Selector::Nothing
        }
        None => Selector::Nothing,
    }
}

/// Reads a label selector, or returns why Kubernetes rejects it.
pub(super) fn label_selector(wire: &WireSelector) -> Result<LabelSelector, String> {
    for (key, value) in wire.match_labels.iter().flatten() {
        check_expression(key, [value])?;
    }
    let expressions = wire.match_expressions.iter().flatten().map(expression);
    Ok(LabelSelector {
        labels: wire.match_labels.clone().unwrap_or_default(),
        expressions: expressions.collect::<Result<_, _>>()?,
    })
}

fn expression(wire: &LabelSelectorRequirement) -> Result<Expression, String> {
    let LabelSelectorRequirement { key, operator, values } = wire;
    let values: BTreeSet<String> = values.iter().flatten().cloned().collect();
    check_expression(key, &values)?;
    let condition = match (operator.as_str(), values.is_empty()) {
        ("In", false) => Condition::In(values),
        ("NotIn", false) => Condition::NotIn(values),
        ("Exists", true) => Condition::Exists,
        ("DoesNotExist", true) => Condition::DoesNotExist,
        ("In" | "NotIn", true) => return Err(format!("key {key}: {operator} needs values")),
        ("Exists" | "DoesNotExist", false) => {
            return Err(format!("key {key}: {operator} takes no values"));
        }
        _ => return Err(format!("key {key}: {operator:?} is not an operator")),
    };
    Ok(Expression { key: key.clone(), condition })
}

fn check_expression<'a>(
    key: &str,
    values: impl IntoIterator<Item = &'a String>,
) -> Result<(), String> {
    if let Some(error) = qualified_name_errors(key).into_iter().next() {
        return Err(format!("key {key} is not a qualified name, {error}"));
    }
    for value in values {
        if let Some(error) = label_value_errors(value).into_iter().next() {
            return Err(format!("invalid value {value} for key {key}, {error}"));
        }
    }
    Ok(())
}
