//! Functions that are evaluated here: the standard ones, and those with regular expressions.
//!
//! All others go to the library.

use karpenter_grammar::parse_duration;
use kube_cel::cel::Value as LibraryValue;
use regex::Regex;
use serde_json::{Map as JsonMap, Value};

use crate::compile::{Dialect, Node};
use crate::operators::BinaryOperator;
use crate::value::{List, Map};
use crate::{
    CostBudget, Error, Val, go_text, library, list_methods, quantity, re2, string_methods,
};

#[derive(Debug)]
pub(crate) enum Function {
    Size,
    Contains,
    StartsWith,
    EndsWith,
    /// With a literal expression, compiled in advance.
    Matches(Option<Regex>),
    Find(Option<Regex>),
    FindAll(Option<Regex>),
    Convert(Conversion),
    Duration,
    Timestamp,
    Type,
    OptionalNone,
    OptionalOf,
    OptionalOfNonZeroValue,
    HasValue,
    Value,
    Or,
    OrValue,
    /// `min(a, b)` of two numbers.
    Lesser,
    /// `max(a, b)` of two numbers.
    Greater,
    Library(&'static str),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Conversion {
    Bool,
    Bytes,
    Double,
    Dyn,
    Int,
    String,
    UInt,
}

/// The functions of the CEL language definition.
const STANDARD_FUNCTIONS: &[&str] = &[
    "bool",
    "bytes",
    "contains",
    "double",
    "duration",
    "dyn",
    "endsWith",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "int",
    "matches",
    "size",
    "startsWith",
    "string",
    "timestamp",
    "type",
    "uint",
];

/// Resolves a call by its name, target and arguments.
pub(crate) fn resolve(
    name: &str,
    target: Option<&Node>,
    args: &[Node],
    dialect: Dialect,
) -> Result<Function, String> {
    let conversion = |conversion| Function::Convert(conversion);
    if dialect == Dialect::Standard && !STANDARD_FUNCTIONS.contains(&name) {
        return match (name, target.is_some(), args.len()) {
            ("min", false, 2) => Ok(Function::Lesser),
            ("max", false, 2) => Ok(Function::Greater),
            _ => Err(format!("undeclared reference to '{name}'")),
        };
    }
    Ok(match (name, target.is_some(), args.len()) {
        ("size", true, 0) | ("size", false, 1) => Function::Size,
        ("contains", true, 1) => Function::Contains,
        ("startsWith", true, 1) => Function::StartsWith,
        ("endsWith", true, 1) => Function::EndsWith,
        ("matches", true, 1) | ("matches", false, 2) => Function::Matches(literal_regex(args)?),
        ("find", true, 1) => Function::Find(literal_regex(args)?),
        ("findAll", true, 1) => Function::FindAll(literal_regex(args)?),
        ("findAll", true, 2) => Function::FindAll(literal_regex(&args[..1])?),
        ("bool", false, 1) => conversion(Conversion::Bool),
        ("bytes", false, 1) => conversion(Conversion::Bytes),
        ("double", false, 1) => conversion(Conversion::Double),
        ("dyn", false, 1) => conversion(Conversion::Dyn),
        ("int", false, 1) => conversion(Conversion::Int),
        ("string", false, 1) => conversion(Conversion::String),
        ("uint", false, 1) => conversion(Conversion::UInt),
        ("duration", false, 1) => Function::Duration,
        ("timestamp", false, 1) => Function::Timestamp,
        ("type", false, 1) => Function::Type,
        ("optional.none", false, 0) => Function::OptionalNone,
        ("optional.of", false, 1) => Function::OptionalOf,
        ("optional.ofNonZeroValue", false, 1) => Function::OptionalOfNonZeroValue,
        ("hasValue", true, 0) => Function::HasValue,
        ("value", true, 0) => Function::Value,
        ("or", true, 1) => Function::Or,
        ("orValue", true, 1) => Function::OrValue,
        (name, has_target, count) => match library::find_function(name, has_target, count) {
            Some(name) => Function::Library(name),
            None => return Err(format!("undeclared reference to '{name}'")),
        },
    })
}

/// The last argument as a compiled pattern. One that is computed is compiled when it is known.
fn literal_regex(args: &[Node]) -> Result<Option<Regex>, String> {
    match args.last() {
        Some(Node::Literal(Val::String(pattern))) => re2::compile(pattern)
            .map(Some)
            .map_err(|error| format!("the pattern '{pattern}' does not compile: {error}")),
        _ => Ok(None),
    }
}

impl Function {
    /// Applies the function to its operands: the target first, if there is one, then the others.
    pub(crate) fn apply<'a>(
        &self,
        target: Option<Val<'a>>,
        mut args: Vec<Val<'a>>,
        budget: &mut CostBudget,
    ) -> Result<Val<'a>, Error> {
        if let Function::Library(name) = self {
            let own = match &target {
                Some(Val::String(text)) => string_methods::call(name, text, &args, budget),
                Some(Val::List(list)) => list_methods::call(name, list, &args, budget),
                Some(Val::Quantity(amount)) => {
                    Some(quantity::call_method(name, *amount, &args, budget))
                }
                Some(_) => None,
                None => quantity::call(name, &args, budget),
            };
            return match own {
                Some(result) => result,
                None => call_library(name, target, args, budget),
            };
        }
        if let Some(target) = target {
            args.insert(0, target);
        }
        let mut operands = args.into_iter();
        let (first, second, third) = (operands.next(), operands.next(), operands.next());
        match (self, first, second) {
            (Self::OptionalNone, ..) => Ok(Val::Optional(None)),
            (Self::Size, Some(value), _) => size(&value, budget),
            (Self::Type, Some(value), _) => Ok(Val::Type(value.type_name())),
            (Self::Convert(conversion), Some(value), _) => conversion.apply(value),
            (Self::Duration, Some(value), _) => duration(value),
            (Self::Timestamp, Some(value), _) => timestamp(value),
            (Self::Contains, Some(Val::String(text)), Some(Val::String(part))) => {
                budget.charge_text(&text)?;
                Ok(Val::Bool(text.contains(&*part)))
            }
            (Self::StartsWith, Some(Val::String(text)), Some(Val::String(part))) => {
                budget.charge_text(&part)?;
                Ok(Val::Bool(text.starts_with(&*part)))
            }
            (Self::EndsWith, Some(Val::String(text)), Some(Val::String(part))) => {
                budget.charge_text(&part)?;
                Ok(Val::Bool(text.ends_with(&*part)))
            }
            (Self::Matches(regex), Some(Val::String(text)), Some(Val::String(pattern))) => {
                let found = search_regex(regex.as_ref(), &pattern, &text, budget, |regex| {
                    regex.is_match(&text)
                })?;
                Ok(Val::Bool(found))
            }
            (Self::Find(regex), Some(Val::String(text)), Some(Val::String(pattern))) => {
                let found = search_regex(regex.as_ref(), &pattern, &text, budget, |regex| {
                    regex.find(&text).map(|found| found.as_str().to_owned())
                })?;
                Ok(Val::text(found.unwrap_or_default()))
            }
            (Self::FindAll(regex), Some(Val::String(text)), Some(Val::String(pattern))) => {
                let limit = match third {
                    None => usize::MAX,
                    // A negative limit is none.
                    Some(Val::Int(limit)) => usize::try_from(limit).unwrap_or(usize::MAX),
                    Some(_) => return Err(Error::no_such_overload()),
                };
                let found = search_regex(regex.as_ref(), &pattern, &text, budget, |regex| {
                    let all = regex.find_iter(&text).take(limit);
                    all.map(|found| Val::text(found.as_str())).collect::<Vec<_>>()
                })?;
                Ok(Val::list(found))
            }
            (Self::OptionalOfNonZeroValue, Some(value), _) if is_zero_value(&value) => {
                Ok(Val::Optional(None))
            }
            (Self::OptionalOf | Self::OptionalOfNonZeroValue, Some(value), _) => {
                Ok(Val::some(value))
            }
            (Self::HasValue, Some(Val::Optional(value)), _) => Ok(Val::Bool(value.is_some())),
            (Self::Value, Some(Val::Optional(value)), _) => match value {
                Some(value) => Ok(Val::clone(&value)),
                None => Err(Error::new("optional.none() dereference")),
            },
            (Self::Or, Some(this @ Val::Optional(Some(_))), _) => Ok(this),
            (Self::OrValue, Some(Val::Optional(Some(value))), _) => Ok(Val::clone(&value)),
            (Self::Or, Some(Val::Optional(None)), Some(other @ Val::Optional(_)))
            | (Self::OrValue, Some(Val::Optional(None)), Some(other)) => Ok(other),
            (Self::Lesser, Some(a), Some(b)) => select_number(a, b, |a, b| a < b, |a, b| a < b),
            (Self::Greater, Some(a), Some(b)) => select_number(a, b, |a, b| a > b, |a, b| a > b),
            _ => Err(Error::no_such_overload()),
        }
    }
}

/// Returns `a` if it is better, else `b`. Of an integer and a double the result is a double.
#[expect(clippy::cast_precision_loss, reason = "CEL converts the integer to a double")]
fn select_number<'a>(
    a: Val<'a>,
    b: Val<'a>,
    is_better_int: impl Fn(i64, i64) -> bool,
    is_better_double: impl Fn(f64, f64) -> bool,
) -> Result<Val<'a>, Error> {
    let (a, b) = match (a, b) {
        (Val::Int(a), Val::Int(b)) => {
            return Ok(Val::Int(if is_better_int(a, b) { a } else { b }));
        }
        (Val::Double(a), Val::Double(b)) => (a, b),
        (Val::Int(a), Val::Double(b)) => (a as f64, b),
        (Val::Double(a), Val::Int(b)) => (a, b as f64),
        _ => return Err(Error::no_such_overload()),
    };
    Ok(Val::Double(if is_better_double(a, b) { a } else { b }))
}

/// Calls a library function after charging for the size of its operands.
fn call_library<'a>(
    name: &str,
    target: Option<Val<'a>>,
    args: Vec<Val<'a>>,
    budget: &mut CostBudget,
) -> Result<Val<'a>, Error> {
    for operand in target.iter().chain(&args) {
        charge_operand(operand, budget)?;
    }
    let lengths = target.iter().chain(&args).map(|operand| match operand {
        Val::List(list) => list.len() as u64,
        Val::Int(count) if name == "lists.range" => u64::try_from(*count).unwrap_or(0),
        _ => 1,
    });
    let lengths: Vec<u64> = lengths.collect();
    match (name, lengths.as_slice()) {
        ("lists.range", [count]) => budget.charge(*count)?,
        ("distinct", [length]) => budget.charge(length.saturating_mul(*length))?,
        ("sets.contains" | "sets.equivalent" | "sets.intersects", [a, b]) => {
            budget.charge(a.saturating_mul(*b))?;
        }
        _ => {}
    }
    // The parts of a time are those it has in UTC.
    let target = target.map(|target| match target {
        Val::Library(LibraryValue::Timestamp(time)) => {
            Val::Library(LibraryValue::Timestamp(time.to_utc().fixed_offset()))
        }
        other => other,
    });
    library::call(name, target, args)
}

/// Charges one unit for each value, however deep, and more for its text.
///
/// The library gets a copy of the value.
fn charge_operand(value: &Val<'_>, budget: &mut CostBudget) -> Result<(), Error> {
    match value {
        Val::String(text) => budget.charge_text(text),
        Val::Bytes(bytes) => budget.charge(1 + bytes.len() as u64 / 10),
        Val::List(List::Data { items, .. }) => charge_items(items, budget),
        Val::List(List::Computed(items)) => {
            budget.charge(1)?;
            items.iter().try_for_each(|item| charge_operand(item, budget))
        }
        Val::Map(Map::Data { fields, .. }) => charge_fields(fields, budget),
        Val::Map(Map::Computed(entries) | Map::ByDomain(entries)) => {
            budget.charge(1)?;
            entries.iter().try_for_each(|(key, value)| {
                charge_operand(key, budget)?;
                charge_operand(value, budget)
            })
        }
        Val::Optional(Some(value)) => charge_operand(value, budget),
        _ => budget.charge(1),
    }
}

fn charge_data(data: &Value, budget: &mut CostBudget) -> Result<(), Error> {
    match data {
        Value::String(text) => budget.charge_text(text),
        Value::Array(items) => charge_items(items, budget),
        Value::Object(fields) => charge_fields(fields, budget),
        Value::Null | Value::Bool(_) | Value::Number(_) => budget.charge(1),
    }
}

fn charge_items(items: &[Value], budget: &mut CostBudget) -> Result<(), Error> {
    budget.charge(1)?;
    items.iter().try_for_each(|item| charge_data(item, budget))
}

fn charge_fields(fields: &JsonMap<String, Value>, budget: &mut CostBudget) -> Result<(), Error> {
    budget.charge(1)?;
    fields.iter().try_for_each(|(name, value)| {
        budget.charge_text(name)?;
        charge_data(value, budget)
    })
}

/// A pattern from an object may be as expensive to compile as the `regex` crate allows, tens of
/// milliseconds; a rule can afford a hundred of them.
const COMPUTED_PATTERN_COST: u64 = CostBudget::PER_RULE / 100;

/// Searches with a regex and charges for text length times pattern length.
fn search_regex<T>(
    compiled: Option<&Regex>,
    pattern: &str,
    text: &str,
    budget: &mut CostBudget,
    search: impl FnOnce(&Regex) -> T,
) -> Result<T, Error> {
    let (text, pattern_size) = (1 + text.len() as u64 / 10, 1 + pattern.len() as u64 / 4);
    budget.charge(text.saturating_mul(pattern_size))?;
    if let Some(regex) = compiled {
        return Ok(search(regex));
    }
    budget.charge(COMPUTED_PATTERN_COST)?;
    match re2::compile(pattern) {
        Ok(regex) => Ok(search(&regex)),
        Err(error) => Err(Error::new(format!("error parsing regexp: {error}"))),
    }
}

/// The size of a text is in characters.
fn size<'a>(value: &Val<'a>, budget: &mut CostBudget) -> Result<Val<'a>, Error> {
    let size = match value {
        Val::String(text) => {
            budget.charge_text(text)?;
            text.chars().count()
        }
        Val::Bytes(bytes) => bytes.len(),
        Val::List(list) => list.len(),
        Val::Map(map) => map.len(),
        _ => return Err(Error::no_such_overload()),
    };
    Ok(Val::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

/// The library would ignore what follows a duration.
fn duration(value: Val<'_>) -> Result<Val<'_>, Error> {
    match value {
        Val::String(text) if parse_duration(&text).is_ok() => {
            library::call("duration", None, vec![Val::String(text)])
        }
        Val::Library(_) => Ok(value),
        other => Err(Error::conversion(other.type_name(), "google.protobuf.Duration")),
    }
}

/// From its text, or from seconds since 1970.
fn timestamp(value: Val<'_>) -> Result<Val<'_>, Error> {
    let parse = |text| library::call("timestamp", None, vec![Val::String(text)]);
    match value {
        Val::String(text) => {
            parse(text).map_err(|_| Error::conversion("string", "google.protobuf.Timestamp"))
        }
        Val::Int(seconds) => {
            let epoch = parse("1970-01-01T00:00:00Z".into())?;
            let since = duration(Val::text(format!("{seconds}s")))?;
            BinaryOperator::Add
                .apply(epoch, since, &mut CostBudget::new(1))
                .map_err(|_| Error::new("timestamp overflow"))
        }
        Val::Library(_) => Ok(value),
        other => Err(Error::conversion(other.type_name(), "google.protobuf.Timestamp")),
    }
}

fn is_zero_value(value: &Val<'_>) -> bool {
    match value {
        Val::Null | Val::Bool(false) | Val::Int(0) | Val::UInt(0) => true,
        Val::Double(value) => *value == 0.0,
        Val::String(text) => text.is_empty(),
        Val::Bytes(bytes) => bytes.is_empty(),
        Val::List(list) => list.len() == 0,
        Val::Map(map) => map.len() == 0,
        _ => false,
    }
}

impl Conversion {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Bytes => "bytes",
            Self::Double => "double",
            Self::Dyn => "dyn",
            Self::Int => "int",
            Self::String => "string",
            Self::UInt => "uint",
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "that is what the conversion is")]
    fn apply(self, value: Val<'_>) -> Result<Val<'_>, Error> {
        let from = value.type_name();
        let converted = match (self, &value) {
            (Self::Dyn, _)
            | (Self::Bool, Val::Bool(_))
            | (Self::Bytes, Val::Bytes(_))
            | (Self::Double, Val::Double(_))
            | (Self::Int, Val::Int(_))
            | (Self::String, Val::String(_))
            | (Self::UInt, Val::UInt(_)) => return Ok(value),
            (Self::Bool, Val::String(text)) => match &**text {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(Val::Bool(true)),
                "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(Val::Bool(false)),
                _ => None,
            },
            (Self::Bytes, Val::String(text)) => Some(Val::Bytes(text.as_bytes().into())),
            (Self::Double, Val::Int(value)) => Some(Val::Double(*value as f64)),
            (Self::Double, Val::UInt(value)) => Some(Val::Double(*value as f64)),
            (Self::Double, Val::String(text)) => text.parse().ok().map(Val::Double),
            (Self::Int, Val::UInt(value)) => return to_int(i128::from(*value)),
            (Self::Int, Val::Double(value)) => return to_int(truncate_to_integer(*value)?),
            (Self::Int, Val::String(text)) => text.parse().ok().map(Val::Int),
            (Self::UInt, Val::Int(value)) => return to_uint(i128::from(*value)),
            (Self::UInt, Val::Double(value)) => return to_uint(truncate_to_integer(*value)?),
            (Self::UInt, Val::String(text)) => text.parse().ok().map(Val::UInt),
            (Self::String, Val::Bool(value)) => Some(Val::text(value.to_string())),
            (Self::String, Val::Int(value)) => Some(Val::text(value.to_string())),
            (Self::String, Val::UInt(value)) => Some(Val::text(value.to_string())),
            (Self::String, Val::Double(value)) => Some(Val::text(go_text::float(*value))),
            (Self::String, Val::Bytes(bytes)) => match std::str::from_utf8(bytes) {
                Ok(text) => Some(Val::text(text)),
                Err(_) => {
                    return Err(Error::new("invalid UTF-8 in bytes, cannot convert to string"));
                }
            },
            (Self::Int, Val::Library(LibraryValue::Timestamp(time))) => {
                return Ok(Val::Int(time.timestamp()));
            }
            (Self::String, Val::Library(LibraryValue::Duration(duration))) => {
                let seconds = duration.num_nanoseconds().map(|nanos| nanos as f64 / 1e9);
                seconds.map(|seconds| Val::text(format!("{seconds}s")))
            }
            (Self::String, Val::Library(LibraryValue::Timestamp(time))) => {
                Some(Val::text(timestamp_text(&time.to_rfc3339())))
            }
            (Self::String, Val::Library(_)) => return library::call("string", None, vec![value]),
            _ => None,
        };
        converted.ok_or_else(|| Error::conversion(from, self.name()))
    }
}

/// RFC 3339 as Go writes it: UTC as a letter, and no zeros at the end of a fraction.
fn timestamp_text(text: &str) -> String {
    let (time, zone) = text.split_at(text.len().saturating_sub("+00:00".len()));
    let zone = if zone == "+00:00" { "Z" } else { zone };
    let time = if time.contains('.') { time.trim_end_matches('0') } else { time };
    format!("{time}{zone}")
}

fn to_int<'a>(value: i128) -> Result<Val<'a>, Error> {
    i64::try_from(value).map(Val::Int).map_err(|_| Error::new("integer overflow"))
}

fn to_uint<'a>(value: i128) -> Result<Val<'a>, Error> {
    u64::try_from(value).map(Val::UInt).map_err(|_| Error::new("unsigned integer overflow"))
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn truncate_to_integer(value: f64) -> Result<i128, Error> {
    if value.abs() < 1e30 { Ok(value as i128) } else { Err(Error::new("integer overflow")) }
}
