//! Deployments and sets: what keeps a number of pods running.

use serde_json::Value;

use super::super::access::{at, carry, entries, has, list, number, text};
use super::super::pod_spec;
use super::super::problems::{Problems, percent, selects};
use crate::admission::{FieldError, FieldErrorKind};

pub(super) const MISMATCH: &str = "`selector` does not match template `labels`";

/// A selector that has to be there and to select something.
fn selector(problems: &mut Problems, spec: &Value, whose: &str) {
    let selector = at(spec, "/selector");
    if selector.is_null() {
        problems.required("spec.selector", "");
        return;
    }
    problems.selector(selector, "spec.selector");
    let is_empty = entries(selector, "/matchLabels").is_empty()
        && list(selector, "/matchExpressions").is_empty();
    if is_empty {
        let detail = format!("empty selector is invalid for {whose}");
        problems.invalid("spec.selector", selector.clone(), detail);
    }
}

fn matches(problems: &mut Problems, spec: &Value) {
    let labels = entries(spec, "/template/metadata/labels");
    let selector = at(spec, "/selector");
    let empty = entries(selector, "/matchLabels").is_empty()
        && list(selector, "/matchExpressions").is_empty();
    // No selector selects nothing.
    if selector.is_null() || (!empty && !selects(selector, labels)) {
        let value = if labels.is_empty() { Value::Null } else { labels.clone().into() };
        problems.invalid("spec.template.metadata.labels", value, MISMATCH);
    }
}

/// Pods of these run until somebody removes them.
fn runs_forever(problems: &mut Problems, spec: &Value, whose: &str) {
    let policy = text(spec, "/template/spec/restartPolicy");
    if policy != "Always" {
        problems.not_supported("spec.template.spec.restartPolicy", policy, &["Always"]);
    }
    if has(spec, "/template/spec/activeDeadlineSeconds") {
        problems.forbidden(
            "spec.template.spec.activeDeadlineSeconds",
            &format!("activeDeadlineSeconds in {whose} is not Supported"),
        );
    }
}

pub(super) fn numbers(problems: &mut Problems, spec: &Value, names: &[&str]) {
    for name in names {
        problems.not_negative(spec, &format!("/{name}"), &format!("spec.{name}"));
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => percent(text).unwrap_or_default() == 0,
        other => other.as_i64().unwrap_or_default() == 0,
    }
}

pub(in super::super) fn deployment(deployment: &Value) -> Vec<FieldError> {
    let mut problems = Problems::default();
    let spec = at(deployment, "/spec");
    numbers(&mut problems, spec, &["replicas"]);
    selector(&mut problems, spec, "deployment");
    matches(&mut problems, spec);
    pod_spec::template(&mut problems, at(spec, "/template"), "spec.template");
    runs_forever(&mut problems, spec, "ReplicaSet");
    strategy(&mut problems, at(spec, "/strategy"));
    numbers(
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
    problems.done()
}

fn strategy(problems: &mut Problems, strategy: &Value) {
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
            problems.int_or_percent(unavailable, &format!("{path}.maxUnavailable"));
            problems.int_or_percent(surge, &format!("{path}.maxSurge"));
            if is_zero(unavailable) && is_zero(surge) {
                problems.invalid(
                    format!("{path}.maxUnavailable"),
                    unavailable.clone(),
                    "may not be 0 when `maxSurge` is 0",
                );
            }
            problems.at_most_100_percent(unavailable, &format!("{path}.maxUnavailable"));
        }
        other => {
            problems.structure(
                "spec.strategy",
                FieldErrorKind::NotSupported,
                &whole_strategy(other, strategy),
                "supported values: \"Recreate\", \"RollingUpdate\"",
            );
        }
    }
}

/// A strategy of an unknown type, with the names of its Go struct.
fn whole_strategy(kind: &str, strategy: &Value) -> [(&'static str, Value); 2] {
    let rolling = strategy.get("rollingUpdate").cloned().unwrap_or_default();
    [("Type", kind.into()), ("RollingUpdate", rolling)]
}

pub(in super::super) fn deployment_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = Problems::default();
    problems.extend(deployment(new));
    problems.immutable(new, old, "/spec/selector", "spec.selector");
    problems.done()
}

/// Counts of a status: none below 0, and parts not above the whole.
fn counts(object: &Value, names: &[&str], of_replicas: &[&str], ready: &str) -> Vec<FieldError> {
    let mut problems = Problems::default();
    for name in names {
        problems.not_negative(object, &format!("/status/{name}"), &format!("status.{name}"));
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
    problems.done()
}

pub(in super::super) fn deployment_status(new: &Value, _old: &Value) -> Vec<FieldError> {
    counts(
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

pub(in super::super) fn replica_set_status(new: &Value, _old: &Value) -> Vec<FieldError> {
    counts(
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

pub(in super::super) fn stateful_set_status(new: &Value, _old: &Value) -> Vec<FieldError> {
    counts(
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

pub(in super::super) fn replica_set(set: &Value) -> Vec<FieldError> {
    let mut problems = Problems::default();
    let spec = at(set, "/spec");
    numbers(&mut problems, spec, &["replicas", "minReadySeconds"]);
    selector(&mut problems, spec, "deployment");
    matches(&mut problems, spec);
    pod_spec::template(&mut problems, at(spec, "/template"), "spec.template");
    runs_forever(&mut problems, spec, "ReplicaSet");
    problems.done()
}

pub(in super::super) fn replica_set_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = Problems::default();
    problems.extend(replica_set(new));
    problems.immutable(new, old, "/spec/selector", "spec.selector");
    problems.done()
}

pub(in super::super) fn replication_controller(controller: &Value) -> Vec<FieldError> {
    let mut problems = Problems::default();
    let spec = at(controller, "/spec");
    numbers(&mut problems, spec, &["minReadySeconds"]);
    let chosen = entries(spec, "/selector");
    if chosen.is_empty() {
        problems.required("spec.selector", "");
    }
    numbers(&mut problems, spec, &["replicas"]);
    if !has(spec, "/template") {
        problems.required("spec.template", "");
        return problems.done();
    }
    let labels = entries(spec, "/template/metadata/labels");
    if !chosen.iter().all(|(key, value)| labels.get(key) == Some(value)) {
        let value = if labels.is_empty() { Value::Null } else { labels.clone().into() };
        problems.invalid("spec.template.metadata.labels", value, MISMATCH);
    }
    pod_spec::template(&mut problems, at(spec, "/template"), "spec.template");
    runs_forever(&mut problems, spec, "ReplicationController");
    problems.done()
}

pub(in super::super) fn stateful_set(set: &Value) -> Vec<FieldError> {
    let mut problems = Problems::default();
    stateful_set_spec(&mut problems, set, true);
    problems.done()
}

fn stateful_set_spec(problems: &mut Problems, set: &Value, is_new: bool) {
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
            problems.not_negative(rolling, "/partition", &partition);
        }
        "OnDelete" if !rolling.is_null() => {
            problems.structure(
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
            problems.structure(
                path,
                FieldErrorKind::Invalid,
                &whole_strategy(other, at(spec, "/updateStrategy")),
                "must be 'RollingUpdate' or 'OnDelete'",
            );
        }
    }
    let templates = list(spec, "/volumeClaimTemplates");
    if is_new {
        for (index, template) in templates.iter().enumerate() {
            let path = format!("spec.volumeClaimTemplates[{index}].spec");
            super::claim_spec(problems, at(template, "/spec"), &path);
        }
    }
    numbers(problems, spec, &["replicas", "minReadySeconds"]);
    let service = text(spec, "/serviceName");
    if is_new && !service.is_empty() {
        problems.label("spec.serviceName", service);
    }
    selector(problems, spec, "statefulset");
    matches(problems, spec);
    // The claims become volumes that containers may mount.
    let mut template = at(spec, "/template").clone();
    if let Some(Value::Object(pod)) = template.get_mut("spec") {
        let names: Vec<&str> = templates.iter().map(|t| text(t, "/metadata/name")).collect();
        let volumes = super::super::access::items(pod, "volumes");
        volumes.retain(|volume| !names.contains(&text(volume, "/name")));
        volumes.extend(names.iter().map(|name| {
            let claim = serde_json::json!({"claimName": name});
            serde_json::json!({"name": name, "persistentVolumeClaim": claim})
        }));
    }
    pod_spec::template(problems, &template, "spec.template");
    pod_spec::template_metadata(problems, &template, "spec.template");
    runs_forever(problems, spec, "StatefulSet");
}

pub(in super::super) fn stateful_set_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = Problems::default();
    stateful_set_spec(&mut problems, new, false);
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
        carry(&mut munged, before, name);
    }
    if munged != *before {
        problems.forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', \
             'template', 'updateStrategy', 'revisionHistoryLimit', \
             'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        );
    }
    problems.done()
}

pub(in super::super) fn daemon_set(set: &Value) -> Vec<FieldError> {
    let mut problems = Problems::default();
    let spec = at(set, "/spec");
    let own = at(spec, "/selector");
    problems.selector(own, "spec.selector");
    let labels = entries(spec, "/template/metadata/labels");
    // No selector selects nothing, an empty one everything.
    if own.is_null() || !selects(own, labels) {
        let value = if labels.is_empty() { Value::Null } else { labels.clone().into() };
        problems.invalid("spec.template.metadata.labels", value, MISMATCH);
    }
    let is_empty =
        entries(own, "/matchLabels").is_empty() && list(own, "/matchExpressions").is_empty();
    if !own.is_null() && is_empty {
        problems.invalid("spec.selector", own.clone(), "empty selector is invalid for daemonset");
    }
    pod_spec::template(&mut problems, at(spec, "/template"), "spec.template");
    runs_forever(&mut problems, spec, "DaemonSet");
    numbers(&mut problems, spec, &["minReadySeconds"]);
    daemon_set_strategy(&mut problems, at(spec, "/updateStrategy"));
    numbers(&mut problems, spec, &["revisionHistoryLimit"]);
    problems.done()
}

fn daemon_set_strategy(problems: &mut Problems, strategy: &Value) {
    let path = "spec.updateStrategy.rollingUpdate";
    match text(strategy, "/type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let [unavailable, surge] = ["maxUnavailable", "maxSurge"]
                .map(|name| at(strategy, &format!("/rollingUpdate/{name}")));
            let parts = [("maxUnavailable", unavailable), ("maxSurge", surge)];
            for (name, value) in parts {
                problems.int_or_percent(value, &format!("{path}.{name}"));
            }
            for (name, value) in parts {
                problems.at_most_100_percent(value, &format!("{path}.{name}"));
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
            problems.structure(
                "spec.updateStrategy",
                FieldErrorKind::NotSupported,
                &whole_strategy(other, strategy),
                "supported values: \"RollingUpdate\", \"OnDelete\"",
            );
        }
    }
}

pub(in super::super) fn daemon_set_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = Problems::default();
    problems.immutable(new, old, "/spec/selector", "spec.selector");
    problems.extend(daemon_set(new));
    problems.done()
}

pub(in super::super) fn controller_revision(revision: &Value) -> Vec<FieldError> {
    let mut problems = Problems::default();
    problems.not_negative(revision, "/revision", "revision");
    match at(revision, "/data") {
        Value::Null => problems.required("data", "data is mandatory"),
        Value::Object(_) => {}
        _ => problems.required("data", "data must be a valid JSON object"),
    }
    problems.done()
}

pub(in super::super) fn controller_revision_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = Problems::default();
    problems.not_negative(new, "/revision", "revision");
    problems.immutable(new, old, "/data", "data");
    problems.done()
}

pub(in super::super) fn pod_template(template: &Value) -> Vec<FieldError> {
    let mut problems = Problems::default();
    pod_spec::template(&mut problems, at(template, "/template"), "template");
    problems.done()
}
