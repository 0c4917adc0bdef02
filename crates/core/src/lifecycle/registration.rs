//! A node joins the cluster and becomes the claim's (spec 40 §1.3).

use std::time::Duration;

use super::ConditionStatus;

/// What to do about the registration of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing but to keep the condition current: it is decided, also when it is False.
    Settled,
    /// There is no node yet.
    NodeNotFound,
    /// There are several, so none can be trusted.
    MultipleNodesFound,
    /// Make the node the claim's.
    Sync,
}

/// The step of a claim whose condition Registered is so, with so many nodes of its provider id.
pub fn next(registered: ConditionStatus, nodes: usize) -> Step {
    match (registered, nodes) {
        (ConditionStatus::True | ConditionStatus::False, _) => Step::Settled,
        (ConditionStatus::Unknown, 0) => Step::NodeNotFound,
        (ConditionStatus::Unknown, 1) => Step::Sync,
        (ConditionStatus::Unknown, _) => Step::MultipleNodesFound,
    }
}

/// What a registration hook answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// It is done.
    Done,
    /// It wants to be asked again after this time.
    After(Duration),
    /// It wants to be asked again with backoff.
    Backoff,
    /// It failed.
    Failed,
}

/// What all hooks together answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Positions of those that are not done, in their order.
    pub pending: Vec<usize>,
    /// Whether one of them asked for backoff.
    pub has_backoff: bool,
    /// The shortest time that one of them asked for.
    pub after: Option<Duration>,
}

/// Puts the answers of hooks together. The node may register when none is pending.
pub fn hooks(answers: &[Hook]) -> Hooks {
    let mut all = Hooks::default();
    for (position, answer) in answers.iter().enumerate() {
        match answer {
            Hook::Done => continue,
            Hook::Failed => {}
            Hook::Backoff => all.has_backoff = true,
            Hook::After(time) => {
                all.after = Some(all.after.map_or(*time, |so_far| so_far.min(*time)));
            }
        }
        all.pending.push(position);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use ConditionStatus::{False, True, Unknown};

    #[test]
    fn one_node_is_synced_until_the_condition_is_decided() {
        #[rustfmt::skip]
        let cases = [
            // case                   registered  nodes  step
            ("40/LC-10",              Unknown,    1,     Step::Sync),
            ("40/LC-17",              Unknown,    2,     Step::MultipleNodesFound),
            ("40/LC-18",              Unknown,    0,     Step::NodeNotFound),
            ("40/LC-16",              True,       1,     Step::Settled),
            ("40/LC-17: is final",    False,      1,     Step::Settled),
        ];
        for (case, registered, nodes, step) in cases {
            assert_eq!(next(registered, nodes), step, "{case}");
        }
    }

    #[test]
    fn hooks_wait_as_short_as_one_of_them_asks() {
        let [five, nine] = [5, 9].map(Duration::from_secs);
        let wait = |pending: &[usize], has_backoff, after| Hooks {
            pending: pending.to_vec(),
            has_backoff,
            after,
        };
        #[rustfmt::skip]
        let cases: [(&str, &[Hook], Hooks); 6] = [
            ("40/LC-22", &[],                                                   Hooks::default()),
            ("done",     &[Hook::Done, Hook::Done],                             Hooks::default()),
            ("40/LC-19", &[Hook::Done, Hook::After(five)],                      wait(&[1], false, Some(five))),
            ("40/LC-20", &[Hook::Failed, Hook::Done, Hook::After(five)],        wait(&[0, 2], false, Some(five))),
            ("shortest", &[Hook::After(nine), Hook::After(five)],               wait(&[0, 1], false, Some(five))),
            ("backoff",  &[Hook::After(nine), Hook::Backoff],                   wait(&[0, 1], true, Some(nine))),
        ];
        for (case, answers, expected) in cases {
            assert_eq!(hooks(answers), expected, "{case}");
        }
    }
}
