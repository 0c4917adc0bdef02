//! Finds fields that do not exist before any object does.
//!
//! This is the part of a type checker that catches the common slip, a misspelt field. It follows
//! schemas as far as they lead (through fields, items, map values and variables of macros); where
//! an expression computes something new, it knows nothing and lets it pass.

use super::compile::{Field, Fold, Node};
use super::value::field_schema;
use crate::admission::schema::{Additional, Kind, Schema};

/// Checks the fields that an expression names. `self` and `oldSelf` have the given schema.
pub(super) fn check(root: &Node, schema: &Schema, is_root: bool) -> Result<(), String> {
    let this = Some(Data { schema, is_root });
    Checker { slots: vec![this, this] }.node(root).map(|_| ())
}

/// A value that comes from the object, or an optional of one: selection treats both alike.
#[derive(Clone, Copy)]
struct Data<'a> {
    schema: &'a Schema,
    is_root: bool,
}

impl<'a> Data<'a> {
    fn of(schema: &'a Schema) -> Self {
        Self { schema, is_root: schema.embedded }
    }
}

struct Checker<'a> {
    slots: Vec<Option<Data<'a>>>,
}

impl<'a> Checker<'a> {
    /// Checks a node and tells where in the object its value comes from, if that is known.
    fn node(&mut self, node: &Node) -> Result<Option<Data<'a>>, String> {
        match node {
            Node::Literal(_) => Ok(None),
            Node::Variable(slot) => Ok(self.slots.get(*slot).copied().flatten()),
            Node::Select { operand, field, .. } => {
                let operand = self.node(operand)?;
                operand.map_or(Ok(None), |operand| select(operand, field))
            }
            Node::Has { operand, field } => {
                let operand = self.node(operand)?;
                operand.map_or(Ok(None), |operand| select(operand, field)).map(|_| None)
            }
            Node::Index { operand, index, .. } => {
                self.node(index)?;
                Ok(self.node(operand)?.and_then(element))
            }
            Node::Not(operand) | Node::Negate(operand) => self.all([&**operand]),
            Node::And(operands) | Node::Or(operands) => self.all(operands),
            Node::Binary(_, a, b) => self.all([&**a, &**b]),
            Node::If { condition, then, otherwise } => {
                self.all([&**condition, &**then, &**otherwise])
            }
            Node::List(elements) => self.all(elements.iter().map(|(element, _)| element)),
            Node::Map(entries) => {
                self.all(entries.iter().flat_map(|entry| [&entry.key, &entry.value]))
            }
            Node::Call { target, args, .. } => self.all(target.as_deref().into_iter().chain(args)),
            Node::Fold { over, fold } => self.fold(over, fold),
            Node::Bind { value, body } => {
                let value = self.node(value)?;
                self.slots.push(value);
                let checked = self.node(body);
                self.slots.pop();
                checked
            }
        }
    }

    fn all<'n>(
        &mut self,
        nodes: impl IntoIterator<Item = &'n Node>,
    ) -> Result<Option<Data<'a>>, String> {
        for node in nodes {
            self.node(node)?;
        }
        Ok(None)
    }

    fn fold(&mut self, over: &Node, fold: &Fold) -> Result<Option<Data<'a>>, String> {
        let over = self.node(over)?;
        let is_list = |data: &Data<'_>| data.schema.kind == Some(Kind::Array);
        let slot = self.slots.len();
        self.slots.push(over.filter(is_list).and_then(element)); // a key of a map is a string
        let mut filtered = None;
        let checked = match fold {
            Fold::All(predicate) | Fold::Exists(predicate) | Fold::ExistsOne(predicate) => {
                self.node(predicate)
            }
            Fold::Collect { filter, transform } => {
                // What only filters a list leaves a list of the same things.
                if matches!(&**transform, Node::Variable(known) if *known == slot) {
                    filtered = over.filter(is_list);
                }
                self.all(filter.as_deref().into_iter().chain([&**transform]))
            }
        };
        self.slots.pop();
        checked.map(|_| filtered)
    }
}

fn select<'a>(operand: Data<'a>, field: &Field) -> Result<Option<Data<'a>>, String> {
    let Data { schema, is_root } = operand;
    match schema.kind {
        _ if schema.int_or_string => Ok(None),
        Some(Kind::Object) => {
            let is_struct = is_root || !schema.properties.is_empty();
            let name = if is_struct { field.name.as_deref() } else { Some(&*field.written) };
            let found = name.and_then(|name| field_schema(schema, is_root, name));
            match found.filter(|schema| schema.has_cel_type()) {
                Some(schema) => Ok(Some(Data::of(schema))),
                None => Err(format!("undefined field '{}'", field.written)),
            }
        }
        Some(kind) => Err(format!("type '{}' does not support field selection", kind.name())),
        None => Ok(None),
    }
}

fn element(operand: Data<'_>) -> Option<Data<'_>> {
    match &operand.schema.additional {
        Additional::Schema(values) => Some(Data::of(values)),
        _ => operand.schema.items.as_deref().map(Data::of),
    }
}
