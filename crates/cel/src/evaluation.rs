//! Evaluates compiled CEL expressions.
//!
//! The depth is that of the expression, which the parser bounds, and every step is charged to the
//! cost budget.

use crate::compile::{Comprehension, FieldName, MapEntry, Node, Program};
use crate::value::{Map, is_same_key};
use crate::{CostBudget, Error, Val};

impl Program {
    /// Evaluates an expression about `self` and `oldSelf`.
    ///
    /// `old` is `None` when there is no old value.
    pub fn run<'a>(
        &'a self,
        this: Val<'a>,
        old: Option<Val<'a>>,
        budget: &mut CostBudget,
    ) -> Result<Val<'a>, Error> {
        self.run_with(vec![this, old.unwrap_or(Val::Null)], budget)
    }

    /// Evaluates an expression with a value for each of its variables.
    pub(crate) fn run_with<'a>(
        &'a self,
        values: Vec<Val<'a>>,
        budget: &mut CostBudget,
    ) -> Result<Val<'a>, Error> {
        let mut run = Evaluator { slots: values, budget };
        let result = run.evaluate_node(self.root());
        // Logical operators forgive errors, but not this one.
        if run.budget.remaining() == 0 { Err(Error::CostLimitExceeded) } else { result }
    }
}

struct Evaluator<'a, 'f> {
    slots: Vec<Val<'a>>,
    budget: &'f mut CostBudget,
}

impl<'a> Evaluator<'a, '_> {
    fn evaluate_node(&mut self, node: &'a Node) -> Result<Val<'a>, Error> {
        self.budget.charge(1)?;
        match node {
            Node::Literal(value) => Ok(value.clone()),
            Node::Variable(slot) => Ok(self.slots[*slot].clone()),
            Node::List(elements) => self.evaluate_list(elements),
            Node::Map(entries) => self.evaluate_map(entries),
            Node::Select { operand, field, optional } => {
                let operand = self.evaluate_node(operand)?;
                if *optional {
                    select_optional(&operand, field)
                } else {
                    select_field(&operand, field)
                }
            }
            Node::Has { operand, field } => match self.evaluate_node(operand)? {
                Val::Map(map) => Ok(Val::Bool(find_field(&map, field).transpose()?.is_some())),
                Val::Optional(None) => Ok(Val::Bool(false)),
                Val::Optional(Some(value)) => match &*value {
                    Val::Map(map) => Ok(Val::Bool(find_field(map, field).transpose()?.is_some())),
                    _ => Err(Error::no_such_overload()),
                },
                _ => Err(Error::no_such_overload()),
            },
            Node::Index { operand, index, optional } => {
                let operand = self.evaluate_node(operand)?;
                let index = self.evaluate_node(index)?;
                index_optional(operand, &index, *optional)
            }
            Node::Not(operand) => Ok(Val::Bool(!self.evaluate_node(operand)?.as_bool()?)),
            Node::Negate(operand) => match self.evaluate_node(operand)? {
                Val::Int(value) => {
                    value.checked_neg().map(Val::Int).ok_or_else(|| Error::new("integer overflow"))
                }
                Val::Double(value) => Ok(Val::Double(-value)),
                _ => Err(Error::no_such_overload()),
            },
            Node::And(operands) => self.evaluate_logical(operands, false),
            Node::Or(operands) => self.evaluate_logical(operands, true),
            Node::If { condition, then, otherwise } => {
                let holds = self.evaluate_node(condition)?.as_bool()?;
                self.evaluate_node(if holds { then } else { otherwise })
            }
            Node::Binary(operator, a, b) => {
                let a = self.evaluate_node(a)?;
                let b = self.evaluate_node(b)?;
                operator.apply(a, b, self.budget)
            }
            Node::Comprehension { range: over, comprehension: fold } => {
                self.evaluate_comprehension(over, fold)
            }
            Node::Bind { value, body } => {
                let value = self.evaluate_node(value)?;
                self.evaluate_with_variable(value, body)
            }
            Node::Call { function, target, args } => {
                let target =
                    target.as_ref().map(|target| self.evaluate_node(target)).transpose()?;
                let args =
                    args.iter().map(|arg| self.evaluate_node(arg)).collect::<Result<_, _>>()?;
                function.apply(target, args, self.budget)
            }
        }
    }

    /// Evaluates `&&` and `||`: one deciding value wins, also over errors.
    fn evaluate_logical(&mut self, operands: &'a [Node], deciding: bool) -> Result<Val<'a>, Error> {
        let mut verdict = LogicalResult::new(deciding);
        for operand in operands {
            if verdict.add(self.evaluate_node(operand).and_then(|value| value.as_bool())) {
                break;
            }
        }
        verdict.result().map(Val::Bool)
    }

    fn evaluate_list(&mut self, elements: &'a [(Node, bool)]) -> Result<Val<'a>, Error> {
        let mut items = Vec::with_capacity(elements.len());
        for (element, optional) in elements {
            let value = self.evaluate_node(element)?;
            if *optional {
                items.extend(unwrap_optional(value)?);
            } else {
                items.push(value);
            }
        }
        Ok(Val::list(items))
    }

    fn evaluate_map(&mut self, entries: &'a [MapEntry]) -> Result<Val<'a>, Error> {
        let mut map: Vec<(Val<'a>, Val<'a>)> = Vec::with_capacity(entries.len());
        for entry in entries {
            let key = self.evaluate_node(&entry.key)?;
            let value = self.evaluate_node(&entry.value)?;
            let value = if entry.optional { unwrap_optional(value)? } else { Some(value) };
            if let Some(value) = value {
                map.retain(|(known, _)| !is_same_key(known, &key)); // the last of a key counts
                map.push((key, value));
            }
        }
        Ok(Val::Map(Map::Computed(map.into())))
    }

    fn evaluate_comprehension(
        &mut self,
        over: &'a Node,
        fold: &'a Comprehension,
    ) -> Result<Val<'a>, Error> {
        let elements: Vec<Result<Val<'a>, Error>> = match self.evaluate_node(over)? {
            Val::List(list) => {
                self.budget.charge(list.len() as u64)?;
                list.iter().collect()
            }
            Val::Map(map) => {
                self.budget.charge(map.len() as u64)?;
                map.keys().into_iter().map(Ok).collect()
            }
            _ => return Err(Error::no_such_overload()),
        };
        match fold {
            Comprehension::All(predicate) => self.evaluate_quantifier(elements, predicate, false),
            Comprehension::Exists(predicate) => self.evaluate_quantifier(elements, predicate, true),
            Comprehension::ExistsOne(predicate) => {
                let mut count = 0;
                for element in elements {
                    if self.evaluate_with_variable(element?, predicate)?.as_bool()? {
                        count += 1;
                    }
                }
                Ok(Val::Bool(count == 1))
            }
            Comprehension::FilterMap { filter, transform } => {
                let mut items = Vec::new();
                for element in elements {
                    let element = element?;
                    let passes = match filter {
                        Some(filter) => {
                            self.evaluate_with_variable(element.clone(), filter)?.as_bool()?
                        }
                        None => true,
                    };
                    if passes {
                        items.push(self.evaluate_with_variable(element, transform)?);
                    }
                }
                Ok(Val::list(items))
            }
        }
    }

    /// Evaluates `all` and `exists`.
    ///
    /// An element that fails does not end the search: a later one may decide.
    fn evaluate_quantifier(
        &mut self,
        elements: Vec<Result<Val<'a>, Error>>,
        predicate: &'a Node,
        deciding: bool,
    ) -> Result<Val<'a>, Error> {
        let mut verdict = LogicalResult::new(deciding);
        for element in elements {
            let holds = element
                .and_then(|element| self.evaluate_with_variable(element, predicate))
                .and_then(|value| value.as_bool());
            if verdict.add(holds) {
                break;
            }
        }
        verdict.result().map(Val::Bool)
    }

    /// Evaluates a node with one more variable.
    fn evaluate_with_variable(&mut self, value: Val<'a>, node: &'a Node) -> Result<Val<'a>, Error> {
        self.slots.push(value);
        let result = self.evaluate_node(node);
        self.slots.pop();
        result
    }
}

/// The combined result of several booleans or errors.
///
/// One deciding value decides, else the first error stands, else the opposite holds.
struct LogicalResult {
    deciding: bool,
    decided: bool,
    error: Option<Error>,
}

impl LogicalResult {
    fn new(deciding: bool) -> Self {
        Self { deciding, decided: false, error: None }
    }

    /// Returns whether nothing more is needed.
    fn add(&mut self, value: Result<bool, Error>) -> bool {
        match value {
            Ok(value) => self.decided |= value == self.deciding,
            Err(error) => {
                self.error.get_or_insert(error);
            }
        }
        self.decided
    }

    fn result(self) -> Result<bool, Error> {
        match (self.decided, self.error) {
            (true, _) => Ok(self.deciding),
            (false, Some(error)) => Err(error),
            (false, None) => Ok(!self.deciding),
        }
    }
}

fn find_field<'a>(map: &Map<'a>, field: &FieldName) -> Option<Result<Val<'a>, Error>> {
    map.select(&field.escaped, field.unescaped.as_deref())
}

fn select_field<'a>(operand: &Val<'a>, field: &FieldName) -> Result<Val<'a>, Error> {
    match operand {
        Val::Map(map) => {
            find_field(map, field).unwrap_or_else(|| Err(Error::no_such_key(&field.escaped)))
        }
        // A field of an optional is an optional.
        Val::Optional(_) => select_optional(operand, field),
        _ => Err(Error::no_such_overload()),
    }
}

fn select_optional<'a>(operand: &Val<'a>, field: &FieldName) -> Result<Val<'a>, Error> {
    match operand {
        Val::Optional(None) => Ok(Val::Optional(None)),
        Val::Optional(Some(value)) => select_optional(value, field),
        Val::Map(map) => match find_field(map, field).transpose()? {
            Some(value) => Ok(Val::some(value)),
            None => Ok(Val::Optional(None)),
        },
        _ => Err(Error::no_such_overload()),
    }
}

fn index_optional<'a>(operand: Val<'a>, index: &Val<'a>, optional: bool) -> Result<Val<'a>, Error> {
    match (operand, optional) {
        (Val::Optional(None), _) => Ok(Val::Optional(None)),
        (Val::Optional(Some(value)), _) => index_optional(Val::clone(&value), index, true),
        (operand, false) => match lookup_index(&operand, index)? {
            Some(value) => Ok(value),
            None => Err(match (&operand, index) {
                (Val::Map(_), Val::String(key)) => Error::no_such_key(key),
                (Val::Map(_), Val::Int(key)) => Error::no_such_key(&key.to_string()),
                (_, Val::Int(index)) => Error::new(format!("index out of bounds: {index}")),
                _ => Error::no_such_overload(),
            }),
        },
        (operand, true) => match lookup_index(&operand, index)? {
            Some(value) => Ok(Val::some(value)),
            None => Ok(Val::Optional(None)),
        },
    }
}

fn lookup_index<'a>(operand: &Val<'a>, index: &Val<'a>) -> Result<Option<Val<'a>>, Error> {
    match (operand, index) {
        (Val::Map(map), key) => map.get(key).transpose(),
        (Val::List(list), Val::Int(index)) => {
            usize::try_from(*index).ok().and_then(|index| list.get(index)).transpose()
        }
        _ => Err(Error::no_such_overload()),
    }
}

fn unwrap_optional(value: Val<'_>) -> Result<Option<Val<'_>>, Error> {
    match value {
        Val::Optional(value) => Ok(value.map(|value| Val::clone(&value))),
        _ => Err(Error::no_such_overload()),
    }
}
