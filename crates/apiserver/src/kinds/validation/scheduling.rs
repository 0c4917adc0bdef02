//! Classes that pods name, and disruption budgets.

use serde_json::Value;

use super::super::field_errors::FieldErrorList;
use super::super::json_access::{at, entries, flag, has, list, number, text};
use super::super::pod_spec::validate_tolerations;
use crate::admission::{FieldError, FieldErrorKind};

const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;

pub(in super::super) fn validate_priority_class(class: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let (name, value) = (text(class, "/metadata/name"), number(class, "/value"));
    if name.starts_with("system-") {
        let expected = match name {
            "system-node-critical" => Some(2_000_001_000),
            "system-cluster-critical" => Some(2_000_000_000),
            _ => None,
        };
        let error = match expected {
            None => Some(format!("{name} is not a known system priority class")),
            Some(expected) if expected != value => {
                Some(format!("value of {name} PriorityClass must be {expected}"))
            }
            Some(_) if flag(class, "/globalDefault") => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(error) = error {
            problems.forbidden(
                "metadata.name",
                &format!(
                    "priority class names with 'system-' prefix are reserved for system use \
                     only. error: {error}"
                ),
            );
        }
    } else if value > HIGHEST_USER_PRIORITY {
        problems.forbidden(
            "value",
            &format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"),
        );
    }
    let policies = ["PreemptLowerPriority", "Never"];
    problems.check_one_of("preemptionPolicy", text(class, "/preemptionPolicy"), &policies);
    problems.into_errors()
}

pub(in super::super) fn validate_priority_class_update(
    new: &Value,
    old: &Value,
) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    if number(new, "/value") != number(old, "/value") {
        problems.forbidden("value", "may not be changed in an update.");
    }
    problems.check_immutable(new, old, "/preemptionPolicy", "preemptionPolicy");
    problems.into_errors()
}

pub(in super::super) fn validate_runtime_class(class: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    match text(class, "/handler") {
        "" => problems.required("handler", ""),
        handler => problems.check_dns_label("handler", handler),
    }
    for (name, quantity) in entries(class, "/overhead/podFixed") {
        problems.check_resource_quantity(name, quantity, &format!("overhead.podFixed[{name}]"));
    }
    problems.check_labels("scheduling.nodeSelector", entries(class, "/scheduling/nodeSelector"));
    let own = list(class, "/scheduling/tolerations");
    validate_tolerations(&mut problems, own, "scheduling.tolerations");
    problems.into_errors()
}

pub(in super::super) fn validate_runtime_class_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    problems.extend(validate_runtime_class(new));
    problems.check_immutable(new, old, "/handler", "handler");
    problems.into_errors()
}

pub(in super::super) fn validate_pod_disruption_budget(budget: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let spec = at(budget, "/spec");
    if has(spec, "/minAvailable") && has(spec, "/maxUnavailable") {
        let field = |name: &str| spec.get(name).cloned().unwrap_or_default();
        problems.error_for_go_struct(
            "spec",
            FieldErrorKind::Invalid,
            &[
                ("MinAvailable", field("minAvailable")),
                ("Selector", field("selector")),
                ("MaxUnavailable", field("maxUnavailable")),
                ("UnhealthyPodEvictionPolicy", field("unhealthyPodEvictionPolicy")),
            ],
            "minAvailable and maxUnavailable cannot be both set",
        );
    }
    for name in ["minAvailable", "maxUnavailable"] {
        let value = at(spec, &format!("/{name}"));
        let path = format!("spec.{name}");
        problems.check_int_or_percent(value, &path);
        problems.check_at_most_100_percent(value, &path);
    }
    problems.check_label_selector(at(spec, "/selector"), "spec.selector");
    let policy = text(spec, "/unhealthyPodEvictionPolicy");
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    if !policy.is_empty() && !policies.contains(&policy) {
        problems.not_supported("spec.unhealthyPodEvictionPolicy", policy, &policies);
    }
    problems.into_errors()
}

pub(in super::super) fn validate_pod_disruption_budget_status(budget: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    for name in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        problems.check_not_negative(budget, &format!("/status/{name}"), &format!("status.{name}"));
    }
    problems.into_errors()
}
