//! What deployments, sets and jobs get.

use serde_json::{Map, Value};

use super::super::access::{fill, is_unset};
use super::{Fields, child, each, fill_pointer, text};

/// The internal form has a number here, which this version writes as an annotation.
pub(super) fn template_generation(set: &mut Fields) {
    let annotations = child(child(set, "metadata"), "annotations");
    fill(annotations, super::super::apps::TEMPLATE_GENERATION, "0");
}

pub(super) fn daemon_set(spec: &mut Fields) {
    let strategy = child(spec, "updateStrategy");
    fill(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = child(strategy, "rollingUpdate");
        fill_pointer(rolling, "maxUnavailable", 1.into());
        fill_pointer(rolling, "maxSurge", 0.into());
    }
    fill(spec, "revisionHistoryLimit", 10);
}

pub(super) fn deployment(spec: &mut Fields) {
    fill(spec, "replicas", 1);
    let strategy = child(spec, "strategy");
    fill(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = child(strategy, "rollingUpdate");
        fill_pointer(rolling, "maxUnavailable", "25%".into());
        fill_pointer(rolling, "maxSurge", "25%".into());
    }
    fill(spec, "revisionHistoryLimit", 10);
    fill(spec, "progressDeadlineSeconds", 600);
}

pub(super) fn stateful_set(spec: &mut Fields) {
    fill(spec, "podManagementPolicy", "OrderedReady");
    let strategy = child(spec, "updateStrategy");
    if text(strategy, "type").is_empty() {
        fill(strategy, "type", "RollingUpdate");
        child(strategy, "rollingUpdate");
    }
    if text(strategy, "type") == "RollingUpdate"
        && let Some(Value::Object(rolling)) = strategy.get_mut("rollingUpdate")
    {
        fill(rolling, "partition", 0);
    }
    let policy = child(spec, "persistentVolumeClaimRetentionPolicy");
    fill(policy, "whenDeleted", "Retain");
    fill(policy, "whenScaled", "Retain");
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    for template in each(spec, "volumeClaimTemplates") {
        fill(template, "apiVersion", "v1");
        fill(template, "kind", "PersistentVolumeClaim");
    }
}

pub(super) fn job(job: &mut Fields) {
    let spec = child(job, "spec");
    if is_unset(spec, "completions") && is_unset(spec, "parallelism") {
        fill(spec, "completions", 1);
    }
    fill(spec, "parallelism", 1);
    let limit = if is_unset(spec, "backoffLimitPerIndex") { 6 } else { i64::from(i32::MAX) };
    fill(spec, "backoffLimit", limit);
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    let replacement =
        if is_unset(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
    fill(spec, "podReplacementPolicy", replacement);
    fill(spec, "manualSelector", false);
    let labels = spec.get("template").and_then(|template| template.pointer("/metadata/labels"));
    let mut labels = labels.filter(|labels| labels.is_object()).cloned();
    // The real server gives the job the template's labels in a way that it also gets those that
    // are generated later. Null stands for them until then.
    if let Some(Value::Object(labels)) = &mut labels {
        for name in super::super::batch::GENERATED_LABELS {
            labels.entry(name).or_insert(Value::Null);
        }
    }
    take_labels(job, labels);
}

/// The labels of a template become those of an object that has none.
fn take_labels(object: &mut Fields, labels: Option<Value>) {
    let Some(labels) = labels.filter(|labels| !labels.is_null()) else { return };
    let metadata = child(object, "metadata");
    if metadata.get("labels").and_then(Value::as_object).is_none_or(Map::is_empty) {
        metadata.insert("labels".to_owned(), labels);
    }
}

pub(super) fn cron_job(spec: &mut Fields) {
    fill(spec, "concurrencyPolicy", "Allow");
    fill(spec, "suspend", false);
    fill(spec, "successfulJobsHistoryLimit", 3);
    fill(spec, "failedJobsHistoryLimit", 1);
}

pub(super) fn replication_controller(controller: &mut Fields) {
    let spec = child(controller, "spec");
    let labels = spec.get("template").and_then(|template| template.pointer("/metadata/labels"));
    let Some(labels) = labels.filter(|labels| !labels.is_null()).cloned() else { return };
    if spec.get("selector").and_then(Value::as_object).is_none_or(Map::is_empty) {
        spec.insert("selector".to_owned(), labels.clone());
    }
    take_labels(controller, Some(labels));
}
