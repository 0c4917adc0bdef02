//! Validates a value against a schema, with the results and messages of the API server.
//!
//! Every check that applies to a value runs, also when its type is wrong already; so one mistake
//! may show as several errors, as users know it. Where `anyOf` or `oneOf` fails, the result has the
//! errors of the branch with the most matches, which is why matches are counted.
//!
//! The depth is that of the value or the schema, whichever ends first; both come from parsers that
//! bound it.

mod number;
mod result;

use karpenter_cel::go_text;
use serde_json::{Map, Value};

use self::result::ValidationResult;
use super::correlation::CorrelatedPair;
use super::field_error::{FieldError, FieldErrorKind, FieldPath};
use super::format::Format;
use super::schema::{AdditionalProperties, Schema, SchemaType};

/// Validates a value; with `old` it is an update.
///
/// Errors inside unchanged parts of an update are dropped. `path_prefix` is the field of the value,
/// for a status; it goes in front of the paths of errors and, as in the API server, not into their
/// texts.
pub(crate) fn validate(
    value: &Value,
    schema: &Schema,
    old: Option<CorrelatedPair<'_>>,
    path_prefix: Option<&str>,
) -> Vec<FieldError> {
    SchemaValidator { path_prefix }
        .check_with_ratcheting(value, schema, &FieldPath::Root, old)
        .errors
}

struct SchemaValidator<'a> {
    path_prefix: Option<&'a str>,
}

impl SchemaValidator<'_> {
    /// Validates a value, and drops its errors if it equals its old value.
    fn check_with_ratcheting(
        &self,
        value: &Value,
        schema: &Schema,
        path: &FieldPath<'_>,
        pair: Option<CorrelatedPair<'_>>,
    ) -> ValidationResult {
        let mut outcome = self.check_value(value, schema, path, pair);
        if !outcome.is_valid() && pair.is_some_and(|pair| pair.is_unchanged()) {
            outcome.errors.clear();
        }
        outcome
    }

    fn check_value(
        &self,
        value: &Value,
        schema: &Schema,
        path: &FieldPath<'_>,
        pair: Option<CorrelatedPair<'_>>,
    ) -> ValidationResult {
        let mut outcome = ValidationResult::default();
        if value.is_null() {
            outcome.merge(self.check_type(value, schema, path));
            outcome.merge(self.check_enum(value, schema, path));
            return outcome;
        }
        let types = allowed_types(schema);
        if !types.is_empty() || schema.value_validation.format.is_some() {
            outcome.merge_and_count(self.check_type(value, schema, path));
        }
        outcome.merge_and_count(self.check_nested_schemas(value, schema, path, pair));
        match value {
            Value::String(text) => {
                outcome.merge_and_count(self.check_string(text, schema, path));
                if let Some(Format::String(format)) = schema.value_validation.format {
                    outcome.merge_and_count(if format.accepts(text) {
                        ValidationResult::default()
                    } else {
                        let name = Format::String(format).name();
                        ValidationResult::error(self.type_error(path, name, text))
                    });
                }
            }
            Value::Number(number) => {
                outcome.merge_and_count(self.check_number(number, schema, path));
            }
            Value::Array(items) => {
                outcome.merge_and_count(self.check_array(items, schema, path, pair));
            }
            _ => {}
        }
        outcome.merge_and_count(self.check_enum(value, schema, path));
        if let Value::Object(map) = value {
            outcome.merge_and_count(self.check_object(map, schema, path, pair));
        }
        outcome.match_count += 1;
        if schema.value_validation.has_nested_schemas() {
            outcome.deduplicate_errors();
        }
        outcome
    }

    fn check_type(&self, value: &Value, schema: &Schema, path: &FieldPath<'_>) -> ValidationResult {
        let types = allowed_types(schema);
        let joined = || types.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(",");
        let (actual, actual_format) = match value {
            Value::Null if types.is_empty() || schema.structure.nullable => {
                return ValidationResult::one_match();
            }
            Value::Null => {
                return ValidationResult::error(self.type_error(path, &joined(), "null"));
            }
            Value::Bool(_) => ("boolean", ""),
            Value::String(_) => ("string", ""),
            Value::Array(_) => ("array", ""),
            Value::Object(_) => ("object", ""),
            Value::Number(number) if number.is_i64() => ("integer", "int64"),
            Value::Number(_) => ("number", "float64"),
        };
        let has = |kind: SchemaType| types.contains(&kind);
        let is_whole = value.as_f64().is_some_and(number::is_whole);
        let agrees = types.iter().any(|kind| kind.name() == actual)
            || (actual == "number" && has(SchemaType::Integer) && is_whole)
            || (actual == "integer" && has(SchemaType::Number));
        let is_text = matches!(value, Value::String(_) | Value::Array(_));
        match schema.value_validation.format {
            // With a format, the messages speak of formats instead of types.
            Some(format) if !is_text && !agrees && format.name() != actual_format => {
                ValidationResult::error(self.type_error(path, format.name(), actual_format))
            }
            Some(_) if is_text && !has(SchemaType::Number) && !has(SchemaType::Integer) => {
                ValidationResult::one_match()
            }
            _ if agrees => ValidationResult::one_match(),
            _ => ValidationResult::error(self.type_error(path, &joined(), actual)),
        }
    }

    fn check_nested_schemas(
        &self,
        value: &Value,
        schema: &Schema,
        path: &FieldPath<'_>,
        pair: Option<CorrelatedPair<'_>>,
    ) -> ValidationResult {
        let checks = &schema.value_validation;
        let mut outcome = ValidationResult::one_match();
        let quoted = || go_text::quote(&path.format_dotted());
        let run = |branch: &Schema| self.check_value(value, branch, path, pair);
        if !checks.any_of.is_empty() {
            let mut best: Option<ValidationResult> = None;
            for branch in &checks.any_of {
                let result = run(branch);
                let is_valid = result.is_valid();
                best = Some(ValidationResult::best_branch(best, result));
                if is_valid {
                    break;
                }
            }
            if best.as_ref().is_some_and(|best| !best.is_valid()) {
                let detail = format!("{} must validate at least one schema (anyOf)", quoted());
                outcome.errors.push(self.error_without_field(detail));
            }
            outcome.merge(best.unwrap_or_default());
        }
        if !checks.one_of.is_empty() {
            let results: Vec<ValidationResult> = checks.one_of.iter().map(run).collect();
            let valid = results.iter().filter(|result| result.is_valid()).count();
            if valid != 1 {
                let found = match valid {
                    0 => "Found none valid".to_owned(),
                    n => format!("Found {n} valid alternatives"),
                };
                let detail =
                    format!("{} must validate one and only one schema (oneOf). {found}", quoted());
                outcome.errors.push(self.error_without_field(detail));
            }
            if valid <= 1 {
                let best = results
                    .into_iter()
                    .fold(None, |best, next| Some(ValidationResult::best_branch(best, next)));
                outcome.merge(best.unwrap_or_default());
            }
        }
        if !checks.all_of.is_empty() {
            let results: Vec<ValidationResult> = checks.all_of.iter().map(run).collect();
            let valid = results.iter().filter(|result| result.is_valid()).count();
            let total = results.len();
            for result in results {
                outcome.merge(result);
            }
            if valid != total {
                let none = if valid == 0 { ". None validated" } else { "" };
                let detail = format!("{} must validate all the schemas (allOf){none}", quoted());
                outcome.errors.push(self.error_without_field(detail));
            }
        }
        if let Some(branch) = &checks.not
            && run(branch).is_valid()
        {
            let detail = format!("{} must not validate the schema (not)", quoted());
            outcome.errors.push(self.error_without_field(detail));
        }
        outcome
    }

    /// The first of length and pattern that fails.
    fn check_string(&self, text: &str, schema: &Schema, path: &FieldPath<'_>) -> ValidationResult {
        let checks = &schema.value_validation;
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(max) = checks.max_length.filter(|max| length > *max) {
            return ValidationResult::error(FieldError::too_long(self.field_path(path), max));
        }
        if let Some(min) = checks.min_length.filter(|min| length < *min) {
            return ValidationResult::error(self.invalid_error(
                path,
                text,
                &format!("should be at least {min} chars long"),
            ));
        }
        match &checks.pattern {
            Some(pattern) if !pattern.regex.is_match(text) => ValidationResult::error(
                self.invalid_error(path, text, &format!("should match '{}'", pattern.source)),
            ),
            _ => ValidationResult::default(),
        }
    }

    fn check_array(
        &self,
        items: &[Value],
        schema: &Schema,
        path: &FieldPath<'_>,
        pair: Option<CorrelatedPair<'_>>,
    ) -> ValidationResult {
        let mut outcome = ValidationResult::one_match();
        let pairs = pair.map(|pair| pair.items());
        if let Some(item_schema) = &schema.items {
            for (index, item) in items.iter().enumerate() {
                // The pair holds the same item, for as long as the pair lives.
                let pair = pair.and_then(|pair| pair.new.get(index));
                let pair = pairs.as_ref().zip(pair).and_then(|(pairs, item)| pairs.pair_of(item));
                outcome.merge(self.check_with_ratcheting(
                    item,
                    item_schema,
                    &path.index(index),
                    pair,
                ));
            }
        }
        let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(min) = schema.value_validation.min_items.filter(|min| size < *min) {
            let detail = format!("should have at least {min} items");
            outcome.errors.push(self.invalid_error(path, size, &detail));
        }
        if let Some(max) = schema.value_validation.max_items.filter(|max| size > *max) {
            outcome.errors.push(FieldError::too_many(self.field_path(path), items.len(), max));
        }
        outcome
    }

    fn check_object(
        &self,
        map: &Map<String, Value>,
        schema: &Schema,
        path: &FieldPath<'_>,
        pair: Option<CorrelatedPair<'_>>,
    ) -> ValidationResult {
        let mut outcome = ValidationResult::default();
        let size = i64::try_from(map.len()).unwrap_or(i64::MAX);
        if let Some(min) = schema.value_validation.min_properties.filter(|min| size < *min) {
            let detail = format!("should have at least {min} properties");
            outcome.errors.push(self.invalid_error(path, size, &detail));
        }
        if let Some(max) = schema.value_validation.max_properties.filter(|max| size > *max) {
            outcome.errors.push(FieldError::too_many(self.field_path(path), map.len(), max));
        }
        if let AdditionalProperties::Schema(values) = &schema.additional_properties {
            for (key, value) in map {
                if !schema.properties.contains_key(key) {
                    let pair = pair.and_then(|pair| pair.field(key));
                    outcome.merge(self.check_with_ratcheting(value, values, &path.key(key), pair));
                }
            }
        }
        for (name, property) in &schema.properties {
            if let Some(value) = map.get(name) {
                // Old and new have been converted to one version, so these never show a change.
                let is_type = matches!(path, FieldPath::Root)
                    && self.path_prefix.is_none()
                    && matches!(name.as_str(), "apiVersion" | "kind");
                let pair = pair.filter(|_| !is_type).and_then(|pair| pair.field(name));
                outcome.merge(self.check_with_ratcheting(value, property, &path.field(name), pair));
            }
        }
        for name in &schema.value_validation.required {
            if !map.contains_key(name) {
                outcome.errors.push(FieldError::required(self.field_path(&path.field(name)), ""));
            }
        }
        outcome
    }

    fn check_enum(&self, value: &Value, schema: &Schema, path: &FieldPath<'_>) -> ValidationResult {
        let allowed = &schema.value_validation.enum_values;
        if allowed.is_empty() || allowed.iter().any(|allowed| equals_enum_value(value, allowed)) {
            return ValidationResult::default();
        }
        ValidationResult::error(FieldError::not_supported(
            self.field_path(path),
            value.clone(),
            allowed,
        ))
    }

    fn type_error(&self, path: &FieldPath<'_>, expected: &str, found: &str) -> FieldError {
        let detail = format!(
            "{} in body must be of type {expected}: {}",
            path.format_dotted(),
            go_text::quote(found)
        );
        FieldError::new(
            self.field_path(path),
            FieldErrorKind::TypeInvalid,
            Some(found.into()),
            detail,
        )
    }

    fn invalid_error(
        &self,
        path: &FieldPath<'_>,
        value: impl Into<Value>,
        problem: &str,
    ) -> FieldError {
        FieldError::invalid(
            self.field_path(path),
            value,
            format!("{} in body {problem}", path.format_dotted()),
        )
    }

    /// Returns an error with a text but without a field.
    fn error_without_field(&self, detail: String) -> FieldError {
        FieldError::invalid(self.path_prefix.unwrap_or("<nil>"), "", detail)
    }

    fn field_path(&self, path: &FieldPath<'_>) -> String {
        match (self.path_prefix, path) {
            (None, FieldPath::Root) => "<nil>".to_owned(),
            (None, path) => path.format_dotted(),
            (Some(below), FieldPath::Root) => below.to_owned(),
            (Some(below), path) => format!("{below}.{}", path.format_dotted()),
        }
    }
}

fn allowed_types(schema: &Schema) -> &[SchemaType] {
    match (schema.structure.int_or_string, &schema.structure.value_type) {
        (true, _) => &[SchemaType::Integer, SchemaType::String],
        (false, Some(kind)) => std::slice::from_ref(kind),
        (false, None) => &[],
    }
}

/// Returns whether a value equals an allowed value of an enum.
///
/// Numbers are compared after conversion to the type of the allowed value.
fn equals_enum_value(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Number(value), Value::Number(allowed)) if allowed.is_i64() => {
            value.as_f64().map(f64::trunc) == allowed.as_f64()
        }
        (Value::Number(value), Value::Number(allowed)) => value.as_f64() == allowed.as_f64(),
        (value, allowed) => value == allowed,
    }
}
