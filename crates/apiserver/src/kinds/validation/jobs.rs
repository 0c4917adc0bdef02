//! Jobs, and what makes them at set times.

use serde_json::Value;

use super::super::batch::GENERATED_LABELS;
use super::super::field_errors::{FieldErrorList, selector_matches};
use super::super::json_access::{at, copy_field, entries, flag, has, text};
use super::super::pod_spec;
use super::workloads::{SELECTOR_MISMATCH, check_fields_not_negative};
use crate::admission::FieldError;

pub(in super::super) fn validate_job(job: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    validate_generated_selector(&mut problems, job);
    validate_job_spec(&mut problems, at(job, "/spec"), "spec", true);
    problems.into_errors()
}

/// Checks that the generated labels and selector of a Job are its own.
fn validate_generated_selector(problems: &mut FieldErrorList, job: &Value) {
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
    if !selector.is_null() && !selector_matches(selector, &expected.into_iter().collect()) {
        problems.invalid("spec.selector", selector.clone(), "`selector` not auto-generated");
    }
}

fn validate_job_spec(
    problems: &mut FieldErrorList,
    spec: &Value,
    path: &str,
    needs_selector: bool,
) {
    for name in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        problems.check_not_negative(spec, &format!("/{name}"), &format!("{path}.{name}"));
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
    pod_spec::validate_pod_template(problems, at(spec, "/template"), &format!("{path}.template"));
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
        problems.check_label_selector(own, &format!("{path}.selector"));
        let labels = entries(spec, "/template/metadata/labels");
        if own.is_null() || !selector_matches(own, labels) {
            let value = if labels.is_empty() { Value::Null } else { labels.clone().into() };
            problems.invalid(format!("{path}.template.metadata.labels"), value, SELECTOR_MISMATCH);
        }
    }
}

pub(in super::super) fn validate_job_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    problems.extend(validate_job(new));
    let indexed = text(new, "/spec/completionMode") == "Indexed";
    let completions = at(new, "/spec/completions");
    if !indexed {
        problems.check_immutable(new, old, "/spec/completions", "spec.completions");
    } else if completions != at(old, "/spec/completions")
        && !completions.is_null()
        && completions != at(new, "/spec/parallelism")
    {
        let detail = "can only be modified in tandem with spec.parallelism";
        problems.invalid("spec.completions", completions.clone(), detail);
    }
    problems.check_immutable(new, old, "/spec/selector", "spec.selector");
    validate_job_template_update(&mut problems, new, old);
    for name in
        ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        problems.check_immutable(new, old, &format!("/spec/{name}"), &format!("spec.{name}"));
    }
    problems.into_errors()
}

/// Checks that an update leaves the pod template of a Job unchanged.
///
/// A suspended Job that has not started may still change where its pods go.
fn validate_job_template_update(problems: &mut FieldErrorList, new: &Value, old: &Value) {
    let template = at(new, "/spec/template");
    let mut before = at(old, "/spec/template").clone();
    if flag(old, "/spec/suspend") && !has(old, "/status/startTime") {
        for name in ["nodeSelector", "tolerations", "schedulingGates", "affinity"] {
            copy_field(&mut before["spec"], at(template, "/spec"), name);
        }
        copy_field(&mut before, template, "metadata");
    }
    if *template != before {
        problems.invalid("spec.template", template.clone(), "field is immutable");
    }
}

pub(in super::super) fn validate_cron_job(job: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let spec = at(job, "/spec");
    if text(spec, "/schedule").is_empty() {
        problems.required("spec.schedule", "");
    }
    check_fields_not_negative(&mut problems, spec, &["startingDeadlineSeconds"]);
    let policies = ["Allow", "Forbid", "Replace"];
    problems.check_one_of("spec.concurrencyPolicy", text(spec, "/concurrencyPolicy"), &policies);
    validate_job_spec(&mut problems, at(spec, "/jobTemplate/spec"), "spec.jobTemplate.spec", false);
    check_fields_not_negative(
        &mut problems,
        spec,
        &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"],
    );
    problems.into_errors()
}
