//! Where a pod is in its life, and what keeps it where it is (spec 40 §0.6).
//!
//! These are the facts that drains and evictions look at, which change from one moment to the next.
//! What a pod asks of a node is in [`super::Pod`]; the predicates of scheduling on that are in
//! [`crate::scheduling::demand`].

use jiff::{SignedDuration, Timestamp};

use super::{OwnerKind, Phase};
use crate::disruption::do_not_disrupt::PodProtection;
use crate::taint::{Taint, TaintEffect, Toleration};

/// A pod that ends later than this after its grace period is stuck.
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// Priority classes whose pods leave last.
const CRITICAL_PRIORITY_CLASSES: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// Where a pod is in its life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodDrainState {
    /// The phase.
    pub phase: Phase,
    /// When it has to be gone, if it is on its way out. The grace period is in it.
    pub deletion_timestamp: Option<Timestamp>,
    /// Who made it.
    pub owner: OwnerKind,
    /// Whether it tolerates the taint of nodes that go ([`tolerates_disruption`]).
    pub tolerates_disruption: bool,
    /// Its annotation `karpenter.sh/do-not-disrupt`.
    pub do_not_disrupt: Option<String>,
    /// When it started.
    pub start_time: Option<Timestamp>,
    /// Its `terminationGracePeriodSeconds`.
    pub grace_seconds: Option<i64>,
    /// Whether the cluster or the node needs it ([`is_critical`]).
    pub is_critical: bool,
}

impl PodDrainState {
    /// Failed or Succeeded.
    pub fn is_terminal(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// On its way out.
    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Neither over nor on its way out.
    pub fn is_active(&self) -> bool {
        !self.is_terminal() && !self.is_terminating()
    }

    /// Whether it should have been gone for a while.
    pub fn is_stuck_terminating(&self, now: Timestamp) -> bool {
        self.deletion_timestamp.is_some_and(|gone| now.duration_since(gone) > STUCK_AFTER)
    }

    /// Whether a drain can make it go. Nobody can but its node for a static pod; what is stuck needs
    /// no more of it; and what tolerates the taint wants to stay to the end.
    pub fn is_drainable(&self, now: Timestamp) -> bool {
        !self.tolerates_disruption
            && !self.is_stuck_terminating(now)
            && self.owner != OwnerKind::Node
    }

    /// Whether a drain waits for it. Pods that must not be disrupted are waited for, too.
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

    /// Whether voluntary disruption of its node need not mind it.
    pub fn is_disruptable(&self, now: Timestamp) -> bool {
        !self.is_active() || !self.protection(now).is_active()
    }

    /// Whether it comes back elsewhere when it is gone.
    pub fn is_reschedulable(&self) -> bool {
        (self.is_active() || (self.is_terminating() && self.owner == OwnerKind::StatefulSet))
            && !matches!(self.owner, OwnerKind::DaemonSet | OwnerKind::Node)
    }
}

/// Whether tolerations cover the taint of nodes that go.
pub fn tolerates_disruption(tolerations: &[Toleration]) -> bool {
    let disrupted = Taint {
        key: "karpenter.sh/disrupted".to_owned(),
        value: String::new(),
        effect: TaintEffect::NoSchedule,
    };
    tolerations.iter().any(|toleration| toleration.tolerates(&disrupted))
}

/// Whether pods of the priority class leave last. The name counts, not the number behind it.
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
