//! What deployments, sets and jobs get.

use serde_json::{Map, Value};

use super::super::json_access::{is_unset, set_default};
use super::{Fields, ensure_child, objects_in, set_default_pointer, string_field};

/// The internal form has a number here, which this version writes as an annotation.
pub(super) fn template_generation(set: &mut Fields) {
    let annotations = ensure_child(ensure_child(set, "metadata"), "annotations");
    set_default(annotations, super::super::apps::TEMPLATE_GENERATION_ANNOTATION, "0");
}

pub(super) fn daemon_set(spec: &mut Fields) {
    let strategy = ensure_child(spec, "updateStrategy");
    set_default(strategy, "type", "RollingUpdate");
    if string_field(strategy, "type") == "RollingUpdate" {
        let rolling = ensure_child(strategy, "rollingUpdate");
        set_default_pointer(rolling, "maxUnavailable", 1.into());
        set_default_pointer(rolling, "maxSurge", 0.into());
    }
    set_default(spec, "revisionHistoryLimit", 10);
}

pub(super) fn deployment(spec: &mut Fields) {
    set_default(spec, "replicas", 1);
    let strategy = ensure_child(spec, "strategy");
    set_default(strategy, "type", "RollingUpdate");
    if string_field(strategy, "type") == "RollingUpdate" {
        let rolling = ensure_child(strategy, "rollingUpdate");
        set_default_pointer(rolling, "maxUnavailable", "25%".into());
        set_default_pointer(rolling, "maxSurge", "25%".into());
    }
    set_default(spec, "revisionHistoryLimit", 10);
    set_default(spec, "progressDeadlineSeconds", 600);
}

pub(super) fn stateful_set(spec: &mut Fields) {
    set_default(spec, "podManagementPolicy", "OrderedReady");
    let strategy = ensure_child(spec, "updateStrategy");
    if string_field(strategy, "type").is_empty() {
        set_default(strategy, "type", "RollingUpdate");
        ensure_child(strategy, "rollingUpdate");
    }
    if string_field(strategy, "type") == "RollingUpdate"
        && let Some(Value::Object(rolling)) = strategy.get_mut("rollingUpdate")
    {
        set_default(rolling, "partition", 0);
    }
    let policy = ensure_child(spec, "persistentVolumeClaimRetentionPolicy");
    set_default(policy, "whenDeleted", "Retain");
    set_default(policy, "whenScaled", "Retain");
    set_default(spec, "replicas", 1);
    set_default(spec, "revisionHistoryLimit", 10);
    for template in objects_in(spec, "volumeClaimTemplates") {
        set_default(template, "apiVersion", "v1");
        set_default(template, "kind", "PersistentVolumeClaim");
    }
}

pub(super) fn job(job: &mut Fields) {
    let spec = ensure_child(job, "spec");
    if is_unset(spec, "completions") && is_unset(spec, "parallelism") {
        set_default(spec, "completions", 1);
    }
    set_default(spec, "parallelism", 1);
    let limit = if is_unset(spec, "backoffLimitPerIndex") { 6 } else { i64::from(i32::MAX) };
    set_default(spec, "backoffLimit", limit);
    set_default(spec, "completionMode", "NonIndexed");
    set_default(spec, "suspend", false);
    let replacement =
        if is_unset(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
    set_default(spec, "podReplacementPolicy", replacement);
    set_default(spec, "manualSelector", false);
    let labels = spec.get("template").and_then(|template| template.pointer("/metadata/labels"));
    let mut labels = labels.filter(|labels| labels.is_object()).cloned();
    // The real server gives the job the template's labels in a way that it also gets those that
    // are generated later. Null stands for them until then.
    if let Some(Value::Object(labels)) = &mut labels {
        for name in super::super::batch::GENERATED_LABELS {
            labels.entry(name).or_insert(Value::Null);
        }
    }
    inherit_template_labels(job, labels);
}

/// Copies the labels of a template to an object that has none.
fn inherit_template_labels(object: &mut Fields, labels: Option<Value>) {
    let Some(labels) = labels.filter(|labels| !labels.is_null()) else { return };
    let metadata = ensure_child(object, "metadata");
    if metadata.get("labels").and_then(Value::as_object).is_none_or(Map::is_empty) {
        metadata.insert("labels".to_owned(), labels);
    }
}

pub(super) fn cron_job(spec: &mut Fields) {
    set_default(spec, "concurrencyPolicy", "Allow");
    set_default(spec, "suspend", false);
    set_default(spec, "successfulJobsHistoryLimit", 3);
    set_default(spec, "failedJobsHistoryLimit", 1);
}

pub(super) fn replication_controller(controller: &mut Fields) {
    let spec = ensure_child(controller, "spec");
    let labels = spec.get("template").and_then(|template| template.pointer("/metadata/labels"));
    let Some(labels) = labels.filter(|labels| !labels.is_null()).cloned() else { return };
    if spec.get("selector").and_then(Value::as_object).is_none_or(Map::is_empty) {
        spec.insert("selector".to_owned(), labels.clone());
    }
    inherit_template_labels(controller, Some(labels));
}
