//! Builds the type model of a custom kind from the schema of its CustomResourceDefinition.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Field, ListKind, ObjectType, PatchStrategy, Scalar, Type, TypeId, Types};

/// Returns the types of a custom kind and the type of its objects. `schema` is `openAPIV3Schema`,
/// or null for a kind without one.
pub fn types_from_schema(schema: &Value) -> (Types, TypeId) {
    let mut reader = SchemaReader { types: Types::default(), metadata: TypeId(0) };
    reader.metadata = reader.object_meta();
    let root = match schema {
        Value::Object(schema) => reader.object(schema, false, true),
        _ => reader.types.add(Type::Any),
    };
    (reader.types, root)
}

struct SchemaReader {
    types: Types,
    metadata: TypeId,
}

impl SchemaReader {
    fn scalar(&mut self, scalar: Scalar) -> TypeId {
        self.types.add(Type::Scalar(scalar))
    }

    /// `open`: a schema above keeps unknown fields, and so does all below it.
    ///
    /// Depth is that of the schema, which a JSON parser has bounded.
    fn read(&mut self, schema: &Value, open: bool) -> TypeId {
        let Some(schema) = schema.as_object() else { return self.types.add(Type::Any) };
        match schema.get("type").and_then(Value::as_str).unwrap_or_default() {
            "object" => self.object(schema, open, false),
            "array" => self.list(schema, open),
            "string" => self.scalar(Scalar::Text),
            "integer" => self.scalar(Scalar::Integer),
            "number" => self.scalar(Scalar::Number),
            "boolean" => self.scalar(Scalar::Boolean),
            _ if is_set(schema, "x-kubernetes-embedded-resource") => {
                self.object(schema, open, false)
            }
            // Also for `x-kubernetes-int-or-string`, which has no type: that it is neither list nor
            // map is found by validation only.
            _ => self.types.add(Type::Any),
        }
    }

    fn object(&mut self, schema: &Map<String, Value>, open: bool, is_root: bool) -> TypeId {
        let open = open || is_set(schema, "x-kubernetes-preserve-unknown-fields");
        let atomic = schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic");
        match schema.get("additionalProperties") {
            Some(values @ Value::Object(_)) => {
                let values = self.read(values, open);
                return self.types.add(Type::Map { values, atomic });
            }
            Some(Value::Bool(true)) => {
                let values = self.types.add(Type::Any);
                return self.types.add(Type::Map { values, atomic });
            }
            _ => {}
        }
        let required: Vec<_> = list(schema, "required").iter().filter_map(Value::as_str).collect();
        let empty = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let mut fields = BTreeMap::new();
        for (name, property) in properties {
            let field = Field {
                type_id: self.read(property, open),
                required: required.contains(&&**name),
                default: property.get("default").cloned(),
                strategy: PatchStrategy::default(),
            };
            fields.insert(name.as_str().into(), field);
        }
        if is_root || is_set(schema, "x-kubernetes-embedded-resource") {
            let text = self.scalar(Scalar::Text);
            for (name, shape) in [("apiVersion", text), ("kind", text), ("metadata", self.metadata)]
            {
                fields.insert(name.into(), optional_field(shape));
            }
        }
        self.types.add(Type::Object(ObjectType { fields, atomic, preserves_unknown_fields: open }))
    }

    fn list(&mut self, schema: &Map<String, Value>, open: bool) -> TypeId {
        let items = schema.get("items").unwrap_or(&Value::Null);
        let items = self.read(items, open);
        let kind = match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
            Some("set") => ListKind::Set,
            Some("map") => {
                let keys = list(schema, "x-kubernetes-list-map-keys").iter();
                ListKind::Map(keys.filter_map(Value::as_str).map(Into::into).collect())
            }
            _ => ListKind::Atomic,
        };
        self.types.add(Type::List { items, kind })
    }

    /// `metadata`, which is the same for all kinds.
    fn object_meta(&mut self) -> TypeId {
        let text = self.scalar(Scalar::Text);
        let integer = self.scalar(Scalar::Integer);
        let boolean = self.scalar(Scalar::Boolean);
        let time = self.scalar(Scalar::Time);
        let texts = self.types.add(Type::Map { values: text, atomic: false });
        let finalizers = self.types.add(Type::List { items: text, kind: ListKind::Set });
        let owners = self.owner_references(text, boolean);
        let managed = self.managed_fields(text, time);
        let mut fields: BTreeMap<Box<str>, Field> = [
            ("annotations", texts),
            ("creationTimestamp", time),
            ("deletionGracePeriodSeconds", integer),
            ("deletionTimestamp", time),
            ("finalizers", finalizers),
            ("generateName", text),
            ("generation", integer),
            ("labels", texts),
            ("managedFields", managed),
            ("name", text),
            ("namespace", text),
            ("ownerReferences", owners),
            ("resourceVersion", text),
            ("selfLink", text),
            ("uid", text),
        ]
        .into_iter()
        .map(|(name, shape)| (name.into(), optional_field(shape)))
        .collect();
        for (name, key) in [("finalizers", ""), ("ownerReferences", "uid")] {
            if let Some(field) = fields.get_mut(name) {
                field.strategy.merge_key = Some(key.into());
            }
        }
        self.types.add(Type::Object(ObjectType { fields, ..ObjectType::default() }))
    }

    fn owner_references(&mut self, text: TypeId, boolean: TypeId) -> TypeId {
        let fields = [
            ("apiVersion", text, true),
            ("blockOwnerDeletion", boolean, false),
            ("controller", boolean, false),
            ("kind", text, true),
            ("name", text, true),
            ("uid", text, true),
        ];
        let fields = fields.into_iter().map(|(name, shape, required)| {
            let default = required.then(|| json!(""));
            (name.into(), Field { required, default, ..optional_field(shape) })
        });
        let owner =
            ObjectType { fields: fields.collect(), atomic: true, preserves_unknown_fields: false };
        let items = self.types.add(Type::Object(owner));
        self.types.add(Type::List { items, kind: ListKind::Map(["uid".into()].into()) })
    }

    fn managed_fields(&mut self, text: TypeId, time: TypeId) -> TypeId {
        let any = self.types.add(Type::Any);
        let names = ["apiVersion", "fieldsType", "manager", "operation", "subresource"];
        let fields = names.into_iter().map(|name| (name, text));
        let fields = fields.chain([("fieldsV1", any), ("time", time)]);
        let fields = fields.map(|(name, shape)| (name.into(), optional_field(shape))).collect();
        let items = self.types.add(Type::Object(ObjectType { fields, ..ObjectType::default() }));
        self.types.add(Type::List { items, kind: ListKind::Atomic })
    }
}

fn optional_field(shape: TypeId) -> Field {
    Field { type_id: shape, required: false, default: None, strategy: PatchStrategy::default() }
}

fn is_set(schema: &Map<String, Value>, extension: &str) -> bool {
    schema.get(extension) == Some(&Value::Bool(true))
}

fn list<'a>(schema: &'a Map<String, Value>, name: &str) -> &'a [Value] {
    schema.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
