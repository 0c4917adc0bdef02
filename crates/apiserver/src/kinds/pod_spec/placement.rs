//! Where a pod may go: affinity, spread, tolerations, gates.

use std::collections::BTreeSet;

use karpenter_grammar::names;
use serde_json::Value;

use super::super::field_errors::FieldErrorList;
use super::super::json_access::{at, copy_field, entries, has, list, number, text};
use crate::admission::FieldErrorKind;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn validate_affinity(problems: &mut FieldErrorList, affinity: &Value, path: &str) {
    let node = at(affinity, "/nodeAffinity");
    let required = at(node, &format!("/{REQUIRED}"));
    if !required.is_null() {
        validate_node_selector(problems, required, &format!("{path}.nodeAffinity.{REQUIRED}"));
    }
    for (index, term) in list(node, &format!("/{PREFERRED}")).iter().enumerate() {
        let at = format!("{path}.nodeAffinity.{PREFERRED}[{index}]");
        validate_weight(problems, term, &at);
        validate_node_selector_term(
            problems,
            &term["preference"],
            &format!("{at}.preference"),
            false,
        );
    }
    for side in ["podAffinity", "podAntiAffinity"] {
        let terms = at(affinity, &format!("/{side}"));
        for (index, term) in list(terms, &format!("/{REQUIRED}")).iter().enumerate() {
            validate_pod_affinity_term(
                problems,
                term,
                &format!("{path}.{side}.{REQUIRED}[{index}]"),
            );
        }
        for (index, term) in list(terms, &format!("/{PREFERRED}")).iter().enumerate() {
            let at = format!("{path}.{side}.{PREFERRED}[{index}]");
            validate_weight(problems, term, &at);
            validate_pod_affinity_term(
                problems,
                &term["podAffinityTerm"],
                &format!("{at}.podAffinityTerm"),
            );
        }
    }
}

fn validate_weight(problems: &mut FieldErrorList, term: &Value, path: &str) {
    let weight = number(term, "/weight");
    if !(1..=100).contains(&weight) {
        problems.invalid(format!("{path}.weight"), weight, "must be in the range 1-100");
    }
}

/// Validates a required node selector.
pub(in super::super) fn validate_node_selector(
    problems: &mut FieldErrorList,
    selector: &Value,
    path: &str,
) {
    let terms = list(selector, "/nodeSelectorTerms");
    let path = format!("{path}.nodeSelectorTerms");
    if terms.is_empty() {
        problems.required(&*path, "must have at least one node selector term");
    }
    for (index, term) in terms.iter().enumerate() {
        validate_node_selector_term(problems, term, &format!("{path}[{index}]"), true);
    }
}

/// Validates a term of a node selector.
///
/// `strict`: values have to be possible values of labels.
fn validate_node_selector_term(
    problems: &mut FieldErrorList,
    term: &Value,
    path: &str,
    strict: bool,
) {
    for (index, expression) in list(term, "/matchExpressions").iter().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        let values = list(expression, "/values");
        let at = format!("{path}.values");
        match text(expression, "/operator") {
            "In" | "NotIn" if values.is_empty() => {
                problems.required(at, "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => problems.forbidden(
                at,
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ),
            "Gt" | "Lt" if values.len() != 1 => problems
                .required(at, "must be specified single value when `operator` is 'Lt' or 'Gt'"),
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => {
                problems.invalid(
                    format!("{path}.operator"),
                    other,
                    "not a valid selector operator",
                );
            }
        }
        problems.check_qualified_name(&format!("{path}.key"), text(expression, "/key"));
        if strict {
            problems.check_label_values(values, &format!("{path}.values"));
        }
    }
    for (index, expression) in list(term, "/matchFields").iter().enumerate() {
        let path = format!("{path}.matchFields[{index}]");
        let values = list(expression, "/values");
        match text(expression, "/operator") {
            "In" | "NotIn" if values.len() == 1 => {}
            "In" | "NotIn" => problems.required(
                format!("{path}.values"),
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            ),
            other => {
                problems.invalid(
                    format!("{path}.operator"),
                    other,
                    "not a valid selector operator",
                );
            }
        }
        match text(expression, "/key") {
            "metadata.name" => {
                for (place, value) in values.iter().enumerate() {
                    let at = format!("{path}.values[{place}]");
                    problems.check_dns_subdomain(&at, value.as_str().unwrap_or_default());
                }
            }
            key => problems.invalid(format!("{path}.key"), key, "not a valid field selector key"),
        }
    }
}

fn validate_pod_affinity_term(problems: &mut FieldErrorList, term: &Value, path: &str) {
    problems.check_label_selector(at(term, "/labelSelector"), &format!("{path}.labelSelector"));
    problems
        .check_label_selector(at(term, "/namespaceSelector"), &format!("{path}.namespaceSelector"));
    for name in list(term, "/namespaces") {
        problems.check_dns_label(&format!("{path}.namespace"), name.as_str().unwrap_or_default());
    }
    validate_match_label_keys(problems, term, path);
    let key = text(term, "/topologyKey");
    if key.is_empty() {
        problems.required(format!("{path}.topologyKey"), "can not be empty");
    }
    problems.check_qualified_name(&format!("{path}.topologyKey"), key);
}

/// Validates the label keys of a term, whose values come from the pod.
///
/// Those to match are in the selector already.
fn validate_match_label_keys(problems: &mut FieldErrorList, term: &Value, path: &str) {
    for name in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = list(term, &format!("/{name}"));
        if !keys.is_empty() && !has(term, "/labelSelector") {
            problems.forbidden(
                format!("{path}.{name}"),
                "must not be specified when labelSelector is not set",
            );
            continue;
        }
        for (index, key) in keys.iter().enumerate() {
            problems.check_qualified_name(
                &format!("{path}.{name}[{index}]"),
                key.as_str().unwrap_or_default(),
            );
        }
    }
    let keys = list(term, "/matchLabelKeys");
    let selector = at(term, "/labelSelector");
    let mut seen: BTreeSet<&str> =
        entries(selector, "/matchLabels").keys().map(String::as_str).collect();
    for expression in list(selector, "/matchExpressions") {
        let key = text(expression, "/key");
        // The last of equal keys counts.
        let index = keys.iter().rposition(|listed| listed == key);
        if let Some(index) = index.filter(|_| seen.contains(key)) {
            problems.invalid(
                format!("{path}[{index}]"),
                key,
                "exists in both matchLabelKeys and labelSelector",
            );
        }
        seen.insert(key);
    }
    for (index, key) in keys.iter().enumerate() {
        if list(term, "/mismatchLabelKeys").contains(key) {
            problems.invalid(
                format!("{path}.matchLabelKeys[{index}]"),
                key.clone(),
                "exists in both matchLabelKeys and mismatchLabelKeys",
            );
        }
    }
}

pub(super) fn validate_topology_spread_constraints(
    problems: &mut FieldErrorList,
    spec: &Value,
    path: &str,
) {
    let constraints = list(spec, "/topologySpreadConstraints");
    for (index, constraint) in constraints.iter().enumerate() {
        let at = format!("{path}[{index}]");
        problems.check_positive(number(constraint, "/maxSkew"), &format!("{at}.maxSkew"));
        let (key, action) =
            (text(constraint, "/topologyKey"), text(constraint, "/whenUnsatisfiable"));
        if key.is_empty() {
            problems.required(format!("{at}.topologyKey"), "can not be empty");
        }
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        if !actions.contains(&action) {
            problems.not_supported(format!("{at}.whenUnsatisfiable"), action, &actions);
        }
        let repeated = constraints[index + 1..].iter().any(|other| {
            text(other, "/topologyKey") == key && text(other, "/whenUnsatisfiable") == action
        });
        if repeated {
            problems.duplicate(
                format!("{at}.{{topologyKey, whenUnsatisfiable}}"),
                format!("{{{key}, {action}}}"),
            );
        }
        if let Some(domains) = super::super::json_access::at(constraint, "/minDomains").as_i64() {
            problems.check_positive(domains, &format!("{at}.minDomains"));
            if action != "DoNotSchedule" {
                let detail = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                );
                problems.invalid(format!("{at}.minDomains"), domains, detail);
            }
        }
        for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policy = text(constraint, &format!("/{name}"));
            let policies = ["Honor", "Ignore"];
            if !policy.is_empty() && !policies.contains(&policy) {
                problems.not_supported(format!("{at}.{name}"), policy, &policies);
            }
        }
        validate_match_label_keys(problems, constraint, &at);
        let selector = super::super::json_access::at(constraint, "/labelSelector");
        problems.check_label_selector(selector, &format!("{at}.labelSelector"));
    }
}

pub(in super::super) fn validate_tolerations(
    problems: &mut FieldErrorList,
    tolerations: &[Value],
    path: &str,
) {
    for (index, toleration) in tolerations.iter().enumerate() {
        let at = format!("{path}[{index}]");
        let own = |name: &str| text(toleration, &format!("/{name}"));
        let (key, operator, effect, value) =
            (own("key"), own("operator"), own("effect"), own("value"));
        if !key.is_empty() {
            problems.check_qualified_name(&format!("{at}.key"), key);
        } else if operator != "Exists" {
            problems.invalid(
                format!("{at}.operator"),
                operator,
                "operator must be Exists when `key` is empty, which means \"match all values and \
                 all keys\"",
            );
        }
        if has(toleration, "/tolerationSeconds") && effect != "NoExecute" {
            problems.invalid(
                format!("{at}.effect"),
                effect,
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            );
        }
        match operator {
            "" | "Equal" => {
                let wrong = names::label_value_errors(value);
                if !wrong.is_empty() {
                    problems.invalid(format!("{at}.operator"), value, wrong.join(";"));
                }
            }
            "Exists" if !value.is_empty() => problems.invalid(
                format!("{at}.operator"),
                value,
                "value must be empty when `operator` is 'Exists'",
            ),
            "Exists" => {}
            "Lt" | "Gt" => {
                let known = ["Equal", "Exists", "Lt", "Gt"];
                problems.not_supported(format!("{at}.operator"), operator, &known);
            }
            _ => problems.not_supported(format!("{at}.operator"), operator, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            validate_taint_effect(problems, effect, &format!("{at}.effect"));
        }
    }
}

pub(in super::super) fn validate_taint_effect(
    problems: &mut FieldErrorList,
    effect: &str,
    path: &str,
) {
    problems.check_one_of(path, effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
}

pub(super) fn validate_scheduling_gates(problems: &mut FieldErrorList, spec: &Value, path: &str) {
    let mut seen = BTreeSet::new();
    for (index, gate) in list(spec, "/schedulingGates").iter().enumerate() {
        let (name, at) = (text(gate, "/name"), format!("{path}[{index}]"));
        problems.check_qualified_name(&at, name);
        if !seen.insert(name) {
            problems.duplicate(at, name);
        }
    }
}

/// Checks that an update only adds tolerations or changes their seconds.
pub(super) fn validate_toleration_update(problems: &mut FieldErrorList, new: &Value, old: &Value) {
    const SECONDS: &str = "tolerationSeconds";
    let new_items = list(new, "/spec/tolerations");
    let is_kept = |old: &Value| {
        new_items.iter().any(|new| {
            let mut old = old.clone();
            copy_field(&mut old, new, SECONDS);
            old == *new
        })
    };
    if !list(old, "/spec/tolerations").iter().all(is_kept) {
        problems.forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        );
        return;
    }
    validate_tolerations(problems, new_items, "spec.tolerations");
}

pub(super) fn validate_scheduling_gate_update(
    problems: &mut FieldErrorList,
    new: &Value,
    old: &Value,
) {
    let olds = list(old, "/spec/schedulingGates");
    for (index, gate) in list(new, "/spec/schedulingGates").iter().enumerate() {
        let name = text(gate, "/name");
        if olds.iter().all(|old| text(old, "/name") != name) {
            problems.forbidden(
                format!("spec.schedulingGates[{index}].name"),
                &format!("only deletion is allowed, but found new scheduling gate '{name}'"),
            );
        }
    }
}

/// Checks that a pod with scheduling gates is only narrowed down to fewer nodes.
///
/// Allowed changes are undone in `munged`, so that they do not count as changes.
pub(super) fn validate_gated_pod_update(
    problems: &mut FieldErrorList,
    munged: &mut Value,
    old: &Value,
) {
    let (new, before) = (entries(munged, "/nodeSelector"), entries(old, "/nodeSelector"));
    if !before.iter().all(|(key, value)| new.get(key) == Some(value)) {
        problems.invalid(
            "spec.nodeSelector",
            Value::Object(new.clone()),
            "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
        );
    }
    copy_field(munged, old, "nodeSelector");
    validate_node_affinity_update(problems, at(munged, "/affinity"), at(old, "/affinity"));
    let before = at(old, "/affinity/nodeAffinity").clone();
    let others = ["podAffinity", "podAntiAffinity"];
    match munged.get_mut("affinity").filter(|affinity| !affinity.is_null()) {
        None if before.is_null() => {}
        None => munged["affinity"] = serde_json::json!({"nodeAffinity": before}),
        Some(affinity) => {
            let only_nodes = others.iter().all(|name| affinity.get(*name).is_none());
            if !has(old, "/affinity") && only_nodes {
                copy_field(munged, old, "affinity");
            } else {
                copy_field(affinity, at(old, "/affinity"), "nodeAffinity");
            }
        }
    }
}

fn validate_node_affinity_update(problems: &mut FieldErrorList, new: &Value, old: &Value) {
    let path = format!("spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
    let pointer = format!("/nodeAffinity/{REQUIRED}/nodeSelectorTerms");
    let (new_items, olds) = (list(new, &pointer), list(old, &pointer));
    if !olds.is_empty() && olds.len() != new_items.len() {
        problems.invalid(
            path,
            Value::from(new_items),
            "no additions/deletions to non-empty NodeSelectorTerms list are allowed",
        );
        return;
    }
    for (index, (new, old)) in new_items.iter().zip(olds).enumerate() {
        let grown = ["/matchExpressions", "/matchFields"].iter().all(|pointer| {
            let (new, old) = (list(new, pointer), list(old, pointer));
            new.len() >= old.len() && new.iter().zip(old).all(|(new, old)| new == old)
        });
        if !grown {
            let terms = |name: &str| -> Value {
                let terms = list(new, &format!("/{name}")).iter();
                let terms: Vec<Value> = terms
                    .map(|term| {
                        let own = |name: &str| term.get(name).cloned().unwrap_or_default();
                        serde_json::json!({
                            "Key": own("key"), "Operator": own("operator"), "Values": own("values"),
                        })
                    })
                    .collect();
                if terms.is_empty() { Value::Null } else { terms.into() }
            };
            problems.error_for_go_struct(
                format!("{path}[{index}]"),
                FieldErrorKind::Invalid,
                &[
                    ("MatchExpressions", terms("matchExpressions")),
                    ("MatchFields", terms("matchFields")),
                ],
                "only additions are allowed (no mutations or deletions)",
            );
        }
    }
}
