//! Access and token reviews, which clients create as requests.
//!
//! The API server allows everything; see [`crate::verbs::review`].

use serde_json::Value;

use super::built_in_kind::{BASE_KIND, BuiltInKind};
use super::json_access::{at, has, text};
use crate::admission::FieldError;

pub(super) static SELF_SUBJECT_REVIEW: BuiltInKind =
    BuiltInKind { type_name: "io.k8s.api.authentication.v1.SelfSubjectReview", ..BASE_KIND };

pub(super) static SELF_SUBJECT_RULES_REVIEW: BuiltInKind =
    BuiltInKind { type_name: "io.k8s.api.authorization.v1.SelfSubjectRulesReview", ..BASE_KIND };

pub(super) static SELF_SUBJECT_ACCESS_REVIEW: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
    validate: |object| {
        let mut errors = Vec::from_iter(validate_attributes(object));
        errors.extend(validate_metadata(object, "must be empty"));
        errors
    },
    ..BASE_KIND
};

pub(super) static SUBJECT_ACCESS_REVIEW: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.authorization.v1.SubjectAccessReview",
    validate: |object| {
        let mut errors = Vec::from_iter(validate_attributes(object));
        errors.extend(validate_subject(object));
        errors.extend(validate_metadata(object, "must be empty"));
        errors
    },
    ..BASE_KIND
};

pub(super) static LOCAL_SUBJECT_ACCESS_REVIEW: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
    validate: |object| {
        let mut errors = Vec::from_iter(validate_attributes(object));
        errors.extend(validate_subject(object));
        errors.extend(validate_metadata(object, "must be empty except for namespace"));
        let namespace = text(object, "/spec/resourceAttributes/namespace");
        if has(object, RESOURCE) && namespace != text(object, "/metadata/namespace") {
            let path = "spec.resourceAttributes.namespace";
            errors.push(FieldError::invalid(path, namespace, "must match metadata.namespace"));
        }
        if has(object, NON_RESOURCE) {
            let value = at(object, NON_RESOURCE).clone();
            let detail = "disallowed on this kind of request";
            errors.push(FieldError::invalid("spec.nonResourceAttributes", value, detail));
        }
        errors
    },
    ..BASE_KIND
};

const RESOURCE: &str = "/spec/resourceAttributes";
const NON_RESOURCE: &str = "/spec/nonResourceAttributes";

/// Checks that a review is about either a resource or a path.
fn validate_attributes(object: &Value) -> Option<FieldError> {
    match (has(object, RESOURCE), has(object, NON_RESOURCE)) {
        (true, true) => Some(FieldError::invalid(
            "spec.nonResourceAttributes",
            at(object, NON_RESOURCE).clone(),
            "cannot be specified in combination with resourceAttributes",
        )),
        (false, false) => Some(FieldError::invalid(
            "spec.resourceAttributes",
            Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => None,
    }
}

fn validate_subject(object: &Value) -> Option<FieldError> {
    let has_groups = at(object, "/spec/groups").as_array().is_some_and(|all| !all.is_empty());
    (text(object, "/spec/user").is_empty() && !has_groups).then(|| {
        FieldError::invalid("spec.user", "", "at least one of user or group must be specified")
    })
}

/// Checks that a review has no name, and nothing else that objects have.
fn validate_metadata(object: &Value, detail: &str) -> Option<FieldError> {
    let fields = at(object, "/metadata").as_object()?;
    let is_disallowed = |(key, value): (&String, &Value)| {
        !matches!(key.as_str(), "managedFields" | "namespace" | "creationTimestamp")
            && !value.is_null()
    };
    let found = fields.iter().find(|field| is_disallowed(*field))?.1;
    Some(FieldError::invalid("metadata", found.clone(), detail))
}
