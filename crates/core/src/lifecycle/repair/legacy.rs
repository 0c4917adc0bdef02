//! Repair as it was before v1.15 (spec 40 §3, spec 45 §7): unhealthy nodes are replaced, and nothing
//! but their number holds it back.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use regex::Regex;

use super::NodeCondition;
use super::policy::{RepairAction, RepairPolicy};

/// The policies that replace nodes.
#[derive(Clone, Debug, Default)]
pub struct LegacyPolicies(Vec<(RepairPolicy, Option<Regex>)>);

/// A condition for which a node is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueRepair<'a> {
    /// Type of the condition.
    pub condition_type: &'a str,
    /// When the replacement is due.
    pub due_at: Timestamp,
}

impl LegacyPolicies {
    /// Takes the policies that replace nodes. One with a pattern that cannot be read matches
    /// nothing; the others of these are the second part.
    pub fn new(policies: Vec<RepairPolicy>) -> (Self, Vec<regex::Error>) {
        let mut kept = Vec::new();
        let mut errors = Vec::new();
        for policy in policies {
            if policy.action != RepairAction::ReplaceNode {
                continue;
            }
            if policy.reason_regex.is_empty() {
                kept.push((policy, None));
                continue;
            }
            match Regex::new(&policy.reason_regex) {
                Ok(reason) => kept.push((policy, Some(reason))),
                Err(error) => errors.push(error),
            }
        }
        (Self(kept), errors)
    }

    /// The condition for which the node is replaced first; none if it is healthy.
    pub fn first_due<'a>(&self, conditions: &[NodeCondition<'a>]) -> Option<DueRepair<'a>> {
        let due = self.matches(conditions).map(|(policy, condition)| DueRepair {
            condition_type: condition.condition_type,
            // A condition that does not say since when has been there for ever.
            due_at: condition
                .since
                .map_or(Timestamp::MIN, |since| add_clamped(since, policy.toleration_duration)),
        });
        due.min_by_key(|due| due.due_at)
    }

    /// Whether some policy matches, for however long.
    pub fn is_unhealthy(&self, conditions: &[NodeCondition<'_>]) -> bool {
        self.matches(conditions).next().is_some()
    }

    fn matches<'p, 'a: 'p>(
        &'p self,
        conditions: &'p [NodeCondition<'a>],
    ) -> impl Iterator<Item = (&'p RepairPolicy, &'p NodeCondition<'a>)> {
        self.0.iter().filter_map(|(policy, reason)| {
            let mut conditions = conditions.iter();
            let condition = conditions.find(|one| one.condition_type == policy.condition_type)?;
            let is_match = condition.status == policy.condition_status
                && reason.as_ref().is_none_or(|reason| reason.is_match(condition.reason));
            is_match.then_some((policy, condition))
        })
    }
}

fn add_clamped(time: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    time.checked_add(duration).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::policy::tests::policy;
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    /// Minutes until the node is replaced.
    fn due_in(policies: &[&str], conditions: &[(&str, &str, &str, i64)]) -> Option<i64> {
        let (policies, errors) =
            LegacyPolicies::new(policies.iter().map(|text| policy(text)).collect());
        assert!(errors.is_empty());
        let conditions: Vec<_> = (conditions.iter())
            .map(|&(condition_type, status, reason, minutes)| NodeCondition {
                condition_type,
                status,
                reason,
                since: Some(now() - SignedDuration::from_mins(minutes)),
            })
            .collect();
        let due = policies.first_due(&conditions)?;
        Some(due.due_at.duration_since(now()).as_mins())
    }

    #[test]
    fn the_legacy_policy_that_is_due_first_replaces_the_node() {
        let bad = "BadNode=False/ 30m";
        #[rustfmt::skip]
        let cases = [
            ("40/NR-01", vec![bad],                            vec![("BadNode", "False", "", 60)], Some(-30)),
            ("40/NR-02", vec![bad],                            vec![("Other", "False", "", 60)],   None),
            ("40/NR-02", vec![bad],                            vec![("BadNode", "True", "", 60)],  None),
            ("40/NR-03", vec![bad],                            vec![("BadNode", "False", "", 20)], Some(10)),
            ("40/NR-04", vec!["A=False/ 60m", bad],            vec![("A", "False", "", 27), ("BadNode", "False", "", 27)], Some(3)),
            ("45/LR-1",  vec!["BadNode=False/x 30m reboot"],   vec![("BadNode", "False", "x", 60)], None),
            ("45/LR-2",  vec!["BadNode=False/x 10m reboot", bad], vec![("BadNode", "False", "x", 60)], Some(-30)),
            ("45/LR-3",  vec!["BadNode=False/^x$ 30m"],        vec![("BadNode", "False", "y", 60)], None),
            ("no cross fallback", vec![bad, "A=False/x 30m"],  vec![("A", "False", "y", 60)],      None),
        ];
        for (case, policies, conditions, expected) in cases {
            assert_eq!(due_in(&policies, &conditions), expected, "{case}: {policies:?}");
        }
    }

    #[test]
    fn an_invalid_reason_pattern_matches_no_condition() {
        let (policies, errors) = LegacyPolicies::new(vec![policy("A=False/( 0s")]);
        let condition =
            NodeCondition { condition_type: "A", status: "False", reason: "", since: None };
        assert_eq!((errors.len(), policies.is_unhealthy(&[condition])), (1, false));
    }
}
