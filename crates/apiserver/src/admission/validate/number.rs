//! Bounds of numbers.

use serde_json::Number;

use super::{Outcome, Validator};
use crate::admission::field::{FieldError, Path};
use crate::admission::format::Format;
use crate::admission::go_text;
use crate::admission::schema::{Kind, Schema};

/// A JSON number as the API server holds it: an integer of 64 bits, else a float.
#[derive(Clone, Copy)]
enum Value {
    Int(i64),
    Float(f64),
}

impl Validator<'_> {
    pub(super) fn check_number(
        &self,
        number: &Number,
        schema: &Schema,
        path: &Path<'_>,
    ) -> Outcome {
        let checks = &schema.checks;
        let value = match number.as_i64() {
            Some(value) => Value::Int(value),
            None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        };
        let mut outcome = Outcome::agreement();
        if !in_range(value, schema) {
            let kind = schema.type_name();
            let format = match checks.format {
                Some(format) => format!("with format {}", format.name()),
                None => "(default format)".to_owned(),
            };
            let path = path.dotted();
            let detail = format!("Checked value must be of type {kind} {format} in {path}");
            outcome.errors.push(self.nowhere(detail));
        }
        if let Some(factor) = checks.multiple_of {
            if matches!(value, Value::Int(_)) && whole(factor) < 1 {
                // The API server rounds the factor for an integer, and then finds it too small.
                let at = path.dotted();
                let detail = format!("factor MultipleOf declared for {at} must be positive: 0");
                outcome.errors.push(FieldError::invalid(self.at(path), 0, detail));
            } else if !is_multiple(value, factor) {
                let detail = format!("should be a multiple of {}", bound_text(value, factor));
                outcome.errors.push(self.invalid(path, number.clone(), &detail));
            }
        }
        if let Some(min) = checks.minimum
            && !is_at_least(value, min, checks.exclusive_minimum)
        {
            let or_equal = if checks.exclusive_minimum { "" } else { " or equal to" };
            let detail = format!("should be greater than{or_equal} {}", bound_text(value, min));
            outcome.errors.push(self.invalid(path, number.clone(), &detail));
        }
        if let Some(max) = checks.maximum
            && !is_at_most(value, max, checks.exclusive_maximum)
        {
            let or_equal = if checks.exclusive_maximum { "" } else { " or equal to" };
            let detail = format!("should be less than{or_equal} {}", bound_text(value, max));
            outcome.errors.push(self.invalid(path, number.clone(), &detail));
        }
        outcome
    }
}

fn in_range(value: Value, schema: &Schema) -> bool {
    if schema.int_or_string {
        return true; // with two types there is no range to be in
    }
    match (schema.kind, schema.checks.format, value) {
        (Some(Kind::Integer), Some(Format::Int32), Value::Int(value)) => {
            i32::try_from(value).is_ok()
        }
        (Some(Kind::Integer), Some(Format::Int32), Value::Float(value)) => {
            value.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&value)
        }
        // An integer beyond 64 bits has become a float, and is out of range for that.
        (Some(Kind::Integer), _, Value::Float(value)) => {
            value.fract() == 0.0 && (-TWO_TO_63..TWO_TO_63).contains(&value)
        }
        (Some(Kind::Number), Some(Format::Float), Value::Float(value)) => {
            value.abs() <= f64::from(f32::MAX)
        }
        _ => true,
    }
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// An integer is compared with the integer part of a bound.
#[expect(clippy::cast_possible_truncation, reason = "as the API server does")]
fn whole(bound: f64) -> i64 {
    bound as i64
}

fn is_at_least(value: Value, min: f64, exclusive: bool) -> bool {
    match (value, exclusive) {
        (Value::Int(value), false) => value >= whole(min),
        (Value::Int(value), true) => value > whole(min),
        (Value::Float(value), false) => value >= min,
        (Value::Float(value), true) => value > min,
    }
}

fn is_at_most(value: Value, max: f64, exclusive: bool) -> bool {
    match (value, exclusive) {
        (Value::Int(value), false) => value <= whole(max),
        (Value::Int(value), true) => value < whole(max),
        (Value::Float(value), false) => value <= max,
        (Value::Float(value), true) => value < max,
    }
}

fn is_multiple(value: Value, factor: f64) -> bool {
    match value {
        Value::Int(value) if whole(factor) > 0 => value % whole(factor) == 0,
        Value::Int(_) => false,
        Value::Float(value) if factor < 1.0 => is_whole(1.0 / factor * value),
        Value::Float(value) => is_whole(value / factor),
    }
}

fn bound_text(value: Value, bound: f64) -> String {
    match value {
        Value::Int(_) => whole(bound).to_string(),
        Value::Float(_) => go_text::float(bound),
    }
}

/// Whether a float is an integer of JSON: exactly, or above one by the error of an operation.
pub(super) fn is_whole(value: f64) -> bool {
    const MAX: f64 = 9_007_199_254_740_991.0; // 2^53 - 1: beyond, integers have gaps
    let whole = value.trunc();
    let is_close = || whole > 0.0 && (value - whole) / (value + whole) < 1e-9;
    value.abs() <= MAX && (value.fract() == 0.0 || is_close())
}
