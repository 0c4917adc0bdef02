//! Kinds that hold data: config maps, secrets, leases, events, role bindings, definitions.

use karpenter_grammar::names;
use serde_json::Value;

use super::super::field_errors::{FieldErrorList, config_key_problems};
use super::super::json_access::{at, entries, flag, has, list, text};
use super::super::pod_spec::validate_data_keys;
use crate::admission::{FieldError, FieldErrorKind};

const DATA_BYTES_MAX: usize = 1024 * 1024;
const IMMUTABLE_DATA: &str = "field is immutable when `immutable` is set";

pub(in super::super) fn validate_config_map(map: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let mut size = 0;
    for (key, value) in entries(map, "/data") {
        let path = format!("data[{key}]");
        problems.invalid_each(&path, key, config_key_problems(key));
        if entries(map, "/binaryData").contains_key(key) {
            problems.invalid(path, key.as_str(), "duplicate of key present in binaryData");
        }
        size += value.as_str().map_or(0, str::len);
    }
    size += validate_data_keys(&mut problems, map, "binaryData");
    check_size(&mut problems, size, "[]");
    problems.into_errors()
}

fn check_size(problems: &mut FieldErrorList, size: usize, path: &str) {
    if size > DATA_BYTES_MAX {
        let detail = format!("may not be more than {DATA_BYTES_MAX} bytes");
        problems.extend([FieldError::new(path, FieldErrorKind::TooLong, None, detail)]);
    }
}

fn validate_immutable_data(
    problems: &mut FieldErrorList,
    new: &Value,
    old: &Value,
    fields: &[&str],
) {
    if !flag(old, "/immutable") {
        return;
    }
    if !flag(new, "/immutable") {
        problems.forbidden("immutable", IMMUTABLE_DATA);
    }
    for name in fields {
        if new.get(*name) != old.get(*name) {
            problems.forbidden(*name, IMMUTABLE_DATA);
        }
    }
}

pub(in super::super) fn validate_config_map_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    validate_immutable_data(&mut problems, new, old, &["data", "binaryData"]);
    problems.extend(validate_config_map(new));
    problems.into_errors()
}

pub(in super::super) fn validate_secret(secret: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let size = validate_data_keys(&mut problems, secret, "data") / 4 * 3;
    check_size(&mut problems, size, "data");
    let data = entries(secret, "/data");
    let wanted: &[&str] = match text(secret, "/type") {
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/service-account-token" => {
            const NAME: &str = "kubernetes.io/service-account.name";
            let annotations = entries(secret, "/metadata/annotations");
            if annotations.get(NAME).and_then(Value::as_str).unwrap_or_default().is_empty() {
                problems.required(format!("metadata.annotations[{NAME}]"), "");
            }
            &[]
        }
        "kubernetes.io/basic-auth" => {
            if !data.contains_key("username") && !data.contains_key("password") {
                problems.required("data[username]", "");
                problems.required("data[password]", "");
            }
            &[]
        }
        _ => &[],
    };
    for key in wanted.iter().filter(|key| !data.contains_key(**key)) {
        problems.required(format!("data[{key}]"), "");
    }
    problems.into_errors()
}

pub(in super::super) fn validate_secret_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    problems.check_immutable(new, old, "/type", "type");
    validate_immutable_data(&mut problems, new, old, &["data"]);
    problems.extend(validate_secret(new));
    problems.into_errors()
}

pub(in super::super) fn validate_lease(lease: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let seconds = at(lease, "/spec/leaseDurationSeconds").as_i64();
    if let Some(seconds) = seconds.filter(|seconds| *seconds <= 0) {
        problems.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0");
    }
    problems.check_not_negative(lease, "/spec/leaseTransitions", "spec.leaseTransitions");
    problems.into_errors()
}

pub(in super::super) fn validate_event(event: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let names = EventFieldNames {
        object: "involvedObject",
        controller: ("reportingComponent", "reportingComponent"),
        note: "message",
    };
    validate_common_event(&mut problems, event, &names);
    problems.into_errors()
}

/// Validates an event of the group `events.k8s.io`, which has more rules.
pub(in super::super) fn validate_events_v1_event(event: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let names = EventFieldNames {
        object: "regarding",
        controller: ("reportingController", "reportingController"),
        note: "note",
    };
    validate_common_event(&mut problems, event, &names);
    if !has(event, "/eventTime") {
        problems.required("eventTime", "");
    }
    let kind = text(event, "/type");
    if !["Normal", "Warning"].contains(&kind) {
        problems.invalid("type", "", format!("has invalid value: {kind}"));
    }
    for (field, path) in [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
    ] {
        if has(event, &format!("/{field}")) {
            problems.invalid(path, "", "needs to be unset");
        }
    }
    problems.into_errors()
}

pub(in super::super) fn validate_events_v1_event_update(
    new: &Value,
    old: &Value,
) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let names = EventFieldNames {
        object: "regarding",
        controller: ("reportingController", "reportingController"),
        note: "note",
    };
    validate_common_event(&mut problems, new, &names);
    for (field, path) in [
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("note", "message"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        problems.check_immutable(new, old, &format!("/{field}"), path);
    }
    problems.into_errors()
}

/// The names of fields in one of the two event APIs.
///
/// Some differ between objects and messages.
struct EventFieldNames {
    object: &'static str,
    controller: (&'static str, &'static str),
    note: &'static str,
}

fn validate_common_event(problems: &mut FieldErrorList, event: &Value, names: &EventFieldNames) {
    let regarding = text(event, &format!("/{}/namespace", names.object));
    let own = text(event, "/metadata/namespace");
    let is_new = has(event, "/eventTime");
    let matching = match (is_new, regarding) {
        (false, "") => matches!(own, "" | "default"),
        (false, regarding) => own == regarding,
        (true, "") => matches!(own, "default" | "kube-system"),
        (true, _) => true,
    };
    if !matching {
        let detail = "does not match event.namespace";
        problems.invalid("involvedObject.namespace", regarding, detail);
    }
    if !is_new {
        return;
    }
    let (field, path) = names.controller;
    let controller = text(event, &format!("/{field}"));
    if controller.is_empty() {
        problems.required(path, "");
    }
    problems.check_qualified_name(path, controller);
    for name in ["reportingInstance", "action", "reason"] {
        let value = text(event, &format!("/{name}"));
        if value.is_empty() {
            problems.required(name, "");
        }
        if value.len() > 128 {
            problems.invalid(name, "", "can have at most 128 characters");
        }
    }
    if text(event, &format!("/{}", names.note)).len() > 1024 {
        problems.invalid("message", "", "can have at most 1024 characters");
    }
}

/// Checks that the phase of a namespace agrees with its deletion timestamp.
pub(in super::super) fn validate_namespace_status(new: &Value, _old: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let phase = text(new, "/status/phase");
    if !has(new, "/metadata/deletionTimestamp") {
        if phase != "Active" {
            problems.invalid(
                "status.Phase",
                phase,
                "may only be 'Active' if `deletionTimestamp` is empty",
            );
        }
    } else if phase != "Terminating" {
        problems.invalid(
            "status.Phase",
            phase,
            "may only be 'Terminating' if `deletionTimestamp` is not empty",
        );
    }
    problems.into_errors()
}

pub(in super::super) fn validate_role_binding(binding: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let group = text(binding, "/roleRef/apiGroup");
    if group != "rbac.authorization.k8s.io" {
        problems.not_supported("roleRef.apiGroup", group, &["rbac.authorization.k8s.io"]);
    }
    let kind = text(binding, "/roleRef/kind");
    if !["Role", "ClusterRole"].contains(&kind) {
        problems.not_supported("roleRef.kind", kind, &["Role", "ClusterRole"]);
    }
    if text(binding, "/roleRef/name").is_empty() {
        problems.required("roleRef.name", "");
    }
    for (index, subject) in list(binding, "/subjects").iter().enumerate() {
        let path = format!("subjects[{index}]");
        if text(subject, "/name").is_empty() {
            problems.required(format!("{path}.name"), "");
        }
        match text(subject, "/kind") {
            "ServiceAccount" => {
                if text(subject, "/namespace").is_empty() {
                    problems.required(format!("{path}.namespace"), "");
                }
            }
            "User" | "Group" => {}
            kind => {
                let known = ["ServiceAccount", "User", "Group"];
                problems.not_supported(format!("{path}.kind"), kind, &known);
            }
        }
    }
    problems.into_errors()
}

pub(in super::super) fn validate_role_binding_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    problems.extend(validate_role_binding(new));
    if new.get("roleRef") != old.get("roleRef") {
        problems.invalid("roleRef", at(new, "/roleRef").clone(), "cannot change roleRef");
    }
    problems.into_errors()
}

/// Validates the parts of a definition that have to fit together.
///
/// Its schemas are compiled elsewhere.
pub(in super::super) fn validate_custom_resource_definition(definition: &Value) -> Vec<FieldError> {
    validate_definition_parts(definition, true)
}

/// Checks that every part of a structural schema has a type.
///
/// Only parts that accept several types need none.
fn validate_schema_types(problems: &mut FieldErrorList, schema: &Value, path: &str) {
    let mut check = |part: &Value, path: String, place: &str| {
        let is_free = flag(part, "/x-kubernetes-int-or-string")
            || flag(part, "/x-kubernetes-preserve-unknown-fields");
        if part.is_object() && text(part, "/type").is_empty() && !is_free {
            let detail = format!("must not be empty for specified {place}");
            problems.required(format!("{path}.type"), &detail);
        }
        validate_schema_types(problems, part, &path);
    };
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        check(property, format!("{path}.properties[{name}]"), "object fields");
    }
    for (field, place) in [("items", "array items"), ("additionalProperties", "object fields")] {
        if schema[field].is_object() {
            check(&schema[field], format!("{path}.{field}"), place);
        }
    }
}

fn validate_definition_parts(definition: &Value, is_new: bool) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let own = |pointer| text(definition, pointer);
    let (group, plural) = (own("/spec/group"), own("/spec/names/plural"));
    let expected = format!("{plural}.{group}");
    let name = own("/metadata/name");
    if is_new && name != expected {
        problems.invalid("metadata.name", name, "must be spec.names.plural+\".\"+spec.group");
    }
    if group.is_empty() {
        problems.required("spec.group", "");
    } else {
        problems.check_dns_subdomain("spec.group", group);
        if !group.contains('.') {
            problems.invalid("spec.group", group, "should be a domain with at least one dot");
        }
    }
    problems.check_one_of("spec.scope", own("/spec/scope"), &["Cluster", "Namespaced"]);
    let versions = list(definition, "/spec/versions");
    let stored = versions.iter().filter(|version| flag(version, "/storage")).count();
    for (index, version) in versions.iter().enumerate() {
        let (path, name) = (format!("spec.versions[{index}]"), text(version, "/name"));
        for problem in names::dns_1035_label_errors(name) {
            problems.invalid(format!("{path}.name"), name, problem);
        }
        if versions[..index].iter().any(|other| text(other, "/name") == name) {
            problems.invalid(
                "spec.versions",
                Value::from(versions),
                "must contain unique version names",
            );
        }
        if has(version, "/schema/openAPIV3Schema") {
            // One schema for all versions is written in the older place.
            let place = if versions.len() == 1 { "spec.validation" } else { path.as_str() };
            let infix = if versions.len() == 1 { "" } else { ".schema" };
            let schema = at(version, "/schema/openAPIV3Schema");
            validate_schema_types(
                &mut problems,
                schema,
                &format!("{place}{infix}.openAPIV3Schema"),
            );
        } else {
            problems.required(format!("{path}.schema.openAPIV3Schema"), "");
        }
    }
    if stored != 1 {
        problems.invalid(
            "spec.versions",
            Value::from(versions),
            "must have exactly one version marked as storage version",
        );
    }
    validate_definition_names(&mut problems, definition);
    if list(definition, "/status/storedVersions").is_empty() {
        let why = "must have at least one stored version";
        problems.invalid("status.storedVersions", Value::Null, why);
    }
    problems.into_errors()
}

fn validate_definition_names(problems: &mut FieldErrorList, definition: &Value) {
    let own = |name: &str| text(definition, &format!("/spec/names/{name}"));
    for name in ["plural", "singular", "kind", "listKind"] {
        if own(name).is_empty() {
            problems.required(format!("spec.names.{name}"), "");
        }
    }
    for name in ["plural", "singular", "kind", "listKind"] {
        let value = own(name);
        let is_kind = name.to_lowercase().ends_with("kind");
        let wrong = names::dns_1035_label_errors(&value.to_lowercase());
        let wrong = if is_kind { wrong } else { names::dns_1035_label_errors(value) };
        if value.is_empty() || wrong.is_empty() {
            continue;
        }
        let mut detail = wrong.join(",");
        if is_kind {
            detail = format!("may have mixed case, but should otherwise match: {detail}");
        }
        problems.invalid(format!("spec.names.{name}"), value, detail);
    }
    if !own("kind").is_empty() && own("kind") == own("listKind") {
        problems.invalid(
            "spec.names.listKind",
            own("listKind"),
            "kind and listKind may not be the same",
        );
    }
}

pub(in super::super) fn validate_custom_resource_definition_update(
    new: &Value,
    old: &Value,
) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    problems.extend(validate_definition_parts(new, false));
    let established = list(old, "/status/conditions").iter().any(|condition| {
        text(condition, "/type") == "Established" && text(condition, "/status") == "True"
    });
    problems.check_immutable(new, old, "/spec/group", "spec.group");
    if established {
        problems.check_immutable(new, old, "/spec/scope", "spec.scope");
        problems.check_immutable(new, old, "/spec/names/kind", "spec.names.kind");
        problems.check_immutable(new, old, "/spec/names/plural", "spec.names.plural");
    }
    problems.into_errors()
}
