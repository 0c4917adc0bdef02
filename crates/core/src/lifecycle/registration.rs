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

/// The result of a registration hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookResult {
    /// It is done.
    Done,
    /// It has to be called again after this time.
    RequeueAfter(Duration),
    /// It has to be called again with backoff.
    Backoff,
    /// It failed.
    Failed,
}

/// The combined results of all registration hooks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookResults {
    /// Positions of those that are not done, in their order.
    pub pending: Vec<usize>,
    /// Whether one of them requires backoff.
    pub has_backoff: bool,
    /// The shortest requeue time that one of them requires.
    pub requeue_after: Option<Duration>,
}

/// Combines the results of hooks.
/// The node may register when none is pending.
pub fn combine_hook_results(answers: &[HookResult]) -> HookResults {
    let mut all = HookResults::default();
    for (position, answer) in answers.iter().enumerate() {
        match answer {
            HookResult::Done => continue,
            HookResult::Failed => {}
            HookResult::Backoff => all.has_backoff = true,
            HookResult::RequeueAfter(time) => {
                all.requeue_after =
                    Some(all.requeue_after.map_or(*time, |so_far| so_far.min(*time)));
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
    fn the_shortest_requeue_time_of_the_hooks_counts() {
        let [five, nine] = [5, 9].map(Duration::from_secs);
        let wait = |pending: &[usize], has_backoff, after| HookResults {
            pending: pending.to_vec(),
            has_backoff,
            requeue_after: after,
        };
        #[rustfmt::skip]
        let cases: [(&str, &[HookResult], HookResults); 6] = [
            ("40/LC-22", &[],                                                   HookResults::default()),
            ("done",     &[HookResult::Done, HookResult::Done],                             HookResults::default()),
            ("40/LC-19", &[HookResult::Done, HookResult::RequeueAfter(five)],                      wait(&[1], false, Some(five))),
            ("40/LC-20", &[HookResult::Failed, HookResult::Done, HookResult::RequeueAfter(five)],        wait(&[0, 2], false, Some(five))),
            ("shortest", &[HookResult::RequeueAfter(nine), HookResult::RequeueAfter(five)],               wait(&[0, 1], false, Some(five))),
            ("backoff",  &[HookResult::RequeueAfter(nine), HookResult::Backoff],                   wait(&[0, 1], true, Some(nine))),
        ];
        for (case, answers, expected) in cases {
            assert_eq!(combine_hook_results(answers), expected, "{case}");
        }
    }
}
