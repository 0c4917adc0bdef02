//! Stores which devices a selector matches, as a table.
//!
//! Selectors are CEL, which `core` does not evaluate. The caller that makes a snapshot evaluates
//! every selector on every device once ([`DynamicResourceState::evaluate_selectors`]), and the
//! search reads the results. A selector depends on a device's [shape](DeviceShape) only, so devices
//! of one shape need one result, whether they are published or come from an instance type's
//! templates.
//!
//! [`DynamicResourceState::evaluate_selectors`]: super::DynamicResourceState::evaluate_selectors

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::types::DeviceShape;

/// The most results that are kept, at two bytes each. Beyond it, devices match no selector.
const MOST_ANSWERS: usize = 50_000_000;

/// The results of selectors, by selector and device shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SelectorMatches {
    shapes: BTreeMap<Arc<DeviceShape>, usize>,
    by_selector: BTreeMap<String, SelectorResults>,
}

/// The results of one selector.
#[derive(Clone, Debug, PartialEq)]
enum SelectorResults {
    /// The selector does not compile.
    Broken(String),
    /// By the position of the shape.
    Known(ResultTable),
}

/// The results of a selector by shape: not evaluated, no, yes, or an error.
#[derive(Clone, Debug, Default, PartialEq)]
struct ResultTable {
    answers: Vec<u16>,
    errors: Vec<String>,
}

/// Why a selector has no result for a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectorError {
    /// The selector is no valid expression, for any device.
    Compile(String),
    /// The evaluation fails for the device.
    Evaluate(String),
    /// The selector was not evaluated yet. The next refresh evaluates it.
    NotEvaluated,
}

impl ResultTable {
    const UNKNOWN: u16 = 0;
    const NO: u16 = 1;
    const YES: u16 = 2;
    const FIRST_ERROR: u16 = 3;

    fn get(&self, position: usize) -> Result<bool, SelectorError> {
        match self.answers.get(position).copied().unwrap_or(Self::UNKNOWN) {
            Self::UNKNOWN => Err(SelectorError::NotEvaluated),
            Self::NO => Ok(false),
            Self::YES => Ok(true),
            code => {
                let error = self.errors.get(usize::from(code - Self::FIRST_ERROR));
                Err(error.cloned().map_or(SelectorError::NotEvaluated, SelectorError::Evaluate))
            }
        }
    }

    fn push(&mut self, answer: Result<bool, SelectorError>) {
        self.answers.push(match answer {
            Ok(false) => Self::NO,
            Ok(true) => Self::YES,
            Err(SelectorError::NotEvaluated) => Self::UNKNOWN,
            Err(SelectorError::Compile(why) | SelectorError::Evaluate(why)) => {
                // Most devices fail for the same reason.
                let known = self.errors.iter().position(|error| *error == why);
                let at = known.unwrap_or_else(|| {
                    if self.errors.len() < MOST_ERRORS {
                        self.errors.push(why);
                    }
                    self.errors.len() - 1
                });
                u16::try_from(at).map_or(Self::UNKNOWN, |at| at + Self::FIRST_ERROR)
            }
        });
    }
}

/// The most different errors of one selector that are kept.
///
/// Further devices get the last one.
const MOST_ERRORS: usize = 64;

impl SelectorMatches {
    /// Returns a table for these selectors and shapes.
    ///
    /// Results that this table has are not evaluated again.
    #[must_use]
    pub fn refreshed(
        &self,
        selectors: &BTreeSet<String>,
        shapes: BTreeSet<Arc<DeviceShape>>,
        evaluate: &dyn Fn(&str, &DeviceShape) -> Result<bool, SelectorError>,
    ) -> Self {
        // Positions of the shapes in this table, found once and not for each selector.
        let old: Vec<_> = shapes.iter().map(|shape| self.shapes.get(shape).copied()).collect();
        let unknown = ResultTable::default();
        let answers = |selector: &str| {
            let known = match self.by_selector.get(selector) {
                Some(broken @ SelectorResults::Broken(_)) => return broken.clone(),
                Some(SelectorResults::Known(known)) => known,
                // Evaluated even without any device, so that a broken selector is always found.
                None => match evaluate(selector, &DeviceShape::default()) {
                    Err(SelectorError::Compile(why)) => return SelectorResults::Broken(why),
                    _ => &unknown,
                },
            };
            let mut table = ResultTable::default();
            for (shape, old) in shapes.iter().zip(&old) {
                let known = old.map_or(Err(SelectorError::NotEvaluated), |at| known.get(at));
                table.push(match known {
                    Err(SelectorError::NotEvaluated) => evaluate(selector, shape),
                    known => known,
                });
            }
            SelectorResults::Known(table)
        };
        let most = MOST_ANSWERS / shapes.len().max(1);
        let selectors = selectors.iter().take(most);
        let by_selector = selectors.map(|text| (text.clone(), answers(text))).collect();
        let shapes = shapes.into_iter().enumerate().map(|(position, shape)| (shape, position));
        Self { shapes: shapes.collect(), by_selector }
    }

    /// Returns whether a device matches a selector.
    pub(super) fn get(&self, selector: &str, shape: &DeviceShape) -> Result<bool, SelectorError> {
        match self.by_selector.get(selector).ok_or(SelectorError::NotEvaluated)? {
            SelectorResults::Broken(why) => Err(SelectorError::Compile(why.clone())),
            SelectorResults::Known(table) => {
                table.get(*self.shapes.get(shape).ok_or(SelectorError::NotEvaluated)?)
            }
        }
    }

    /// Returns whether a device matches all selectors.
    ///
    /// The first selector that does not match, or cannot be evaluated, decides; the error names it.
    pub(super) fn all(&self, selectors: &[&str], shape: &DeviceShape) -> Result<bool, String> {
        for selector in selectors {
            match self.get(selector, shape) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(why) => return Err(format!("CEL expression {selector:?} {why}")),
            }
        }
        Ok(true)
    }

    /// Returns why a selector does not compile, or none if it does.
    pub(super) fn compile_error(&self, selector: &str) -> Option<String> {
        match self.by_selector.get(selector)? {
            SelectorResults::Broken(why) => Some(SelectorError::Compile(why.clone()).to_string()),
            SelectorResults::Known(_) => None,
        }
    }
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compile(why) => write!(f, "failed to compile: {why}"),
            Self::Evaluate(why) => write!(f, "evaluation failed: {why}"),
            Self::NotEvaluated => f.write_str("evaluation failed: not evaluated"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn shape(driver: &str) -> Arc<DeviceShape> {
        Arc::new(DeviceShape { driver: driver.into(), ..DeviceShape::default() })
    }

    #[test]
    fn known_selector_results_are_not_evaluated_again() {
        let evaluated = RefCell::new(Vec::new());
        let evaluate = |selector: &str, shape: &DeviceShape| {
            evaluated.borrow_mut().push(format!("{selector}({})", shape.driver));
            match selector {
                "broken" => Err(SelectorError::Compile("no sense".to_owned())),
                _ => Ok(*shape.driver == *selector),
            }
        };
        let selectors = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let first = SelectorMatches::default().refreshed(
            &selectors(&["a", "broken"]),
            [shape("a"), shape("b")].into(),
            &evaluate,
        );
        assert_eq!(evaluated.take(), ["a()", "a(a)", "a(b)", "broken()"]);
        let second = first.refreshed(
            &selectors(&["a", "broken"]),
            [shape("0"), shape("b")].into(),
            &evaluate,
        );
        assert_eq!(evaluated.take(), ["a(0)"]);
        assert_eq!(second.get("a", &shape("b")), Ok(false));
        let unknown = Err(SelectorError::NotEvaluated);
        assert_eq!(second.get("a", &shape("a")), unknown, "nobody needs it any more");
    }

    #[test]
    fn unevaluated_selectors_are_evaluated_on_the_next_refresh() {
        let table = |known: &SelectorMatches, answer: Result<bool, SelectorError>| {
            let shapes = [shape("a"), shape("b")].into();
            known.refreshed(&["s".to_owned()].into(), shapes, &|_, shape| match &*shape.driver {
                "b" => answer.clone(),
                _ => Ok(true),
            })
        };
        let first = table(&SelectorMatches::default(), Err(SelectorError::NotEvaluated));
        assert_eq!(first.get("s", &shape("b")), Err(SelectorError::NotEvaluated));
        let error = SelectorError::Evaluate("no such key".to_owned());
        let second = table(&first, Err(error.clone()));
        assert_eq!(second.get("s", &shape("b")), Err(error.clone()));
        let third = table(&second, Ok(true));
        assert_eq!(third.get("s", &shape("b")), Err(error), "an error is an answer");
        assert_eq!(third.get("s", &shape("a")), Ok(true));
    }

    #[test]
    fn errors_of_a_selector_are_bounded() {
        let shapes = (0..2 * MOST_ERRORS).map(|n| shape(&format!("{n:04}"))).collect();
        let table =
            SelectorMatches::default().refreshed(&["s".to_owned()].into(), shapes, &|_, shape| {
                Err(SelectorError::Evaluate(shape.driver.to_string()))
            });
        let of = |driver: &str| table.get("s", &shape(driver));
        assert_eq!(of("0001"), Err(SelectorError::Evaluate("0001".to_owned())));
        assert_eq!(of("0127"), Err(SelectorError::Evaluate("0063".to_owned())), "the last kept");
    }
}
