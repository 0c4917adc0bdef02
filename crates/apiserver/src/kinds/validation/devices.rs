//! Claims of devices and what drivers publish.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::field_errors::FieldErrorList;
use super::super::json_access::{at, has, list, number, text};
use crate::admission::FieldError;

pub(in super::super) fn validate_resource_claim(claim: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    validate_resource_claim_spec(&mut problems, at(claim, "/spec"), "spec");
    problems.into_errors()
}

fn validate_resource_claim_spec(problems: &mut FieldErrorList, spec: &Value, path: &str) {
    let mut known = BTreeSet::new();
    for (index, request) in list(spec, "/devices/requests").iter().enumerate() {
        let at = format!("{path}.devices.requests[{index}]");
        let name = text(request, "/name");
        problems.check_dns_label(&format!("{at}.name"), name);
        if !name.is_empty() && !known.insert(name) {
            problems.duplicate(format!("{at}.name"), name);
        }
        let alternatives = list(request, "/firstAvailable");
        match (has(request, "/exactly"), alternatives.is_empty()) {
            (true, true) => {
                validate_device_class(problems, &request["exactly"], &format!("{at}.exactly"));
            }
            (false, false) => {
                for (place, alternative) in alternatives.iter().enumerate() {
                    let at = format!("{at}.firstAvailable[{place}]");
                    match text(alternative, "/name") {
                        "" => problems.required(format!("{at}.name"), ""),
                        name => problems.check_dns_label(&format!("{at}.name"), name),
                    }
                    validate_device_class(problems, alternative, &at);
                }
            }
            (false, true) => {
                problems.required(&*at, "exactly one of `exactly` or `firstAvailable` is required");
            }
            (true, false) => problems.invalid(
                &*at,
                Value::Null,
                "exactly one of `exactly` or `firstAvailable` is required, but multiple fields \
                 are set",
            ),
        }
    }
}

fn validate_device_class(problems: &mut FieldErrorList, request: &Value, path: &str) {
    match text(request, "/deviceClassName") {
        "" => problems.required(format!("{path}.deviceClassName"), ""),
        name => problems.check_dns_subdomain(&format!("{path}.deviceClassName"), name),
    }
    let (mode, count) = (text(request, "/allocationMode"), number(request, "/count"));
    match mode {
        "ExactCount" if count <= 0 => {
            problems.invalid(format!("{path}.count"), count, "must be greater than zero");
        }
        "All" if count != 0 => problems.invalid(
            format!("{path}.count"),
            count,
            "must not be specified when allocationMode is 'All'",
        ),
        "ExactCount" | "All" => {}
        other => {
            let known = ["All", "ExactCount"];
            problems.not_supported(format!("{path}.allocationMode"), other, &known);
        }
    }
}

pub(in super::super) fn validate_resource_claim_update(
    new: &Value,
    old: &Value,
) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    problems.check_immutable(new, old, "/spec", "spec");
    if problems.is_empty() {
        validate_resource_claim_spec(&mut problems, at(new, "/spec"), "spec");
    }
    problems.into_errors()
}

pub(in super::super) fn validate_resource_claim_template(template: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    validate_resource_claim_spec(&mut problems, at(template, "/spec/spec"), "spec.spec");
    problems.into_errors()
}

pub(in super::super) fn validate_resource_claim_template_update(
    new: &Value,
    old: &Value,
) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    problems.check_immutable(new, old, "/spec", "spec");
    problems.into_errors()
}

pub(in super::super) fn validate_resource_slice(slice: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let driver = text(slice, "/spec/driver");
    if driver.is_empty() {
        problems.required("spec.driver", "");
    } else {
        problems.check_dns_subdomain("spec.driver", &driver.to_lowercase());
    }
    if text(slice, "/spec/pool/name").is_empty() {
        problems.required("spec.pool.name", "");
    }
    let count = number(slice, "/spec/pool/resourceSliceCount");
    if count <= 0 {
        problems.invalid("spec.pool.resourceSliceCount", count, "must be greater than zero");
    }
    problems.check_not_negative(slice, "/spec/pool/generation", "spec.pool.generation");
    let places = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];
    let given: Vec<String> = places
        .iter()
        .filter(|name| has(slice, &format!("/spec/{name}")))
        .map(|name| format!("`{name}`"))
        .collect();
    match given.len() {
        0 => problems.required(
            "spec",
            "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is \
             required",
        ),
        1 => {}
        _ => problems.invalid(
            "spec",
            format!("{{{}}}", given.join(", ")),
            "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is \
             required, but multiple fields are set",
        ),
    }
    let node = text(slice, "/spec/nodeName");
    if !node.is_empty() {
        problems.check_dns_subdomain("spec.nodeName", node);
    }
    let mut known = BTreeSet::new();
    for (index, device) in list(slice, "/spec/devices").iter().enumerate() {
        let path = format!("spec.devices[{index}].name");
        match text(device, "/name") {
            "" => problems.required(path, ""),
            name => {
                problems.check_dns_label(&path, name);
                if !known.insert(name) {
                    problems.duplicate(path, name);
                }
            }
        }
    }
    problems.into_errors()
}

pub(in super::super) fn validate_resource_slice_update(
    new: &Value,
    old: &Value,
) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    problems.extend(validate_resource_slice(new));
    for (pointer, path) in [
        ("/spec/driver", "spec.driver"),
        ("/spec/pool/name", "spec.pool.name"),
        ("/spec/nodeName", "spec.nodeName"),
    ] {
        problems.check_immutable(new, old, pointer, path);
    }
    problems.into_errors()
}
