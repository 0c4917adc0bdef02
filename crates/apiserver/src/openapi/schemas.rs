//! Builds the OpenAPI schemas: from the type model for built-in kinds, from the definition for
//! custom ones.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::discovery;
use crate::kinds;
use crate::registry::ServedResource;
use crate::type_model::{Field, ListKind, ObjectType, Scalar, Type, TypeId, Types};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

/// The schemas of a document, by name.
pub(super) struct Schemas {
    types: &'static Types,
    names: BTreeMap<TypeId, &'static str>,
    by_name: BTreeMap<String, Value>,
    /// Types that a schema refers to and that have no schema yet.
    queue: Vec<TypeId>,
    described: BTreeSet<TypeId>,
}

impl Default for Schemas {
    fn default() -> Self {
        let types = kinds::types();
        Self {
            types,
            names: types.names().map(|(name, id)| (id, name)).collect(),
            by_name: BTreeMap::new(),
            queue: Vec::new(),
            described: BTreeSet::new(),
        }
    }
}

/// Returns the name of the schema of a kind.
pub(super) fn schema_name(served: &ServedResource) -> String {
    let resource = &served.resource;
    if served.custom().is_some() {
        let mut group: Vec<&str> = resource.group.split('.').collect();
        group.reverse();
        return format!("{}.{}.{}", group.join("."), resource.version, resource.kind);
    }
    let mut names = kinds::types().names();
    names
        .find(|(_, id)| *id == resource.type_id)
        .map_or_else(String::new, |(name, _)| name.to_owned())
}

/// Returns the name of the schema of a kind that only subresources use.
pub(super) fn subresource_schema_name(group: &str, version: &str, kind: &str) -> String {
    let package = match group.split('.').next().unwrap_or_default() {
        "" => "core",
        package => package,
    };
    format!("io.k8s.api.{package}.{version}.{kind}")
}

pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

pub(super) fn group_version_kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "kind": kind, "version": version})
}

impl Schemas {
    pub(super) fn add(&mut self, served: &ServedResource) {
        let resource = &served.resource;
        let name = schema_name(served);
        let gvk =
            |kind: &str| json!([group_version_kind(&resource.group, &resource.version, kind)]);
        let mut schema = if served.custom().is_some() {
            let mut schema = served.schema.clone();
            add_object_fields(&mut schema, true);
            schema
        } else {
            self.described.insert(resource.type_id);
            self.schema_of_type(resource.type_id)
        };
        schema["x-kubernetes-group-version-kind"] = gvk(&resource.kind);
        let items = match served.custom() {
            Some(_) => reference(&name),
            None => json!({"default": {}, "allOf": [reference(&name)]}),
        };
        let mut list = json!({
            "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "items": {"type": "array", "items": items},
                "kind": {"type": "string"},
                "metadata": {"allOf": [reference(&format!("{META}.ListMeta"))]},
            },
            "x-kubernetes-group-version-kind": gvk(&resource.list_kind),
        });
        if served.custom().is_none() {
            list["properties"]["metadata"]["default"] = json!({});
        }
        self.by_name.insert(format!("{name}List"), list);
        self.by_name.insert(name, schema);
        for subresource in &resource.subresources {
            if let Some((group, version, kind)) = discovery::subresource_kind(*subresource) {
                self.add_subresource_kind(group, version, kind);
            }
        }
    }

    fn add_subresource_kind(&mut self, group: &str, version: &str, kind: &str) {
        let name = subresource_schema_name(group, version, kind);
        let Some(id) = self.types.find_by_name(&name) else {
            return;
        };
        if self.described.insert(id) {
            let mut schema = self.schema_of_type(id);
            schema["x-kubernetes-group-version-kind"] =
                json!([group_version_kind(group, version, kind)]);
            self.by_name.insert(name, schema);
        }
    }

    /// All schemas, with those that they refer to.
    pub(super) fn finish(mut self) -> BTreeMap<String, Value> {
        self.by_name.insert(PATCH.to_owned(), json!({"type": "object"}));
        for kind in ["DeleteOptions", "ListMeta", "ObjectMeta", "Status"] {
            self.queue.extend(self.types.find_by_name(&format!("{META}.{kind}")));
        }
        while let Some(id) = self.queue.pop() {
            if !self.described.insert(id) {
                continue;
            }
            let schema = self.schema_of_type(id);
            if let Some(name) = self.names.get(&id) {
                self.by_name.insert((*name).to_owned(), schema);
            }
        }
        self.by_name
    }

    /// Returns a reference to a named type, or the schema of another type.
    fn reference_or_schema(&mut self, id: TypeId) -> Value {
        let named = self.types.granular_base(id).unwrap_or(id);
        match self.names.get(&named) {
            Some(name) => {
                self.queue.push(named);
                reference(name)
            }
            None => self.schema_of_type(id),
        }
    }

    fn schema_of_type(&mut self, id: TypeId) -> Value {
        match self.types.get(id) {
            Type::Scalar(scalar) => self.scalar(id, *scalar),
            Type::Object(object) => self.object(object),
            Type::Map { values, atomic } => {
                let mut schema =
                    json!({"type": "object", "additionalProperties": self.element(*values)});
                if *atomic {
                    schema["x-kubernetes-map-type"] = "atomic".into();
                }
                schema
            }
            Type::List { items, kind } => {
                let mut schema = json!({"type": "array", "items": self.element(*items)});
                match kind {
                    ListKind::Atomic => schema["x-kubernetes-list-type"] = "atomic".into(),
                    ListKind::Set => schema["x-kubernetes-list-type"] = "set".into(),
                    ListKind::Map(keys) => {
                        schema["x-kubernetes-list-type"] = "map".into();
                        schema["x-kubernetes-list-map-keys"] = json!(keys);
                    }
                }
                schema
            }
            Type::Any => json!({"type": "object"}),
        }
    }

    /// An item of a list or a value of a map: Go has a zero for most of them.
    fn element(&mut self, id: TypeId) -> Value {
        let schema = self.reference_or_schema(id);
        let default = match self.types.get(id) {
            Type::Object(_) => return json!({"default": {}, "allOf": [schema]}),
            Type::Scalar(Scalar::Text) => json!(""),
            Type::Scalar(Scalar::Integer) => json!(0),
            Type::Scalar(Scalar::Boolean) => json!(false),
            _ => return schema,
        };
        let mut schema = schema;
        schema["default"] = default;
        schema
    }

    fn scalar(&mut self, id: TypeId, scalar: Scalar) -> Value {
        if let Some((name, schema)) = named_scalar_schema(scalar) {
            self.by_name.entry(name.to_owned()).or_insert(schema);
            return reference(name);
        }
        match scalar {
            Scalar::Boolean => json!({"type": "boolean"}),
            Scalar::Integer => {
                let is_long = self.types.go_type(id).is_some_and(|go| &*go.name == "int64");
                json!({"type": "integer", "format": if is_long { "int64" } else { "int32" }})
            }
            Scalar::Number => json!({"type": "number", "format": "double"}),
            Scalar::Bytes => json!({"type": "string", "format": "byte"}),
            _ => json!({"type": "string"}),
        }
    }

    fn object(&mut self, object: &ObjectType) -> Value {
        let mut schema = json!({"type": "object"});
        let required: Vec<&str> = object
            .fields
            .iter()
            .filter(|(_, field)| field.required)
            .map(|(name, _)| &**name)
            .collect();
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        if !object.fields.is_empty() {
            let properties: Map<String, Value> = object
                .fields
                .iter()
                .map(|(name, field)| (name.to_string(), self.property(field)))
                .collect();
            schema["properties"] = properties.into();
        }
        if object.atomic {
            schema["x-kubernetes-map-type"] = "atomic".into();
        }
        schema
    }

    /// What a reference says of itself stands beside it, so the reference moves into `allOf`.
    fn property(&mut self, field: &Field) -> Value {
        let mut schema = self.reference_or_schema(field.type_id);
        if schema.get("$ref").is_some() {
            schema = json!({"allOf": [schema]});
        }
        if let Some(default) = &field.default {
            schema["default"] = default.clone();
        }
        if self.types.granular_base(field.type_id).is_some() {
            schema["x-kubernetes-map-type"] = "granular".into();
        }
        let strategy = &field.strategy;
        if let Some(key) = strategy.merge_key.as_deref().filter(|key| !key.is_empty()) {
            schema["x-kubernetes-patch-merge-key"] = key.into();
        }
        let words = match (&strategy.merge_key, strategy.retain_keys) {
            (Some(_), true) => "merge,retainKeys",
            (Some(_), false) => "merge",
            (None, true) => "retainKeys",
            (None, false) if strategy.replaces => "replace",
            (None, false) => return schema,
        };
        schema["x-kubernetes-patch-strategy"] = words.into();
        schema
    }
}

/// Returns the name and the schema of a scalar type that has a shared schema.
fn named_scalar_schema(scalar: Scalar) -> Option<(&'static str, Value)> {
    Some(match scalar {
        Scalar::Time => (
            "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
            json!({"type": "string", "format": "date-time"}),
        ),
        Scalar::MicroTime => (
            "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
            json!({"type": "string", "format": "date-time"}),
        ),
        Scalar::Quantity => (
            "io.k8s.apimachinery.pkg.api.resource.Quantity",
            json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        ),
        Scalar::IntOrString => (
            "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}),
        ),
        _ => return None,
    })
}

/// Adds apiVersion, kind and metadata to the schemas of objects. Those are the root and
/// the objects embedded in it. The depth is that of the schema, which a JSON parser has bounded.
fn add_object_fields(schema: &mut Value, is_root: bool) {
    let Some(fields) = schema.as_object_mut() else {
        *schema = json!({"type": "object"});
        return add_object_fields(schema, is_root);
    };
    let is_embedded = fields.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
    for place in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(place).filter(|inner| inner.is_object()) {
            add_object_fields(inner, false);
        }
    }
    if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
        for property in properties.values_mut() {
            add_object_fields(property, false);
        }
    }
    if is_root || is_embedded {
        let metadata = json!({"allOf": [reference(&format!("{META}.ObjectMeta"))]});
        schema["properties"]["apiVersion"] = json!({"type": "string"});
        schema["properties"]["kind"] = json!({"type": "string"});
        schema["properties"]["metadata"] = metadata;
    }
    if is_embedded && !is_root {
        schema["required"] = json!(["kind", "apiVersion"]);
    }
}
