//! The grammar of expressions, by recursive descent.
//!
//! Invariant: no tree is deeper than [`DEPTH_MAX`], and the parser nests no deeper either, so
//! that whatever walks a tree fits on a stack. Long chains of `&&` and `||` are flat.

use crate::Val;
use crate::lexer::{Lexer, Literal, Token};
use crate::operators::BinaryOperator;

/// Rules that people write stay below 20.
pub(crate) const DEPTH_MAX: usize = 100;

/// A node of the syntax tree with the number of levels below and including it.
#[derive(Debug)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    depth: usize,
}

#[derive(Debug)]
pub(crate) enum ExprKind {
    Literal(Val<'static>),
    Name(String),
    Select {
        operand: Box<Expr>,
        field: String,
        optional: bool,
    },
    Index {
        operand: Box<Expr>,
        index: Box<Expr>,
        optional: bool,
    },
    Call {
        target: Option<Box<Expr>>,
        name: String,
        args: Vec<Expr>,
    },
    /// Elements, each with whether it is optional.
    List(Vec<(Expr, bool)>),
    /// Keys, values, and whether the entry is optional.
    Map(Vec<(Expr, Expr, bool)>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    If(Box<[Expr; 3]>),
    Binary(BinaryOperator, Box<Expr>, Box<Expr>),
}

/// Parses an expression; the error says where and why it cannot.
pub(crate) fn parse(source: &str) -> Result<Expr, String> {
    let mut parser =
        Parser { lexer: Lexer::new(source), token: Token::End, token_offset: 0, nesting: 0 };
    parser.parse_expression().map_err(|problem| {
        let (line, column) = parser.lexer.position(parser.token_offset);
        format!("{line}:{column}: {problem}")
    })
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The current token, and where it starts.
    token: Token,
    token_offset: usize,
    nesting: usize,
}

const NESTED_TOO_DEEPLY: &str = "the expression is nested too deeply";

impl Parser<'_> {
    fn parse_expression(&mut self) -> Result<Expr, String> {
        self.advance()?;
        let expr = self.expression()?;
        match self.token {
            Token::End => Ok(expr),
            _ => Err(self.unexpected()),
        }
    }

    fn advance(&mut self) -> Result<Token, String> {
        self.token_offset = self.lexer.offset();
        Ok(std::mem::replace(&mut self.token, self.lexer.next()?))
    }

    fn accept(&mut self, symbol: &str) -> Result<bool, String> {
        let found = matches!(&self.token, Token::Symbol(found) if *found == symbol);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, symbol: &str) -> Result<(), String> {
        if self.accept(symbol)? {
            return Ok(());
        }
        Err(format!("expected '{symbol}', but {}", self.unexpected()))
    }

    fn unexpected(&self) -> String {
        match &self.token {
            Token::Name(name) => format!("'{name}' is unexpected"),
            Token::Symbol(symbol) => format!("'{symbol}' is unexpected"),
            Token::Literal(_) => "a literal is unexpected".to_owned(),
            Token::End => "the expression ends".to_owned(),
        }
    }

    /// `a ? b : c`, the only rule that everything nested goes through.
    fn expression(&mut self) -> Result<Expr, String> {
        self.nesting += 1;
        if self.nesting > DEPTH_MAX {
            return Err(NESTED_TOO_DEEPLY.to_owned());
        }
        let condition = self.logical("||", ExprKind::Or)?;
        let expr = if self.accept("?")? {
            let then = self.logical("||", ExprKind::Or)?;
            self.expect(":")?;
            let otherwise = self.expression()?;
            Expr::new(ExprKind::If(Box::new([condition, then, otherwise])))?
        } else {
            condition
        };
        self.nesting -= 1;
        Ok(expr)
    }

    /// A chain of `||` over chains of `&&` over comparisons.
    fn logical(&mut self, symbol: &str, chain: fn(Vec<Expr>) -> ExprKind) -> Result<Expr, String> {
        let operand = |parser: &mut Self| match symbol {
            "||" => parser.logical("&&", ExprKind::And),
            _ => parser.comparison(),
        };
        let first = operand(self)?;
        let mut operands = vec![first];
        while self.accept(symbol)? {
            operands.push(operand(self)?);
        }
        match operands.pop() {
            Some(only) if operands.is_empty() => Ok(only),
            last => {
                operands.extend(last);
                Expr::new(chain(operands))
            }
        }
    }

    fn comparison(&mut self) -> Result<Expr, String> {
        use BinaryOperator as Op;
        self.left_associative(
            &[
                ("==", Op::Equal),
                ("!=", Op::NotEqual),
                ("<", Op::Less),
                ("<=", Op::LessOrEqual),
                (">", Op::Greater),
                (">=", Op::GreaterOrEqual),
                ("in", Op::In),
            ],
            Self::sum,
        )
    }

    fn sum(&mut self) -> Result<Expr, String> {
        use BinaryOperator as Op;
        self.left_associative(&[("+", Op::Add), ("-", Op::Subtract)], Self::product)
    }

    fn product(&mut self) -> Result<Expr, String> {
        use BinaryOperator as Op;
        self.left_associative(
            &[("*", Op::Multiply), ("/", Op::Divide), ("%", Op::Modulo)],
            Self::unary,
        )
    }

    /// Parses operators of one precedence, which apply from left to right.
    fn left_associative(
        &mut self,
        operators: &[(&str, BinaryOperator)],
        operand: fn(&mut Self) -> Result<Expr, String>,
    ) -> Result<Expr, String> {
        let mut left = operand(self)?;
        while let Token::Symbol(symbol) = self.token
            && let Some((_, operator)) = operators.iter().find(|(known, _)| *known == symbol)
        {
            self.advance()?;
            let right = operand(self)?;
            left = Expr::new(ExprKind::Binary(*operator, Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr, String> {
        let (mut nots, mut signs) = (0, 0);
        while self.accept("!")? {
            nots += 1;
        }
        while nots == 0 && self.accept("-")? {
            signs += 1;
        }
        // The last sign belongs to a number, so that the smallest integer can be written.
        let literal = match &self.token {
            Token::Literal(literal @ (Literal::Int(_) | Literal::Double(_))) if signs > 0 => {
                Some(literal.clone())
            }
            _ => None,
        };
        let primary = if let Some(literal) = literal {
            signs -= 1;
            let value = literal.value(true).ok_or("a number that is too small")?;
            self.advance()?;
            Expr::new(ExprKind::Literal(value))?
        } else {
            self.primary()?
        };
        let mut expr = self.member_accesses(primary)?;
        // Two of a kind undo each other.
        if signs % 2 == 1 {
            expr = Expr::new(ExprKind::Negate(Box::new(expr)))?;
        }
        if nots % 2 == 1 {
            expr = Expr::new(ExprKind::Not(Box::new(expr)))?;
        }
        Ok(expr)
    }

    /// Parses `.field`, `.?field`, `.method()`, `[index]` and `[?index]`, as many as follow.
    fn member_accesses(&mut self, mut expr: Expr) -> Result<Expr, String> {
        loop {
            if self.accept(".")? {
                let optional = self.accept("?")?;
                let field = self.name()?;
                let operand = Box::new(expr);
                expr = Expr::new(if !optional && self.accept("(")? {
                    ExprKind::Call { target: Some(operand), name: field, args: self.args()? }
                } else {
                    ExprKind::Select { operand, field, optional }
                })?;
            } else if self.accept("[")? {
                let optional = self.accept("?")?;
                let index = Box::new(self.expression()?);
                self.expect("]")?;
                expr = Expr::new(ExprKind::Index { operand: Box::new(expr), index, optional })?;
            } else {
                return Ok(expr);
            }
        }
    }

    fn name(&mut self) -> Result<String, String> {
        match &self.token {
            Token::Name(name) => {
                let name = name.clone();
                self.advance()?;
                Ok(name)
            }
            _ => Err(format!("expected a name, but {}", self.unexpected())),
        }
    }

    fn args(&mut self) -> Result<Vec<Expr>, String> {
        let mut args = Vec::new();
        if self.accept(")")? {
            return Ok(args);
        }
        loop {
            args.push(self.expression()?);
            if !self.accept(",")? {
                self.expect(")")?;
                return Ok(args);
            }
        }
    }

    fn primary(&mut self) -> Result<Expr, String> {
        match self.token.clone() {
            Token::Literal(literal) => {
                let value = literal.value(false).ok_or("a number that is too big")?;
                self.advance()?;
                Expr::new(ExprKind::Literal(value))
            }
            Token::Name(name) => {
                if super::compile::RESERVED_WORDS.contains(&name.as_str()) {
                    return Err(format!("reserved identifier: {name}"));
                }
                self.advance()?;
                if self.accept("(")? {
                    return Expr::new(ExprKind::Call { target: None, name, args: self.args()? });
                }
                if self.token == Token::Symbol("{") {
                    return Err("messages are not supported".to_owned());
                }
                Expr::new(ExprKind::Name(name))
            }
            Token::Symbol("(") => {
                self.advance()?;
                let expr = self.expression()?;
                self.expect(")")?;
                Ok(expr)
            }
            Token::Symbol("[") => {
                self.advance()?;
                let mut elements = Vec::new();
                while !self.accept("]")? {
                    let optional = self.accept("?")?;
                    elements.push((self.expression()?, optional));
                    self.separator("]")?;
                }
                Expr::new(ExprKind::List(elements))
            }
            Token::Symbol("{") => {
                self.advance()?;
                let mut entries = Vec::new();
                while !self.accept("}")? {
                    let optional = self.accept("?")?;
                    let key = self.expression()?;
                    self.expect(":")?;
                    entries.push((key, self.expression()?, optional));
                    self.separator("}")?;
                }
                Expr::new(ExprKind::Map(entries))
            }
            Token::Symbol(_) | Token::End => Err(self.unexpected()),
        }
    }

    /// A comma between elements, which may also stand after the last one.
    fn separator(&mut self, closing: &str) -> Result<(), String> {
        let closes = matches!(&self.token, Token::Symbol(symbol) if *symbol == closing);
        if closes { Ok(()) } else { self.expect(",") }
    }
}

impl Expr {
    fn new(kind: ExprKind) -> Result<Self, String> {
        let deepest = |children: &mut dyn Iterator<Item = &Expr>| {
            children.map(|child| child.depth).max().unwrap_or(0)
        };
        let below = match &kind {
            ExprKind::Literal(_) | ExprKind::Name(_) => 0,
            ExprKind::Select { operand, .. }
            | ExprKind::Not(operand)
            | ExprKind::Negate(operand) => operand.depth,
            ExprKind::Index { operand: a, index: b, .. } | ExprKind::Binary(_, a, b) => {
                a.depth.max(b.depth)
            }
            ExprKind::Call { target, args, .. } => {
                deepest(&mut target.as_deref().into_iter().chain(args))
            }
            ExprKind::List(elements) => deepest(&mut elements.iter().map(|(element, _)| element)),
            ExprKind::Map(entries) => {
                deepest(&mut entries.iter().flat_map(|(key, value, _)| [key, value]))
            }
            ExprKind::And(operands) | ExprKind::Or(operands) => deepest(&mut operands.iter()),
            ExprKind::If(parts) => deepest(&mut parts.iter()),
        };
        if below >= DEPTH_MAX {
            return Err(NESTED_TOO_DEEPLY.to_owned());
        }
        Ok(Self { kind, depth: below + 1 })
    }
}
