//! Classes that pods name, and disruption budgets.

use serde_json::Value;

use super::super::access::{at, entries, flag, has, list, number, text};
use super::super::pod_spec::tolerations;
use super::super::problems::Problems;
use crate::admission::{FieldError, FieldErrorKind};

const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;

pub(in super::super) fn priority_class(class: &Value) -> Vec<FieldError> {
    let mut problems = Problems::default();
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
    problems.one_of("preemptionPolicy", text(class, "/preemptionPolicy"), &policies);
    problems.done()
}

pub(in super::super) fn priority_class_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = Problems::default();
    if number(new, "/value") != number(old, "/value") {
        problems.forbidden("value", "may not be changed in an update.");
    }
    problems.immutable(new, old, "/preemptionPolicy", "preemptionPolicy");
    problems.done()
}

pub(in super::super) fn runtime_class(class: &Value) -> Vec<FieldError> {
    let mut problems = Problems::default();
    match text(class, "/handler") {
        "" => problems.required("handler", ""),
        handler => problems.label("handler", handler),
    }
    for (name, quantity) in entries(class, "/overhead/podFixed") {
        problems.resource_quantity(name, quantity, &format!("overhead.podFixed[{name}]"));
    }
    problems.labels("scheduling.nodeSelector", entries(class, "/scheduling/nodeSelector"));
    let own = list(class, "/scheduling/tolerations");
    tolerations(&mut problems, own, "scheduling.tolerations");
    problems.done()
}

pub(in super::super) fn runtime_class_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = Problems::default();
    problems.extend(runtime_class(new));
    problems.immutable(new, old, "/handler", "handler");
    problems.done()
}

pub(in super::super) fn budget(budget: &Value) -> Vec<FieldError> {
    let mut problems = Problems::default();
    let spec = at(budget, "/spec");
    if has(spec, "/minAvailable") && has(spec, "/maxUnavailable") {
        let field = |name: &str| spec.get(name).cloned().unwrap_or_default();
        problems.structure(
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
        problems.int_or_percent(value, &path);
        problems.at_most_100_percent(value, &path);
    }
    problems.selector(at(spec, "/selector"), "spec.selector");
    let policy = text(spec, "/unhealthyPodEvictionPolicy");
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    if !policy.is_empty() && !policies.contains(&policy) {
        problems.not_supported("spec.unhealthyPodEvictionPolicy", policy, &policies);
    }
    problems.done()
}

pub(in super::super) fn budget_status(budget: &Value) -> Vec<FieldError> {
    let mut problems = Problems::default();
    for name in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        problems.not_negative(budget, &format!("/status/{name}"), &format!("status.{name}"));
    }
    problems.done()
}
