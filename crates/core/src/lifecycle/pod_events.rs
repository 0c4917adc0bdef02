//! When a pod's change counts for consolidation, and is noted on the claim (spec 40 §1.8).

use jiff::{SignedDuration, Timestamp};

/// The least time between two updates of the last pod event.
const DEDUPE_INTERVAL: SignedDuration = SignedDuration::from_secs(10);

/// What counts of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "four answers that do not depend on each other")]
pub struct PodFacts {
    /// Whether it has a node.
    pub is_bound: bool,
    /// Whether it has ended.
    pub is_terminal: bool,
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// Whether it belongs to a daemon, which comes with the node.
    pub is_daemon: bool,
}

/// Whether a change of a pod resets consolidateAfter of its node.
/// The pod was bound, ended, or started to terminate. `before` is none for a new pod.
pub fn is_pod_event(before: Option<PodFacts>, after: PodFacts) -> bool {
    if !after.is_bound || after.is_daemon {
        return false;
    }
    before.is_none_or(|before| {
        !before.is_bound
            || (!before.is_terminal && after.is_terminal)
            || (!before.is_terminating && after.is_terminating)
    })
}

/// Whether the last pod event of a claim has to be updated now.
pub fn is_update_due(last: Option<Timestamp>, now: Timestamp) -> bool {
    last.is_none_or(|last| now.duration_since(last) >= DEDUPE_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binding_ending_and_terminating_pods_are_pod_events() {
        let unbound = PodFacts::default();
        let bound = PodFacts { is_bound: true, ..unbound };
        let terminal = PodFacts { is_terminal: true, ..bound };
        let terminating = PodFacts { is_terminating: true, ..bound };
        let daemon = PodFacts { is_daemon: true, ..bound };
        #[rustfmt::skip]
        let cases = [
            ("40/LC-46",          Some(unbound),     bound,       true),
            ("new and bound",     None,              bound,       true),
            ("40/LC-48: unbound", None,              unbound,     false),
            ("40/LC-48: daemon",  Some(unbound),     daemon,      false),
            ("nothing new",       Some(bound),       bound,       false),
            ("ended",             Some(bound),       terminal,    true),
            ("ended before",      Some(terminal),    terminal,    false),
            ("leaves",            Some(bound),       terminating, true),
            ("leaves still",      Some(terminating), terminating, false),
        ];
        for (case, before, after, expected) in cases {
            assert_eq!(is_pod_event(before, after), expected, "{case}");
        }
    }

    #[test]
    fn last_pod_event_updates_are_ten_seconds_apart() {
        let second = |n| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(n);
        let cases = [
            ("40/LC-46", None, true),
            ("40/LC-47", Some(5), false),
            ("40/LC-47", Some(11), true),
            ("at ten", Some(10), true),
        ];
        for (case, age, due) in cases {
            let last = age.map(|age: i64| second(100 - age));
            assert_eq!(is_update_due(last, second(100)), due, "{case}");
        }
    }
}
