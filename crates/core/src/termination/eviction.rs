//! What the eviction queue does about one pod (spec 40 §2.4, spec 45 §12.3).

use jiff::Timestamp;

use super::drain::{force_grace_seconds, needs_force_delete};
use crate::disruption::do_not_disrupt::PodProtection;
use crate::pod::drain_state::PodDrainState;

/// Why a pod is in the eviction queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueEntry {
    /// Its node is terminated.
    /// With a deadline, the pod is deleted early enough to be gone by then.
    ForceDelete(Option<Timestamp>),
    /// Its node returns to service. After this time the pod may stay.
    Timeout(Timestamp),
}

impl QueueEntry {
    /// Merges two entries of one pod; termination of the node takes precedence.
    /// Otherwise the earlier deadline counts. So no earlier decision is revoked.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        match (self, other) {
            (Self::ForceDelete(one), Self::ForceDelete(two)) => {
                Self::ForceDelete(one.into_iter().chain(two).min())
            }
            (Self::Timeout(one), Self::Timeout(two)) => Self::Timeout(one.min(two)),
            (force @ Self::ForceDelete(_), Self::Timeout(_))
            | (Self::Timeout(_), force @ Self::ForceDelete(_)) => force,
        }
    }

    /// Returns what the queue does with the pod now.
    pub fn decide(self, pod: &PodDrainState, now: Timestamp) -> EvictionDecision {
        match self {
            Self::Timeout(deadline) if now > deadline => return EvictionDecision::Drop,
            Self::ForceDelete(Some(deadline)) if needs_force_delete(pod, Some(deadline), now) => {
                let grace_seconds = force_grace_seconds(deadline, now);
                return EvictionDecision::ForceDelete { deadline, grace_seconds };
            }
            Self::Timeout(_) | Self::ForceDelete(_) => {}
        }
        if !pod.is_active() {
            return EvictionDecision::Drop;
        }
        let protection = pod.protection(now);
        if pod.is_evictable(now) {
            EvictionDecision::Evict(protection)
        } else {
            EvictionDecision::Wait(protection)
        }
    }
}

/// What the queue does with a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionDecision {
    /// It needs nothing more.
    Drop,
    /// It is deleted with this grace period, whatever protects it.
    ForceDelete {
        /// When its node has to be gone.
        deadline: Timestamp,
        /// The seconds until then.
        grace_seconds: u32,
    },
    /// It must not be evicted now. What protects it may be worth an event.
    Wait(PodProtection),
    /// It is evicted, if its PodDisruptionBudget agrees. So may be what protected it.
    Evict(PodProtection),
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::pod::Phase;
    use QueueEntry::{ForceDelete, Timeout};

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    fn at(seconds: i64) -> Timestamp {
        now() + SignedDuration::from_secs(seconds)
    }

    fn pod() -> PodDrainState {
        PodDrainState {
            phase: Phase::Running,
            grace_seconds: Some(120),
            ..PodDrainState::default()
        }
    }

    #[test]
    fn a_merged_entry_keeps_force_delete_and_the_earlier_deadline() {
        #[rustfmt::skip]
        let cases = [
            ("40/TM-27",   ForceDelete(None),         ForceDelete(Some(at(60))),   ForceDelete(Some(at(60)))),
            ("40/TM-28",   ForceDelete(Some(at(60))), ForceDelete(Some(at(3600))), ForceDelete(Some(at(60)))),
            ("not cleared", ForceDelete(Some(at(60))), ForceDelete(None),          ForceDelete(Some(at(60)))),
            ("45/EV-3",    Timeout(at(10)),           ForceDelete(Some(at(60))),   ForceDelete(Some(at(60)))),
            ("45/EV-3",    ForceDelete(Some(at(60))), Timeout(at(10)),             ForceDelete(Some(at(60)))),
            ("no deadline", Timeout(at(10)),          ForceDelete(None),           ForceDelete(None)),
            ("earlier",    Timeout(at(10)),           Timeout(at(5)),              Timeout(at(5))),
        ];
        for (case, present, requested, merged) in cases {
            assert_eq!(present.merge(requested), merged, "{case}");
        }
    }

    #[test]
    fn each_eviction_attempt_checks_the_pod_again() {
        let evict = || EvictionDecision::Evict(PodProtection::None);
        let force =
            |deadline, grace_seconds| EvictionDecision::ForceDelete { deadline, grace_seconds };
        let held = PodDrainState { do_not_disrupt: Some("true".to_owned()), ..pod() };
        let leaving = PodDrainState { deletion_timestamp: Some(at(30)), ..pod() };
        let over = PodDrainState { phase: Phase::Failed, ..pod() };
        #[rustfmt::skip]
        let cases = [
            ("plain",      ForceDelete(None),           pod(),           evict()),
            ("time left",  ForceDelete(Some(at(300))),  pod(),           evict()),
            ("40/TM-27",   ForceDelete(Some(at(60))),   pod(),           force(at(60), 60)),
            ("bypasses",   ForceDelete(Some(at(60))),   held.clone(),    force(at(60), 60)),
            ("held",       ForceDelete(None),           held.clone(),    EvictionDecision::Wait(PodProtection::Always)),
            ("leaving",    ForceDelete(None),           leaving.clone(), EvictionDecision::Drop),
            ("40/TM-24",   ForceDelete(Some(at(10))),   leaving,         force(at(10), 10)),
            ("over",       ForceDelete(None),           over,            EvictionDecision::Drop),
            ("45/EV-1",    Timeout(at(60)),             pod(),           evict()),
            ("45/EV-1",    Timeout(at(60)),             held,            EvictionDecision::Wait(PodProtection::Always)),
            ("at the end", Timeout(now()),              pod(),           evict()),
            ("45/EV-2",    Timeout(at(-1)),             pod(),           EvictionDecision::Drop),
        ];
        for (case, entry, pod, verdict) in cases {
            assert_eq!(entry.decide(&pod, now()), verdict, "{case}: {entry:?}");
        }
    }
}
