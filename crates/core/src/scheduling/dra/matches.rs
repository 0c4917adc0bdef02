//! Which devices a selector matches, as a table.
//!
//! Selectors are CEL, which the core does not speak. Whoever makes a snapshot evaluates every
//! selector on every device once ([`DynamicState::evaluate_selectors`]), and the search looks the
//! answers up. A selector sees a device's [shape](DeviceShape) only, so devices that look the same
//! need one answer, whether they are published or an instance type's templates.
//!
//! [`DynamicState::evaluate_selectors`]: super::DynamicState::evaluate_selectors

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::types::DeviceShape;

/// Answers by selector and device shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matches {
    shapes: BTreeMap<Arc<DeviceShape>, usize>,
    by_selector: BTreeMap<String, Answers>,
}

#[derive(Clone, Debug, PartialEq)]
enum Answers {
    /// The selector does not compile.
    Broken(String),
    /// By the position of the shape.
    Known(Vec<Result<bool, String>>),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectorError {
    /// The selector is no valid expression, whatever the device.
    Compile(String),
    /// It has no value for the device.
    Evaluate(String),
}

impl Matches {
    /// A table for these selectors and shapes. What this one knows is not asked again.
    #[must_use]
    pub fn refreshed(
        &self,
        selectors: &BTreeSet<String>,
        shapes: BTreeSet<Arc<DeviceShape>>,
        evaluate: &dyn Fn(&str, &DeviceShape) -> Result<bool, SelectorError>,
    ) -> Self {
        // Where the shapes are in this table, looked up once and not for each selector.
        let old: Vec<_> = shapes.iter().map(|shape| self.shapes.get(shape).copied()).collect();
        let answers = |selector: &str| {
            let known = match self.by_selector.get(selector) {
                Some(broken @ Answers::Broken(_)) => return broken.clone(),
                Some(Answers::Known(known)) => known.as_slice(),
                // Asked even without any device, so that a broken selector is always found.
                None => match evaluate(selector, &DeviceShape::default()) {
                    Err(SelectorError::Compile(why)) => return Answers::Broken(why),
                    _ => &[],
                },
            };
            let answer = |(shape, old): (&Arc<DeviceShape>, &Option<usize>)| {
                old.and_then(|position| known.get(position).cloned()).unwrap_or_else(|| {
                    evaluate(selector, shape).map_err(|why| match why {
                        SelectorError::Compile(why) | SelectorError::Evaluate(why) => why,
                    })
                })
            };
            Answers::Known(shapes.iter().zip(&old).map(answer).collect())
        };
        let by_selector = selectors.iter().map(|text| (text.clone(), answers(text))).collect();
        let shapes = shapes.into_iter().enumerate().map(|(position, shape)| (shape, position));
        Self { shapes: shapes.collect(), by_selector }
    }

    /// Whether a device matches a selector.
    pub(super) fn get(&self, selector: &str, shape: &DeviceShape) -> Result<bool, SelectorError> {
        let unknown = || SelectorError::Evaluate("not evaluated".to_owned());
        match self.by_selector.get(selector).ok_or_else(unknown)? {
            Answers::Broken(why) => Err(SelectorError::Compile(why.clone())),
            Answers::Known(answers) => {
                let position = self.shapes.get(shape).ok_or_else(unknown)?;
                let answer = answers.get(*position).ok_or_else(unknown)?;
                answer.clone().map_err(SelectorError::Evaluate)
            }
        }
    }

    /// Whether a device matches all selectors. The first that does not, or cannot be evaluated,
    /// decides; the error names it.
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

    /// Why a selector does not compile.
    pub(super) fn compile_error(&self, selector: &str) -> Option<String> {
        match self.by_selector.get(selector)? {
            Answers::Broken(why) => Some(SelectorError::Compile(why.clone()).to_string()),
            Answers::Known(_) => None,
        }
    }
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compile(why) => write!(f, "failed to compile: {why}"),
            Self::Evaluate(why) => write!(f, "evaluation failed: {why}"),
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
    fn known_answers_are_not_asked_again() {
        let asked = RefCell::new(Vec::new());
        let evaluate = |selector: &str, shape: &DeviceShape| {
            asked.borrow_mut().push(format!("{selector}({})", shape.driver));
            match selector {
                "broken" => Err(SelectorError::Compile("no sense".to_owned())),
                _ => Ok(*shape.driver == *selector),
            }
        };
        let selectors = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let first = Matches::default().refreshed(
            &selectors(&["a", "broken"]),
            [shape("a"), shape("b")].into(),
            &evaluate,
        );
        assert_eq!(asked.take(), ["a()", "a(a)", "a(b)", "broken()"]);
        let second = first.refreshed(
            &selectors(&["a", "broken"]),
            [shape("0"), shape("b")].into(),
            &evaluate,
        );
        assert_eq!(asked.take(), ["a(0)"]);
        assert_eq!(second.get("a", &shape("b")), Ok(false));
        let unknown = SelectorError::Evaluate("not evaluated".to_owned());
        assert_eq!(second.get("a", &shape("a")), Err(unknown), "nobody needs it any more");
    }
}
