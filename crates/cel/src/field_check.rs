//! Checks that the fields in a CEL expression exist in the schema.
//!
//! This is the part of a type checker that catches the common slip, a misspelt field. It needs no
//! object: it follows schemas as far as they lead (through fields, items, map values and variables
//! of macros). Where an expression computes something new, the check accepts it.

use crate::compile::{Comprehension, FieldName, Node};
use crate::value::field_schema;
use crate::{Schema, SchemaType};

/// Checks that the fields in an expression exist in the schema.
///
/// `self` and `oldSelf` have the given schema.
pub(crate) fn check_fields(root: &Node, schema: &Schema, is_root: bool) -> Result<(), String> {
    let this = Some(ValueOrigin { schema, is_root });
    FieldChecker { slots: vec![this, this] }.check_node(root).map(|_| ())
}

/// The schema of a value that comes from the object.
///
/// An optional of a value has the same origin: selection treats both alike.
#[derive(Clone, Copy)]
struct ValueOrigin<'a> {
    schema: &'a Schema,
    is_root: bool,
}

impl<'a> ValueOrigin<'a> {
    fn from_schema(schema: &'a Schema) -> Self {
        Self { schema, is_root: schema.embedded_resource }
    }
}

struct FieldChecker<'a> {
    slots: Vec<Option<ValueOrigin<'a>>>,
}

impl<'a> FieldChecker<'a> {
    /// Checks a node and returns the origin of its value, if it is known.
    fn check_node(&mut self, node: &Node) -> Result<Option<ValueOrigin<'a>>, String> {
        match node {
            Node::Literal(_) => Ok(None),
            Node::Variable(slot) => Ok(self.slots.get(*slot).copied().flatten()),
            Node::Select { operand, field, .. } => {
                let operand = self.check_node(operand)?;
                operand.map_or(Ok(None), |operand| select_field(operand, field))
            }
            Node::Has { operand, field } => {
                let operand = self.check_node(operand)?;
                operand.map_or(Ok(None), |operand| select_field(operand, field)).map(|_| None)
            }
            Node::Index { operand, index, .. } => {
                self.check_node(index)?;
                Ok(self.check_node(operand)?.and_then(element_origin))
            }
            Node::Not(operand) | Node::Negate(operand) => self.check_nodes([&**operand]),
            Node::And(operands) | Node::Or(operands) => self.check_nodes(operands),
            Node::Binary(_, a, b) => self.check_nodes([&**a, &**b]),
            Node::If { condition, then, otherwise } => {
                self.check_nodes([&**condition, &**then, &**otherwise])
            }
            Node::List(elements) => self.check_nodes(elements.iter().map(|(element, _)| element)),
            Node::Map(entries) => {
                self.check_nodes(entries.iter().flat_map(|entry| [&entry.key, &entry.value]))
            }
            Node::Call { target, args, .. } => {
                self.check_nodes(target.as_deref().into_iter().chain(args))
            }
            Node::Comprehension { range: over, comprehension: fold } => {
                self.check_comprehension(over, fold)
            }
            Node::Bind { value, body } => {
                let value = self.check_node(value)?;
                self.slots.push(value);
                let checked = self.check_node(body);
                self.slots.pop();
                checked
            }
        }
    }

    fn check_nodes<'n>(
        &mut self,
        nodes: impl IntoIterator<Item = &'n Node>,
    ) -> Result<Option<ValueOrigin<'a>>, String> {
        for node in nodes {
            self.check_node(node)?;
        }
        Ok(None)
    }

    fn check_comprehension(
        &mut self,
        over: &Node,
        fold: &Comprehension,
    ) -> Result<Option<ValueOrigin<'a>>, String> {
        let over = self.check_node(over)?;
        let is_list = |data: &ValueOrigin<'_>| data.schema.value_type == Some(SchemaType::Array);
        let slot = self.slots.len();
        self.slots.push(over.filter(is_list).and_then(element_origin)); // a key of a map is a string
        let mut filtered = None;
        let checked = match fold {
            Comprehension::All(predicate)
            | Comprehension::Exists(predicate)
            | Comprehension::ExistsOne(predicate) => self.check_node(predicate),
            Comprehension::FilterMap { filter, transform } => {
                // What only filters a list leaves a list of the same things.
                if matches!(&**transform, Node::Variable(known) if *known == slot) {
                    filtered = over.filter(is_list);
                }
                self.check_nodes(filter.as_deref().into_iter().chain([&**transform]))
            }
        };
        self.slots.pop();
        checked.map(|_| filtered)
    }
}

fn select_field<'a>(
    operand: ValueOrigin<'a>,
    field: &FieldName,
) -> Result<Option<ValueOrigin<'a>>, String> {
    let ValueOrigin { schema, is_root } = operand;
    match schema.value_type {
        _ if schema.int_or_string => Ok(None),
        Some(SchemaType::Object) => {
            let is_struct = is_root || !schema.properties.is_empty();
            let name = if is_struct { field.unescaped.as_deref() } else { Some(&*field.escaped) };
            let found = name.and_then(|name| field_schema(schema, is_root, name));
            match found.filter(|schema| schema.has_cel_type()) {
                Some(schema) => Ok(Some(ValueOrigin::from_schema(schema))),
                None => Err(format!("undefined field '{}'", field.escaped)),
            }
        }
        Some(kind) => Err(format!("type '{}' does not support field selection", kind.name())),
        None => Ok(None),
    }
}

fn element_origin(operand: ValueOrigin<'_>) -> Option<ValueOrigin<'_>> {
    let Schema { map_values, items, .. } = operand.schema;
    map_values.as_deref().or(items.as_deref()).map(ValueOrigin::from_schema)
}
