//! Comparison and arithmetic.

use std::cmp::Ordering;
use std::collections::HashSet;

use kube_cel::cel::common::ast::operators;

use crate::value::{List, Map};
use crate::{CostBudget, Error, ItemIndex, ListType, Val, go_text, library};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BinaryOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl BinaryOperator {
    pub(crate) fn library_name(self) -> &'static str {
        match self {
            Self::Equal => operators::EQUALS,
            Self::NotEqual => operators::NOT_EQUALS,
            Self::Less => operators::LESS,
            Self::LessOrEqual => operators::LESS_EQUALS,
            Self::Greater => operators::GREATER,
            Self::GreaterOrEqual => operators::GREATER_EQUALS,
            Self::In => operators::IN,
            Self::Add => operators::ADD,
            Self::Subtract => operators::SUBSTRACT,
            Self::Multiply => operators::MULTIPLY,
            Self::Divide => operators::DIVIDE,
            Self::Modulo => operators::MODULO,
        }
    }

    pub(crate) fn apply<'a>(
        self,
        a: Val<'a>,
        b: Val<'a>,
        budget: &mut CostBudget,
    ) -> Result<Val<'a>, Error> {
        match self {
            Self::Equal => Ok(Val::Bool(equal(&a, &b, budget)?)),
            Self::NotEqual => Ok(Val::Bool(!equal(&a, &b, budget)?)),
            Self::In => Ok(Val::Bool(contains(&b, &a, budget)?)),
            Self::Less => Ok(Val::Bool(compare(&a, &b)? == Ordering::Less)),
            Self::LessOrEqual => Ok(Val::Bool(compare(&a, &b)? != Ordering::Greater)),
            Self::Greater => Ok(Val::Bool(compare(&a, &b)? == Ordering::Greater)),
            Self::GreaterOrEqual => Ok(Val::Bool(compare(&a, &b)? != Ordering::Less)),
            Self::Add | Self::Subtract | Self::Multiply | Self::Divide | Self::Modulo => {
                self.calculate(a, b, budget)
            }
        }
    }

    fn calculate<'a>(
        self,
        a: Val<'a>,
        b: Val<'a>,
        budget: &mut CostBudget,
    ) -> Result<Val<'a>, Error> {
        let overflow =
            |value: Option<i64>| value.map(Val::Int).ok_or_else(|| Error::new("integer overflow"));
        let unsigned_overflow = |value: Option<u64>| {
            value.map(Val::UInt).ok_or_else(|| Error::new("unsigned integer overflow"))
        };
        match (self, a, b) {
            (Self::Divide, Val::Int(_), Val::Int(0))
            | (Self::Divide, Val::UInt(_), Val::UInt(0)) => Err(Error::new("division by zero")),
            (Self::Modulo, Val::Int(_), Val::Int(0))
            | (Self::Modulo, Val::UInt(_), Val::UInt(0)) => Err(Error::new("modulus by zero")),
            (Self::Add, Val::Int(a), Val::Int(b)) => overflow(a.checked_add(b)),
            (Self::Subtract, Val::Int(a), Val::Int(b)) => overflow(a.checked_sub(b)),
            (Self::Multiply, Val::Int(a), Val::Int(b)) => overflow(a.checked_mul(b)),
            (Self::Divide, Val::Int(a), Val::Int(b)) => overflow(a.checked_div(b)),
            (Self::Modulo, Val::Int(a), Val::Int(b)) => overflow(a.checked_rem(b)),
            (Self::Add, Val::UInt(a), Val::UInt(b)) => unsigned_overflow(a.checked_add(b)),
            (Self::Subtract, Val::UInt(a), Val::UInt(b)) => unsigned_overflow(a.checked_sub(b)),
            (Self::Multiply, Val::UInt(a), Val::UInt(b)) => unsigned_overflow(a.checked_mul(b)),
            (Self::Divide, Val::UInt(a), Val::UInt(b)) => unsigned_overflow(a.checked_div(b)),
            (Self::Modulo, Val::UInt(a), Val::UInt(b)) => unsigned_overflow(a.checked_rem(b)),
            (Self::Add, Val::Double(a), Val::Double(b)) => Ok(Val::Double(a + b)),
            (Self::Subtract, Val::Double(a), Val::Double(b)) => Ok(Val::Double(a - b)),
            (Self::Multiply, Val::Double(a), Val::Double(b)) => Ok(Val::Double(a * b)),
            (Self::Divide, Val::Double(a), Val::Double(b)) => Ok(Val::Double(a / b)),
            (Self::Add, Val::String(a), Val::String(b)) => {
                let text = a.into_owned() + &b;
                budget.charge_text(&text)?;
                Ok(Val::text(text))
            }
            (Self::Add, Val::Bytes(a), Val::Bytes(b)) => Ok(Val::Bytes([a, b].concat().into())),
            (Self::Add, Val::List(a), Val::List(b)) => concatenate(&a, &b, budget),
            // Timestamps and durations.
            (operator, a @ Val::Library(_), b @ Val::Library(_)) => {
                library::call(operator.library_name(), None, vec![a, b])
            }
            _ => Err(Error::no_such_overload()),
        }
    }
}

/// One list after the other. A list of type `set` takes only what it lacks, and one of type `map`
/// replaces items that have the same keys.
fn concatenate<'a>(a: &List<'a>, b: &List<'a>, budget: &mut CostBudget) -> Result<Val<'a>, Error> {
    budget.charge((a.len() + b.len()) as u64)?;
    let mut items: Vec<Val<'a>> = a.iter().collect::<Result<_, _>>()?;
    let list_type = match a {
        List::Data { schema, .. } => &schema.list_type,
        List::Computed(_) => &ListType::Atomic,
    };
    for item in b.iter() {
        let item = item?;
        let mut same = None;
        match list_type {
            ListType::Atomic => {}
            ListType::Set => {
                for (index, known) in items.iter().enumerate() {
                    if equal(known, &item, budget)? {
                        same = Some(index);
                        break;
                    }
                }
            }
            ListType::Map(keys) => {
                for (index, known) in items.iter().enumerate() {
                    if have_same_keys(known, &item, keys, budget)? {
                        same = Some(index);
                        break;
                    }
                }
            }
        }
        match same {
            Some(index) => items[index] = item,
            None => items.push(item),
        }
    }
    Ok(Val::list(items))
}

fn have_same_keys(
    a: &Val<'_>,
    b: &Val<'_>,
    keys: &[String],
    budget: &mut CostBudget,
) -> Result<bool, Error> {
    let (Val::Map(a), Val::Map(b)) = (a, b) else { return Ok(false) };
    for key in keys {
        match (a.select(key, Some(key)).transpose()?, b.select(key, Some(key)).transpose()?) {
            (Some(a), Some(b)) if equal(&a, &b, budget)? => {}
            (None, None) => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Equality never fails for values of different types: they are different.
pub(crate) fn equal(a: &Val<'_>, b: &Val<'_>, budget: &mut CostBudget) -> Result<bool, Error> {
    budget.charge(1)?;
    match (a, b) {
        (Val::Null, Val::Null) | (Val::Optional(None), Val::Optional(None)) => Ok(true),
        (Val::Null, _) | (_, Val::Null) => Ok(false),
        (Val::Bool(a), Val::Bool(b)) => Ok(a == b),
        (Val::String(a), Val::String(b)) => {
            budget.charge(a.len().min(b.len()) as u64 / 10)?;
            Ok(a == b)
        }
        (Val::Bytes(a), Val::Bytes(b)) => Ok(a == b),
        (Val::Type(a), Val::Type(b)) => Ok(a == b),
        (Val::Optional(Some(a)), Val::Optional(Some(b))) => equal(a, b, budget),
        (Val::Quantity(a), Val::Quantity(b)) => Ok(a == b),
        (Val::Library(a), Val::Library(b)) => library::equal(a, b),
        (Val::Untyped(a), Val::Untyped(b)) => Ok(a == b),
        (Val::List(a), Val::List(b)) => equal_lists(a, b, budget),
        (Val::Map(a), Val::Map(b)) => equal_maps(a, b, budget),
        (a, b) => Ok(matches!(compare_numbers(a, b), Ok(Ordering::Equal))),
    }
}

fn equal_lists(a: &List<'_>, b: &List<'_>, budget: &mut CostBudget) -> Result<bool, Error> {
    if a.len() != b.len() {
        return Ok(false);
    }
    // Lists of type `set` and `map` are equal in any order. The left side decides, as in the
    // API server; a list that an expression built has no such type.
    if let (List::Data { items: a, schema }, List::Data { items: b, .. }) = (a, b) {
        budget.charge(a.len() as u64)?;
        match (&schema.list_type, &schema.items) {
            (ListType::Set, _) => {
                let known: HashSet<String> = a.iter().map(go_text::json).collect();
                return Ok(b.iter().all(|item| known.contains(&go_text::json(item))));
            }
            (ListType::Map(_), Some(schema_of_items)) => {
                let known = ItemIndex::new(&schema.list_type, a);
                for item in *b {
                    let Some(partner) = known.find(item) else { return Ok(false) };
                    let (a, b) = (
                        Val::from_json(partner, schema_of_items)?,
                        Val::from_json(item, schema_of_items)?,
                    );
                    if !equal(&a, &b, budget)? {
                        return Ok(false);
                    }
                }
                return Ok(true);
            }
            _ => {}
        }
    }
    for (a, b) in a.iter().zip(b.iter()) {
        if !equal(&a?, &b?, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equal_maps(a: &Map<'_>, b: &Map<'_>, budget: &mut CostBudget) -> Result<bool, Error> {
    if a.len() != b.len() {
        return Ok(false);
    }
    for key in a.keys() {
        match (a.get(&key).transpose()?, b.get(&key).transpose()?) {
            (None, None) => {}
            (Some(a), Some(b)) if equal(&a, &b, budget)? => {}
            _ => return Ok(false),
        }
    }
    // Fields that the schema does not know are compared as they are.
    if let Map::Data { fields, .. } = a {
        for name in fields.keys() {
            if let (Some(a), Some(b)) = (a.untyped_field(name), b.untyped_field(name))
                && a != b
            {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// `element in container`.
fn contains(
    container: &Val<'_>,
    element: &Val<'_>,
    budget: &mut CostBudget,
) -> Result<bool, Error> {
    match container {
        Val::List(list) => {
            for item in list.iter() {
                if equal(&item?, element, budget)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Val::Map(map) => map.has_key(element),
        _ => Err(Error::no_such_overload()),
    }
}

pub(crate) fn compare(a: &Val<'_>, b: &Val<'_>) -> Result<Ordering, Error> {
    match (a, b) {
        (Val::Bool(a), Val::Bool(b)) => Ok(a.cmp(b)),
        (Val::String(a), Val::String(b)) => Ok(a.cmp(b)),
        (Val::Bytes(a), Val::Bytes(b)) => Ok(a.cmp(b)),
        (Val::Library(a), Val::Library(b)) => library::compare(a, b),
        (a, b) => compare_numbers(a, b),
    }
}

/// Compares two numbers of any types.
#[expect(clippy::cast_precision_loss, reason = "a float cannot tell such integers apart")]
fn compare_numbers(a: &Val<'_>, b: &Val<'_>) -> Result<Ordering, Error> {
    let order = match (a, b) {
        (Val::Int(a), Val::Int(b)) => Some(a.cmp(b)),
        (Val::UInt(a), Val::UInt(b)) => Some(a.cmp(b)),
        (Val::Int(a), Val::UInt(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Val::UInt(a), Val::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Val::Double(a), Val::Double(b)) => a.partial_cmp(b),
        (Val::Double(a), Val::Int(b)) => a.partial_cmp(&(*b as f64)),
        (Val::Int(a), Val::Double(b)) => (*a as f64).partial_cmp(b),
        (Val::Double(a), Val::UInt(b)) => a.partial_cmp(&(*b as f64)),
        (Val::UInt(a), Val::Double(b)) => (*a as f64).partial_cmp(b),
        _ => return Err(Error::no_such_overload()),
    };
    order.ok_or_else(|| Error::new("NaN values cannot be ordered"))
}
