//! CEL with the semantics of the Kubernetes API server.
//!
//! It evaluates three kinds of expressions:
//!
//! - [`Program`]: the rules in `x-kubernetes-validations` of a CRD, about values of a [`Schema`];
//! - [`device_selector`]: the selectors of dynamic resource allocation, about one device;
//! - [`Environment`]: small expressions about declared variables, such as `max(60, vcpus * 30)`.
//!
//! A [`CostBudget`] bounds every evaluation, and the parser bounds the depth of expressions. No
//! expression and no value causes a panic; an expression without a value returns an [`Error`].
//!
//! The function library of Kubernetes (addresses, URLs, sets, formats and so on) comes from
//! kube-cel, except for quantities. Parsing and evaluation are our own, because those of kube-cel (the `cel` crate)
//! differ from the API server where it decides whether an object is accepted, or whether the
//! process lives:
//!
//! - its parser overflows the stack on a few dozen nested brackets, loses one sign of `!!x`, and
//!   keeps the backslash of `"it\'s"`;
//! - it stops at the first error inside `exists` and `all`, where a later element may still
//!   decide (`[{}, {"a": 1}].exists(x, x.a == 1)` is true);
//! - it reads a field of something that has no fields as `false`, and `a.?b` of a missing `b` as
//!   an error;
//! - it counts the bytes of a string for `size`, compares lists of type `set` and `map` in
//!   order, has no `type()`, and matches regular expressions in another dialect;
//! - it has no bound on the work of an expression, and converts the whole object for each rule.
//!
//! Absent on purpose: most of the type checker, and the cost estimate, that the API server runs
//! over a CRD. A rule that names an unknown function, variable or field does not compile here
//! either (`field_check`); a rule that compares a string with a number compiles, and rejects
//! objects when it runs. Small expressions are type-checked.

mod compile;
pub mod device_selector;
mod evaluation;
mod expression;
mod field_check;
mod functions;
pub mod go_text;
mod item_index;
mod lexer;
mod library;
mod list_methods;
mod operators;
mod parser;
mod quantity;
pub mod re2;
mod schema;
mod string_methods;
mod type_check;
mod value;

#[cfg(test)]
mod tests;

use std::fmt;

pub use self::compile::Program;
pub use self::expression::{Environment, Expression};
pub use self::item_index::ItemIndex;
pub use self::schema::{ListType, Schema, SchemaType, StringFormat};
pub use self::type_check::Type;
pub use self::value::{List, Map, Val};

/// Why an expression has no value, in the words of the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    Evaluation(String),
    /// The expression exceeded the cost limit of one evaluation.
    CostLimitExceeded,
}

impl Error {
    fn new(text: impl Into<String>) -> Self {
        Self::Evaluation(text.into())
    }

    fn no_such_overload() -> Self {
        Self::new("no such overload")
    }

    fn no_such_key(key: &str) -> Self {
        Self::new(format!("no such key: {key}"))
    }

    fn conversion(from: &str, to: &str) -> Self {
        Self::new(format!("type conversion error from '{from}' to '{to}'"))
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evaluation(text) => f.write_str(text),
            Self::CostLimitExceeded => {
                f.write_str("operation cancelled: actual cost limit exceeded")
            }
        }
    }
}

/// The cost that a CEL evaluation may still use.
///
/// Each step costs one unit, and functions that read long texts cost more. The numbers are those of
/// the API server, whose units are of about the same size; where exactly an expensive rule is cut
/// off differs.
#[derive(Debug)]
pub struct CostBudget {
    remaining: u64,
}

impl CostBudget {
    pub const PER_RULE: u64 = 1_000_000;
    pub const PER_OBJECT: u64 = 10_000_000;

    pub fn new(units: u64) -> Self {
        Self { remaining: units }
    }

    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    fn charge(&mut self, units: u64) -> Result<(), Error> {
        let left = self.remaining.checked_sub(units);
        self.remaining = left.unwrap_or(0);
        left.map(|_| ()).ok_or(Error::CostLimitExceeded)
    }

    /// Charges for reading a text: a tenth of a unit for each byte.
    fn charge_text(&mut self, text: &str) -> Result<(), Error> {
        self.charge(1 + text.len() as u64 / 10)
    }
}
