//! Taints that Karpenter sets, and those that it waits for (spec 10 §9.3).

use k8s_openapi::api::core::v1::Taint;

use crate::labels;

/// On a node that is being disrupted or terminated; effect [`NO_SCHEDULE`], no value.
pub const DISRUPTED: &str = "karpenter.sh/disrupted";
/// On a node that repair is restarting; effect [`NO_SCHEDULE`], no value.
pub const REBOOTING: &str = "karpenter.sh/rebooting";
/// On a node from its start until registration; effect [`NO_EXECUTE`], no value.
pub const UNREGISTERED: &str = "karpenter.sh/unregistered";

/// The node is not ready yet, or no longer.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The node does not answer.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The cloud controller manager has not seen the node yet; value [`labels::TRUE`].
pub const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// Start of the keys that readiness gates of the node use.
pub const READINESS_PREFIX: &str = "readiness.k8s.io/";

/// Taint of nodes under disruption in former releases, value `disrupting`; unknown now.
pub const REMOVED_DISRUPTION: &str = "karpenter.sh/disruption";

/// Effect: new pods stay away.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// Effect: new pods stay away if they can.
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
/// Effect: pods leave.
pub const NO_EXECUTE: &str = "NoExecute";
/// Every effect.
pub const EFFECTS: [&str; 3] = [NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE];

/// The taint of a node that is being disrupted or terminated.
pub fn disrupted() -> Taint {
    taint(DISRUPTED, NO_SCHEDULE)
}

/// The taint of a node that repair is restarting.
pub fn rebooting() -> Taint {
    taint(REBOOTING, NO_SCHEDULE)
}

/// The taint that a node has to start with.
pub fn unregistered() -> Taint {
    taint(UNREGISTERED, NO_EXECUTE)
}

/// The taints that a node sheds by itself while it starts, besides keys under
/// [`READINESS_PREFIX`].
pub fn ephemeral() -> [Taint; 5] {
    [
        taint(NOT_READY, NO_SCHEDULE),
        taint(NOT_READY, NO_EXECUTE),
        taint(UNREACHABLE, NO_SCHEDULE),
        Taint { value: Some(labels::TRUE.to_owned()), ..taint(UNINITIALIZED, NO_SCHEDULE) },
        unregistered(),
    ]
}

/// Whether a node sheds `taint` by itself while it starts. Key and effect count, the value does
/// not.
pub fn is_ephemeral(taint: &Taint) -> bool {
    taint.key.starts_with(READINESS_PREFIX)
        || ephemeral().iter().any(|known| known.key == taint.key && known.effect == taint.effect)
}

/// The taint as conditions print it: `key:effect`, or `key=value:effect` with a value.
pub fn display(taint: &Taint) -> String {
    match taint.value.as_deref() {
        None | Some("") => format!("{}:{}", taint.key, taint.effect),
        Some(value) => format!("{}={value}:{}", taint.key, taint.effect),
    }
}

fn taint(key: &str, effect: &str) -> Taint {
    Taint { key: key.to_owned(), effect: effect.to_owned(), ..Taint::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn startup_taints_of_the_cluster_are_ephemeral() {
        #[rustfmt::skip]
        let cases = [
            // key                                     effect              ephemeral
            ("readiness.k8s.io/foo",                    NO_SCHEDULE,        true),
            ("readiness.k8s.io/foo",                    PREFER_NO_SCHEDULE, true),
            (NOT_READY,                                 NO_SCHEDULE,        true),
            (NOT_READY,                                 NO_EXECUTE,         true),
            (UNREACHABLE,                               NO_SCHEDULE,        true),
            (UNREACHABLE,                               NO_EXECUTE,         false),
            (UNINITIALIZED,                             NO_SCHEDULE,        true), // whatever the value
            (UNREGISTERED,                              NO_EXECUTE,         true),
            (DISRUPTED,                                 NO_SCHEDULE,        false),
            ("example.com/readiness.k8s.io",            NO_SCHEDULE,        false),
        ];
        for (key, effect, ephemeral) in cases {
            assert_eq!(is_ephemeral(&taint(key, effect)), ephemeral, "{key}:{effect}");
        }
    }

    #[test]
    fn taints_are_printed_with_their_value_only_if_they_have_one() {
        assert_eq!(display(&unregistered()), "karpenter.sh/unregistered:NoExecute");
        assert_eq!(display(&ephemeral()[3]), format!("{UNINITIALIZED}=true:NoSchedule"));
        let empty = Taint { value: Some(String::new()), ..rebooting() };
        assert_eq!(display(&empty), "karpenter.sh/rebooting:NoSchedule");
    }
}
