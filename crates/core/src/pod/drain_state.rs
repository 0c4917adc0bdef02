//! The drain state of a pod: the facts that decide when it is evicted (spec 40 §0.6).
//!
//! Drains and evictions read these facts, which change from one moment to the next. What a pod
//! requires of a node is in [`super::Pod`]; the predicates of scheduling on that are in
//! [`crate::scheduling::demand`].

use jiff::{SignedDuration, Timestamp};

use super::{OwnerKind, Phase};
use crate::disruption::do_not_disrupt::PodProtection;
use crate::taint::{Taint, TaintEffect, Toleration};

/// A pod that ends later than this after its grace period is stuck.
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// The priority classes whose pods are evicted last.
const CRITICAL_PRIORITY_CLASSES: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// The facts of a pod that decide when it is evicted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodDrainState {
    /// The phase.
    pub phase: Phase,
    /// The time by which a terminating pod must be gone, grace period included.
    pub deletion_timestamp: Option<Timestamp>,
    /// The kind of its owner.
    pub owner: OwnerKind,
    /// Whether it tolerates the disruption taint ([`tolerates_disruption`]).
    pub tolerates_disruption: bool,
    /// Its annotation `karpenter.sh/do-not-disrupt`.
    pub do_not_disrupt: Option<String>,
    /// The time when the pod started.
    pub start_time: Option<Timestamp>,
    /// Its `terminationGracePeriodSeconds`.
    pub grace_seconds: Option<i64>,
    /// Whether the cluster or the node needs it ([`is_critical`]).
    pub is_critical: bool,
}

impl PodDrainState {
    /// Returns whether the pod is Failed or Succeeded.
    pub fn is_terminal(&self) -> bool {
        self.phase.is_terminal()
    }

    /// Returns whether the pod has a deletion timestamp.
    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Returns whether the pod is neither terminal nor terminating.
    pub fn is_active(&self) -> bool {
        !self.is_terminal() && !self.is_terminating()
    }

    /// Returns whether the pod is overdue: still there long after its grace period.
    pub fn is_stuck_terminating(&self, now: Timestamp) -> bool {
        self.deletion_timestamp.is_some_and(|gone| now.duration_since(gone) > STUCK_AFTER)
    }

    /// Returns whether a drain can remove the pod.
    ///
    /// Only its node can remove a static pod; a stuck pod is deleted already; and a pod that
    /// tolerates the taint stays to the end.
    pub fn is_drainable(&self, now: Timestamp) -> bool {
        !self.tolerates_disruption
            && !self.is_stuck_terminating(now)
            && self.owner != OwnerKind::Node
    }

    /// Returns whether a drain waits for the pod.
    ///
    /// It waits for pods that must not be disrupted, too.
    pub fn is_waiting_for_eviction(&self, now: Timestamp) -> bool {
        !self.is_terminal() && self.is_drainable(now)
    }

    /// What its annotation means now.
    pub fn protection(&self, now: Timestamp) -> PodProtection {
        PodProtection::from_annotation(self.do_not_disrupt.as_deref(), self.start_time, now)
    }

    /// Whether it may be evicted now.
    pub fn is_evictable(&self, now: Timestamp) -> bool {
        self.is_active()
            && !self.tolerates_disruption
            && self.owner != OwnerKind::Node
            && !self.protection(now).is_active()
    }

    /// Returns whether the pod does not prevent voluntary disruption of its node.
    pub fn is_disruptable(&self, now: Timestamp) -> bool {
        !self.is_active() || !self.protection(now).is_active()
    }

    /// Returns whether its owner creates it again elsewhere after it is gone.
    pub fn is_reschedulable(&self) -> bool {
        (self.is_active() || (self.is_terminating() && self.owner == OwnerKind::StatefulSet))
            && !matches!(self.owner, OwnerKind::DaemonSet | OwnerKind::Node)
    }
}

/// Returns whether tolerations cover the disruption taint.
pub fn tolerates_disruption(tolerations: &[Toleration]) -> bool {
    let disrupted = Taint {
        key: "karpenter.sh/disrupted".to_owned(),
        value: String::new(),
        effect: TaintEffect::NoSchedule,
    };
    tolerations.iter().any(|toleration| toleration.tolerates(&disrupted))
}

/// Returns whether pods of the priority class are evicted last.
///
/// The name counts, not its priority value.
pub fn is_critical(priority_class: &str) -> bool {
    CRITICAL_PRIORITY_CLASSES.contains(&priority_class)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    fn ago(seconds: i64) -> Timestamp {
        now() - SignedDuration::from_secs(seconds)
    }

    fn running() -> PodDrainState {
        PodDrainState { phase: Phase::Running, ..PodDrainState::default() }
    }

    #[test]
    fn drains_wait_for_movable_pods_and_evict_unprotected_pods() {
        let of = |owner| PodDrainState { owner, ..running() };
        let deleted = |deletion| PodDrainState { deletion_timestamp: Some(deletion), ..running() };
        let held =
            |text: &str| PodDrainState { do_not_disrupt: Some(text.to_owned()), ..running() };
        let over = |phase| PodDrainState { phase, ..PodDrainState::default() };
        let tolerant = PodDrainState { tolerates_disruption: true, ..running() };
        let started = PodDrainState { start_time: Some(ago(600)), ..held("5m") };
        #[rustfmt::skip]
        let cases = [
            // case                 pod                       waited for  evictable  reschedulable
            ("40/TM-10 no owner",   running(),                true,       true,      true),
            ("40/TM-08",            tolerant,                 false,      false,     true),
            ("40/TM-11",            over(Phase::Succeeded),   false,      false,     false),
            ("40/TM-11",            over(Phase::Failed),      false,      false,     false),
            ("40/TM-12",            of(OwnerKind::Node),          false,      false,     false),
            ("daemon",              of(OwnerKind::DaemonSet),     true,       true,      false),
            ("terminating",         deleted(ago(-30)),        true,       false,     false),
            ("not stuck yet",       deleted(ago(60)),         true,       false,     false),
            ("40/TM-18",            deleted(ago(90)),         false,      false,     false),
            ("do-not-disrupt",      held("true"),             true,       false,     true),
            ("not started",         held("5m"),               true,       false,     true),
            ("its time is over",    started,                  true,       true,      true),
            ("means nothing",       held("soon"),             true,       true,      true),
        ];
        for (case, pod, waited, evictable, reschedulable) in cases {
            assert_eq!(pod.is_waiting_for_eviction(now()), waited, "{case}: waited for");
            assert_eq!(pod.is_evictable(now()), evictable, "{case}: evictable");
            assert_eq!(pod.is_reschedulable(), reschedulable, "{case}: reschedulable");
        }
    }

    #[test]
    fn a_terminating_stateful_set_pod_is_reschedulable() {
        let pod = PodDrainState {
            owner: OwnerKind::StatefulSet,
            deletion_timestamp: Some(ago(0)),
            ..running()
        };
        assert!(pod.is_reschedulable());
        assert!(pod.is_disruptable(now()), "what goes anyway holds nobody back");
        let held = PodDrainState { do_not_disrupt: Some("true".to_owned()), ..running() };
        assert!(!held.is_disruptable(now()));
    }

    #[test]
    fn the_disrupted_taint_is_tolerated_by_key_effect_and_value() {
        let toleration = |key: &str, operator: &str, value: &str, effect| Toleration {
            key: key.to_owned(),
            operator: operator.to_owned(),
            value: value.to_owned(),
            effect,
        };
        let no_schedule = Some(TaintEffect::NoSchedule);
        #[rustfmt::skip]
        let cases = [
            ("40/TM-08 Equal",  toleration("karpenter.sh/disrupted", "Equal", "", no_schedule),  true),
            ("40/TM-08 Exists", toleration("karpenter.sh/disrupted", "Exists", "", no_schedule), true),
            ("blanket",         toleration("", "Exists", "", None),                              true),
            ("other value",     toleration("karpenter.sh/disrupted", "Equal", "x", no_schedule), false),
            ("other effect",    toleration("karpenter.sh/disrupted", "Exists", "", Some(TaintEffect::NoExecute)), false),
            ("40/TM-09",        toleration("node.kubernetes.io/unschedulable", "Exists", "", no_schedule), false),
        ];
        for (case, toleration, expected) in cases {
            assert_eq!(tolerates_disruption(&[toleration]), expected, "{case}");
        }
        assert!(is_critical("system-node-critical") && !is_critical("critical"));
    }
}
