//! Deployments and sets: what keeps a number of pods running.

use serde_json::Value;

use super::super::field_errors::{FieldErrorList, parse_percent, selector_matches};
use super::super::json_access::{at, copy_field, entries, has, list, number, text};
use super::super::pod_spec;
use crate::admission::{FieldError, FieldErrorKind};

pub(super) const SELECTOR_MISMATCH: &str = "`selector` does not match template `labels`";

/// Checks that a workload has a selector that selects something.
fn validate_selector(problems: &mut FieldErrorList, spec: &Value, workload: &str) {
    let selector = at(spec, "/selector");
    if selector.is_null() {
        problems.required("spec.selector", "");
        return;
    }
    problems.check_label_selector(selector, "spec.selector");
    let is_empty = entries(selector, "/matchLabels").is_empty()
        && list(selector, "/matchExpressions").is_empty();
    if is_empty {
        let detail = format!("empty selector is invalid for {workload}");
        problems.invalid("spec.selector", selector.clone(), detail);
    }
}

fn validate_selector_matches_template(problems: &mut FieldErrorList, spec: &Value) {
    let labels = entries(spec, "/template/metadata/labels");
    let selector = at(spec, "/selector");
    let empty = entries(selector, "/matchLabels").is_empty()
        && list(selector, "/matchExpressions").is_empty();
    // No selector selects nothing.
    if selector.is_null() || (!empty && !selector_matches(selector, labels)) {
        let value = if labels.is_empty() { Value::Null } else { labels.clone().into() };
        problems.invalid("spec.template.metadata.labels", value, SELECTOR_MISMATCH);
    }
}

/// Checks that the pods of a workload always restart and have no deadline.
fn validate_restart_policy_always(problems: &mut FieldErrorList, spec: &Value, workload: &str) {
    let policy = text(spec, "/template/spec/restartPolicy");
    if policy != "Always" {
        problems.not_supported("spec.template.spec.restartPolicy", policy, &["Always"]);
    }
    if has(spec, "/template/spec/activeDeadlineSeconds") {
        problems.forbidden(
            "spec.template.spec.activeDeadlineSeconds",
            &format!("activeDeadlineSeconds in {workload} is not Supported"),
        );
    }
}

pub(super) fn check_fields_not_negative(
    problems: &mut FieldErrorList,
    spec: &Value,
    names: &[&str],
) {
    for name in names {
        problems.check_not_negative(spec, &format!("/{name}"), &format!("spec.{name}"));
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => parse_percent(text).unwrap_or_default() == 0,
        other => other.as_i64().unwrap_or_default() == 0,
    }
}

pub(in super::super) fn validate_deployment(deployment: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let spec = at(deployment, "/spec");
    check_fields_not_negative(&mut problems, spec, &["replicas"]);
    validate_selector(&mut problems, spec, "deployment");
    validate_selector_matches_template(&mut problems, spec);
    pod_spec::validate_pod_template(&mut problems, at(spec, "/template"), "spec.template");
    validate_restart_policy_always(&mut problems, spec, "ReplicaSet");
    validate_strategy(&mut problems, at(spec, "/strategy"));
    check_fields_not_negative(
        &mut problems,
        spec,
        &["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"],
    );
    let deadline = number(spec, "/progressDeadlineSeconds");
    if deadline <= number(spec, "/minReadySeconds") {
        problems.invalid(
            "spec.progressDeadlineSeconds",
            deadline,
            "must be greater than minReadySeconds",
        );
    }
    problems.into_errors()
}

fn validate_strategy(problems: &mut FieldErrorList, strategy: &Value) {
    let path = "spec.strategy.rollingUpdate";
    match text(strategy, "/type") {
        "Recreate" => {
            if has(strategy, "/rollingUpdate") {
                problems.forbidden(path, "may not be specified when strategy `type` is 'Recreate'");
            }
        }
        "RollingUpdate" => {
            let unavailable = at(strategy, "/rollingUpdate/maxUnavailable");
            let surge = at(strategy, "/rollingUpdate/maxSurge");
            problems.check_int_or_percent(unavailable, &format!("{path}.maxUnavailable"));
            problems.check_int_or_percent(surge, &format!("{path}.maxSurge"));
            if is_zero(unavailable) && is_zero(surge) {
                problems.invalid(
                    format!("{path}.maxUnavailable"),
                    unavailable.clone(),
                    "may not be 0 when `maxSurge` is 0",
                );
            }
            problems.check_at_most_100_percent(unavailable, &format!("{path}.maxUnavailable"));
        }
        other => {
            problems.error_for_go_struct(
                "spec.strategy",
                FieldErrorKind::NotSupported,
                &strategy_as_go_struct(other, strategy),
                "supported values: \"Recreate\", \"RollingUpdate\"",
            );
        }
    }
}

/// Returns a strategy of an unknown type, with the names of its Go struct.
fn strategy_as_go_struct(kind: &str, strategy: &Value) -> [(&'static str, Value); 2] {
    let rolling = strategy.get("rollingUpdate").cloned().unwrap_or_default();
    [("Type", kind.into()), ("RollingUpdate", rolling)]
}

pub(in super::super) fn validate_deployment_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    problems.extend(validate_deployment(new));
    problems.check_immutable(new, old, "/spec/selector", "spec.selector");
    problems.into_errors()
}

/// Checks the counts of a status: none below 0, parts not above the whole.
fn validate_status_counts(
    object: &Value,
    names: &[&str],
    of_replicas: &[&str],
    ready: &str,
) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    for name in names {
        problems.check_not_negative(object, &format!("/status/{name}"), &format!("status.{name}"));
    }
    let count = |name: &str| number(object, &format!("/status/{name}"));
    for name in of_replicas {
        if count(name) > count("replicas") {
            let path = format!("status.{name}");
            problems.invalid(path, count(name), "cannot be greater than status.replicas");
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        problems.invalid(
            "status.availableReplicas",
            count("availableReplicas"),
            format!("cannot be greater than {ready}"),
        );
    }
    problems.into_errors()
}

pub(in super::super) fn validate_deployment_status(new: &Value, _old: &Value) -> Vec<FieldError> {
    validate_status_counts(
        new,
        &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ],
        &["updatedReplicas", "readyReplicas", "availableReplicas"],
        "readyReplicas",
    )
}

pub(in super::super) fn validate_replica_set_status(new: &Value, _old: &Value) -> Vec<FieldError> {
    validate_status_counts(
        new,
        &[
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ],
        &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        "readyReplicas",
    )
}

pub(in super::super) fn validate_stateful_set_status(new: &Value, _old: &Value) -> Vec<FieldError> {
    validate_status_counts(
        new,
        &[
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ],
        &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
        "status.readyReplicas",
    )
}

pub(in super::super) fn validate_replica_set(set: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let spec = at(set, "/spec");
    check_fields_not_negative(&mut problems, spec, &["replicas", "minReadySeconds"]);
    validate_selector(&mut problems, spec, "deployment");
    validate_selector_matches_template(&mut problems, spec);
    pod_spec::validate_pod_template(&mut problems, at(spec, "/template"), "spec.template");
    validate_restart_policy_always(&mut problems, spec, "ReplicaSet");
    problems.into_errors()
}

pub(in super::super) fn validate_replica_set_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    problems.extend(validate_replica_set(new));
    problems.check_immutable(new, old, "/spec/selector", "spec.selector");
    problems.into_errors()
}

pub(in super::super) fn validate_replication_controller(controller: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let spec = at(controller, "/spec");
    check_fields_not_negative(&mut problems, spec, &["minReadySeconds"]);
    let chosen = entries(spec, "/selector");
    if chosen.is_empty() {
        problems.required("spec.selector", "");
    }
    check_fields_not_negative(&mut problems, spec, &["replicas"]);
    if !has(spec, "/template") {
        problems.required("spec.template", "");
        return problems.into_errors();
    }
    let labels = entries(spec, "/template/metadata/labels");
    if !chosen.iter().all(|(key, value)| labels.get(key) == Some(value)) {
        let value = if labels.is_empty() { Value::Null } else { labels.clone().into() };
        problems.invalid("spec.template.metadata.labels", value, SELECTOR_MISMATCH);
    }
    pod_spec::validate_pod_template(&mut problems, at(spec, "/template"), "spec.template");
    validate_restart_policy_always(&mut problems, spec, "ReplicationController");
    problems.into_errors()
}

pub(in super::super) fn validate_stateful_set(set: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    validate_stateful_set_spec(&mut problems, set, true);
    problems.into_errors()
}

fn validate_stateful_set_spec(problems: &mut FieldErrorList, set: &Value, is_new: bool) {
    let spec = at(set, "/spec");
    let policy = text(spec, "/podManagementPolicy");
    if !["OrderedReady", "Parallel"].contains(&policy) {
        problems.invalid(
            "spec.podManagementPolicy",
            policy,
            "must be 'OrderedReady' or 'Parallel'",
        );
    }
    let path = "spec.updateStrategy";
    let rolling = at(spec, "/updateStrategy/rollingUpdate");
    match text(spec, "/updateStrategy/type") {
        "RollingUpdate" => {
            let partition = format!("{path}.rollingUpdate.partition");
            problems.check_not_negative(rolling, "/partition", &partition);
        }
        "OnDelete" if !rolling.is_null() => {
            problems.error_for_go_struct(
                format!("{path}.rollingUpdate"),
                FieldErrorKind::Invalid,
                &[
                    ("Partition", number(rolling, "/partition").into()),
                    ("MaxUnavailable", at(rolling, "/maxUnavailable").clone()),
                ],
                "only allowed for updateStrategy 'RollingUpdate'",
            );
        }
        "OnDelete" => {}
        other => {
            problems.error_for_go_struct(
                path,
                FieldErrorKind::Invalid,
                &strategy_as_go_struct(other, at(spec, "/updateStrategy")),
                "must be 'RollingUpdate' or 'OnDelete'",
            );
        }
    }
    let templates = list(spec, "/volumeClaimTemplates");
    if is_new {
        for (index, template) in templates.iter().enumerate() {
            let path = format!("spec.volumeClaimTemplates[{index}].spec");
            super::validate_persistent_volume_claim_spec(problems, at(template, "/spec"), &path);
        }
    }
    check_fields_not_negative(problems, spec, &["replicas", "minReadySeconds"]);
    let service = text(spec, "/serviceName");
    if is_new && !service.is_empty() {
        problems.check_dns_label("spec.serviceName", service);
    }
    validate_selector(problems, spec, "statefulset");
    validate_selector_matches_template(problems, spec);
    // The claims become volumes that containers may mount.
    let mut template = at(spec, "/template").clone();
    if let Some(Value::Object(pod)) = template.get_mut("spec") {
        let names: Vec<&str> = templates.iter().map(|t| text(t, "/metadata/name")).collect();
        let volumes = super::super::json_access::ensure_list(pod, "volumes");
        volumes.retain(|volume| !names.contains(&text(volume, "/name")));
        volumes.extend(names.iter().map(|name| {
            let claim = serde_json::json!({"claimName": name});
            serde_json::json!({"name": name, "persistentVolumeClaim": claim})
        }));
    }
    pod_spec::validate_pod_template(problems, &template, "spec.template");
    pod_spec::validate_pod_template_metadata(problems, &template, "spec.template");
    validate_restart_policy_always(problems, spec, "StatefulSet");
}

pub(in super::super) fn validate_stateful_set_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    validate_stateful_set_spec(&mut problems, new, false);
    let (mut munged, before) = (at(new, "/spec").clone(), at(old, "/spec"));
    for name in [
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ] {
        copy_field(&mut munged, before, name);
    }
    if munged != *before {
        problems.forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', \
             'template', 'updateStrategy', 'revisionHistoryLimit', \
             'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        );
    }
    problems.into_errors()
}

pub(in super::super) fn validate_daemon_set(set: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let spec = at(set, "/spec");
    let own = at(spec, "/selector");
    problems.check_label_selector(own, "spec.selector");
    let labels = entries(spec, "/template/metadata/labels");
    // No selector selects nothing, an empty one everything.
    if own.is_null() || !selector_matches(own, labels) {
        let value = if labels.is_empty() { Value::Null } else { labels.clone().into() };
        problems.invalid("spec.template.metadata.labels", value, SELECTOR_MISMATCH);
    }
    let is_empty =
        entries(own, "/matchLabels").is_empty() && list(own, "/matchExpressions").is_empty();
    if !own.is_null() && is_empty {
        problems.invalid("spec.selector", own.clone(), "empty selector is invalid for daemonset");
    }
    pod_spec::validate_pod_template(&mut problems, at(spec, "/template"), "spec.template");
    validate_restart_policy_always(&mut problems, spec, "DaemonSet");
    check_fields_not_negative(&mut problems, spec, &["minReadySeconds"]);
    validate_daemon_set_strategy(&mut problems, at(spec, "/updateStrategy"));
    check_fields_not_negative(&mut problems, spec, &["revisionHistoryLimit"]);
    problems.into_errors()
}

fn validate_daemon_set_strategy(problems: &mut FieldErrorList, strategy: &Value) {
    let path = "spec.updateStrategy.rollingUpdate";
    match text(strategy, "/type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let [unavailable, surge] = ["maxUnavailable", "maxSurge"]
                .map(|name| at(strategy, &format!("/rollingUpdate/{name}")));
            let parts = [("maxUnavailable", unavailable), ("maxSurge", surge)];
            for (name, value) in parts {
                problems.check_int_or_percent(value, &format!("{path}.{name}"));
            }
            for (name, value) in parts {
                problems.check_at_most_100_percent(value, &format!("{path}.{name}"));
            }
            match (is_zero(unavailable), is_zero(surge)) {
                (false, false) => problems.invalid(
                    format!("{path}.maxSurge"),
                    surge.clone(),
                    "may not be set when maxUnavailable is non-zero",
                ),
                (true, true) => problems
                    .required(format!("{path}.maxUnavailable"), "cannot be 0 when maxSurge is 0"),
                _ => {}
            }
        }
        other => {
            problems.error_for_go_struct(
                "spec.updateStrategy",
                FieldErrorKind::NotSupported,
                &strategy_as_go_struct(other, strategy),
                "supported values: \"RollingUpdate\", \"OnDelete\"",
            );
        }
    }
}

pub(in super::super) fn validate_daemon_set_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    problems.check_immutable(new, old, "/spec/selector", "spec.selector");
    problems.extend(validate_daemon_set(new));
    problems.into_errors()
}

pub(in super::super) fn validate_controller_revision(revision: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    problems.check_not_negative(revision, "/revision", "revision");
    match at(revision, "/data") {
        Value::Null => problems.required("data", "data is mandatory"),
        Value::Object(_) => {}
        _ => problems.required("data", "data must be a valid JSON object"),
    }
    problems.into_errors()
}

pub(in super::super) fn validate_controller_revision_update(
    new: &Value,
    old: &Value,
) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    problems.check_not_negative(new, "/revision", "revision");
    problems.check_immutable(new, old, "/data", "data");
    problems.into_errors()
}

pub(in super::super) fn validate_pod_template(template: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    pod_spec::validate_pod_template(&mut problems, at(template, "/template"), "template");
    problems.into_errors()
}
