//! Compiles a CEL syntax tree to the nodes that are evaluated.
//!
//! Names are resolved once: variables to slots, functions to their implementation, macros to
//! comprehensions, and literal regular expressions to compiled ones.

use crate::functions::{self, Function};
use crate::operators::BinaryOperator;
use crate::parser::{self, Expr, ExprKind};
use crate::{Schema, Val, field_check};

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    root: Node,
    uses_old_self: bool,
}

/// The macros and functions that an expression may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Validation rules of CRDs: the standard library and the library of Kubernetes.
    ValidationRule,
    /// Device selectors: the functions of validation rules, and `cel.bind`.
    DeviceSelector,
    /// Small expressions: the standard library, `min(a, b)` and `max(a, b)`.
    Standard,
}

#[derive(Debug)]
pub(crate) enum Node {
    Literal(Val<'static>),
    Variable(usize),
    /// Elements, each with whether it is an optional to be unwrapped or left out.
    List(Vec<(Node, bool)>),
    Map(Vec<MapEntry>),
    Select {
        operand: Box<Node>,
        field: FieldName,
        optional: bool,
    },
    Has {
        operand: Box<Node>,
        field: FieldName,
    },
    Index {
        operand: Box<Node>,
        index: Box<Node>,
        optional: bool,
    },
    Not(Box<Node>),
    Negate(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    If {
        condition: Box<Node>,
        then: Box<Node>,
        otherwise: Box<Node>,
    },
    Binary(BinaryOperator, Box<Node>, Box<Node>),
    Comprehension {
        range: Box<Node>,
        comprehension: Comprehension,
    },
    /// `cel.bind`: the body with a value in the next free slot.
    Bind {
        value: Box<Node>,
        body: Box<Node>,
    },
    Call {
        function: Function,
        target: Option<Box<Node>>,
        args: Vec<Node>,
    },
}

#[derive(Debug)]
pub(crate) struct MapEntry {
    pub(crate) key: Node,
    pub(crate) value: Node,
    pub(crate) optional: bool,
}

/// A field name as written, and with the escapes of Kubernetes undone.
#[derive(Debug)]
pub(crate) struct FieldName {
    pub(crate) escaped: String,
    pub(crate) unescaped: Option<String>,
}

/// A compiled CEL macro over a list or map.
///
/// Each element of the list, or key of the map, is bound to the next free slot.
#[derive(Debug)]
pub(crate) enum Comprehension {
    All(Box<Node>),
    Exists(Box<Node>),
    ExistsOne(Box<Node>),
    /// `map` and `filter`: transforms the elements that pass the filter.
    FilterMap {
        filter: Option<Box<Node>>,
        transform: Box<Node>,
    },
}

impl Program {
    /// Compiles a validation rule about values of `schema`.
    ///
    /// With `is_root` the schema is the root of a resource.
    pub fn compile(source: &str, schema: &Schema, is_root: bool) -> Result<Self, String> {
        let names = vec!["self".into(), "oldSelf".into()];
        let program = Self::compile_dialect(source, names, Dialect::ValidationRule)?;
        field_check::check_fields(&program.root, schema, is_root)?;
        Ok(program)
    }

    /// Compiles an expression about variables, whose slots are their positions.
    ///
    /// It does not check the fields of their values.
    pub(crate) fn compile_dialect(
        source: &str,
        variables: Vec<String>,
        dialect: Dialect,
    ) -> Result<Self, String> {
        let tree = parser::parse(source)?;
        let mut scope = Compiler { variables, uses_old_self: false, dialect };
        let root = scope.compile_expr(&tree)?;
        Ok(Self { root, uses_old_self: scope.uses_old_self })
    }

    pub(crate) fn root(&self) -> &Node {
        &self.root
    }

    /// Returns whether the expression reads the old value.
    ///
    /// Such an expression runs only on updates.
    pub fn uses_old_self(&self) -> bool {
        self.uses_old_self
    }

    /// Compiles an expression about one variable of any name, with `cel.bind`.
    ///
    /// The expression must be able to return a boolean.
    pub(crate) fn compile_for_variable(
        variable: &str,
        source: &str,
        schema: &Schema,
    ) -> Result<Self, String> {
        // The second slot is for an old value, which no expression can name.
        let names = vec![variable.into(), "@old".into()];
        let program = Self::compile_dialect(source, names, Dialect::DeviceSelector)?;
        field_check::check_fields(&program.root, schema, false)?;
        let found = match &program.root {
            Node::Literal(Val::Bool(_)) => None,
            Node::Literal(value) => Some(value.type_name()),
            Node::List(_) => Some("list"),
            Node::Map(_) => Some("map"),
            _ => None,
        };
        match found {
            Some(found) => Err(format!("must evaluate to bool or the unknown type, not {found}")),
            None => Ok(program),
        }
    }
}

/// Compiles expressions; the slot of a variable is its position.
struct Compiler {
    variables: Vec<String>,
    uses_old_self: bool,
    dialect: Dialect,
}

const OLD_SELF_SLOT: usize = 1;

impl Compiler {
    fn compile_expr(&mut self, expr: &Expr) -> Result<Node, String> {
        if self.dialect == Dialect::Standard {
            check_no_optionals(&expr.kind)?;
        }
        Ok(match &expr.kind {
            ExprKind::Literal(value) => Node::Literal(value.clone()),
            ExprKind::Name(name) => self.resolve_variable(name)?,
            ExprKind::Select { operand, field, optional } => Node::Select {
                operand: self.compile_boxed(operand)?,
                field: FieldName::new(field),
                optional: *optional,
            },
            ExprKind::Index { operand, index, optional } => Node::Index {
                operand: self.compile_boxed(operand)?,
                index: self.compile_boxed(index)?,
                optional: *optional,
            },
            ExprKind::Call { target, name, args } => {
                self.compile_call(target.as_deref(), name, args)?
            }
            ExprKind::List(elements) => {
                let elements = elements.iter();
                let nodes = elements
                    .map(|(element, optional)| Ok((self.compile_expr(element)?, *optional)));
                Node::List(nodes.collect::<Result<_, String>>()?)
            }
            ExprKind::Map(entries) => {
                let entries = entries.iter().map(|(key, value, optional)| {
                    let (key, value) = (self.compile_expr(key)?, self.compile_expr(value)?);
                    Ok(MapEntry { key, value, optional: *optional })
                });
                Node::Map(entries.collect::<Result<_, String>>()?)
            }
            ExprKind::Not(operand) => Node::Not(self.compile_boxed(operand)?),
            ExprKind::Negate(operand) => Node::Negate(self.compile_boxed(operand)?),
            ExprKind::And(operands) => Node::And(self.compile_all(operands)?),
            ExprKind::Or(operands) => Node::Or(self.compile_all(operands)?),
            ExprKind::If(parts) => {
                let [condition, then, otherwise] = &**parts;
                Node::If {
                    condition: self.compile_boxed(condition)?,
                    then: self.compile_boxed(then)?,
                    otherwise: self.compile_boxed(otherwise)?,
                }
            }
            ExprKind::Binary(operator, a, b) => {
                Node::Binary(*operator, self.compile_boxed(a)?, self.compile_boxed(b)?)
            }
        })
    }

    fn compile_boxed(&mut self, expr: &Expr) -> Result<Box<Node>, String> {
        self.compile_expr(expr).map(Box::new)
    }

    fn compile_all(&mut self, exprs: &[Expr]) -> Result<Vec<Node>, String> {
        exprs.iter().map(|expr| self.compile_expr(expr)).collect()
    }

    fn resolve_variable(&mut self, name: &str) -> Result<Node, String> {
        if let Some(slot) = self.variables.iter().rposition(|known| known == name) {
            self.uses_old_self |= self.dialect == Dialect::ValidationRule && slot == OLD_SELF_SLOT;
            return Ok(Node::Variable(slot));
        }
        match TYPE_NAMES.iter().find(|known| **known == name) {
            Some(known) => Ok(Node::Literal(Val::Type(known))),
            None => Err(format!("undeclared reference to '{name}'")),
        }
    }

    fn compile_call(
        &mut self,
        target: Option<&Expr>,
        name: &str,
        args: &[Expr],
    ) -> Result<Node, String> {
        if let Some(node) = self.compile_macro(target, name, args)? {
            return Ok(node);
        }
        // `sets.contains(a, b)` looks like a method of a variable `sets`.
        let namespace = target.and_then(|target| match &target.kind {
            ExprKind::Name(prefix) if !self.variables.contains(prefix) => {
                Some(format!("{prefix}.{name}"))
            }
            _ => None,
        });
        let (name, target) = match &namespace {
            Some(qualified) => (qualified.as_str(), None),
            None => (name, target),
        };
        let target = target.map(|target| self.compile_boxed(target)).transpose()?;
        let args = self.compile_all(args)?;
        let function = functions::resolve(name, target.as_deref(), &args, self.dialect)?;
        Ok(Node::Call { function, target, args })
    }

    /// Compiles a macro, or returns `None` if the call is none.
    ///
    /// A macro looks like a call, but takes names and expressions instead of values.
    fn compile_macro(
        &mut self,
        target: Option<&Expr>,
        name: &str,
        args: &[Expr],
    ) -> Result<Option<Node>, String> {
        let (over, variable, body) = match (name, target, args) {
            (
                "bind",
                Some(Expr { kind: ExprKind::Name(namespace), .. }),
                [Expr { kind: ExprKind::Name(variable), .. }, value, body],
            ) if self.dialect == Dialect::DeviceSelector && namespace == "cel" => {
                let value = self.compile_boxed(value)?;
                self.variables.push(variable.clone());
                let body = self.compile_boxed(body);
                self.variables.pop();
                return Ok(Some(Node::Bind { value, body: body? }));
            }
            ("has", None, [Expr { kind: ExprKind::Select { operand, field, .. }, .. }]) => {
                let (operand, field) = (self.compile_boxed(operand)?, FieldName::new(field));
                return Ok(Some(Node::Has { operand, field }));
            }
            ("has", None, _) => return Err("invalid argument to has() macro".to_owned()),
            (
                "all" | "exists" | "exists_one" | "filter" | "map",
                Some(over),
                [variable, body @ ..],
            ) if body.len() == 1 || (name == "map" && body.len() == 2) => (over, variable, body),
            (name, Some(_), args) if UNSUPPORTED_MACROS.contains(&name) => {
                let count = args.len();
                return Err(format!("the macro '{name}' is not supported with {count} arguments"));
            }
            _ => return Ok(None),
        };
        let ExprKind::Name(variable) = &variable.kind else {
            return Err("argument must be a simple name".to_owned());
        };
        let over = self.compile_boxed(over)?;
        let slot = self.variables.len();
        self.variables.push(variable.clone());
        let body = self.compile_all(body);
        self.variables.pop();
        let mut body = body?.into_iter().map(Box::new);
        let fold = match (name, body.next(), body.next()) {
            ("all", Some(predicate), _) => Comprehension::All(predicate),
            ("exists", Some(predicate), _) => Comprehension::Exists(predicate),
            ("exists_one", Some(predicate), _) => Comprehension::ExistsOne(predicate),
            ("filter", filter, _) => {
                Comprehension::FilterMap { filter, transform: Box::new(Node::Variable(slot)) }
            }
            (_, filter, Some(transform)) => Comprehension::FilterMap { filter, transform },
            (_, Some(transform), None) => Comprehension::FilterMap { filter: None, transform },
            (_, None, None) => return Ok(None),
        };
        Ok(Some(Node::Comprehension { range: over, comprehension: fold }))
    }
}

/// Checks that an expression without optional values does not use their syntax.
fn check_no_optionals(kind: &ExprKind) -> Result<(), String> {
    let syntax = match kind {
        ExprKind::Select { optional: true, .. } => ".?",
        ExprKind::Index { optional: true, .. } => "[?",
        ExprKind::List(elements) if elements.iter().any(|(_, optional)| *optional) => "?",
        ExprKind::Map(entries) if entries.iter().any(|(.., optional)| *optional) => "?",
        _ => return Ok(()),
    };
    Err(format!("unsupported syntax '{syntax}'"))
}

/// The names of types, as `type()` returns them.
const TYPE_NAMES: [&str; 10] =
    ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];

/// Macros of the API server that have no meaning here yet.
const UNSUPPORTED_MACROS: [&str; 9] = [
    "all",
    "exists",
    "existsOne",
    "optFlatMap",
    "optMap",
    "sortBy",
    "transformList",
    "transformMap",
    "transformMapEntry",
];

impl FieldName {
    fn new(written: &str) -> Self {
        Self { escaped: written.to_owned(), unescaped: unescape_field_name(written) }
    }
}

/// Words that cannot be names of variables in CEL.
///
/// A field of that name may be written `__namespace__`.
pub(crate) const RESERVED_WORDS: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// Returns the field name that an identifier stands for.
///
/// `__dot__` and its like stand for characters that an identifier cannot have. `None` for an escape
/// that does not exist.
fn unescape_field_name(identifier: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = identifier;
    while let Some(start) = rest.find("__") {
        // An escape is two underscores, letters without underscores, and two underscores.
        let body = &rest[start + 2..];
        let length =
            body.find('_').filter(|length| *length > 0 && body[*length..].starts_with("__"));
        let Some(length) = length else {
            out.push_str(&rest[..=start]);
            rest = &rest[start + 1..];
            continue;
        };
        out.push_str(&rest[..start]);
        out.push_str(match &body[..length] {
            "underscores" => "__",
            "dot" => ".",
            "dash" => "-",
            "slash" => "/",
            word if RESERVED_WORDS.contains(&word) && identifier.len() == word.len() + 4 => word,
            _ => return None,
        });
        rest = &body[length + 2..];
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_names_are_unescaped() {
        #[rustfmt::skip]
        let cases = [
            ("plain",                   Some("plain")),
            ("with_underscore_",        Some("with_underscore_")),
            ("a__dot__b__dash__c",      Some("a.b-c")),
            ("a__slash__b",             Some("a/b")),
            ("a__underscores__b",       Some("a__b")),
            ("__namespace__",           Some("namespace")),
            ("a__namespace__",          None), // a reserved word is escaped as a whole
            ("a__nothing__",            None),
            ("namespace",               Some("namespace")), // the escape is not needed any more
            ("___a",                    Some("___a")),
        ];
        for (identifier, field) in cases {
            assert_eq!(unescape_field_name(identifier).as_deref(), field, "{identifier}");
        }
    }
}
