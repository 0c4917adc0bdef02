//! Jobs.

use serde_json::Value;

use super::access::{fields_of, flag, number, part, text};
use super::built_in::{BASE, BuiltIn, Generation, Status};
use super::checks;

pub(super) static JOB: BuiltIn = BuiltIn {
    model: "io.k8s.api.batch.v1.Job",
    status: Status::Own,
    generation: Generation::Spec,
    create: create_job,
    update: |job, _| drop_placeholders(job),
    validate: checks::job,
    validate_update: checks::job_update,
    fields: |job| vec![("status.successful", number(job, "/status/succeeded").to_string())],
    ..BASE
};

pub(super) static CRON_JOB: BuiltIn = BuiltIn {
    model: "io.k8s.api.batch.v1.CronJob",
    status: Status::Own,
    generation: Generation::Spec,
    validate: checks::cron_job,
    validate_update: |new, _| checks::cron_job(new),
    ..BASE
};

/// The labels of the pods of a job: its name and uid, each with and without a prefix.
pub(super) const GENERATED_LABELS: [&str; 4] = [
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
];

/// A job finds its pods by its own uid, unless the user brings a selector.
fn create_job(job: &mut Value) {
    if flag(job, "/spec/manualSelector") {
        drop_placeholders(job);
        return;
    }
    let name = Value::from(text(job, "/metadata/name"));
    let uid = Value::from(text(job, "/metadata/uid"));
    let template = fields_of(part(job, "spec").entry("template").or_insert(Value::Null));
    let metadata = fields_of(template.entry("metadata").or_insert(Value::Null));
    let labels = fields_of(metadata.entry("labels").or_insert(Value::Null));
    for key in GENERATED_LABELS {
        let value = if key.ends_with("job-name") { &name } else { &uid };
        labels.entry(key).or_insert_with(|| value.clone());
    }
    let labels = labels.clone();
    if let Some(Value::Object(own)) = part(job, "metadata").get_mut("labels") {
        for (key, value) in own.iter_mut().filter(|(_, value)| value.is_null()) {
            *value = labels.get(key).cloned().unwrap_or_default();
        }
    }
    let selector = fields_of(part(job, "spec").entry("selector").or_insert(Value::Null));
    fields_of(selector.entry("matchLabels").or_insert(Value::Null))
        .entry("batch.kubernetes.io/controller-uid")
        .or_insert(uid);
}

/// Removes what the defaults left for [`create_job`] to fill in.
fn drop_placeholders(job: &mut Value) {
    if let Some(Value::Object(labels)) = part(job, "metadata").get_mut("labels") {
        labels.retain(|_, value| !value.is_null());
    }
}
