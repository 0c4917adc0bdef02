//! Taints of a node, and what pods tolerate (spec 20 §1.9).

use std::fmt;

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaintEffect {
    /// New pods stay away.
    NoSchedule,
    /// New pods stay away if they can.
    PreferNoSchedule,
    /// Running pods are evicted as well.
    NoExecute,
}

/// Keeps pods away from a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    /// The key.
    pub key: String,
    /// The value, often empty.
    pub value: String,
    /// What it does.
    pub effect: TaintEffect,
}

/// `key=value:effect`, or `key:effect` without a value.
impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, effect } = self;
        if value.is_empty() {
            write!(f, "{key}:{effect:?}")
        } else {
            write!(f, "{key}={value}:{effect:?}")
        }
    }
}

/// What a pod puts up with. Absent texts are empty; the operator is as written, since an unknown
/// one matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Toleration {
    /// The key; empty for every key.
    pub key: String,
    /// `Equal` (also empty), `Exists`, `Lt` or `Gt`.
    pub operator: String,
    /// The value to compare with.
    pub value: String,
    /// The effect; none for every effect.
    pub effect: Option<TaintEffect>,
}

impl Taint {
    /// Returns whether two taints have the same key and effect, whatever the value.
    pub fn matches(&self, other: &Self) -> bool {
        self.key == other.key && self.effect == other.effect
    }
}

impl Toleration {
    /// Tolerates every PreferNoSchedule taint: what the last step of relaxation adds.
    pub fn prefer_no_schedule() -> Self {
        Self {
            operator: "Exists".to_owned(),
            effect: Some(TaintEffect::PreferNoSchedule),
            ..Self::default()
        }
    }

    /// Whether this toleration covers a taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let integers = || Some((integer(&taint.value)?, integer(&self.value)?));
        self.effect.is_none_or(|effect| effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match self.operator.as_str() {
                "" | "Equal" => self.value == taint.value,
                "Exists" => true,
                "Lt" => integers().is_some_and(|(taint, bound)| taint < bound),
                "Gt" => integers().is_some_and(|(taint, bound)| taint > bound),
                _ => false,
            }
    }
}

/// The number of a text without plus sign and leading zeros: others are no integers to Kubernetes.
fn integer(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number: &i64| number.to_string() == text)
}

/// Returns the taints, of any effect, that no toleration covers.
pub fn untolerated_taints<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> Vec<&'a Taint> {
    taints.iter().filter(|taint| !tolerations.iter().any(|t| t.tolerates(taint))).collect()
}

/// Taints that a node starts with and that go away by themselves: key and effect, whatever the
/// value (spec 10 §9.3). Unreachable with NoExecute is not among them.
const EPHEMERAL: [(&str, TaintEffect); 5] = [
    ("node.kubernetes.io/not-ready", TaintEffect::NoSchedule),
    ("node.kubernetes.io/not-ready", TaintEffect::NoExecute),
    ("node.kubernetes.io/unreachable", TaintEffect::NoSchedule),
    ("node.cloudprovider.kubernetes.io/uninitialized", TaintEffect::NoSchedule),
    ("karpenter.sh/unregistered", TaintEffect::NoExecute),
];

/// Taints of the node readiness controller, one key per rule.
const EPHEMERAL_PREFIX: &str = "readiness.k8s.io/";

/// Whether a taint is expected to go away while a node initializes. Until then it neither keeps
/// pods off the node in decisions nor counts the node as initialized.
pub fn is_known_ephemeral(key: &str, effect: TaintEffect) -> bool {
    EPHEMERAL.contains(&(key, effect)) || key.starts_with(EPHEMERAL_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use TaintEffect::{NoExecute, NoSchedule, PreferNoSchedule};

    #[test]
    fn ephemeral_taints_match_by_key_and_effect() {
        #[rustfmt::skip]
        let cases = [
            ("10/KY-5", "readiness.k8s.io/foo",                           NoSchedule,       true),
            ("20/A29",  "readiness.k8s.io/x",                             PreferNoSchedule, true),
            ("20/A29",  "foo/readiness.k8s.io/bar",                       NoSchedule,       false),
            ("listed",  "node.kubernetes.io/not-ready",                   NoSchedule,       true),
            ("listed",  "node.kubernetes.io/not-ready",                   NoExecute,        true),
            ("effect",  "node.kubernetes.io/not-ready",                   PreferNoSchedule, false),
            ("listed",  "node.kubernetes.io/unreachable",                 NoSchedule,       true),
            ("effect",  "node.kubernetes.io/unreachable",                 NoExecute,        false),
            ("listed",  "node.cloudprovider.kubernetes.io/uninitialized", NoSchedule,       true),
            ("listed",  "karpenter.sh/unregistered",                      NoExecute,        true),
            ("effect",  "karpenter.sh/unregistered",                      NoSchedule,       false),
            ("other",   "karpenter.sh/disrupted",                         NoSchedule,       false),
        ];
        for (case, key, effect, expected) in cases {
            assert_eq!(is_known_ephemeral(key, effect), expected, "{case}: {key}:{effect:?}");
        }
    }

    fn taint(key: &str, value: &str, effect: TaintEffect) -> Taint {
        Taint { key: key.to_owned(), value: value.to_owned(), effect }
    }

    fn toleration(key: &str, operator: &str, value: &str) -> Toleration {
        let [key, operator, value] = [key, operator, value].map(str::to_owned);
        Toleration { key, operator, value, effect: None }
    }

    #[test]
    fn tolerations_match_by_effect_key_and_operator() {
        let v = taint("k", "v", NoSchedule);
        let five = taint("k", "5", NoSchedule);
        let with = |effect| Toleration { effect: Some(effect), ..toleration("k", "Exists", "") };
        #[rustfmt::skip]
        let cases = [
            ("20/A30",           toleration("k", "Equal", ""),   &v,    false),
            ("20/A31",           toleration("", "Exists", ""),   &v,    true),
            ("equal",            toleration("k", "Equal", "v"),  &v,    true),
            ("absent is Equal",  toleration("k", "", "v"),       &v,    true),
            ("other value",      toleration("k", "", "w"),       &v,    false),
            ("other key",        toleration("l", "", "v"),       &v,    false),
            ("any key, Equal",   toleration("", "Equal", "v"),   &v,    true),
            ("Exists, value",    toleration("k", "Exists", "x"), &v,    true),
            ("same effect",      with(NoSchedule),               &v,    true),
            ("other effect",     with(PreferNoSchedule),         &v,    false),
            ("less",             toleration("k", "Lt", "6"),     &five, true),
            ("not less",         toleration("k", "Lt", "5"),     &five, false),
            ("greater",          toleration("k", "Gt", "-4"),    &five, true),
            ("not greater",      toleration("k", "Gt", "5"),     &five, false),
            ("no integer",       toleration("k", "Gt", "a"),     &five, false),
            ("nothing",          toleration("k", "Gt", ""),      &five, false),
            ("plus sign",        toleration("k", "Gt", "+4"),    &five, false),
            ("leading zero",     toleration("k", "Gt", "04"),    &five, false),
            ("taint no integer", toleration("k", "Gt", "4"),     &v,    false),
            ("unknown operator", toleration("k", "Like", "v"),   &v,    false),
        ];
        for (case, toleration, taint, expected) in cases {
            assert_eq!(toleration.tolerates(taint), expected, "{case}: {toleration:?}, {taint}");
        }
    }

    #[test]
    fn every_taint_of_any_effect_needs_a_toleration() {
        let taints = [
            taint("a", "", NoSchedule),
            taint("b", "1", PreferNoSchedule),
            taint("c", "", NoExecute),
        ];
        let left = |tolerations: &[Toleration]| -> Vec<String> {
            untolerated_taints(&taints, tolerations).into_iter().map(ToString::to_string).collect()
        };
        assert_eq!(left(&[]), ["a:NoSchedule", "b=1:PreferNoSchedule", "c:NoExecute"]);
        assert_eq!(left(&[Toleration::prefer_no_schedule()]), ["a:NoSchedule", "c:NoExecute"]);
        assert_eq!(left(&[toleration("", "Exists", "")]), [""; 0], "20/A31");
    }

    #[test]
    fn taints_are_the_same_by_key_and_effect() {
        let one = taint("k", "1", NoSchedule);
        assert!(one.matches(&taint("k", "2", NoSchedule)));
        assert!(!one.matches(&taint("k", "1", NoExecute)));
        assert!(!one.matches(&taint("l", "1", NoSchedule)));
    }
}
