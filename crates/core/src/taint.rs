//! Taints of a node.

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
}
