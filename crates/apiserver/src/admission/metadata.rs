//! `ObjectMeta`, of an object and of resources inside it.
//!
//! Only an object by itself is validated: whether a resource version is given and fresh,
//! generations and managed fields belong to the handler of the request.

use karpenter_cel::go_text;
use karpenter_grammar::names::{
    dns_1035_label_errors, dns_label_errors, dns_subdomain_errors, label_value_errors,
    qualified_name_errors,
};
use serde_json::{Map, Value};

use super::field_error::{FieldError, FieldPath};
use super::schema::{AdditionalProperties, Schema};

const ANNOTATIONS_BYTES_MAX: i64 = 256 * 1024;

/// The metadata of a new object.
pub(crate) fn validate_create(object: &Value, namespaced: bool) -> Vec<FieldError> {
    validate_create_with_name_rule(object, namespaced, dns_subdomain_errors)
}

/// Validates metadata as [`validate_create`], with another rule for names.
pub(crate) fn validate_create_with_name_rule(
    object: &Value,
    namespaced: bool,
    name_problems: impl Fn(&str) -> Vec<String>,
) -> Vec<FieldError> {
    let mut metadata = MetadataValidator::from_object(object, "metadata".to_owned());
    if let Some(prefix) = metadata.text("generateName") {
        metadata.report("generateName", prefix, name_problems(&mask_trailing_dash(prefix)));
    }
    match metadata.text("name") {
        None => {
            let error = FieldError::required("metadata.name", "name or generateName is required");
            metadata.errors.push(error);
        }
        Some(name) => metadata.report("name", name, name_problems(name)),
    }
    match (namespaced, metadata.text("namespace")) {
        (true, None) => metadata.errors.push(FieldError::required("metadata.namespace", "")),
        (true, Some(namespace)) => {
            metadata.report("namespace", namespace, dns_label_errors(namespace));
        }
        (false, Some(_)) => {
            let error = FieldError::forbidden("metadata.namespace", "not allowed on this type");
            metadata.errors.push(error);
        }
        (false, None) => {}
    }
    metadata.check_common();
    metadata.check_finalizers();
    metadata.errors
}

/// A prefix may end in a dash, since more comes after it. The API server looks past the character
/// before the dash too.
fn mask_trailing_dash(prefix: &str) -> String {
    let mut masked = prefix.to_owned();
    if masked.len() > 1 && masked.ends_with('-') {
        masked.pop();
        masked.pop();
        masked.push('a');
    }
    masked
}

/// The metadata of an object that replaces `old`.
pub(crate) fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut metadata = MetadataValidator::from_object(new, "metadata".to_owned());
    let old = MetadataValidator::from_object(old, String::new());
    if old.get("deletionTimestamp").is_some() {
        let before = old.texts("finalizers");
        let mut added = metadata.texts("finalizers");
        added.retain(|finalizer| !before.contains(finalizer));
        added.sort_unstable();
        added.dedup();
        if !added.is_empty() {
            let list: Vec<String> = added.iter().map(|name| go_text::quote(name)).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, \
                 found new finalizers []string{{{}}}",
                list.join(", ")
            );
            metadata.errors.push(FieldError::forbidden("metadata.finalizers", &detail));
        }
    }
    for (field, absent) in [
        ("name", Value::from("")),
        ("namespace", Value::from("")),
        ("uid", Value::from("")),
        ("creationTimestamp", Value::Null),
        ("deletionTimestamp", Value::Null),
        ("deletionGracePeriodSeconds", Value::Null),
    ] {
        let value = metadata.get(field).unwrap_or(&absent);
        if value != old.get(field).unwrap_or(&absent) {
            let error = FieldError::invalid(
                metadata.field_path(field),
                value.clone(),
                "field is immutable",
            );
            metadata.errors.push(error);
        }
    }
    metadata.check_common();
    metadata.errors
}

/// What built-in kinds ask of finalizers beside: the name of a domain, unless all know them.
pub(crate) fn validate_built_in_finalizers(object: &Value) -> Vec<FieldError> {
    let metadata = MetadataValidator::from_object(object, "metadata".to_owned());
    let finalizers = metadata.texts("finalizers").into_iter().enumerate();
    finalizers
        .filter(|(_, name)| {
            !name.contains('/') && !matches!(*name, "kubernetes" | "orphan" | "foregroundDeletion")
        })
        .map(|(index, name)| {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            FieldError::invalid(format!("metadata.finalizers[{index}]"), name, detail)
        })
        .collect()
}

/// Formats owner references as JSON, with their fields in the usual order.
fn owner_references_text<'a>(owners: impl Iterator<Item = &'a Value>) -> String {
    format!("[{}]", owners.map(owner_reference_text).collect::<Vec<_>>().join(","))
}

fn owner_reference_text(owner: &Value) -> String {
    const FIELDS: [&str; 6] =
        ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let fields = FIELDS.iter().filter_map(|field| {
        Some(format!("{}:{}", go_text::quote(field), go_text::json(owner.get(field)?)))
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// The type and metadata of resources inside an object (`x-kubernetes-embedded-resource`).
pub(crate) fn validate_embedded(object: &Value, schema: &Schema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk_embedded(object, schema, &FieldPath::Root, &mut errors);
    errors
}

fn walk_embedded(
    value: &Value,
    schema: &Schema,
    path: &FieldPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    match value {
        Value::Object(map) => {
            if schema.structure.embedded_resource {
                errors.extend(type_error(
                    map.get("apiVersion"),
                    &path.field("apiVersion"),
                    |text| {
                        let known = text.matches('/').count() <= 1;
                        (!known).then(|| format!("unexpected GroupVersion string: {text}"))
                    },
                ));
                errors.extend(type_error(map.get("kind"), &path.field("kind"), |text| {
                    let problems = dns_1035_label_errors(&text.to_lowercase()).join(",");
                    (!problems.is_empty()).then(|| {
                        format!("may have mixed case, but should otherwise match: {problems}")
                    })
                }));
                let mut metadata = MetadataValidator::from_object(
                    value,
                    path.field("metadata").format_bracketed(),
                );
                metadata.check_common();
                metadata.check_finalizers();
                errors.append(&mut metadata.errors);
            }
            for (name, value) in map {
                match (schema.properties.get(name), &schema.additional_properties) {
                    (Some(property), _) => {
                        walk_embedded(value, property, &path.field(name), errors);
                    }
                    (None, AdditionalProperties::Schema(values)) => {
                        walk_embedded(value, values, &path.key(name), errors);
                    }
                    (None, AdditionalProperties::Any | AdditionalProperties::Absent) => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return };
            for (index, item) in items.iter().enumerate() {
                walk_embedded(item, schema, &path.index(index), errors);
            }
        }
        _ => {}
    }
}

fn type_error(
    value: Option<&Value>,
    path: &FieldPath<'_>,
    problem: impl Fn(&str) -> Option<String>,
) -> Option<FieldError> {
    let at = path.format_bracketed();
    match value {
        None => Some(FieldError::required(at, "")),
        Some(Value::String(text)) if text.is_empty() => {
            Some(FieldError::invalid(at, "", "must not be empty"))
        }
        Some(Value::String(text)) => {
            problem(text).map(|problem| FieldError::invalid(at, text.as_str(), problem))
        }
        Some(other) => Some(FieldError::invalid(at, other.clone(), "must be a string")),
    }
}

struct MetadataValidator<'a> {
    fields: Option<&'a Map<String, Value>>,
    path: String,
    errors: Vec<FieldError>,
}

impl<'a> MetadataValidator<'a> {
    fn from_object(object: &'a Value, path: String) -> Self {
        let fields = object.get("metadata").and_then(Value::as_object);
        Self { fields, path, errors: Vec::new() }
    }

    fn field_path(&self, field: &str) -> String {
        format!("{}.{field}", self.path)
    }

    fn report(&mut self, field: &str, value: &str, problems: Vec<String>) {
        for problem in problems {
            self.errors.push(FieldError::invalid(self.field_path(field), value, problem));
        }
    }

    fn get(&self, field: &str) -> Option<&'a Value> {
        self.fields?.get(field)
    }

    /// An empty string is as good as none.
    fn text(&self, field: &str) -> Option<&'a str> {
        self.get(field)?.as_str().filter(|text| !text.is_empty())
    }

    fn texts(&self, field: &str) -> Vec<&'a str> {
        let items = self.get(field).and_then(Value::as_array);
        items.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// The entries of a map of strings. Other values cannot come from a decoded request.
    fn entries(&self, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let map = self.get(field).and_then(Value::as_object);
        map.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }

    fn check_common(&mut self) {
        for (key, value) in self.entries("labels") {
            self.report("labels", key, qualified_name_errors(key));
            self.report("labels", value, label_value_errors(value));
        }
        let mut size = 0;
        for (key, value) in self.entries("annotations") {
            size += key.len() + value.len();
            self.report("annotations", key, qualified_name_errors(&key.to_lowercase()));
        }
        if i64::try_from(size).is_ok_and(|size| size > ANNOTATIONS_BYTES_MAX) {
            let error = FieldError::too_long(self.field_path("annotations"), ANNOTATIONS_BYTES_MAX);
            self.errors.push(error);
        }
        self.check_owner_references();
    }

    fn check_owner_references(&mut self) {
        let owners = self.get("ownerReferences").and_then(Value::as_array);
        let mut controller: Option<String> = None;
        for owner in owners.into_iter().flatten() {
            let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
            for (field, problem) in [
                ("apiVersion", "version must not be empty"),
                ("kind", "must not be empty"),
                ("name", "must not be empty"),
                ("uid", "must not be empty"),
            ] {
                if text(field).is_empty() {
                    let path = self.field_path(&format!("ownerReferences.{field}"));
                    self.errors.push(FieldError::invalid(path, "", problem));
                }
            }
            if (text("apiVersion"), text("kind")) == ("v1", "Event") {
                self.errors.push(FieldError::invalid_text(
                    self.field_path("ownerReferences"),
                    &owner_reference_text(owner),
                    "/v1, Kind=Event is disallowed from being an owner",
                ));
            }
            if owner.get("controller") != Some(&Value::Bool(true)) {
                continue;
            }
            let name = format!("{}/{}", text("kind"), text("name"));
            match &controller {
                None => controller = Some(name),
                Some(first) => self.errors.push(FieldError::invalid_text(
                    self.field_path("ownerReferences"),
                    &owner_references_text(owners.into_iter().flatten()),
                    &format!(
                        "Only one reference can have Controller set to true. \
                         Found \"true\" in references for {first} and {name}"
                    ),
                )),
            }
        }
    }

    fn check_finalizers(&mut self) {
        let finalizers = self.texts("finalizers");
        for finalizer in &finalizers {
            self.report("finalizers", finalizer, qualified_name_errors(finalizer));
        }
        let (orphan, delete) = ("orphan", "foregroundDeletion");
        if finalizers.contains(&orphan) && finalizers.contains(&delete) {
            let detail = format!("finalizer {orphan} and {delete} cannot be both set");
            let error = FieldError::invalid(self.field_path("finalizers"), finalizers, detail);
            self.errors.push(error);
        }
    }
}
