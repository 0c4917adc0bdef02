//! Deployments, sets and jobs.

use serde_json::Value;

use super::super::access::{at, carry, entries, flag, has, list, number, text};
use super::super::batch::GENERATED_LABELS;
use super::super::pod_spec;
use super::super::problems::{Problems, percent, selects};
use crate::admission::{FieldError, FieldErrorKind};

const MISMATCH: &str = "`selector` does not match template `labels`";

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

fn numbers(problems: &mut Problems, spec: &Value, names: &[&str]) {
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

pub(in super::super) fn job(job: &Value) -> Vec<FieldError> {
    let mut problems = Problems::default();
    generated_selector(&mut problems, job);
    job_spec(&mut problems, at(job, "/spec"), "spec", true);
    problems.done()
}

/// The labels that a job gives its pods have to be its own.
fn generated_selector(problems: &mut Problems, job: &Value) {
    if flag(job, "/spec/manualSelector") {
        return;
    }
    let labels = entries(job, "/spec/template/metadata/labels");
    for key in GENERATED_LABELS {
        let pointer = if key.ends_with("job-name") { "/metadata/name" } else { "/metadata/uid" };
        let expected = text(job, pointer);
        let path = format!("spec.template.metadata.labels[{key}]");
        match labels.get(key).and_then(Value::as_str) {
            None => problems.required(path, &format!("must be '{expected}'")),
            Some(found) if found != expected => {
                problems.invalid(path, labels.clone(), format!("must be '{expected}'"));
            }
            Some(_) => {}
        }
    }
    let expected = GENERATED_LABELS.map(|key| {
        let pointer = if key.ends_with("job-name") { "/metadata/name" } else { "/metadata/uid" };
        (key.to_owned(), at(job, pointer).clone())
    });
    let selector = at(job, "/spec/selector");
    if !selector.is_null() && !selects(selector, &expected.into_iter().collect()) {
        problems.invalid("spec.selector", selector.clone(), "`selector` not auto-generated");
    }
}

fn job_spec(problems: &mut Problems, spec: &Value, path: &str, needs_selector: bool) {
    for name in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        problems.not_negative(spec, &format!("/{name}"), &format!("{path}.{name}"));
    }
    match text(spec, "/completionMode") {
        "Indexed" => {
            if !has(spec, "/completions") {
                problems.required(format!("{path}.completions"), "when completion mode is Indexed");
            }
        }
        "NonIndexed" | "" => {
            for name in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(number) = at(spec, &format!("/{name}")).as_i64() {
                    let detail = "requires indexed completion mode";
                    problems.invalid(format!("{path}.{name}"), number, detail);
                }
            }
        }
        other => {
            let known = ["NonIndexed", "Indexed"];
            problems.not_supported(format!("{path}.completionMode"), other, &known);
        }
    }
    pod_spec::template(problems, at(spec, "/template"), &format!("{path}.template"));
    let at_policy = format!("{path}.template.spec.restartPolicy");
    match text(spec, "/template/spec/restartPolicy") {
        "Always" | "" => {
            problems.required(at_policy, "valid values: \"OnFailure\", \"Never\"");
        }
        "OnFailure" | "Never" => {}
        other => problems.not_supported(at_policy, other, &["OnFailure", "Never"]),
    }
    if needs_selector {
        let own = at(spec, "/selector");
        if own.is_null() {
            problems.required(format!("{path}.selector"), "");
        }
        problems.selector(own, &format!("{path}.selector"));
        let labels = entries(spec, "/template/metadata/labels");
        if own.is_null() || !selects(own, labels) {
            let value = if labels.is_empty() { Value::Null } else { labels.clone().into() };
            problems.invalid(format!("{path}.template.metadata.labels"), value, MISMATCH);
        }
    }
}

pub(in super::super) fn job_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = Problems::default();
    problems.extend(job(new));
    let indexed = text(new, "/spec/completionMode") == "Indexed";
    let completions = at(new, "/spec/completions");
    if !indexed {
        problems.immutable(new, old, "/spec/completions", "spec.completions");
    } else if completions != at(old, "/spec/completions")
        && !completions.is_null()
        && completions != at(new, "/spec/parallelism")
    {
        let detail = "can only be modified in tandem with spec.parallelism";
        problems.invalid("spec.completions", completions.clone(), detail);
    }
    problems.immutable(new, old, "/spec/selector", "spec.selector");
    job_template_update(&mut problems, new, old);
    for name in
        ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        problems.immutable(new, old, &format!("/spec/{name}"), &format!("spec.{name}"));
    }
    problems.done()
}

/// A job that is suspended and has not started may still change where its pods go.
fn job_template_update(problems: &mut Problems, new: &Value, old: &Value) {
    let template = at(new, "/spec/template");
    let mut before = at(old, "/spec/template").clone();
    if flag(old, "/spec/suspend") && !has(old, "/status/startTime") {
        for name in ["nodeSelector", "tolerations", "schedulingGates", "affinity"] {
            carry(&mut before["spec"], at(template, "/spec"), name);
        }
        carry(&mut before, template, "metadata");
    }
    if *template != before {
        problems.invalid("spec.template", template.clone(), "field is immutable");
    }
}

pub(in super::super) fn cron_job(job: &Value) -> Vec<FieldError> {
    let mut problems = Problems::default();
    let spec = at(job, "/spec");
    if text(spec, "/schedule").is_empty() {
        problems.required("spec.schedule", "");
    }
    numbers(&mut problems, spec, &["startingDeadlineSeconds"]);
    let policies = ["Allow", "Forbid", "Replace"];
    problems.one_of("spec.concurrencyPolicy", text(spec, "/concurrencyPolicy"), &policies);
    job_spec(&mut problems, at(spec, "/jobTemplate/spec"), "spec.jobTemplate.spec", false);
    numbers(&mut problems, spec, &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"]);
    problems.done()
}
