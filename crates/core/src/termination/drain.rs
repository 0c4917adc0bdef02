//! Which pods leave a node next (spec 40 §2.3, spec 45 §12.3).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::pod::OwnerKind;
use crate::pod::drain_state::PodDrainState;
use crate::resources::{CPU, MEMORY, Resources};

/// A drain takes at least so long, since the scheduler may not have seen the taint at once.
pub const MIN_DRAIN_TIME: SignedDuration = SignedDuration::from_secs(5);

/// The time within which the pods of a tier are evicted.
/// It is less than a drain takes anyway. The nodes of a large command do not begin in the same
/// moment: with 55 of them some are five seconds late.
const STAGGER_PERIOD: Duration = Duration::from_secs(4);

/// What happens to pods that remain at the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadlineAction {
    /// They are deleted, early enough to end by then. The node goes.
    ForceDelete,
    /// They are left alone. The node returns to service.
    Timeout,
}

/// The next pods to evict or delete. Pods are positions in the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainStep {
    /// Pods to delete now for the deadline, whatever their tier.
    pub forced: Vec<usize>,
    /// Pods of the tier to evict now.
    /// Those that are terminating or cannot be evicted hold back the next tier.
    pub tier: Vec<usize>,
    /// How many pods still have to leave.
    pub remaining_count: usize,
}

/// Returns the next step to drain a node; none if no pod has to leave.
pub fn drain(
    pods: &[PodDrainState],
    deadline: Option<Timestamp>,
    mode: DeadlineAction,
    now: Timestamp,
) -> Option<DrainStep> {
    let waiting = (0..pods.len()).filter(|&pod| pods[pod].is_waiting_for_eviction(now));
    let (forced, graceful): (Vec<_>, Vec<_>) = waiting.partition(|&pod| {
        mode == DeadlineAction::ForceDelete && needs_force_delete(&pods[pod], deadline, now)
    });
    let waiting = forced.len() + graceful.len();
    let first = graceful.iter().map(|&pod| eviction_tier(&pods[pod])).min();
    let tier =
        graceful.into_iter().filter(|&pod| Some(eviction_tier(&pods[pod])) == first).collect();
    (waiting > 0).then_some(DrainStep { forced, tier, remaining_count: waiting })
}

/// Returns the tier of a pod; lower tiers are evicted first.
/// Critical pods leave after the others, and within both the pods of DaemonSets leave last.
fn eviction_tier(pod: &PodDrainState) -> (bool, bool) {
    (pod.is_critical, pod.owner == OwnerKind::DaemonSet)
}

/// The facts of a pod that decide its eviction delay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodToEvict {
    /// Its requests.
    pub requests: Resources,
    /// Whether constraints exclude nodes that have enough free capacity.
    pub is_constrained: bool,
}

/// Returns the eviction delay of each pod: constrained and large pods leave first.
/// The pod that leaves first is scheduled first. A pod that may be in one zone only, or that is
/// large, needs capacity that others would have taken bit by bit, and would have to get a new node:
/// all pods that a consolidation of 55 nodes left without a place were of an app that is spread
/// over zones. Where other nodes are drained together with this one, their constrained pods come
/// first, too.
pub fn eviction_delays(pods: &[PodToEvict], is_one_of_many: bool) -> Vec<Duration> {
    let sizes: Vec<f64> = pods.iter().map(|pod| pod_size(&pod.requests)).collect();
    let largest = sizes.iter().copied().fold(0.0, f64::max);
    let has_constrained = is_one_of_many || pods.iter().any(|pod| pod.is_constrained);
    let pause = |(pod, size): (&PodToEvict, f64)| {
        let by_size = if largest > 0.0 { 1.0 - size / largest } else { 0.0 };
        STAGGER_PERIOD.mul_f64(match (has_constrained, pod.is_constrained) {
            (false, _) => by_size,
            (true, true) => by_size / 2.0,
            (true, false) => f64::midpoint(1.0, by_size),
        })
    };
    pods.iter().zip(sizes).map(pause).collect()
}

/// Returns the size of a pod in cores, by its CPU or memory.
/// The larger one counts; memory in units that usually come with a core.
#[expect(clippy::cast_precision_loss, reason = "sizes need not be exact")]
fn pod_size(requests: &Resources) -> f64 {
    const MEMORY_OF_CORE: f64 = 4.0 * 1024.0 * 1024.0 * 1024.0;
    let amount = |name: &str| requests.get(name).map_or(0.0, |amount| amount.nanos() as f64 / 1e9);
    amount(CPU).max(amount(MEMORY) / MEMORY_OF_CORE).max(0.0)
}

/// Whether the pod has to be deleted now to be gone at the deadline, whatever protects it.
pub fn needs_force_delete(
    pod: &PodDrainState,
    deadline: Option<Timestamp>,
    now: Timestamp,
) -> bool {
    let Some(deadline) = deadline else { return false };
    match (pod.deletion_timestamp, pod.grace_seconds) {
        (Some(deletion), _) => deletion > deadline,
        (None, None) => false,
        (None, Some(seconds)) => {
            // In i128, so that no grace period of a user can overflow.
            let left = deadline.as_nanosecond() - now.as_nanosecond();
            left < i128::from(seconds) * 1_000_000_000
        }
    }
}

/// The grace period of a pod that is deleted for the deadline. Never none at all: that would take
/// the pod out of the API while it still runs.
pub fn force_grace_seconds(deadline: Timestamp, now: Timestamp) -> u32 {
    let seconds = deadline.duration_since(now).as_secs();
    u32::try_from(seconds.max(1)).unwrap_or(u32::MAX)
}

/// Whether a drain without pods began less than [`MIN_DRAIN_TIME`] ago.
/// `draining_since` is none if the drain was over before.
pub fn is_drain_too_short(draining_since: Option<Timestamp>, now: Timestamp) -> bool {
    draining_since.is_some_and(|since| now.duration_since(since) < MIN_DRAIN_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::Phase;

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    fn at(seconds: i64) -> Timestamp {
        now() + SignedDuration::from_secs(seconds)
    }

    fn pod() -> PodDrainState {
        PodDrainState { phase: Phase::Running, grace_seconds: Some(30), ..PodDrainState::default() }
    }

    fn pod_of(owner: OwnerKind, is_critical: bool) -> PodDrainState {
        PodDrainState { owner, is_critical, ..pod() }
    }

    #[test]
    fn pods_are_evicted_one_tier_at_a_time() {
        let tiers = [
            pod_of(OwnerKind::DaemonSet, true),
            pod_of(OwnerKind::Other, true),
            pod_of(OwnerKind::DaemonSet, false),
            pod_of(OwnerKind::Other, false),
        ];
        let mut order = Vec::new();
        let mut left = tiers.to_vec();
        while let Some(DrainStep { tier, remaining_count: waiting, forced }) =
            drain(&left, None, DeadlineAction::ForceDelete, now())
        {
            assert_eq!((waiting, forced.len()), (left.len(), 0), "40/TM-15");
            order.extend(tier.iter().map(|&pod| left[pod].clone()));
            left.retain(|pod| !order.contains(pod));
        }
        order.reverse();
        assert_eq!(order, tiers, "40/TM-15");
    }

    const UNCONSTRAINED: bool = false;
    const CONSTRAINED: bool = true;

    /// What pods ask for and whether they are particular, and the milliseconds that each waits.
    type Case = (&'static str, &'static [(&'static str, &'static str, bool)], &'static [u128]);

    #[test]
    fn constrained_pods_are_evicted_first_and_large_before_small() {
        let requests = |cpu: &str, memory: &str| {
            let mut requested = Resources::default();
            for (name, amount) in [(CPU, cpu), (MEMORY, memory)] {
                requested.set(name, crate::testing::quantity(amount));
            }
            requested
        };
        let pauses = |pods: &[(&str, &str, bool)], is_one_of_many| {
            let pods: Vec<_> = pods
                .iter()
                .map(|&(cpu, memory, is_constrained)| PodToEvict {
                    requests: requests(cpu, memory),
                    is_constrained,
                })
                .collect();
            eviction_delays(&pods, is_one_of_many)
                .iter()
                .map(Duration::as_millis)
                .collect::<Vec<_>>()
        };
        #[rustfmt::skip]
        let cases: [Case; 7] = [
            ("by cores",     &[("500m", "1Gi", UNCONSTRAINED), ("2", "1Gi", UNCONSTRAINED), ("1", "1Gi", UNCONSTRAINED)],       &[3000, 0, 2000]),
            ("by memory",    &[("100m", "16Gi", UNCONSTRAINED), ("2", "1Gi", UNCONSTRAINED), ("100m", "8Gi", UNCONSTRAINED)],   &[0, 2000, 2000]),
            ("alike",        &[("1", "1Gi", UNCONSTRAINED), ("1", "1Gi", UNCONSTRAINED)],                              &[0, 0]),
            ("without size", &[("0", "0", UNCONSTRAINED), ("0", "0", UNCONSTRAINED)],                                  &[0, 0]),
            ("particular",   &[("2", "1Gi", UNCONSTRAINED), ("1", "1Gi", CONSTRAINED), ("1", "1Gi", UNCONSTRAINED)],         &[2000, 1000, 3000]),
            ("all are",      &[("2", "1Gi", CONSTRAINED), ("1", "1Gi", CONSTRAINED)],                            &[0, 1000]),
            ("nobody",       &[],                                                                    &[]),
        ];
        for (case, pods, expected) in cases {
            assert_eq!(pauses(pods, false), expected, "{case}");
        }
        let mixed =
            [("2", "1Gi", UNCONSTRAINED), ("1", "1Gi", CONSTRAINED), ("1", "1Gi", UNCONSTRAINED)];
        assert_eq!(pauses(&mixed, true), [2000, 1000, 3000]);
        assert_eq!(
            pauses(&[("2", "1Gi", UNCONSTRAINED), ("1", "1Gi", UNCONSTRAINED)], true),
            [2000, 3000]
        );
        assert_eq!(eviction_delays(&[PodToEvict::default()], false), [Duration::ZERO]);
    }

    #[test]
    fn terminating_and_protected_pods_hold_back_the_next_tier() {
        let leaving = PodDrainState { deletion_timestamp: Some(at(20)), ..pod() };
        let held = PodDrainState { do_not_disrupt: Some("true".to_owned()), ..pod() };
        for (case, first) in [("leaving", leaving), ("do-not-disrupt", held)] {
            let pods = [pod_of(OwnerKind::Other, true), first];
            let draining = drain(&pods, None, DeadlineAction::ForceDelete, now()).unwrap();
            let expected = DrainStep { forced: vec![], tier: vec![1], remaining_count: 2 };
            assert_eq!(draining, expected, "{case}");
        }
    }

    #[test]
    fn a_node_without_pods_to_evict_is_drained() {
        let over = PodDrainState { phase: Phase::Succeeded, ..pod() };
        let stuck = PodDrainState { deletion_timestamp: Some(at(-90)), ..pod() };
        let cases = [
            ("40/TM-01", vec![]),
            ("40/TM-08", vec![PodDrainState { tolerates_disruption: true, ..pod() }]),
            ("40/TM-11", vec![over]),
            ("40/TM-12", vec![pod_of(OwnerKind::Node, false)]),
            ("40/TM-18", vec![stuck]),
        ];
        for (case, pods) in cases {
            assert_eq!(drain(&pods, None, DeadlineAction::ForceDelete, now()), None, "{case}");
        }
    }

    #[test]
    fn pods_are_deleted_in_time_for_the_deadline() {
        let grace = |seconds| PodDrainState { grace_seconds: Some(seconds), ..pod() };
        let deleted = |seconds| PodDrainState { deletion_timestamp: Some(at(seconds)), ..pod() };
        let unset = PodDrainState { grace_seconds: None, ..pod() };
        #[rustfmt::skip]
        let cases = [
            // case                       pod              deadline in   forced
            ("no deadline",               grace(300),      None,         false),
            ("40/TM-22",                  grace(300),      Some(290),    true),
            ("40/TM-23 at 90 s",          grace(60),       Some(210),    false),
            ("40/TM-23 at 265 s",         grace(60),       Some(35),     true),
            ("just in time",              grace(60),       Some(60),     false),
            ("no grace period is known",  unset.clone(),   Some(1),      false),
            ("nor ever",                  unset,           Some(-99),    false),
            ("40/TM-24",                  deleted(60),     Some(30),     true),
            ("ends by then",              deleted(30),     Some(30),     false),
            ("40/TM-26",                  grace(0),        Some(-3600),  true),
            ("no end",                    grace(i64::MAX), Some(300),    true),
            ("no beginning",              grace(i64::MIN), Some(-300),   false),
        ];
        for (case, pod, deadline, forced) in cases {
            assert_eq!(needs_force_delete(&pod, deadline.map(at), now()), forced, "{case}");
        }
    }

    #[test]
    fn forced_pods_are_deleted_in_any_tier_only_with_force_delete() {
        let critical = PodDrainState { grace_seconds: Some(600), ..pod_of(OwnerKind::Other, true) };
        let pods = [pod(), critical];
        let of = |mode| drain(&pods, Some(at(300)), mode, now()).unwrap();
        let forced = DrainStep { forced: vec![1], tier: vec![0], remaining_count: 2 };
        assert_eq!(of(DeadlineAction::ForceDelete), forced, "40/TM-25");
        let left_alone = DrainStep { forced: vec![], tier: vec![0], remaining_count: 2 };
        assert_eq!(of(DeadlineAction::Timeout), left_alone, "45/EV-1");
        let alone = drain(&pods[1..], Some(at(300)), DeadlineAction::ForceDelete, now()).unwrap();
        assert_eq!((alone.forced, alone.tier, alone.remaining_count), (vec![0], vec![], 1));
    }

    #[test]
    fn the_forced_grace_period_ends_at_the_deadline_but_is_positive() {
        let cases = [("40/TM-22", 290, 290), ("40/TM-26", -3600, 1), ("now", 0, 1)];
        for (case, seconds, grace) in cases {
            assert_eq!(force_grace_seconds(at(seconds), now()), grace, "{case}");
        }
        assert_eq!(force_grace_seconds(Timestamp::MAX, Timestamp::MIN), u32::MAX);
        let almost = at(3) - SignedDuration::from_nanos(1);
        assert_eq!(force_grace_seconds(almost, now()), 2, "cut to seconds");
    }

    #[test]
    fn a_drain_lasts_five_seconds_at_least() {
        let cases = [
            ("40/TM-30", Some(at(-3)), true),
            ("40/TM-30", Some(at(-5)), false),
            ("over before", None, false),
        ];
        for (case, since, early) in cases {
            assert_eq!(is_drain_too_short(since, now()), early, "{case}");
        }
    }
}
