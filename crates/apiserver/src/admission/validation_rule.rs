//! One CEL rule: an entry of `x-kubernetes-validations`.

use std::fmt::Write;

use karpenter_cel::{CostBudget, Error, Program, Val};
use serde_json::{Map, Value};

use super::field_error::{FieldError, FieldErrorKind};
use super::schema::{AdditionalProperties, Schema};

#[derive(Debug)]
pub(crate) struct ValidationRule {
    program: Program,
    source: String,
    message: Option<String>,
    message_program: Option<Program>,
    kind: FieldErrorKind,
    /// Where a failure is reported, below the field that has the rule.
    field_path: Option<String>,
    optional_old_self: bool,
}

/// The longest text that a `messageExpression` may give; beyond, it is as if there were none.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

impl ValidationRule {
    /// Compiles a rule on a field with the given schema. The error describes the rule.
    pub(crate) fn compile(rule: &Value, schema: &Schema, is_root: bool) -> Result<Self, String> {
        let cel_schema = &schema.structure;
        let rule = rule.as_object().ok_or("must be an object")?;
        let source = string_field(rule, "rule")?.ok_or("rule: is required")?.trim();
        let program = Program::compile(source, cel_schema, is_root)
            .map_err(|problem| format!("rule: {problem}"))?;
        let message_program = string_field(rule, "messageExpression")?
            .map(|source| Program::compile(source, cel_schema, is_root))
            .transpose()
            .map_err(|problem| format!("messageExpression: {problem}"))?;
        let kind = match string_field(rule, "reason")? {
            None | Some("FieldValueInvalid") => FieldErrorKind::Invalid,
            Some("FieldValueForbidden") => FieldErrorKind::Forbidden,
            Some("FieldValueRequired") => FieldErrorKind::Required,
            Some("FieldValueDuplicate") => FieldErrorKind::Duplicate,
            Some(_) => return Err("reason: is not one of the reasons for a field".to_owned()),
        };
        let field_path = string_field(rule, "fieldPath")?
            .map(|path| resolve_field_path(path, schema))
            .transpose()
            .map_err(|problem| format!("fieldPath: {problem}"))?;
        let optional_old_self = match rule.get("optionalOldSelf") {
            None | Some(Value::Null) => false,
            Some(flag) => flag.as_bool().ok_or("optionalOldSelf: must be a boolean")?,
        };
        Ok(Self {
            program,
            source: source.to_owned(),
            message: string_field(rule, "message")?.map(|message| message.trim().to_owned()),
            message_program,
            kind,
            field_path,
            optional_old_self,
        })
    }

    /// Returns whether the rule reads the old value.
    ///
    /// Such rules are about the change, so they run on unchanged values, too.
    pub(crate) fn is_transition(&self) -> bool {
        self.program.uses_old_self()
    }

    /// Evaluates the rule.
    ///
    /// A transition rule without an old value passes, unless it has `optionalOldSelf`.
    pub(crate) fn evaluate<'a>(
        &'a self,
        this: &Result<Val<'a>, Error>,
        old: Option<&Result<Val<'a>, Error>>,
        budget: &mut CostBudget,
    ) -> Result<RuleOutcome, Error> {
        if self.is_transition() && old.is_none() && !self.optional_old_self {
            return Ok(RuleOutcome::Passed);
        }
        let this = this.clone()?;
        let old = old.cloned().transpose()?;
        let seen = match (self.optional_old_self, old.clone()) {
            (true, Some(old)) => Some(Val::some(old)),
            (true, None) => Some(Val::Optional(None)),
            (false, old) => old,
        };
        if self.program.run(this.clone(), seen, budget)?.as_bool()? {
            return Ok(RuleOutcome::Passed);
        }
        let computed = match &self.message_program {
            None => None,
            Some(program) => match program.run(this, old, budget) {
                Err(Error::CostLimitExceeded) => return Err(Error::CostLimitExceeded),
                Ok(Val::String(text)) => Some(text.trim().to_owned()),
                Ok(_) | Err(Error::Evaluation(_)) => None,
            },
        };
        let usable = computed.filter(|text| {
            !text.is_empty() && !text.contains('\n') && text.len() <= MESSAGE_BYTES_MAX
        });
        Ok(RuleOutcome::Failed(usable.unwrap_or_else(|| match &self.message {
            Some(message) => message.clone(),
            None => format!("failed rule: {}", self.source),
        })))
    }

    /// Returns the error of a rule that fails on `value`.
    ///
    /// The value is `None` where it is too big to show.
    pub(crate) fn field_error(&self, at: &str, value: Option<&Value>, detail: &str) -> FieldError {
        let path = match (&self.field_path, at) {
            (None, at) => at.to_owned(),
            (Some(below), "<nil>") => below.clone(),
            (Some(below), at) => format!("{at}.{below}"),
        };
        match self.kind {
            FieldErrorKind::Forbidden => FieldError::forbidden(path, detail),
            FieldErrorKind::Required => FieldError::required(path, detail),
            FieldErrorKind::Duplicate => FieldError::duplicate(path, value.cloned()),
            kind => FieldError::new(path, kind, value.cloned(), detail),
        }
    }

    /// How errors of evaluation call the rule: by its message, else by its text.
    pub(crate) fn name(&self) -> &str {
        self.message.as_deref().unwrap_or(&self.source)
    }
}

#[derive(Debug)]
pub(crate) enum RuleOutcome {
    Passed,
    Failed(String),
}

fn string_field<'a>(rule: &'a Map<String, Value>, field: &str) -> Result<Option<&'a str>, String> {
    match rule.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let text = value.as_str().ok_or_else(|| format!("{field}: must be a string"))?;
            Ok(Some(text).filter(|text| !text.trim().is_empty()))
        }
    }
}

/// Checks a JSON path against the schema and returns it as an error path.
///
/// A JSON path is `.spec.labels['a.b']`; in paths of errors fields have dots and map keys are in
/// brackets.
fn resolve_field_path(path: &str, mut schema: &Schema) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = path;
    while !rest.is_empty() {
        let name;
        (name, rest) = if let Some(after) = rest.strip_prefix("['") {
            let (name, after) = after.split_once("']").ok_or("a bracket is not closed")?;
            if name.contains(['\\', '\'']) {
                return Err("a quote or backslash in a key is not supported".to_owned());
            }
            (name, after)
        } else if let Some(after) = rest.strip_prefix('.') {
            after.split_at(after.find(['.', '[']).unwrap_or(after.len()))
        } else {
            return Err("must be made of .field and ['key']".to_owned());
        };
        let is_map = schema.properties.is_empty();
        schema = match &schema.additional_properties {
            AdditionalProperties::Schema(values) if is_map => values,
            _ => schema.properties.get(name).ok_or("does not refer to a valid field")?,
        };
        // Writing to a String cannot fail.
        let _ = match (is_map, out.is_empty()) {
            (true, _) => write!(out, "[{name}]"),
            (false, true) => write!(out, "{name}"),
            (false, false) => write!(out, ".{name}"),
        };
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_path_must_exist_in_the_schema() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "object", "properties": {"b.c": {"type": "string"}}},
            "m": {"type": "object", "additionalProperties": {
                "type": "object", "properties": {"x": {"type": "string"}},
            }},
        }});
        let schema = Schema::compile(&schema, "schema").unwrap();
        #[rustfmt::skip]
        let cases = [
            (".a",            Ok("a")),
            (".a['b.c']",     Ok("a.b.c")),
            (".m['k/l'].x",   Ok("m[k/l].x")),
            (".m.k.x",        Ok("m[k].x")),
            (".nope",         Err("does not refer to a valid field")),
            (".a.b",          Err("does not refer to a valid field")),
            ("a",             Err("must be made of .field and ['key']")),
            (".a['b.c'",      Err("a bracket is not closed")),
        ];
        for (path, expected) in cases {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(resolve_field_path(path, &schema), expected, "{path}");
        }
    }
}
