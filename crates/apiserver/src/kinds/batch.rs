//! Jobs.

use serde_json::Value;

use super::built_in_kind::{BASE_KIND, BuiltInKind, GenerationPolicy, StatusPolicy};
use super::json_access::{coerce_to_object, ensure_object, flag, number, text};
use super::validation;

pub(super) static JOB: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.batch.v1.Job",
    status_policy: StatusPolicy::Subresource,
    generation_policy: GenerationPolicy::OnSpecChange,
    prepare_for_create: generate_job_selector,
    admit_manifest: |job, _| remove_label_placeholders(job),
    prepare_for_update: |job, _| remove_label_placeholders(job),
    validate: validation::validate_job,
    validate_update: validation::validate_job_update,
    selectable_fields: |job| {
        vec![("status.successful", number(job, "/status/succeeded").to_string())]
    },
    ..BASE_KIND
};

pub(super) static CRON_JOB: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.batch.v1.CronJob",
    status_policy: StatusPolicy::Subresource,
    generation_policy: GenerationPolicy::OnSpecChange,
    validate: validation::validate_cron_job,
    validate_update: |new, _| validation::validate_cron_job(new),
    ..BASE_KIND
};

/// The labels of the pods of a job: its name and uid, each with and without a prefix.
pub(super) const GENERATED_LABELS: [&str; 4] = [
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
];

/// Sets the labels and the selector of a Job from its name and uid.
///
/// A Job with `manualSelector` has a selector of its own.
fn generate_job_selector(job: &mut Value) {
    if flag(job, "/spec/manualSelector") {
        remove_label_placeholders(job);
        return;
    }
    let name = Value::from(text(job, "/metadata/name"));
    let uid = Value::from(text(job, "/metadata/uid"));
    let template =
        coerce_to_object(ensure_object(job, "spec").entry("template").or_insert(Value::Null));
    let metadata = coerce_to_object(template.entry("metadata").or_insert(Value::Null));
    let labels = coerce_to_object(metadata.entry("labels").or_insert(Value::Null));
    for key in GENERATED_LABELS {
        let value = if key.ends_with("job-name") { &name } else { &uid };
        labels.entry(key).or_insert_with(|| value.clone());
    }
    let labels = labels.clone();
    if let Some(Value::Object(own)) = ensure_object(job, "metadata").get_mut("labels") {
        for (key, value) in own.iter_mut().filter(|(_, value)| value.is_null()) {
            *value = labels.get(key).cloned().unwrap_or_default();
        }
    }
    let selector =
        coerce_to_object(ensure_object(job, "spec").entry("selector").or_insert(Value::Null));
    coerce_to_object(selector.entry("matchLabels").or_insert(Value::Null))
        .entry("batch.kubernetes.io/controller-uid")
        .or_insert(uid);
}

/// Removes the placeholders that the defaults left for [`generate_job_selector`].
fn remove_label_placeholders(job: &mut Value) {
    if let Some(Value::Object(labels)) = ensure_object(job, "metadata").get_mut("labels") {
        labels.retain(|_, value| !value.is_null());
    }
}
