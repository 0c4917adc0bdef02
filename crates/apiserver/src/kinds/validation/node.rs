//! Nodes.

use std::collections::BTreeSet;

use karpenter_grammar::names;
use serde_json::Value;

use super::super::field_errors::FieldErrorList;
use super::super::json_access::{entries, list, text};
use super::super::pod_spec::validate_taint_effect;
use crate::admission::{FieldError, FieldErrorKind};

pub(in super::super) fn validate_node(node: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    validate_taints(&mut problems, node);
    validate_node_resources(&mut problems, node);
    problems.into_errors()
}

pub(in super::super) fn validate_node_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    problems.extend(validate_node(new));
    validate_node_resources(&mut problems, new);
    let mut known = Vec::new();
    for (index, address) in list(new, "/status/addresses").iter().enumerate() {
        if known.contains(&address) {
            problems.error_for_go_struct(
                format!("status.addresses[{index}]"),
                FieldErrorKind::Duplicate,
                &[
                    ("Type", text(address, "/type").into()),
                    ("Address", text(address, "/address").into()),
                ],
                "",
            );
        }
        known.push(address);
    }
    let ranges = |node| list(node, "/spec/podCIDRs");
    if !ranges(old).is_empty() && ranges(old) != ranges(new) {
        problems.forbidden(
            "spec.podCIDRs",
            "node updates may not change podCIDR except from \"\" to valid",
        );
    }
    let provider = text(old, "/spec/providerID");
    if !provider.is_empty() && provider != text(new, "/spec/providerID") {
        problems.forbidden(
            "spec.providerID",
            "node updates may not change providerID except from \"\" to valid",
        );
    }
    validate_taints(&mut problems, new);
    problems.into_errors()
}

/// Validates the taints of a node.
///
/// The path is the one that the real server gives, which is not where taints are.
fn validate_taints(problems: &mut FieldErrorList, node: &Value) {
    let mut known = BTreeSet::new();
    for (index, taint) in list(node, "/spec/taints").iter().enumerate() {
        let path = format!("metadata.taints[{index}]");
        let own = |pointer| text(taint, pointer);
        let (key, value, effect) = (own("/key"), own("/value"), own("/effect"));
        problems.check_qualified_name(&format!("{path}.key"), key);
        let wrong = names::label_value_errors(value);
        if !wrong.is_empty() {
            problems.invalid(format!("{path}.value"), value, wrong.join(";"));
        }
        validate_taint_effect(problems, effect, &format!("{path}.effect"));
        if !known.insert((key, effect)) {
            problems.error_for_go_struct(
                path,
                FieldErrorKind::Duplicate,
                &[
                    ("Key", key.into()),
                    ("Value", value.into()),
                    ("Effect", effect.into()),
                    ("TimeAdded", taint.get("timeAdded").cloned().unwrap_or_default()),
                ],
                "taints must be unique by key and effect pair",
            );
        }
    }
}

fn validate_node_resources(problems: &mut FieldErrorList, node: &Value) {
    for field in ["capacity", "allocatable"] {
        for (name, quantity) in entries(node, &format!("/status/{field}")) {
            let path = format!("status.{field}.{name}");
            problems.check_resource_quantity(name, quantity, &path);
        }
    }
}
