//! Checks a value against a schema, with the outcome and the words of the API server.
//!
//! Every check that applies to a value is made, also when its type is wrong already; so one
//! mistake may show as several errors, as users know it. Where `anyOf` or `oneOf` fails, the
//! errors of the branch that agreed most are shown, which is why agreements are counted.
//!
//! Depth is that of the value or the schema, whichever ends first; both come from parsers that
//! bound it.

mod number;
mod outcome;

use serde_json::{Map, Value};

use self::outcome::Outcome;
use super::correlate::Pair;
use super::field::{FieldError, FieldErrorKind, Path};
use super::format::Format;
use super::go_text;
use super::schema::{Additional, Kind, Schema};

/// Validates `value`. With `old` it is an update: errors inside unchanged parts are forgiven.
/// `below` is the field that `value` is, for a status; it goes in front of the paths of errors
/// and, as in the API server, not into their texts.
pub(crate) fn validate(
    value: &Value,
    schema: &Schema,
    old: Option<Pair<'_>>,
    below: Option<&str>,
) -> Vec<FieldError> {
    Validator { below }.forgiving(value, schema, &Path::Root, old).errors
}

struct Validator<'a> {
    below: Option<&'a str>,
}

impl Validator<'_> {
    /// Validates a value that may have an old one; its errors are dropped when it is unchanged.
    fn forgiving(
        &self,
        value: &Value,
        schema: &Schema,
        path: &Path<'_>,
        pair: Option<Pair<'_>>,
    ) -> Outcome {
        let mut outcome = self.node(value, schema, path, pair);
        if !outcome.is_valid() && pair.is_some_and(|pair| pair.is_unchanged()) {
            outcome.errors.clear();
        }
        outcome
    }

    fn node(
        &self,
        value: &Value,
        schema: &Schema,
        path: &Path<'_>,
        pair: Option<Pair<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        if value.is_null() {
            outcome.merge(self.check_type(value, schema, path));
            outcome.merge(self.check_enum(value, schema, path));
            return outcome;
        }
        let types = types_of(schema);
        if !types.is_empty() || schema.checks.format.is_some() {
            outcome.merge_check(self.check_type(value, schema, path));
        }
        outcome.merge_check(self.branches(value, schema, path, pair));
        match value {
            Value::String(text) => {
                outcome.merge_check(self.check_string(text, schema, path));
                if let Some(Format::String(format)) = schema.checks.format {
                    outcome.merge_check(if format.accepts(text) {
                        Outcome::default()
                    } else {
                        let name = Format::String(format).name();
                        Outcome::error(self.wrong_type(path, name, text))
                    });
                }
            }
            Value::Number(number) => {
                outcome.merge_check(self.check_number(number, schema, path));
            }
            Value::Array(items) => {
                outcome.merge_check(self.check_array(items, schema, path, pair));
            }
            _ => {}
        }
        outcome.merge_check(self.check_enum(value, schema, path));
        if let Value::Object(map) = value {
            outcome.merge_check(self.check_object(map, schema, path, pair));
        }
        outcome.agreements += 1;
        if schema.checks.has_branches() {
            outcome.drop_repeated();
        }
        outcome
    }

    fn check_type(&self, value: &Value, schema: &Schema, path: &Path<'_>) -> Outcome {
        let types = types_of(schema);
        let joined = || types.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(",");
        let (actual, actual_format) = match value {
            Value::Null if types.is_empty() || schema.nullable => return Outcome::agreement(),
            Value::Null => return Outcome::error(self.wrong_type(path, &joined(), "null")),
            Value::Bool(_) => ("boolean", ""),
            Value::String(_) => ("string", ""),
            Value::Array(_) => ("array", ""),
            Value::Object(_) => ("object", ""),
            Value::Number(number) if number.is_i64() => ("integer", "int64"),
            Value::Number(_) => ("number", "float64"),
        };
        let has = |kind: Kind| types.contains(&kind);
        let is_whole = value.as_f64().is_some_and(number::is_whole);
        let agrees = types.iter().any(|kind| kind.name() == actual)
            || (actual == "number" && has(Kind::Integer) && is_whole)
            || (actual == "integer" && has(Kind::Number));
        let is_text = matches!(value, Value::String(_) | Value::Array(_));
        match schema.checks.format {
            // With a format, the messages speak of formats instead of types.
            Some(format) if !is_text && !agrees && format.name() != actual_format => {
                Outcome::error(self.wrong_type(path, format.name(), actual_format))
            }
            Some(_) if is_text && !has(Kind::Number) && !has(Kind::Integer) => Outcome::agreement(),
            _ if agrees => Outcome::agreement(),
            _ => Outcome::error(self.wrong_type(path, &joined(), actual)),
        }
    }

    fn branches(
        &self,
        value: &Value,
        schema: &Schema,
        path: &Path<'_>,
        pair: Option<Pair<'_>>,
    ) -> Outcome {
        let checks = &schema.checks;
        let mut outcome = Outcome::agreement();
        let quoted = || go_text::quote(&path.dotted());
        let run = |branch: &Schema| self.node(value, branch, path, pair);
        if !checks.any_of.is_empty() {
            let mut best: Option<Outcome> = None;
            for branch in &checks.any_of {
                let result = run(branch);
                let is_valid = result.is_valid();
                best = Some(Outcome::better(best, result));
                if is_valid {
                    break;
                }
            }
            if best.as_ref().is_some_and(|best| !best.is_valid()) {
                let detail = format!("{} must validate at least one schema (anyOf)", quoted());
                outcome.errors.push(self.nowhere(detail));
            }
            outcome.merge(best.unwrap_or_default());
        }
        if !checks.one_of.is_empty() {
            let results: Vec<Outcome> = checks.one_of.iter().map(run).collect();
            let valid = results.iter().filter(|result| result.is_valid()).count();
            if valid != 1 {
                let found = match valid {
                    0 => "Found none valid".to_owned(),
                    n => format!("Found {n} valid alternatives"),
                };
                let detail =
                    format!("{} must validate one and only one schema (oneOf). {found}", quoted());
                outcome.errors.push(self.nowhere(detail));
            }
            if valid <= 1 {
                let best =
                    results.into_iter().fold(None, |best, next| Some(Outcome::better(best, next)));
                outcome.merge(best.unwrap_or_default());
            }
        }
        if !checks.all_of.is_empty() {
            let results: Vec<Outcome> = checks.all_of.iter().map(run).collect();
            let valid = results.iter().filter(|result| result.is_valid()).count();
            let total = results.len();
            for result in results {
                outcome.merge(result);
            }
            if valid != total {
                let none = if valid == 0 { ". None validated" } else { "" };
                let detail = format!("{} must validate all the schemas (allOf){none}", quoted());
                outcome.errors.push(self.nowhere(detail));
            }
        }
        if let Some(branch) = &checks.not
            && run(branch).is_valid()
        {
            let detail = format!("{} must not validate the schema (not)", quoted());
            outcome.errors.push(self.nowhere(detail));
        }
        outcome
    }

    /// The first of length and pattern that fails.
    fn check_string(&self, text: &str, schema: &Schema, path: &Path<'_>) -> Outcome {
        let checks = &schema.checks;
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(max) = checks.max_length.filter(|max| length > *max) {
            return Outcome::error(FieldError::too_long(self.at(path), max));
        }
        if let Some(min) = checks.min_length.filter(|min| length < *min) {
            return Outcome::error(self.invalid(
                path,
                text,
                &format!("should be at least {min} chars long"),
            ));
        }
        match &checks.pattern {
            Some(pattern) if !pattern.regex.is_match(text) => Outcome::error(self.invalid(
                path,
                text,
                &format!("should match '{}'", pattern.source),
            )),
            _ => Outcome::default(),
        }
    }

    fn check_array(
        &self,
        items: &[Value],
        schema: &Schema,
        path: &Path<'_>,
        pair: Option<Pair<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::agreement();
        let pairs = pair.map(|pair| pair.items());
        if let Some(item_schema) = &schema.items {
            for (index, item) in items.iter().enumerate() {
                // The pair holds the same item, for as long as the pair lives.
                let pair = pair.and_then(|pair| pair.new.get(index));
                let pair = pairs.as_ref().zip(pair).and_then(|(pairs, item)| pairs.of(item));
                outcome.merge(self.forgiving(item, item_schema, &path.index(index), pair));
            }
        }
        let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(min) = schema.checks.min_items.filter(|min| size < *min) {
            let detail = format!("should have at least {min} items");
            outcome.errors.push(self.invalid(path, size, &detail));
        }
        if let Some(max) = schema.checks.max_items.filter(|max| size > *max) {
            outcome.errors.push(FieldError::too_many(self.at(path), items.len(), max));
        }
        outcome
    }

    fn check_object(
        &self,
        map: &Map<String, Value>,
        schema: &Schema,
        path: &Path<'_>,
        pair: Option<Pair<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let size = i64::try_from(map.len()).unwrap_or(i64::MAX);
        if let Some(min) = schema.checks.min_properties.filter(|min| size < *min) {
            let detail = format!("should have at least {min} properties");
            outcome.errors.push(self.invalid(path, size, &detail));
        }
        if let Some(max) = schema.checks.max_properties.filter(|max| size > *max) {
            outcome.errors.push(FieldError::too_many(self.at(path), map.len(), max));
        }
        if let Additional::Schema(values) = &schema.additional {
            for (key, value) in map {
                if !schema.properties.contains_key(key) {
                    let pair = pair.and_then(|pair| pair.field(key));
                    outcome.merge(self.forgiving(value, values, &path.key(key), pair));
                }
            }
        }
        for (name, property) in &schema.properties {
            if let Some(value) = map.get(name) {
                // Old and new have been converted to one version, so these never show a change.
                let is_type = matches!(path, Path::Root)
                    && self.below.is_none()
                    && matches!(name.as_str(), "apiVersion" | "kind");
                let pair = pair.filter(|_| !is_type).and_then(|pair| pair.field(name));
                outcome.merge(self.forgiving(value, property, &path.field(name), pair));
            }
        }
        for name in &schema.checks.required {
            if !map.contains_key(name) {
                outcome.errors.push(FieldError::required(self.at(&path.field(name)), ""));
            }
        }
        outcome
    }

    fn check_enum(&self, value: &Value, schema: &Schema, path: &Path<'_>) -> Outcome {
        let allowed = &schema.checks.allowed;
        if allowed.is_empty() || allowed.iter().any(|allowed| equals_enum(value, allowed)) {
            return Outcome::default();
        }
        Outcome::error(FieldError::not_supported(self.at(path), value.clone(), allowed))
    }

    fn wrong_type(&self, path: &Path<'_>, expected: &str, found: &str) -> FieldError {
        let detail = format!(
            "{} in body must be of type {expected}: {}",
            path.dotted(),
            go_text::quote(found)
        );
        FieldError::new(self.at(path), FieldErrorKind::TypeInvalid, Some(found.into()), detail)
    }

    fn invalid(&self, path: &Path<'_>, value: impl Into<Value>, problem: &str) -> FieldError {
        FieldError::invalid(self.at(path), value, format!("{} in body {problem}", path.dotted()))
    }

    /// An error that the API server does not tie to a field, only to a text.
    fn nowhere(&self, detail: String) -> FieldError {
        FieldError::invalid(self.below.unwrap_or("<nil>"), "", detail)
    }

    fn at(&self, path: &Path<'_>) -> String {
        match (self.below, path) {
            (None, Path::Root) => "<nil>".to_owned(),
            (None, path) => path.dotted(),
            (Some(below), Path::Root) => below.to_owned(),
            (Some(below), path) => format!("{below}.{}", path.dotted()),
        }
    }
}

fn types_of(schema: &Schema) -> &[Kind] {
    match (schema.int_or_string, &schema.kind) {
        (true, _) => &[Kind::Integer, Kind::String],
        (false, Some(kind)) => std::slice::from_ref(kind),
        (false, None) => &[],
    }
}

/// Numbers are compared after conversion to the type of the allowed value.
fn equals_enum(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Number(value), Value::Number(allowed)) if allowed.is_i64() => {
            value.as_f64().map(f64::trunc) == allowed.as_f64()
        }
        (Value::Number(value), Value::Number(allowed)) => value.as_f64() == allowed.as_f64(),
        (value, allowed) => value == allowed,
    }
}
