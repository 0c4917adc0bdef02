//! What a provider says about unhealthy nodes, and whether the set makes sense (spec 45 §4.1).

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use karpenter_grammar::format_duration;
use regex::Regex;

/// The highest priority.
const MAX_PRIORITY: u8 = 100;

/// Statuses of conditions.
const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

/// What to do about nodes with a condition that lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairPolicy {
    /// Type of the node's condition.
    pub condition_type: String,
    /// Status of the condition that is unhealthy: `True`, `False` or `Unknown`.
    pub condition_status: String,
    /// What the condition's reason has to match somewhere. Empty for the default fallback of the
    /// set, of which there is exactly one.
    pub reason_regex: String,
    /// How long the condition is put up with.
    pub toleration_duration: Duration,
    /// Bound of the drain: none leaves it to the NodeClaim, zero is no drain.
    pub termination_grace_period: Option<Duration>,
    /// Weight from 0 to 100; the higher one goes first.
    pub priority: u8,
    /// The action.
    pub action: RepairAction,
}

/// A way to repair a node. The order is that of disruption: a later one disrupts more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepairAction {
    /// Restart it in place.
    RebootNode,
    /// Put another one in its place.
    ReplaceNode,
}

impl RepairAction {
    /// The action as events and annotations name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::RebootNode => "RebootNode",
            Self::ReplaceNode => "ReplaceNode",
        }
    }
}

/// As Go prints the record, but for the grace period, of which that shows only an address.
impl fmt::Display for RepairPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |duration: Duration| {
            let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
            format_duration(duration)
        };
        let grace = self.termination_grace_period.map_or("<nil>".to_owned(), text);
        let Self { condition_type, condition_status, reason_regex, priority, .. } = self;
        write!(
            f,
            "{{ConditionType:{condition_type} ConditionStatus:{condition_status} \
             ReasonRegex:{reason_regex} TolerationDuration:{} TerminationGracePeriod:{grace} \
             Priority:{priority} Action:{}}}",
            text(self.toleration_duration),
            self.action.name()
        )
    }
}

/// A complete set of policies that makes sense.
#[derive(Clone, Debug)]
pub struct Policies {
    /// By condition type and status. A pair of the fallback alone has no policy of its own.
    pub(super) groups: BTreeMap<(String, String), Vec<ReasonPolicy>>,
    pub(super) fallback: Arc<RepairPolicy>,
    priorities: BTreeSet<u8>,
}

/// A policy that applies to certain condition reasons.
#[derive(Clone, Debug)]
pub(super) struct ReasonPolicy {
    pub(super) policy: Arc<RepairPolicy>,
    pub(super) reason: Regex,
}

impl Policies {
    /// Validates a set of policies; reports all problems at once.
    pub fn new(policies: Vec<RepairPolicy>) -> Result<Self, InvalidPolicies> {
        let mut problems = Vec::new();
        let mut groups: BTreeMap<_, Vec<ReasonPolicy>> = BTreeMap::new();
        let mut fallback: Option<Arc<RepairPolicy>> = None;
        let priorities = policies.iter().map(|policy| policy.priority).collect();
        for (index, policy) in policies.into_iter().enumerate() {
            let policy = Arc::new(policy);
            problems.extend(policy_problems(index, &policy));
            let pair = (policy.condition_type.clone(), policy.condition_status.clone());
            let group = groups.entry(pair).or_default();
            if !policy.reason_regex.is_empty() {
                match Regex::new(&policy.reason_regex) {
                    Ok(reason) => group.push(ReasonPolicy { policy, reason }),
                    Err(error) => {
                        // What comes before the last line is a drawing of where it is.
                        let error = error.to_string();
                        let why = error.lines().last().unwrap_or_default();
                        let why = why.trim_start_matches("error: ");
                        let violation = format!("has invalid reason regex, {why}");
                        problems.push(policy_problem(index, &policy, &violation));
                    }
                }
            } else if let Some(first) = &fallback {
                let text = "repair policy set has multiple default fallbacks";
                problems.push(format!("{text}: {first} and {policy}"));
            } else {
                fallback = Some(policy);
            }
        }
        match fallback {
            None => problems.push("repair policy set must define one default fallback".to_owned()),
            Some(policy) if policy.action != RepairAction::ReplaceNode => {
                let text = "must use action \"ReplaceNode\"";
                problems.push(format!("default fallback policy {policy} {text}"));
            }
            Some(fallback) if problems.is_empty() => {
                return Ok(Self { groups, fallback, priorities });
            }
            Some(_) => {}
        }
        Err(InvalidPolicies(problems))
    }

    /// How many priorities of the set are lower.
    pub(super) fn rank(&self, priority: u8) -> usize {
        self.priorities.range(..priority).count()
    }
}

fn policy_problems(index: usize, policy: &RepairPolicy) -> Vec<String> {
    let mut found = Vec::new();
    if policy.condition_type.is_empty() {
        found.push("has an empty condition type".to_owned());
    }
    if !STATUSES.contains(&policy.condition_status.as_str()) {
        found.push(format!("has invalid condition status {:?}", policy.condition_status));
    }
    if policy.priority > MAX_PRIORITY {
        let priority = policy.priority;
        let range = format!("[0, {MAX_PRIORITY}]");
        found.push(format!("has priority {priority} outside the supported range {range}"));
    }
    found.iter().map(|violation| policy_problem(index, policy, violation)).collect()
}

fn policy_problem(index: usize, policy: &RepairPolicy, violation: &str) -> String {
    let RepairPolicy { condition_type, condition_status, .. } = policy;
    format!(
        "validating repair policy for condition status {condition_status:?}, \
         policy[{index}]={policy} {violation} (condition={condition_type})"
    )
}

/// Everything that is wrong with a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPolicies(pub Vec<String>);

impl fmt::Display for InvalidPolicies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl Error for InvalidPolicies {}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A policy from `Type=Status/regex 30m [grace=5m] [priority=3] [reboot]`.
    pub(in super::super) fn policy(text: &str) -> RepairPolicy {
        let mut words = text.split(' ');
        let (pair, regex) = words.next().unwrap().split_once('/').unwrap();
        let (condition_type, condition_status) = pair.split_once('=').unwrap();
        let duration = |text: &str| karpenter_grammar::parse_duration(text).unwrap().unsigned_abs();
        let mut policy = RepairPolicy {
            condition_type: condition_type.to_owned(),
            condition_status: condition_status.to_owned(),
            reason_regex: regex.to_owned(),
            toleration_duration: duration(words.next().unwrap()),
            termination_grace_period: None,
            priority: 0,
            action: RepairAction::ReplaceNode,
        };
        for word in words {
            match word.split_once('=') {
                Some(("grace", text)) => policy.termination_grace_period = Some(duration(text)),
                Some(("priority", text)) => policy.priority = text.parse().unwrap(),
                _ => policy.action = RepairAction::RebootNode,
            }
        }
        policy
    }

    pub(in super::super) fn policies(texts: &[&str]) -> Result<Policies, InvalidPolicies> {
        Policies::new(texts.iter().map(|text| policy(text)).collect())
    }

    #[test]
    fn a_replacement_disrupts_more_than_a_reboot() {
        let (replace, reboot) = (RepairAction::ReplaceNode, RepairAction::RebootNode);
        assert_eq!((replace > reboot, reboot > replace), (true, false), "45/CP-8");
    }

    #[test]
    fn every_violated_policy_rule_is_reported() {
        let dump = |pair: &str, rest: &str| {
            let (kind, status) = pair.split_once('=').unwrap();
            format!("{{ConditionType:{kind} ConditionStatus:{status} {rest}}}")
        };
        let plain = |pair| {
            let rest = "ReasonRegex: TolerationDuration:30m0s TerminationGracePeriod:<nil> \
                        Priority:0 Action:ReplaceNode";
            dump(pair, rest)
        };
        let broken = |status: &str, index: usize, dump: &str, violation: &str, kind: &str| {
            format!(
                "validating repair policy for condition status \"{status}\", \
                 policy[{index}]={dump} {violation} (condition={kind})"
            )
        };
        let reboot = dump(
            "A=False",
            "ReasonRegex: TolerationDuration:1h0m0s TerminationGracePeriod:5m0s Priority:7 \
             Action:RebootNode",
        );
        let high = plain("A=True").replace("Priority:0", "Priority:101");
        #[rustfmt::skip]
        let cases = [
            (vec![],                               vec!["repair policy set must define one default fallback".to_owned()]),
            (vec!["A=True/x 30m"],                 vec!["repair policy set must define one default fallback".to_owned()]),
            (vec!["A=True/ 30m", "B=False/ 30m"],  vec![format!("repair policy set has multiple default fallbacks: {} and {}", plain("A=True"), plain("B=False"))]),
            (vec!["A=False/ 1h grace=5m priority=7 reboot"], vec![format!("default fallback policy {reboot} must use action \"ReplaceNode\"")]),
            (vec!["=True/ 30m"],                   vec![broken("True", 0, &plain("=True"), "has an empty condition type", "")]),
            (vec!["A=Bad/ 30m"],                   vec![broken("Bad", 0, &plain("A=Bad"), "has invalid condition status \"Bad\"", "A")]),
            (vec!["A=True/ 30m priority=101"],     vec![broken("True", 0, &high, "has priority 101 outside the supported range [0, 100]", "A")]),
            (vec!["=Bad/ 30m"],                    vec![
                broken("Bad", 0, &plain("=Bad"), "has an empty condition type", ""),
                broken("Bad", 0, &plain("=Bad"), "has invalid condition status \"Bad\"", ""),
            ]),
        ];
        for (texts, problems) in cases {
            assert_eq!(policies(&texts).unwrap_err().0, problems, "45/RP-1: {texts:?}");
        }
        let regex = policies(&["A=True/ 30m", "A=True/( 30m"]).unwrap_err().0;
        assert_eq!(regex.len(), 1, "45/RP-1");
        assert!(regex[0].contains("policy[1]={ConditionType:A "), "{regex:?}");
        assert!(regex[0].contains("} has invalid reason regex, "), "{regex:?}");
        assert!(regex[0].ends_with(" (condition=A)"), "{regex:?}");
        assert!(policies(&["A=True/ 30m", "A=True/x 0s priority=100 reboot"]).is_ok());
    }

    #[test]
    fn policy_ranks_are_dense() {
        let policies =
            policies(&["A=True/ 0s", "B=True/x 0s priority=90", "C=True/x 0s priority=10"]);
        let policies = policies.unwrap();
        assert_eq!([0, 10, 90].map(|priority| policies.rank(priority)), [0, 1, 2]);
    }
}
