//! Which policies the conditions of a node match, and what they come to (spec 45 §4.2, §4.3).
//!
//! Matching takes no time into account, so that it need be done only when the node changes.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::NodeCondition;
use super::policy::{Policies, RepairAction, RepairPolicy};

/// The time past its toleration that raises a repair by one rank.
const AGING_SECONDS: f64 = 30.0 * 60.0;

/// A policy that matches a condition of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyMatch {
    /// The policy; of the fallback action, toleration, grace period and priority count.
    pub policy: Arc<RepairPolicy>,
    /// Type of the condition.
    pub condition_type: String,
    /// Status of the condition.
    pub status: String,
    /// Reason of the condition.
    pub reason: String,
    /// When the condition has lasted long enough.
    pub eligible: Timestamp,
    rank: usize,
}

impl Policies {
    /// Returns the policies that match the conditions of a node.
    pub fn matches(
        &self,
        conditions: &[NodeCondition<'_>],
        created: Timestamp,
    ) -> Vec<PolicyMatch> {
        let mut matches = Vec::new();
        for condition in conditions {
            let Some(group) = self.policies_for(condition) else { continue };
            let specific = group.iter().filter(|one| one.reason.is_match(condition.reason));
            let before = matches.len();
            matches.extend(specific.map(|one| self.policy_match(&one.policy, condition, created)));
            if matches.len() == before {
                matches.push(self.policy_match(&self.fallback, condition, created));
            }
        }
        matches
    }

    /// Whether a condition is one that the set knows as bad, whatever its reason and for however
    /// long.
    pub fn is_unhealthy(&self, conditions: &[NodeCondition<'_>]) -> bool {
        conditions.iter().any(|condition| self.policies_for(condition).is_some())
    }

    fn policies_for(
        &self,
        condition: &NodeCondition<'_>,
    ) -> Option<&Vec<super::policy::ReasonPolicy>> {
        let pair = (condition.condition_type.to_owned(), condition.status.to_owned());
        self.groups.get(&pair)
    }

    fn policy_match(
        &self,
        policy: &Arc<RepairPolicy>,
        condition: &NodeCondition<'_>,
        created: Timestamp,
    ) -> PolicyMatch {
        // No condition is older than its node.
        let since = condition.since.map_or(created, |since| since.max(created));
        PolicyMatch {
            policy: Arc::clone(policy),
            condition_type: condition.condition_type.to_owned(),
            status: condition.status.to_owned(),
            reason: condition.reason.to_owned(),
            eligible: add_clamped(since, policy.toleration_duration),
            rank: self.rank(policy.priority),
        }
    }
}

/// The repair that is due for a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Repair {
    /// The action.
    pub action: RepairAction,
    /// The match that requires it.
    pub selected: PolicyMatch,
    /// Since when that one is due.
    pub eligible: Timestamp,
    /// The shortest bound of the drain, and the type of the condition that asks for it.
    pub grace_period: Option<(Duration, String)>,
    /// How urgent it is among others.
    pub score: f64,
}

impl Repair {
    /// Whether the default fallback requires it.
    pub fn is_fallback(&self) -> bool {
        self.selected.policy.reason_regex.is_empty()
    }
}

/// Returns the repair that matches require now; none if none is due.
/// After a reboot that ended at `rebooted`, conditions are tolerated once more.
pub fn resolve(
    matches: &[PolicyMatch],
    now: Timestamp,
    rebooted: Option<Timestamp>,
) -> Option<Repair> {
    let due: Vec<(&PolicyMatch, Timestamp)> = matches
        .iter()
        .map(|one| {
            let again = rebooted.map(|end| add_clamped(end, one.policy.toleration_duration));
            (one, again.map_or(one.eligible, |again| again.max(one.eligible)))
        })
        .filter(|(_, eligible)| *eligible <= now)
        .collect();
    let score = due.iter().map(|(one, eligible)| score(one.rank, *eligible, now));
    let score = score.max_by(f64::total_cmp)?;
    // The first of these orders is the most disruptive, then the most important, then the oldest.
    let (selected, eligible) = due.iter().copied().min_by(|(a, since_a), (b, since_b)| {
        let order = b.policy.action.cmp(&a.policy.action);
        let order = order.then(b.policy.priority.cmp(&a.policy.priority));
        order.then(since_a.cmp(since_b)).then(a.condition_type.cmp(&b.condition_type))
    })?;
    let bounds = due.iter().filter_map(|(one, eligible)| {
        let period = one.policy.termination_grace_period?;
        Some((period, *eligible, one.condition_type.as_str()))
    });
    Some(Repair {
        action: selected.policy.action,
        selected: selected.clone(),
        eligible,
        grace_period: bounds.min().map(|(period, _, of)| (period, of.to_owned())),
        score,
    })
}

#[expect(clippy::cast_precision_loss, reason = "ranks are at most 100")]
fn score(rank: usize, eligible: Timestamp, now: Timestamp) -> f64 {
    rank as f64 + now.duration_since(eligible).as_secs_f64() / AGING_SECONDS
}

fn add_clamped(time: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    time.checked_add(duration).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::policy::tests::policies;
    use super::*;
    use RepairAction::{RebootNode, ReplaceNode};

    fn start() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn minute(minutes: i64) -> Timestamp {
        start() + SignedDuration::from_mins(minutes)
    }

    /// Returns a False condition since a minute, with a reason.
    fn bad_condition<'a>(
        condition_type: &'a str,
        reason: &'a str,
        since: i64,
    ) -> NodeCondition<'a> {
        NodeCondition { condition_type, status: "False", reason, since: Some(minute(since)) }
    }

    fn resolve_at(texts: &[&str], conditions: &[NodeCondition<'_>], at: i64) -> Option<Repair> {
        let matches = policies(texts).unwrap().matches(conditions, start());
        resolve(&matches, minute(at), None)
    }

    #[track_caller]
    fn assert_score(repair: &Repair, expected: f64) {
        assert!((repair.score - expected).abs() < 1e-9, "{} for {expected}", repair.score);
    }

    #[test]
    fn a_specific_policy_suppresses_the_fallback_while_it_waits() {
        let policies =
            ["Gpu=False/XID(48|63) 10m reboot", "Gpu=False/48Error$ 30m", "Other=False/ 0s"];
        let conditions = [bad_condition("Gpu", "NvidiaXID48Error", 0)];
        let at = |minutes| resolve_at(&policies, &conditions, minutes);
        assert_eq!(at(5), None, "45/RP-2");
        assert_eq!(at(10).unwrap().action, RebootNode, "45/RP-2");
        let last = at(35).unwrap();
        assert_eq!((last.action, last.eligible), (ReplaceNode, minute(30)), "45/RP-2");
        assert_score(&last, 25.0 / 30.0);
    }

    #[test]
    fn the_fallback_matches_reasons_without_a_specific_policy() {
        let policies = ["Storage=False/^Known$ 5m reboot", "Accelerator=False/ 30m"];
        let conditions = [bad_condition("Storage", "New", 0)];
        assert_eq!(resolve_at(&policies, &conditions, 29), None, "45/RP-3");
        let repair = resolve_at(&policies, &conditions, 31).unwrap();
        assert_eq!((repair.action, repair.is_fallback()), (ReplaceNode, true), "45/RP-3");
        assert_eq!(repair.selected.condition_type, "Storage", "45/RP-3");
    }

    #[test]
    fn a_policy_for_any_reason_takes_precedence_over_the_fallback() {
        let policies = ["A=False/.* 0s reboot", "A=False/ 0s"];
        let repair = resolve_at(&policies, &[bad_condition("A", "", 0)], 1).unwrap();
        assert_eq!(repair.action, RebootNode, "45/RP-4");
    }

    #[test]
    fn conditions_without_a_policy_are_healthy() {
        let policies = policies(&["A=False/ 0s", "B=Unknown/x 0s"]).unwrap();
        let condition = |condition_type, status| NodeCondition {
            condition_type,
            status,
            reason: "x",
            since: None,
        };
        let cases = [
            ("45/RP-5", condition("C", "False"), false),
            ("45/RP-5", condition("A", "True"), false),
            ("known", condition("A", "False"), true),
            ("any reason", condition("B", "Unknown"), true),
        ];
        for (case, condition, expected) in cases {
            assert_eq!(policies.is_unhealthy(&[condition]), expected, "{case}");
            assert_eq!(!policies.matches(&[condition], start()).is_empty(), expected, "{case}");
        }
    }

    #[test]
    fn score_action_and_bound_may_come_from_different_policies() {
        let policies =
            ["F=False/ 0s", "Low=False/.* 0s priority=10", "High=False/.* 0s priority=90"];
        let repair = resolve_at(
            &policies,
            &[bad_condition("Low", "", 0), bad_condition("High", "", 135)],
            150,
        )
        .unwrap();
        assert_score(&repair, 6.0); // 1 + 150/30, against 2 + 15/30
        assert_eq!(repair.selected.condition_type, "High", "45/RP-6");

        let policies = [
            "F=False/ 0s",
            "High=False/.* 0s priority=90 grace=5m reboot",
            "Low=False/.* 0s priority=10 grace=15m",
        ];
        let repair =
            resolve_at(&policies, &[bad_condition("Low", "", 0), bad_condition("High", "", 0)], 1)
                .unwrap();
        assert_eq!(repair.action, ReplaceNode, "45/RP-7");
        assert_eq!(repair.selected.condition_type, "Low", "45/RP-7");
        let bound = (Duration::from_mins(5), "High".to_owned());
        assert_eq!(repair.grace_period, Some(bound), "45/RP-7");
    }

    #[test]
    fn equal_policies_are_ordered_by_age_and_then_by_condition() {
        let policies = ["F=False/ 0s", "A=False/.* 0s grace=1m", "B=False/.* 0s grace=1m"];
        let cases = [
            ("45/RP-8", [bad_condition("A", "", 15), bad_condition("B", "", 0)], "B"),
            ("45/RP-8", [bad_condition("A", "", 0), bad_condition("B", "", 0)], "A"),
        ];
        for (case, mut conditions, selected) in cases {
            let one = resolve_at(&policies, &conditions, 20).unwrap();
            assert_eq!(one.selected.condition_type, selected, "{case}");
            assert_eq!(one.grace_period.as_ref().unwrap().1, selected, "{case}");
            conditions.reverse();
            assert_eq!(resolve_at(&policies, &conditions, 20), Some(one), "45/RP-13");
        }
    }

    #[test]
    fn conditions_start_with_the_node_and_anew_after_a_reboot() {
        let policies = policies(&["A=False/ 10m"]).unwrap();
        for since in [None, Some(minute(-60))] {
            let condition = NodeCondition { since, ..bad_condition("A", "", 0) };
            let matches = policies.matches(&[condition], start());
            assert_eq!(matches[0].eligible, minute(10), "45/RP-9");
        }
        let matches = policies.matches(&[bad_condition("A", "", 0)], start());
        let at = |minutes| resolve(&matches, minute(minutes), Some(minute(100)));
        assert_eq!(at(109), None, "45/RP-10");
        assert_eq!(at(110).unwrap().eligible, minute(110), "45/RP-10");
    }

    #[test]
    fn a_fallback_match_has_the_rank_of_the_fallback() {
        let policies = ["F=False/ 0s priority=50", "A=False/x 0s priority=10"];
        let repair = resolve_at(&policies, &[bad_condition("A", "other", 0)], 0).unwrap();
        assert_eq!(repair.selected.policy.priority, 50, "45/RP-12");
        assert_score(&repair, 1.0);
    }
}
