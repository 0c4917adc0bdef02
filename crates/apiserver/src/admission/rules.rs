//! Runs the rules of a schema over an object.
//!
//! Depth is that of the object or the schema, whichever ends first.

use serde_json::Value;

use super::cel::{Error, Fuel, Val};
use super::correlate::{OldItems, Pair};
use super::field::{FieldError, Path};
use super::rule::{Rule, Verdict};
use super::schema::{Additional, Kind, Schema};

/// The errors of all rules. With `old` it is an update: transition rules see the old values, and
/// other rules are not held against values that did not change.
pub(crate) fn validate(object: &Value, schema: &Schema, old: Option<&Value>) -> Vec<FieldError> {
    let mut walk = Walk { errors: Vec::new(), fuel_left: Fuel::PER_OBJECT };
    let place = Place {
        value: object,
        old,
        schema,
        root: true,
        change: Change { here: old.map(|old| Pair { new: object, old, schema }), above: None },
    };
    // An early end has left its error behind.
    let _ = walk.node(place, &Path::Root);
    walk.errors
}

#[derive(Clone, Copy)]
struct Place<'a> {
    value: &'a Value,
    /// What transition rules compare with.
    old: Option<&'a Value>,
    schema: &'a Schema,
    root: bool,
    change: Change<'a>,
}

/// Decides whether a value changed. What corresponds to nothing old is judged by the nearest
/// thing above it that does.
#[derive(Clone, Copy)]
struct Change<'a> {
    here: Option<Pair<'a>>,
    above: Option<Pair<'a>>,
}

impl<'a> Change<'a> {
    fn is_none(&self) -> bool {
        self.here.or(self.above).is_some_and(|pair| pair.is_unchanged())
    }

    fn below(self, child: impl FnOnce(Pair<'a>) -> Option<Pair<'a>>) -> Self {
        match self.here {
            None => self,
            Some(here) => Self { here: child(here), above: Some(here) },
        }
    }
}

/// No more rules may run: the budget is used up.
struct Stop;

struct Walk {
    errors: Vec<FieldError>,
    fuel_left: u64,
}

impl Walk {
    fn node(&mut self, place: Place<'_>, path: &Path<'_>) -> Result<(), Stop> {
        let Place { value, old, schema, change, .. } = place;
        if value.is_null() || !schema.rules_within {
            return Ok(()); // a rule about a null belongs to what holds it
        }
        self.rules(place, path)?;
        match value {
            Value::Array(items) => {
                let Some(item_schema) = &schema.items else { return Ok(()) };
                let old = old.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let old = OldItems::new(schema, old);
                let pairs = change.here.map(|pair| pair.items());
                for (index, item) in items.iter().enumerate() {
                    let place = Place {
                        value: item,
                        old: old.of(item),
                        schema: item_schema,
                        root: item_schema.embedded,
                        change: change.below(|_| pairs.as_ref()?.of(item)),
                    };
                    self.node(place, &path.index(index))?;
                }
            }
            Value::Object(map) => {
                for (name, value) in map {
                    let (schema, path) = match (schema.properties.get(name), &schema.additional) {
                        (Some(property), _) => (property, path.field(name)),
                        (None, Additional::Schema(values)) => (&**values, path.key(name)),
                        (None, Additional::Any | Additional::Absent) => continue,
                    };
                    if !schema.has_cel_type() {
                        continue;
                    }
                    let place = Place {
                        value,
                        old: old.and_then(|old| old.get(name)),
                        schema,
                        root: schema.embedded,
                        change: change.below(|pair| pair.field(name)),
                    };
                    self.node(place, &path)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn rules(&mut self, place: Place<'_>, path: &Path<'_>) -> Result<(), Stop> {
        let Place { value, old, schema, root, change } = place;
        if schema.rules.is_empty() {
            return Ok(());
        }
        let this = Val::of_scope(value, schema, root);
        let old = old.filter(|old| !old.is_null()).map(|old| Val::of_scope(old, schema, root));
        for rule in &schema.rules {
            let limit = Fuel::PER_RULE.min(self.fuel_left);
            let mut fuel = Fuel::new(limit);
            let verdict = rule.check(&this, old.as_ref(), &mut fuel);
            self.fuel_left -= limit - fuel.left();
            match verdict {
                Ok(Verdict::Holds) => {}
                Ok(Verdict::Fails(detail)) => {
                    // Blame for an old sin needs a change, except where the change is the point.
                    if rule.is_transition() || !change.is_none() {
                        let is_big = matches!(schema.kind, Some(Kind::Object | Kind::Array));
                        let shown = (!is_big).then_some(value);
                        self.errors.push(rule.failure(&path.bracketed(), shown, &detail));
                    }
                }
                Err(error) => self.evaluation_error(rule, schema, path, &error)?,
            }
        }
        Ok(())
    }

    fn evaluation_error(
        &mut self,
        rule: &Rule,
        schema: &Schema,
        path: &Path<'_>,
        error: &Error,
    ) -> Result<(), Stop> {
        let name = rule.name();
        let detail = match error {
            Error::OutOfFuel if self.fuel_left == 0 => "validation failed due to running out of \
                cost budget, no further validation rules will be run"
                .to_owned(),
            Error::OutOfFuel => format!(
                "'{error}': no further validation rules will be run due to call cost exceeds \
                 limit for rule: {name}"
            ),
            Error::Evaluation(text) if text.starts_with("no such overload") => format!(
                "'{error}': call arguments did not match a supported operator, function or macro \
                 signature for rule: {name}"
            ),
            Error::Evaluation(_) => format!("{error} evaluating rule: {name}"),
        };
        self.errors.push(FieldError::invalid(path.bracketed(), schema.type_name(), detail));
        match error {
            Error::OutOfFuel => Err(Stop),
            Error::Evaluation(_) => Ok(()),
        }
    }
}
