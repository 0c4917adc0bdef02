//! A path element is one step into an object, as managed fields write it: a field, an item of a
//! list by its keys or by its value, or an index. It has the order and the text format of
//! Kubernetes.

use std::cmp::Ordering;
use std::fmt;

use karpenter_cel::go_text;
use serde_json::{Number, Value};

#[derive(Debug, Clone)]
pub enum PathElement {
    /// A field of an object or a key of a map: `f:name`.
    Field(Box<str>),
    /// The item of a list with these key fields, sorted by name: `k:{"name":"a"}`.
    Key(Box<[(Box<str>, Value)]>),
    /// The item of a set: `v:"a"`. Apart, since values are large and elements are many.
    Value(Box<Value>),
    /// The item at an index: `i:0`.
    Index(i64),
}

/// The steps from the root to a field.
pub type Path = Vec<PathElement>;

impl PathElement {
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    pub fn value(value: Value) -> Self {
        Self::Value(Box::new(value))
    }

    pub fn key(mut fields: Vec<(Box<str>, Value)>) -> Self {
        fields.sort_by(|(left, _), (right, _)| left.cmp(right));
        Self::Key(fields.into())
    }

    /// The key under which the element stands in `fieldsV1`.
    pub fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let fields: Vec<_> = fields
                    .iter()
                    .map(|(name, value)| {
                        format!("{}:{}", Value::from(&**name), go_text::json(value))
                    })
                    .collect();
                format!("k:{{{}}}", fields.join(","))
            }
            Self::Value(value) => format!("v:{}", go_text::json(value)),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// Parses a key of `fieldsV1`; `Ok(None)` for unknown kinds of elements.
    pub fn decode(text: &str) -> Result<Option<Self>, String> {
        let mut parts = text.chars();
        let (Some(kind), Some(colon)) = (parts.next(), parts.next()) else {
            return Err("key must be 2 characters long:".to_owned());
        };
        if colon != ':' {
            return Err(format!("missing colon: {text}"));
        }
        let rest = parts.as_str();
        let element = match kind {
            'f' => Self::field(rest),
            'v' => Self::value(serde_json::from_str(rest).map_err(|error| error.to_string())?),
            'k' => match serde_json::from_str(rest).map_err(|error| error.to_string())? {
                Value::Object(map) => {
                    Self::key(map.into_iter().map(|(name, value)| (name.into(), value)).collect())
                }
                Value::Null => Self::key(Vec::new()),
                other => return Err(format!("expected an object, got {other}")),
            },
            'i' => Self::Index(rest.parse().map_err(|_| format!("not an index: {rest}"))?),
            _ => return Ok(None),
        };
        Ok(Some(element))
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

/// The field path of a recursive walk, kept on the call stack. Most paths are never written as
/// text.
#[derive(Debug, Clone, Copy)]
pub(super) enum FieldPathStack<'a> {
    Root,
    Field(&'a FieldPathStack<'a>, &'a str),
    Item(&'a FieldPathStack<'a>, &'a PathElement),
}

impl<'a> FieldPathStack<'a> {
    /// The last step, and the way to it; nothing at the root.
    pub(super) fn split(self) -> Option<(FieldPathStack<'a>, PathElement)> {
        match self {
            Self::Root => None,
            Self::Field(parent, name) => Some((*parent, PathElement::field(name))),
            Self::Item(parent, element) => Some((*parent, element.clone())),
        }
    }
}

impl fmt::Display for FieldPathStack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, element) => write!(f, "{parent}{element}"),
        }
    }
}

/// As in the messages of conflicts: `.spec`, `[name="a"]`, `[="a"]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", text(value))?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={}]", text(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

pub(super) fn display(path: &[PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => go_text::number(number),
        Value::String(text) => go_text::quote(text),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(","))
        }
        Value::Object(map) => {
            let fields = map.iter().map(|(key, value)| format!("{key}={}", text(value)));
            fields.collect::<Vec<_>>().concat()
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => compare_lists(left, right, |left, right| {
                left.0.cmp(&right.0).then_with(|| compare(&left.1, &right.1))
            }),
            (Self::Value(left), Self::Value(right)) => compare(left, right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

/// The order of values: numbers, texts, booleans, lists, maps, null. A float equals the integer
/// of its size.
pub(super) fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => compare_lists(left, right, compare),
        (Value::Object(left), Value::Object(right)) => {
            let mut left: Vec<_> = left.iter().collect();
            let mut right: Vec<_> = right.iter().collect();
            left.sort_by_key(|(key, _)| *key);
            right.sort_by_key(|(key, _)| *key);
            compare_lists(&left, &right, |left, right| {
                left.0.cmp(right.0).then_with(|| compare(left.1, right.1))
            })
        }
        _ => rank(left).cmp(&rank(right)),
    }
}

/// Whether two values are the same to a merge: the order of keys does not matter, nor whether a
/// number is written as a float.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, value)| right.get(key).is_some_and(|other| equal(value, other)))
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(l, r)| equal(l, r))
        }
        _ => compare(left, right) == Ordering::Equal,
    }
}

fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    if let (Some(left), Some(right)) = (left.as_i64(), right.as_i64()) {
        return left.cmp(&right);
    }
    let (left, right) = (left.as_f64().unwrap_or(0.0), right.as_f64().unwrap_or(0.0));
    left.partial_cmp(&right).unwrap_or(Ordering::Equal)
}

fn compare_lists<T>(left: &[T], right: &[T], by: impl Fn(&T, &T) -> Ordering) -> Ordering {
    for (left, right) in left.iter().zip(right) {
        match by(left, right) {
            Ordering::Equal => {}
            unequal => return unequal,
        }
    }
    left.len().cmp(&right.len())
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}
