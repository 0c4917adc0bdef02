//! Bounds of numbers.

use karpenter_cel::go_text;
use serde_json::Number;

use super::{SchemaValidator, ValidationResult};
use crate::admission::field_error::{FieldError, FieldPath};
use crate::admission::format::Format;
use crate::admission::schema::{Schema, SchemaType};

/// A JSON number as in the API server: a 64-bit integer, else a float.
#[derive(Clone, Copy)]
enum JsonNumber {
    Int(i64),
    Float(f64),
}

impl SchemaValidator<'_> {
    pub(super) fn check_number(
        &self,
        number: &Number,
        schema: &Schema,
        path: &FieldPath<'_>,
    ) -> ValidationResult {
        let checks = &schema.value_validation;
        let value = match number.as_i64() {
            Some(value) => JsonNumber::Int(value),
            None => JsonNumber::Float(number.as_f64().unwrap_or(f64::NAN)),
        };
        let mut outcome = ValidationResult::one_match();
        if !in_range(value, schema) {
            let kind = schema.type_name();
            let format = match checks.format {
                Some(format) => format!("with format {}", format.name()),
                None => "(default format)".to_owned(),
            };
            let path = path.format_dotted();
            let detail = format!("Checked value must be of type {kind} {format} in {path}");
            outcome.errors.push(self.error_without_field(detail));
        }
        if let Some(factor) = checks.multiple_of {
            if matches!(value, JsonNumber::Int(_)) && integer_part(factor) < 1 {
                // The API server rounds the factor for an integer, and then finds it too small.
                let at = path.format_dotted();
                let detail = format!("factor MultipleOf declared for {at} must be positive: 0");
                outcome.errors.push(FieldError::invalid(self.field_path(path), 0, detail));
            } else if !is_multiple(value, factor) {
                let detail = format!("should be a multiple of {}", format_bound(value, factor));
                outcome.errors.push(self.invalid_error(path, number.clone(), &detail));
            }
        }
        if let Some(min) = checks.minimum
            && !is_at_least(value, min, checks.exclusive_minimum)
        {
            let or_equal = if checks.exclusive_minimum { "" } else { " or equal to" };
            let detail = format!("should be greater than{or_equal} {}", format_bound(value, min));
            outcome.errors.push(self.invalid_error(path, number.clone(), &detail));
        }
        if let Some(max) = checks.maximum
            && !is_at_most(value, max, checks.exclusive_maximum)
        {
            let or_equal = if checks.exclusive_maximum { "" } else { " or equal to" };
            let detail = format!("should be less than{or_equal} {}", format_bound(value, max));
            outcome.errors.push(self.invalid_error(path, number.clone(), &detail));
        }
        outcome
    }
}

fn in_range(value: JsonNumber, schema: &Schema) -> bool {
    if schema.structure.int_or_string {
        return true; // with two types there is no range to be in
    }
    match (schema.structure.value_type, schema.value_validation.format, value) {
        (Some(SchemaType::Integer), Some(Format::Int32), JsonNumber::Int(value)) => {
            i32::try_from(value).is_ok()
        }
        (Some(SchemaType::Integer), Some(Format::Int32), JsonNumber::Float(value)) => {
            value.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&value)
        }
        // An integer beyond 64 bits has become a float, and is out of range for that.
        (Some(SchemaType::Integer), _, JsonNumber::Float(value)) => {
            value.fract() == 0.0 && (-TWO_TO_63..TWO_TO_63).contains(&value)
        }
        (Some(SchemaType::Number), Some(Format::Float), JsonNumber::Float(value)) => {
            value.abs() <= f64::from(f32::MAX)
        }
        _ => true,
    }
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// Returns the integer part of a bound, with which integers are compared.
#[expect(clippy::cast_possible_truncation, reason = "as the API server does")]
fn integer_part(bound: f64) -> i64 {
    bound as i64
}

fn is_at_least(value: JsonNumber, min: f64, exclusive: bool) -> bool {
    match (value, exclusive) {
        (JsonNumber::Int(value), false) => value >= integer_part(min),
        (JsonNumber::Int(value), true) => value > integer_part(min),
        (JsonNumber::Float(value), false) => value >= min,
        (JsonNumber::Float(value), true) => value > min,
    }
}

fn is_at_most(value: JsonNumber, max: f64, exclusive: bool) -> bool {
    match (value, exclusive) {
        (JsonNumber::Int(value), false) => value <= integer_part(max),
        (JsonNumber::Int(value), true) => value < integer_part(max),
        (JsonNumber::Float(value), false) => value <= max,
        (JsonNumber::Float(value), true) => value < max,
    }
}

fn is_multiple(value: JsonNumber, factor: f64) -> bool {
    match value {
        JsonNumber::Int(value) if integer_part(factor) > 0 => value % integer_part(factor) == 0,
        JsonNumber::Int(_) => false,
        JsonNumber::Float(value) if factor < 1.0 => is_whole(1.0 / factor * value),
        JsonNumber::Float(value) => is_whole(value / factor),
    }
}

fn format_bound(value: JsonNumber, bound: f64) -> String {
    match value {
        JsonNumber::Int(_) => integer_part(bound).to_string(),
        JsonNumber::Float(_) => go_text::float(bound),
    }
}

/// Whether a float is an integer of JSON: exactly, or above one by the error of an operation.
pub(super) fn is_whole(value: f64) -> bool {
    const MAX: f64 = 9_007_199_254_740_991.0; // 2^53 - 1: beyond, integers have gaps
    let whole = value.trunc();
    let is_close = || whole > 0.0 && (value - whole) / (value + whole) < 1e-9;
    value.abs() <= MAX && (value.fract() == 0.0 || is_close())
}
