//! Infers the type of a small expression, and rejects operands of the wrong types.
//!
//! The rules are those of CEL's type checker for the standard library: both operands of `+` and of
//! a comparison have one type, the branches of `a ? b : c` too, and `dyn` accepts everything. The
//! depth is that of the expression, which the parser bounds.

use std::fmt;

use crate::Val;
use crate::compile::{Comprehension, Node};
use crate::functions::{Conversion, Function};
use crate::operators::BinaryOperator;

/// A CEL type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    Null,
    Bool,
    Int,
    UInt,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Box<Type>),
    /// A map with the types of its keys and values.
    Map(Box<Type>, Box<Type>),
    /// The type of types.
    Type,
    /// Any type; the evaluation decides.
    Dyn,
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::UInt => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Duration => f.write_str("google.protobuf.Duration"),
            Self::Timestamp => f.write_str("google.protobuf.Timestamp"),
            Self::List(items) => write!(f, "list({items})"),
            Self::Map(keys, values) => write!(f, "map({keys}, {values})"),
            Self::Type => f.write_str("type"),
            Self::Dyn => f.write_str("dyn"),
        }
    }
}

/// Returns the type of an expression, given the types of its variables.
pub(crate) fn infer(root: &Node, variables: &[Type]) -> Result<Type, String> {
    TypeChecker { slots: variables.to_vec() }.check(root)
}

struct TypeChecker {
    slots: Vec<Type>,
}

impl TypeChecker {
    fn check(&mut self, node: &Node) -> Result<Type, String> {
        match node {
            Node::Literal(value) => Ok(literal_type(value)),
            Node::Variable(slot) => Ok(self.slots.get(*slot).cloned().unwrap_or(Type::Dyn)),
            Node::List(elements) => {
                let items = self.check_common(elements.iter().map(|(element, _)| element))?;
                Ok(Type::List(Box::new(items)))
            }
            Node::Map(entries) => {
                let keys = self.check_common(entries.iter().map(|entry| &entry.key))?;
                let values = self.check_common(entries.iter().map(|entry| &entry.value))?;
                Ok(Type::Map(Box::new(keys), Box::new(values)))
            }
            Node::Select { operand, .. } => self.check_selection(operand),
            Node::Has { operand, .. } => self.check_selection(operand).map(|_| Type::Bool),
            Node::Index { operand, index, .. } => self.check_index(operand, index),
            Node::Not(operand) => self.check_bool(operand).map(|()| Type::Bool),
            Node::Negate(operand) => match self.check(operand)? {
                number @ (Type::Int | Type::Double | Type::Dyn) => Ok(number),
                other => Err(no_overload("-_", &[other])),
            },
            Node::And(operands) | Node::Or(operands) => {
                operands.iter().try_for_each(|operand| self.check_bool(operand))?;
                Ok(Type::Bool)
            }
            Node::If { condition, then, otherwise } => {
                self.check_bool(condition)?;
                let (then, otherwise) = (self.check(then)?, self.check(otherwise)?);
                common(&then, &otherwise)
                    .ok_or_else(|| no_overload("_?_:_", &[Type::Bool, then, otherwise]))
            }
            Node::Binary(operator, a, b) => {
                let (a, b) = (self.check(a)?, self.check(b)?);
                binary_type(*operator, &a, &b)
                    .ok_or_else(|| no_overload(operator.library_name(), &[a, b]))
            }
            Node::Comprehension { range, comprehension } => {
                self.check_comprehension(range, comprehension)
            }
            Node::Bind { value, body } => {
                let value = self.check(value)?;
                self.check_with_variable(value, body)
            }
            Node::Call { function, target, args } => {
                let operands = target.as_deref().into_iter().chain(args);
                let types = operands.map(|node| self.check(node)).collect::<Result<Vec<_>, _>>()?;
                function_type(function, &types)
                    .ok_or_else(|| no_overload(function_name(function), &types))
            }
        }
    }

    fn check_bool(&mut self, node: &Node) -> Result<(), String> {
        match self.check(node)? {
            Type::Bool | Type::Dyn => Ok(()),
            other => Err(format!("expected type 'bool' but found '{other}'")),
        }
    }

    /// Returns the common type of nodes, or `Dyn` if their types differ.
    fn check_common<'n>(&mut self, nodes: impl Iterator<Item = &'n Node>) -> Result<Type, String> {
        let mut result = None;
        for node in nodes {
            let found = self.check(node)?;
            result = Some(match result {
                None => found,
                Some(known) => common(&known, &found).unwrap_or(Type::Dyn),
            });
        }
        Ok(result.unwrap_or(Type::Dyn))
    }

    fn check_selection(&mut self, operand: &Node) -> Result<Type, String> {
        match self.check(operand)? {
            Type::Dyn => Ok(Type::Dyn),
            Type::Map(keys, values) if accepts(&keys, &Type::String) => Ok(*values),
            other => Err(format!("type '{other}' does not support field selection")),
        }
    }

    fn check_index(&mut self, operand: &Node, index: &Node) -> Result<Type, String> {
        let (operand, index) = (self.check(operand)?, self.check(index)?);
        match &operand {
            Type::Dyn => Ok(Type::Dyn),
            Type::List(items) if accepts(&Type::Int, &index) => Ok((**items).clone()),
            Type::Map(keys, values) if accepts(keys, &index) => Ok((**values).clone()),
            _ => Err(no_overload("_[_]", &[operand, index])),
        }
    }

    fn check_comprehension(
        &mut self,
        range: &Node,
        comprehension: &Comprehension,
    ) -> Result<Type, String> {
        let variable = match self.check(range)? {
            Type::Dyn => Type::Dyn,
            Type::List(items) => *items,
            Type::Map(keys, _) => *keys,
            other => {
                return Err(format!(
                    "expression of type '{other}' cannot be range of a comprehension"
                ));
            }
        };
        self.slots.push(variable);
        let result = match comprehension {
            Comprehension::All(predicate)
            | Comprehension::Exists(predicate)
            | Comprehension::ExistsOne(predicate) => {
                self.check_bool(predicate).map(|()| Type::Bool)
            }
            Comprehension::FilterMap { filter, transform } => {
                let filter = filter.as_deref().map_or(Ok(()), |filter| self.check_bool(filter));
                filter.and_then(|()| Ok(Type::List(Box::new(self.check(transform)?))))
            }
        };
        self.slots.pop();
        result
    }

    fn check_with_variable(&mut self, variable: Type, body: &Node) -> Result<Type, String> {
        self.slots.push(variable);
        let result = self.check(body);
        self.slots.pop();
        result
    }
}

fn no_overload(function: &str, operands: &[Type]) -> String {
    let operands: Vec<String> = operands.iter().map(Type::to_string).collect();
    let operands = operands.join(", ");
    format!("found no matching overload for '{function}' applied to '({operands})'")
}

fn literal_type(value: &Val<'_>) -> Type {
    match value {
        Val::Null => Type::Null,
        Val::Bool(_) => Type::Bool,
        Val::Int(_) => Type::Int,
        Val::UInt(_) => Type::UInt,
        Val::Double(_) => Type::Double,
        Val::String(_) => Type::String,
        Val::Bytes(_) => Type::Bytes,
        Val::Type(_) => Type::Type,
        _ => Type::Dyn,
    }
}

/// Returns whether a value of type `given` may stand where `expected` is.
fn accepts(expected: &Type, given: &Type) -> bool {
    common(expected, given).is_some()
}

/// Returns the type that two types have in common; `Dyn` goes with every type.
fn common(a: &Type, b: &Type) -> Option<Type> {
    match (a, b) {
        (Type::Dyn, _) | (_, Type::Dyn) => Some(Type::Dyn),
        (Type::List(a), Type::List(b)) => Some(Type::List(Box::new(common(a, b)?))),
        (Type::Map(a_keys, a), Type::Map(b_keys, b)) => {
            Some(Type::Map(Box::new(common(a_keys, b_keys)?), Box::new(common(a, b)?)))
        }
        (a, b) => (a == b).then(|| a.clone()),
    }
}

fn binary_type(operator: BinaryOperator, a: &Type, b: &Type) -> Option<Type> {
    use BinaryOperator as Op;
    use Type::{Bool, Bytes, Double, Duration, Dyn, Int, List, String, Timestamp, UInt};
    match operator {
        Op::Equal | Op::NotEqual => common(a, b).map(|_| Bool),
        Op::Less | Op::LessOrEqual | Op::Greater | Op::GreaterOrEqual => match common(a, b)? {
            Bool | Int | UInt | Double | String | Bytes | Duration | Timestamp | Dyn => Some(Bool),
            _ => None,
        },
        Op::In => match b {
            List(items) => accepts(items, a).then_some(Bool),
            Type::Map(keys, _) => accepts(keys, a).then_some(Bool),
            Dyn => Some(Bool),
            _ => None,
        },
        Op::Add | Op::Subtract => match (a, b) {
            (Timestamp, Duration) => Some(Timestamp),
            (Duration, Timestamp) if operator == Op::Add => Some(Timestamp),
            (Timestamp, Timestamp) => (operator == Op::Subtract).then_some(Duration),
            (a, b) => match (operator, common(a, b)?) {
                (_, sum @ (Int | UInt | Double | Duration | Dyn))
                | (Op::Add, sum @ (String | Bytes | List(_))) => Some(sum),
                _ => None,
            },
        },
        Op::Multiply | Op::Divide => {
            common(a, b).filter(|result| matches!(result, Int | UInt | Double | Dyn))
        }
        Op::Modulo => common(a, b).filter(|result| matches!(result, Int | UInt | Dyn)),
    }
}

/// Returns the result type of a function, or `None` if it does not take such operands.
fn function_type(function: &Function, operands: &[Type]) -> Option<Type> {
    use Type::{Bool, Bytes, Double, Duration, Dyn, Int, List, Map, String, Timestamp, UInt};
    let are_strings = || operands.iter().all(|operand| accepts(&String, operand));
    let first = operands.first();
    let takes = |types: &[Type]| first.is_some_and(|given| *given == Dyn || types.contains(given));
    match function {
        Function::Size => match first? {
            String | Bytes | List(_) | Map(..) | Dyn => Some(Int),
            _ => None,
        },
        Function::Contains | Function::StartsWith | Function::EndsWith | Function::Matches(_) => {
            are_strings().then_some(Bool)
        }
        Function::Convert(conversion) => match conversion {
            Conversion::Bool => takes(&[Bool, String]).then_some(Bool),
            Conversion::Bytes => takes(&[Bytes, String]).then_some(Bytes),
            Conversion::Double => takes(&[Double, Int, UInt, String]).then_some(Double),
            Conversion::Dyn => Some(Dyn),
            Conversion::Int => {
                takes(&[Int, UInt, Double, String, Timestamp, Duration]).then_some(Int)
            }
            Conversion::UInt => takes(&[UInt, Int, Double, String]).then_some(UInt),
            Conversion::String => {
                takes(&[String, Bool, Int, UInt, Double, Bytes, Timestamp, Duration])
                    .then_some(String)
            }
        },
        Function::Duration => takes(&[Duration, String]).then_some(Duration),
        Function::Timestamp => takes(&[Timestamp, String, Int]).then_some(Timestamp),
        Function::Type => Some(Type::Type),
        Function::Lesser | Function::Greater => match operands {
            [Int, Int] => Some(Int),
            [Int | Double, Double] | [Double, Int] => Some(Double),
            [Dyn, Int | Double | Dyn] | [Int | Double, Dyn] => Some(Dyn),
            _ => None,
        },
        // Of the library, small expressions only have the parts of times.
        Function::Library(_) => takes(&[Timestamp, Duration]).then_some(Int),
        _ => Some(Dyn),
    }
}

fn function_name(function: &Function) -> &'static str {
    match function {
        Function::Size => "size",
        Function::Contains => "contains",
        Function::StartsWith => "startsWith",
        Function::EndsWith => "endsWith",
        Function::Matches(_) => "matches",
        Function::Convert(conversion) => conversion.name(),
        Function::Duration => "duration",
        Function::Timestamp => "timestamp",
        Function::Lesser => "min",
        Function::Greater => "max",
        Function::Library(name) => name,
        _ => "call",
    }
}
