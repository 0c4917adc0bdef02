//! Removes the fields that the schema does not have.
//!
//! The depth is that of the object, which the JSON parser bounds.

use serde_json::{Map, Value};

use super::schema::{AdditionalProperties, Schema};

/// Removes the unknown fields of a whole object and returns their paths: those of the metadata
/// first, then the others, sorted.
pub(crate) fn prune(object: &mut Value, schema: &Schema) -> Vec<String> {
    let mut unknown = UnknownFields::default();
    let mut metadata_paths = Vec::new();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        unknown.with_field("metadata", |unknown| prune_metadata(metadata, unknown));
        metadata_paths = std::mem::take(&mut unknown.paths);
        metadata_paths.sort();
    }
    let root = PrunePosition { schema: Some(schema), root: true, preserve: false };
    prune_value(object, root, &mut unknown);
    unknown.paths.sort();
    metadata_paths.append(&mut unknown.paths);
    metadata_paths
}

/// Like [`prune`], for a value that is no resource.
pub(crate) fn unknown_fields(value: &mut Value, schema: &Schema) -> Vec<String> {
    let mut unknown = UnknownFields::default();
    prune_value(value, PrunePosition::from_schema(Some(schema)), &mut unknown);
    unknown.paths.sort();
    unknown.paths
}

/// The paths of removed fields, and the current path of the walk.
#[derive(Default)]
struct UnknownFields {
    paths: Vec<String>,
    path: String,
}

impl UnknownFields {
    fn record(&mut self, name: &str) {
        self.with_field(name, |unknown| unknown.paths.push(unknown.path.clone()));
    }

    fn with_field(&mut self, name: &str, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        visit(self);
        self.path.truncate(length);
    }

    fn with_index(&mut self, index: usize, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push('[');
        self.path.push_str(&index.to_string());
        self.path.push(']');
        visit(self);
        self.path.truncate(length);
    }
}

fn is_type_or_metadata(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// The current position of the walk in the schema.
#[derive(Clone, Copy)]
struct PrunePosition<'a> {
    /// `None` for values of `additionalProperties: true`: only scalars survive there.
    schema: Option<&'a Schema>,
    /// The root is a resource: it keeps its type and metadata whatever the schema says.
    root: bool,
    /// Inherited from a list that preserves unknown fields; its items do so too.
    preserve: bool,
}

impl<'a> PrunePosition<'a> {
    fn from_schema(schema: Option<&'a Schema>) -> Self {
        Self { schema, root: false, preserve: false }
    }
}

fn prune_value(value: &mut Value, place: PrunePosition<'_>, unknown: &mut UnknownFields) {
    let preserve =
        place.preserve || place.schema.is_some_and(|schema| schema.preserve_unknown_fields);
    match value {
        Value::Object(map) => prune_map(map, PrunePosition { preserve, ..place }, unknown),
        Value::Array(items) => {
            let schema = place.schema.and_then(|schema| schema.items.as_deref());
            if preserve && schema.is_none() {
                return; // free data, whatever its shape
            }
            for (index, item) in items.iter_mut().enumerate() {
                unknown.with_index(index, |unknown| {
                    prune_value(item, PrunePosition { schema, root: false, preserve }, unknown);
                });
            }
        }
        _ => {}
    }
}

fn prune_map(map: &mut Map<String, Value>, place: PrunePosition<'_>, unknown: &mut UnknownFields) {
    let schema = place.schema;
    let is_embedded = schema.is_some_and(|schema| schema.structure.embedded_resource);
    if is_embedded
        && !place.root
        && let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut)
    {
        unknown.with_field("metadata", |unknown| prune_metadata(metadata, unknown));
    }
    map.retain(|name, value| {
        if (place.root || is_embedded) && is_type_or_metadata(name) {
            return true;
        }
        let property = schema.and_then(|schema| schema.properties.get(name));
        let child = match (property, schema.map(|schema| &schema.additional_properties)) {
            (Some(property), _) => PrunePosition::from_schema(Some(property)),
            (None, Some(AdditionalProperties::Schema(values))) => {
                PrunePosition::from_schema(Some(values))
            }
            (None, Some(AdditionalProperties::Any)) => PrunePosition::from_schema(None),
            (None, None | Some(AdditionalProperties::Absent)) if place.preserve => return true,
            (None, None | Some(AdditionalProperties::Absent)) => {
                unknown.record(name);
                return false;
            }
        };
        unknown.with_field(name, |unknown| prune_value(value, child, unknown));
        true
    });
}

const METADATA_FIELDS: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];
const OWNER_REFERENCE_FIELDS: [&str; 6] =
    ["apiVersion", "blockOwnerDeletion", "controller", "kind", "name", "uid"];
const MANAGED_FIELDS_ENTRY_FIELDS: [&str; 7] =
    ["apiVersion", "fieldsType", "fieldsV1", "manager", "operation", "subresource", "time"];

/// `ObjectMeta` has a fixed type, and an empty value in it is the same as none.
fn prune_metadata(metadata: &mut Map<String, Value>, unknown: &mut UnknownFields) {
    retain_known_fields(metadata, &METADATA_FIELDS, unknown);
    metadata.retain(|_, value| !is_empty(value));
    for (list, known) in [
        ("ownerReferences", &OWNER_REFERENCE_FIELDS[..]),
        ("managedFields", &MANAGED_FIELDS_ENTRY_FIELDS[..]),
    ] {
        let Some(items) = metadata.get_mut(list).and_then(Value::as_array_mut) else { continue };
        unknown.with_field(list, |unknown| {
            for (index, item) in items.iter_mut().enumerate() {
                let Some(item) = item.as_object_mut() else { continue };
                unknown.with_index(index, |unknown| retain_known_fields(item, known, unknown));
            }
        });
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn retain_known_fields(map: &mut Map<String, Value>, known: &[&str], unknown: &mut UnknownFields) {
    map.retain(|name, value| {
        let is_known = known.contains(&name.as_str());
        if !is_known {
            unknown.record(name);
        }
        is_known && !value.is_null()
    });
}
