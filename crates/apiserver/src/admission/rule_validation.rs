//! Runs the CEL rules of a schema over an object.
//!
//! The depth is that of the object or the schema, whichever ends first.

use karpenter_cel::{CostBudget, Error, ItemIndex, Val};
use serde_json::Value;

use super::correlation::CorrelatedPair;
use super::field_error::{FieldError, FieldPath};
use super::schema::{AdditionalProperties, Schema, SchemaType};
use super::validation_rule::{RuleOutcome, ValidationRule};

/// Returns the errors of all rules.
///
/// With `old` it is an update: transition rules read the old values, and other rules do not apply
/// to values that did not change.
pub(crate) fn validate(object: &Value, schema: &Schema, old: Option<&Value>) -> Vec<FieldError> {
    let mut walk = RuleRunner { errors: Vec::new(), remaining_cost: CostBudget::PER_OBJECT };
    let place = RuleTarget {
        value: object,
        old,
        schema,
        root: true,
        change: ChangeTracker {
            pair: old.map(|old| CorrelatedPair { new: object, old, schema }),
            nearest_ancestor: None,
        },
    };
    // An early end has left its error behind.
    let _ = walk.run_value(place, &FieldPath::Root);
    walk.errors
}

#[derive(Clone, Copy)]
struct RuleTarget<'a> {
    value: &'a Value,
    /// The old value, for transition rules.
    old: Option<&'a Value>,
    schema: &'a Schema,
    root: bool,
    change: ChangeTracker<'a>,
}

/// Decides whether a value changed in an update.
///
/// A value without an old value is judged by its nearest ancestor that has one.
#[derive(Clone, Copy)]
struct ChangeTracker<'a> {
    pair: Option<CorrelatedPair<'a>>,
    nearest_ancestor: Option<CorrelatedPair<'a>>,
}

impl<'a> ChangeTracker<'a> {
    fn is_unchanged(&self) -> bool {
        self.pair.or(self.nearest_ancestor).is_some_and(|pair| pair.is_unchanged())
    }

    fn child(self, child: impl FnOnce(CorrelatedPair<'a>) -> Option<CorrelatedPair<'a>>) -> Self {
        match self.pair {
            None => self,
            Some(here) => Self { pair: child(here), nearest_ancestor: Some(here) },
        }
    }
}

/// The error that the cost budget is used up.
///
/// No more rules may run.
struct CostBudgetExhausted;

struct RuleRunner {
    errors: Vec<FieldError>,
    remaining_cost: u64,
}

impl RuleRunner {
    fn run_value(
        &mut self,
        place: RuleTarget<'_>,
        path: &FieldPath<'_>,
    ) -> Result<(), CostBudgetExhausted> {
        let RuleTarget { value, old, schema, change, .. } = place;
        if value.is_null() || !schema.contains_rules {
            return Ok(()); // a rule about a null belongs to what holds it
        }
        self.run_rules(place, path)?;
        match value {
            Value::Array(items) => {
                let Some(item_schema) = &schema.items else { return Ok(()) };
                let old = old.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let old = ItemIndex::new(&schema.structure.list_type, old);
                let pairs = change.pair.map(|pair| pair.items());
                for (index, item) in items.iter().enumerate() {
                    let place = RuleTarget {
                        value: item,
                        old: old.find(item),
                        schema: item_schema,
                        root: item_schema.structure.embedded_resource,
                        change: change.child(|_| pairs.as_ref()?.pair_of(item)),
                    };
                    self.run_value(place, &path.index(index))?;
                }
            }
            Value::Object(map) => {
                for (name, value) in map {
                    let (schema, path) =
                        match (schema.properties.get(name), &schema.additional_properties) {
                            (Some(property), _) => (property, path.field(name)),
                            (None, AdditionalProperties::Schema(values)) => {
                                (&**values, path.key(name))
                            }
                            (None, AdditionalProperties::Any | AdditionalProperties::Absent) => {
                                continue;
                            }
                        };
                    if !schema.structure.has_cel_type() {
                        continue;
                    }
                    let place = RuleTarget {
                        value,
                        old: old.and_then(|old| old.get(name)),
                        schema,
                        root: schema.structure.embedded_resource,
                        change: change.child(|pair| pair.field(name)),
                    };
                    self.run_value(place, &path)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn run_rules(
        &mut self,
        place: RuleTarget<'_>,
        path: &FieldPath<'_>,
    ) -> Result<(), CostBudgetExhausted> {
        let RuleTarget { value, old, schema, root, change } = place;
        if schema.rules.is_empty() {
            return Ok(());
        }
        let cel_schema = &schema.structure;
        let this = Val::from_self(value, cel_schema, root);
        let old = old.filter(|old| !old.is_null()).map(|old| Val::from_self(old, cel_schema, root));
        for rule in &schema.rules {
            let limit = CostBudget::PER_RULE.min(self.remaining_cost);
            let mut budget = CostBudget::new(limit);
            let verdict = rule.evaluate(&this, old.as_ref(), &mut budget);
            self.remaining_cost -= limit - budget.remaining();
            match verdict {
                Ok(RuleOutcome::Passed) => {}
                Ok(RuleOutcome::Failed(detail)) => {
                    // Blame for an old sin needs a change, except where the change is the point.
                    if rule.is_transition() || !change.is_unchanged() {
                        let is_big = matches!(
                            schema.structure.value_type,
                            Some(SchemaType::Object | SchemaType::Array)
                        );
                        let shown = (!is_big).then_some(value);
                        self.errors.push(rule.field_error(
                            &path.format_bracketed(),
                            shown,
                            &detail,
                        ));
                    }
                }
                Err(error) => self.push_evaluation_error(rule, schema, path, &error)?,
            }
        }
        Ok(())
    }

    fn push_evaluation_error(
        &mut self,
        rule: &ValidationRule,
        schema: &Schema,
        path: &FieldPath<'_>,
        error: &Error,
    ) -> Result<(), CostBudgetExhausted> {
        let name = rule.name();
        let detail = match error {
            Error::CostLimitExceeded if self.remaining_cost == 0 => {
                "validation failed due to running out of \
                cost budget, no further validation rules will be run"
                    .to_owned()
            }
            Error::CostLimitExceeded => format!(
                "'{error}': no further validation rules will be run due to call cost exceeds \
                 limit for rule: {name}"
            ),
            Error::Evaluation(text) if text.starts_with("no such overload") => format!(
                "'{error}': call arguments did not match a supported operator, function or macro \
                 signature for rule: {name}"
            ),
            Error::Evaluation(_) => format!("{error} evaluating rule: {name}"),
        };
        self.errors.push(FieldError::invalid(path.format_bracketed(), schema.type_name(), detail));
        match error {
            Error::CostLimitExceeded => Err(CostBudgetExhausted),
            Error::Evaluation(_) => Ok(()),
        }
    }
}
