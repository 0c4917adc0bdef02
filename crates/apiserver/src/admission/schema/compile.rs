//! Reads a schema from a CRD.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_cel::re2;
use serde_json::{Map, Value};

use super::{AdditionalProperties, ListType, Pattern, Schema, SchemaType, ValueValidation};
use crate::admission::CrdError;
use crate::admission::format::{Format, StringFormat};
use crate::admission::validation_rule::ValidationRule;

impl Schema {
    /// Compiles the `openAPIV3Schema` of a CRD.
    pub(crate) fn compile(schema: &Value, path: &str) -> Result<Self, CrdError> {
        let root = SchemaNode::new(schema, path)?;
        if root.text("type")? != Some("object") {
            return Err(root.error("type", "must be object at the root"));
        }
        if root.map.contains_key("additionalProperties") {
            return Err(root.error("additionalProperties", "must not be used at the root"));
        }
        root.compile(SchemaPosition::Root)
    }
}

/// The position of a schema node: structural, or inside `anyOf` and its siblings.
///
/// Nodes inside `anyOf` and its siblings only validate values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SchemaPosition {
    Root,
    Structural,
    /// Inside a list whose items have no keys that identify the old ones.
    InListWithoutKeys,
    NestedValueValidation,
}

/// A node of the schema source, with its path in the CRD for messages.
struct SchemaNode<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

/// JSON Schema keywords that a structural schema does not have.
const UNSUPPORTED_KEYWORDS: [&str; 7] = [
    "$ref",
    "$schema",
    "id",
    "definitions",
    "dependencies",
    "patternProperties",
    "additionalItems",
];

impl<'a> SchemaNode<'a> {
    fn new(value: &'a Value, path: impl Into<String>) -> Result<Self, CrdError> {
        let path = path.into();
        match value.as_object() {
            Some(map) => Ok(Self { map, path }),
            None => Err(CrdError::schema(path, "must be an object")),
        }
    }

    fn compile(&self, place: SchemaPosition) -> Result<Schema, CrdError> {
        let below = if place == SchemaPosition::Root { SchemaPosition::Structural } else { place };
        let list_type = self.list_type()?;
        let item = match (&list_type, below) {
            (ListType::Atomic | ListType::Set, SchemaPosition::Structural) => {
                SchemaPosition::InListWithoutKeys
            }
            (_, below) => below,
        };
        for keyword in UNSUPPORTED_KEYWORDS {
            if self.map.contains_key(keyword) {
                return Err(self.error(keyword, "is not supported in a structural schema"));
            }
        }
        let mut schema = Schema {
            structure: Arc::default(),
            preserve_unknown_fields: self.flag("x-kubernetes-preserve-unknown-fields")?,
            default: self.map.get("default").filter(|default| !default.is_null()).cloned(),
            properties: self.properties(below)?,
            additional_properties: self.additional_properties(below)?,
            items: self.child("items", item)?.map(Box::new),
            value_validation: self.value_validation()?,
            rules: Vec::new(),
            contains_rules: false,
        };
        schema.structure = Arc::new(self.structure(&schema, list_type)?);
        if place != SchemaPosition::NestedValueValidation {
            self.check_structural(&schema)?;
        }
        schema.rules = self.rules(&schema, place)?;
        schema.contains_rules = !schema.rules.is_empty()
            || schema.items.as_ref().is_some_and(|items| items.contains_rules)
            || schema.properties.values().any(|property| property.contains_rules)
            || matches!(&schema.additional_properties, AdditionalProperties::Schema(values) if values.contains_rules);
        Ok(schema)
    }

    /// Returns the types of a schema, whose children are compiled.
    fn structure(
        &self,
        schema: &Schema,
        list_type: ListType,
    ) -> Result<karpenter_cel::Schema, CrdError> {
        let shared = |schema: &Schema| Arc::clone(&schema.structure);
        let properties = schema.properties.iter();
        Ok(karpenter_cel::Schema {
            value_type: self.kind()?,
            int_or_string: self.flag("x-kubernetes-int-or-string")?,
            nullable: self.flag("nullable")?,
            embedded_resource: self.flag("x-kubernetes-embedded-resource")?,
            format: match schema.value_validation.format {
                Some(Format::String(format)) => format.to_cel(),
                _ => None,
            },
            properties: properties.map(|(name, child)| (name.clone(), shared(child))).collect(),
            map_values: match &schema.additional_properties {
                AdditionalProperties::Schema(values) => Some(shared(values)),
                AdditionalProperties::Any | AdditionalProperties::Absent => None,
            },
            items: schema.items.as_deref().map(shared),
            list_type,
        })
    }

    fn check_structural(&self, schema: &Schema) -> Result<(), CrdError> {
        let structure = &schema.structure;
        if structure.value_type.is_none()
            && !structure.int_or_string
            && !schema.preserve_unknown_fields
        {
            return Err(self.error("type", "must not be empty"));
        }
        if structure.value_type == Some(SchemaType::Array) && schema.items.is_none() {
            return Err(self.error("items", "must be specified for an array"));
        }
        let has_additional = !matches!(schema.additional_properties, AdditionalProperties::Absent);
        if has_additional && !schema.properties.is_empty() {
            return Err(self.error("additionalProperties", "must not be used with properties"));
        }
        if structure.embedded_resource && structure.value_type != Some(SchemaType::Object) {
            return Err(self.error("type", "must be object for an embedded resource"));
        }
        Ok(())
    }

    fn kind(&self) -> Result<Option<SchemaType>, CrdError> {
        Ok(Some(match self.text("type")? {
            None | Some("") => return Ok(None),
            Some("object") => SchemaType::Object,
            Some("array") => SchemaType::Array,
            Some("string") => SchemaType::String,
            Some("integer") => SchemaType::Integer,
            Some("number") => SchemaType::Number,
            Some("boolean") => SchemaType::Boolean,
            Some(_) => return Err(self.error("type", "is not a type of JSON Schema")),
        }))
    }

    fn properties(&self, place: SchemaPosition) -> Result<BTreeMap<String, Schema>, CrdError> {
        let Some(properties) = self.map.get("properties") else { return Ok(BTreeMap::new()) };
        let node = SchemaNode::new(properties, self.keyword_path("properties"))?;
        node.map
            .iter()
            .map(|(name, property)| {
                let property = SchemaNode::new(property, format!("{}[{name}]", node.path))?;
                Ok((name.clone(), property.compile(place)?))
            })
            .collect()
    }

    fn additional_properties(
        &self,
        place: SchemaPosition,
    ) -> Result<AdditionalProperties, CrdError> {
        match self.map.get("additionalProperties") {
            None => Ok(AdditionalProperties::Absent),
            Some(Value::Bool(true)) => Ok(AdditionalProperties::Any),
            Some(Value::Bool(false)) => {
                Err(self.error("additionalProperties", "must not be false"))
            }
            Some(schema) => {
                let node = SchemaNode::new(schema, self.keyword_path("additionalProperties"))?;
                Ok(AdditionalProperties::Schema(Box::new(node.compile(place)?)))
            }
        }
    }

    fn list_type(&self) -> Result<ListType, CrdError> {
        let keys = self.texts("x-kubernetes-list-map-keys")?;
        match self.text("x-kubernetes-list-type")? {
            None | Some("atomic") => Ok(ListType::Atomic),
            Some("set") => Ok(ListType::Set),
            Some("map") if keys.is_empty() => {
                Err(self.error("x-kubernetes-list-map-keys", "must name a key for list type map"))
            }
            Some("map") => Ok(ListType::Map(keys)),
            Some(_) => Err(self.error("x-kubernetes-list-type", "must be atomic, set or map")),
        }
    }

    fn value_validation(&self) -> Result<ValueValidation, CrdError> {
        if self.flag("uniqueItems")? {
            // The comparison would be quadratic; list type `set` is the supported way.
            return Err(self.error("uniqueItems", "must not be true"));
        }
        Ok(ValueValidation {
            format: self.format()?,
            minimum: self.float("minimum")?,
            exclusive_minimum: self.flag("exclusiveMinimum")?,
            maximum: self.float("maximum")?,
            exclusive_maximum: self.flag("exclusiveMaximum")?,
            multiple_of: self.float("multipleOf")?,
            min_length: self.integer("minLength")?,
            max_length: self.integer("maxLength")?,
            pattern: self.pattern()?,
            min_items: self.integer("minItems")?,
            max_items: self.integer("maxItems")?,
            min_properties: self.integer("minProperties")?,
            max_properties: self.integer("maxProperties")?,
            required: self.texts("required")?,
            enum_values: self.array("enum")?.to_vec(),
            all_of: self.nested_schemas("allOf")?,
            any_of: self.nested_schemas("anyOf")?,
            one_of: self.nested_schemas("oneOf")?,
            not: self.child("not", SchemaPosition::NestedValueValidation)?.map(Box::new),
        })
    }

    /// A format counts only with its type, and the API server ignores the ones it does not know.
    fn format(&self) -> Result<Option<Format>, CrdError> {
        let Some(name) = self.text("format")? else { return Ok(None) };
        let is_union = self.flag("x-kubernetes-int-or-string")?;
        Ok(match (if is_union { None } else { self.kind()? }, name) {
            (Some(SchemaType::Integer), "int32") => Some(Format::Int32),
            (Some(SchemaType::Integer), "int64") => Some(Format::Int64),
            (Some(SchemaType::Number), "float") => Some(Format::Float),
            (Some(SchemaType::Number), "double") => Some(Format::Double),
            (Some(SchemaType::String) | None, name) => {
                StringFormat::named(name).map(Format::String)
            }
            _ => None,
        })
    }

    fn pattern(&self) -> Result<Option<Pattern>, CrdError> {
        let Some(source) = self.text("pattern")?.filter(|source| !source.is_empty()) else {
            return Ok(None);
        };
        match re2::compile(source) {
            Ok(regex) => Ok(Some(Pattern { source: source.to_owned(), regex })),
            Err(error) => Err(self.error("pattern", format!("does not compile: {error}"))),
        }
    }

    fn rules(
        &self,
        schema: &Schema,
        place: SchemaPosition,
    ) -> Result<Vec<ValidationRule>, CrdError> {
        let rules = self.array("x-kubernetes-validations")?;
        if !rules.is_empty() && place == SchemaPosition::NestedValueValidation {
            return Err(self.error("x-kubernetes-validations", "must not be in a nested schema"));
        }
        if !rules.is_empty() && !schema.structure.has_cel_type() {
            return Err(self.error("x-kubernetes-validations", "have no type to work on here"));
        }
        let is_root = place == SchemaPosition::Root || schema.structure.embedded_resource;
        let compile = |(i, rule): (usize, &Value)| {
            let at = format!("x-kubernetes-validations[{i}]");
            let rule = ValidationRule::compile(rule, schema, is_root)
                .map_err(|problem| self.error(&at, problem))?;
            if rule.is_transition() && place == SchemaPosition::InListWithoutKeys {
                return Err(self.error(&at, "oldSelf has no meaning inside a list without keys"));
            }
            Ok(rule)
        };
        rules.iter().enumerate().map(compile).collect()
    }

    fn nested_schemas(&self, keyword: &str) -> Result<Vec<Schema>, CrdError> {
        self.array(keyword)?
            .iter()
            .enumerate()
            .map(|(i, branch)| {
                SchemaNode::new(branch, format!("{}[{i}]", self.keyword_path(keyword)))?
                    .compile(SchemaPosition::NestedValueValidation)
            })
            .collect()
    }

    fn child(&self, keyword: &str, place: SchemaPosition) -> Result<Option<Schema>, CrdError> {
        self.map
            .get(keyword)
            .map(|schema| SchemaNode::new(schema, self.keyword_path(keyword))?.compile(place))
            .transpose()
    }

    fn flag(&self, keyword: &str) -> Result<bool, CrdError> {
        self.read(keyword, "a boolean", Value::as_bool).map(Option::unwrap_or_default)
    }

    fn text(&self, keyword: &str) -> Result<Option<&'a str>, CrdError> {
        self.read(keyword, "a string", Value::as_str)
    }

    fn integer(&self, keyword: &str) -> Result<Option<i64>, CrdError> {
        self.read(keyword, "an integer", Value::as_i64)
    }

    fn float(&self, keyword: &str) -> Result<Option<f64>, CrdError> {
        self.read(keyword, "a number", Value::as_f64)
    }

    fn array(&self, keyword: &str) -> Result<&'a [Value], CrdError> {
        let array = self.read(keyword, "an array", |value| value.as_array().map(Vec::as_slice))?;
        Ok(array.unwrap_or_default())
    }

    fn texts(&self, keyword: &str) -> Result<Vec<String>, CrdError> {
        let strings: Option<Vec<String>> =
            self.array(keyword)?.iter().map(|text| text.as_str().map(str::to_owned)).collect();
        strings.ok_or_else(|| self.error(keyword, "must hold strings"))
    }

    fn read<T>(
        &self,
        keyword: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, CrdError> {
        match self.map.get(keyword) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(value)
                .map(Some)
                .ok_or_else(|| self.error(keyword, format!("must be {expected}"))),
        }
    }

    fn keyword_path(&self, keyword: &str) -> String {
        format!("{}.{keyword}", self.path)
    }

    fn error(&self, keyword: &str, problem: impl Into<String>) -> CrdError {
        CrdError::schema(self.keyword_path(keyword), problem)
    }
}
