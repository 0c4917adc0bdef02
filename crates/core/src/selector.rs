//! Label selectors of workloads, spread constraints and affinity terms.

use std::collections::{BTreeMap, BTreeSet};

/// Labels of an object by key.
pub type Labels = BTreeMap<String, String>;

/// Which objects are meant, by their labels. All parts must hold; without any part every object is
/// selected. A selector that is absent or cannot be read is [`Selector::Nothing`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selector {
    /// Selects no object: the nil selector, and one that cannot be read.
    Nothing,
    /// Selects what meets all parts.
    Matching(LabelSelector),
}

/// The parts of a label selector. Their order and repetitions do not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelSelector {
    /// Labels with exactly these values.
    pub labels: Labels,
    /// Further conditions.
    pub expressions: BTreeSet<Expression>,
}

/// One condition on a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expression {
    /// The label.
    pub key: String,
    /// What its value must be.
    pub condition: Condition,
}

/// What the value of a label must be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// One of these.
    In(BTreeSet<String>),
    /// None of these; absence is fine.
    NotIn(BTreeSet<String>),
    /// Any value.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

impl Selector {
    /// Whether an object with these labels is meant.
    pub fn matches(&self, labels: &Labels) -> bool {
        match self {
            Self::Nothing => false,
            Self::Matching(selector) => selector.matches(labels),
        }
    }
}

impl LabelSelector {
    /// Returns a selector that requires exactly these labels.
    pub fn from_labels(labels: Labels) -> Self {
        Self { labels, expressions: BTreeSet::new() }
    }

    /// Whether an object with these labels is meant.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.expressions.iter().all(|expression| expression.matches(labels))
    }
}

impl Expression {
    fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match &self.condition {
            Condition::In(values) => value.is_some_and(|value| values.contains(value)),
            Condition::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Condition::Exists => value.is_some(),
            Condition::DoesNotExist => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn selectors_match_when_every_part_holds() {
        let values = |values: &[&str]| values.iter().map(|&value| value.to_owned()).collect();
        let a = labels(&[("app", "a")]);
        let on = |key: &str, condition| LabelSelector {
            labels: Labels::new(),
            expressions: [Expression { key: key.to_owned(), condition }].into(),
        };
        let both = LabelSelector { labels: a.clone(), ..on("tier", Condition::Exists) };
        #[rustfmt::skip]
        let cases = [
            ("no parts",          LabelSelector::default(),                              true),
            ("labels",            LabelSelector::from_labels(a.clone()),                   true),
            ("other value",       LabelSelector::from_labels(labels(&[("app", "b")])),     false),
            ("missing label",     LabelSelector::from_labels(labels(&[("tier", "")])),     false),
            ("In",                on("app", Condition::In(values(&["a", "b"]))),         true),
            ("In, other",         on("app", Condition::In(values(&["b"]))),              false),
            ("In, absent",        on("tier", Condition::In(values(&["b"]))),             false),
            ("NotIn",             on("app", Condition::NotIn(values(&["b"]))),           true),
            ("NotIn, excluded",   on("app", Condition::NotIn(values(&["a"]))),           false),
            ("NotIn, absent",     on("tier", Condition::NotIn(values(&["a"]))),          true),
            ("Exists",            on("app", Condition::Exists),                          true),
            ("Exists, absent",    on("tier", Condition::Exists),                         false),
            ("DoesNotExist",      on("tier", Condition::DoesNotExist),                   true),
            ("DoesNotExist, set", on("app", Condition::DoesNotExist),                    false),
            ("all parts",         both,                                                  false),
        ];
        for (case, selector, expected) in cases {
            let selector = Selector::Matching(selector);
            assert_eq!(selector.matches(&a), expected, "{case}: {selector:?}");
        }
        assert!(!Selector::Nothing.matches(&a));
    }
}
