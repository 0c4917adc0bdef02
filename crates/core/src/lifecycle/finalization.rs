//! How a deleted claim goes (spec 40 §2.1).
//!
//! ```text
//! deadline ──▶ its nodes go first ──▶ the instance ends ──▶ the finalizer is removed
//! ```

use jiff::{SignedDuration, Timestamp};

/// What counts of a claim that is being deleted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// Whether our finalizer is on it.
    pub has_finalizer: bool,
    /// Whether its node has registered.
    pub is_registered: bool,
    /// How many nodes have its provider id.
    pub nodes: usize,
    /// Whether it has an instance, as far as is known.
    pub has_instance: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: it is not ours any more.
    Done,
    /// Delete those nodes that are not on their way, and wait until all are gone. Nodes that did
    /// not register have no finalizer of ours; they go with the instance.
    DeleteNodes,
    /// Terminate the instance, and wait until it is gone.
    TerminateInstance,
    /// Remove the finalizer.
    RemoveFinalizer,
}

/// The step of the claim.
pub fn next(facts: Facts) -> Step {
    if !facts.has_finalizer {
        Step::Done
    } else if facts.is_registered && facts.nodes > 0 {
        Step::DeleteNodes
    } else if facts.has_instance {
        Step::TerminateInstance
    } else {
        Step::RemoveFinalizer
    }
}

/// When the claim has to be gone: to be written down, unless there is a time already. None without
/// a grace period.
pub fn deadline(
    has_deadline: bool,
    deleted: Timestamp,
    grace_period: Option<SignedDuration>,
) -> Option<Timestamp> {
    let grace_period = grace_period.filter(|_| !has_deadline)?;
    Some(deleted.saturating_add(grace_period).unwrap_or(deleted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalization_deletes_nodes_then_the_instance_then_the_claim() {
        #[rustfmt::skip]
        let cases = [
            // case             finalizer  registered  nodes  instance  step
            ("not ours",        false,     true,       1,     true,     Step::Done),
            ("40/TM-36",        true,      false,      0,     false,    Step::RemoveFinalizer),
            ("40/TM-37",        true,      false,      1,     true,     Step::TerminateInstance),
            ("40/TM-38",        true,      true,       2,     true,     Step::DeleteNodes),
            ("40/TM-34",        true,      true,       0,     true,     Step::TerminateInstance),
        ];
        for (case, has_finalizer, is_registered, nodes, has_instance, step) in cases {
            let facts = Facts { has_finalizer, is_registered, nodes, has_instance };
            assert_eq!(next(facts), step, "{case}");
        }
    }

    #[test]
    fn the_deadline_is_set_once() {
        let deleted = Timestamp::UNIX_EPOCH;
        let hour = SignedDuration::from_hours(1);
        let cases = [
            ("40/TM-39", false, Some(hour), Some(deleted + hour)),
            ("40/TM-40", true, Some(hour), None),
            ("40/TM-41", false, None, None),
            ("at once", false, Some(SignedDuration::ZERO), Some(deleted)),
            ("no overflow", false, Some(SignedDuration::MAX), Some(Timestamp::MAX)),
        ];
        for (case, has_deadline, grace_period, expected) in cases {
            assert_eq!(deadline(has_deadline, deleted, grace_period), expected, "{case}");
        }
    }
}
