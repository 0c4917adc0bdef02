//! Which pods leave a node next (spec 40 §2.3, spec 45 §12.3).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::pod::Owner;
use crate::pod::standing::Standing;
use crate::resources::{CPU, MEMORY, Resources};

/// A drain takes at least so long, since the scheduler may not have seen the taint at once.
pub const MIN_DRAIN_TIME: SignedDuration = SignedDuration::from_secs(5);

/// The pods of a tier leave within this time, which is less than a drain takes anyway. The nodes of a
/// large command do not begin in the same moment: with 55 of them some are five seconds late.
const STAGGER: Duration = Duration::from_secs(4);

/// What happens to pods that are still there at the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They are deleted, early enough to end by then. The node goes.
    ForceDelete,
    /// They are left alone. The node comes back.
    Timeout,
}

/// A drain that goes on. Pods are positions in what was asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draining {
    /// Whose time is up: deleted whatever their tier.
    pub forced: Vec<usize>,
    /// The tier that leaves now. Its pods that are leaving or cannot leave keep it from the next.
    pub tier: Vec<usize>,
    /// How many pods there are to leave in all.
    pub waiting: usize,
}

/// What to do to empty a node; none if nobody is left.
pub fn drain(
    pods: &[Standing],
    deadline: Option<Timestamp>,
    mode: Mode,
    now: Timestamp,
) -> Option<Draining> {
    let waiting = (0..pods.len()).filter(|&pod| pods[pod].is_waiting_for_eviction(now));
    let (forced, graceful): (Vec<_>, Vec<_>) = waiting.partition(|&pod| {
        mode == Mode::ForceDelete && needs_force_delete(&pods[pod], deadline, now)
    });
    let waiting = forced.len() + graceful.len();
    let first = graceful.iter().map(|&pod| tier(&pods[pod])).min();
    let tier = graceful.into_iter().filter(|&pod| Some(tier(&pods[pod])) == first).collect();
    (waiting > 0).then_some(Draining { forced, tier, waiting })
}

/// The order of leaving: what the cluster needs stays longer, and what runs on every node stays
/// longer than what does not.
fn tier(pod: &Standing) -> (bool, bool) {
    (pod.is_critical, pod.owner == Owner::DaemonSet)
}

/// A pod that is to leave a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Leaving {
    /// What it asks for.
    pub requests: Resources,
    /// Whether it is particular about its place: not every node with room will do.
    pub is_constrained: bool,
}

/// How long each pod waits before it leaves: those that are particular about their place less than
/// the others, and large ones less than small ones. Who leaves first finds a place first. A pod that
/// may be in one zone only, or that is large, needs room that others would have taken bit by bit, and
/// would have to get a new node: all pods that a consolidation of 55 nodes left without a place were
/// of an app that is spread over zones. Where other nodes are left together with this one, their
/// particular pods come first, too.
pub fn staggered(pods: &[Leaving], is_one_of_many: bool) -> Vec<Duration> {
    let sizes: Vec<f64> = pods.iter().map(|pod| size(&pod.requests)).collect();
    let largest = sizes.iter().copied().fold(0.0, f64::max);
    let has_constrained = is_one_of_many || pods.iter().any(|pod| pod.is_constrained);
    let pause = |(pod, size): (&Leaving, f64)| {
        let by_size = if largest > 0.0 { 1.0 - size / largest } else { 0.0 };
        STAGGER.mul_f64(match (has_constrained, pod.is_constrained) {
            (false, _) => by_size,
            (true, true) => by_size / 2.0,
            (true, false) => f64::midpoint(1.0, by_size),
        })
    };
    pods.iter().zip(sizes).map(pause).collect()
}

/// In cores, or in what usually comes with a core of memory, whichever is more.
#[expect(clippy::cast_precision_loss, reason = "sizes need not be exact")]
fn size(requests: &Resources) -> f64 {
    const MEMORY_OF_CORE: f64 = 4.0 * 1024.0 * 1024.0 * 1024.0;
    let amount = |name: &str| requests.get(name).map_or(0.0, |amount| amount.nanos() as f64 / 1e9);
    amount(CPU).max(amount(MEMORY) / MEMORY_OF_CORE).max(0.0)
}

/// Whether the pod has to be deleted now to be gone at the deadline, whatever protects it.
pub fn needs_force_delete(pod: &Standing, deadline: Option<Timestamp>, now: Timestamp) -> bool {
    let Some(deadline) = deadline else { return false };
    match (pod.deletion, pod.grace_seconds) {
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

/// Whether a drain that found nobody began too short a while ago. `draining_since` is none when it
/// was over before.
pub fn is_too_early(draining_since: Option<Timestamp>, now: Timestamp) -> bool {
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

    fn pod() -> Standing {
        Standing { phase: Phase::Running, grace_seconds: Some(30), ..Standing::default() }
    }

    fn of(owner: Owner, is_critical: bool) -> Standing {
        Standing { owner, is_critical, ..pod() }
    }

    #[test]
    fn one_tier_leaves_at_a_time() {
        let tiers = [
            of(Owner::DaemonSet, true),
            of(Owner::Other, true),
            of(Owner::DaemonSet, false),
            of(Owner::Other, false),
        ];
        let mut order = Vec::new();
        let mut left = tiers.to_vec();
        while let Some(Draining { tier, waiting, forced }) =
            drain(&left, None, Mode::ForceDelete, now())
        {
            assert_eq!((waiting, forced.len()), (left.len(), 0), "40/TM-15");
            order.extend(tier.iter().map(|&pod| left[pod].clone()));
            left.retain(|pod| !order.contains(pod));
        }
        order.reverse();
        assert_eq!(order, tiers, "40/TM-15");
    }

    const FREE: bool = false;
    const BOUND: bool = true;

    /// What pods ask for and whether they are particular, and the milliseconds that each waits.
    type Case = (&'static str, &'static [(&'static str, &'static str, bool)], &'static [u128]);

    #[test]
    fn particular_pods_leave_first_and_large_ones_before_small_ones() {
        let asks = |cpu: &str, memory: &str| {
            let mut asked = Resources::default();
            for (name, amount) in [(CPU, cpu), (MEMORY, memory)] {
                asked.set(name, crate::testing::quantity(amount));
            }
            asked
        };
        let pauses = |pods: &[(&str, &str, bool)], is_one_of_many| {
            let pods: Vec<_> = pods
                .iter()
                .map(|&(cpu, memory, is_constrained)| Leaving {
                    requests: asks(cpu, memory),
                    is_constrained,
                })
                .collect();
            staggered(&pods, is_one_of_many).iter().map(Duration::as_millis).collect::<Vec<_>>()
        };
        #[rustfmt::skip]
        let cases: [Case; 7] = [
            ("by cores",     &[("500m", "1Gi", FREE), ("2", "1Gi", FREE), ("1", "1Gi", FREE)],       &[3000, 0, 2000]),
            ("by memory",    &[("100m", "16Gi", FREE), ("2", "1Gi", FREE), ("100m", "8Gi", FREE)],   &[0, 2000, 2000]),
            ("alike",        &[("1", "1Gi", FREE), ("1", "1Gi", FREE)],                              &[0, 0]),
            ("without size", &[("0", "0", FREE), ("0", "0", FREE)],                                  &[0, 0]),
            ("particular",   &[("2", "1Gi", FREE), ("1", "1Gi", BOUND), ("1", "1Gi", FREE)],         &[2000, 1000, 3000]),
            ("all are",      &[("2", "1Gi", BOUND), ("1", "1Gi", BOUND)],                            &[0, 1000]),
            ("nobody",       &[],                                                                    &[]),
        ];
        for (case, pods, expected) in cases {
            assert_eq!(pauses(pods, false), expected, "{case}");
        }
        let mixed = [("2", "1Gi", FREE), ("1", "1Gi", BOUND), ("1", "1Gi", FREE)];
        assert_eq!(pauses(&mixed, true), [2000, 1000, 3000]);
        assert_eq!(pauses(&[("2", "1Gi", FREE), ("1", "1Gi", FREE)], true), [2000, 3000]);
        assert_eq!(staggered(&[Leaving::default()], false), [Duration::ZERO]);
    }

    #[test]
    fn those_that_leave_or_cannot_leave_keep_their_tier_open() {
        let leaving = Standing { deletion: Some(at(20)), ..pod() };
        let held = Standing { do_not_disrupt: Some("true".to_owned()), ..pod() };
        for (case, first) in [("leaving", leaving), ("do-not-disrupt", held)] {
            let pods = [of(Owner::Other, true), first];
            let draining = drain(&pods, None, Mode::ForceDelete, now()).unwrap();
            let expected = Draining { forced: vec![], tier: vec![1], waiting: 2 };
            assert_eq!(draining, expected, "{case}");
        }
    }

    #[test]
    fn nobody_to_wait_for_is_a_drained_node() {
        let over = Standing { phase: Phase::Succeeded, ..pod() };
        let stuck = Standing { deletion: Some(at(-90)), ..pod() };
        let cases = [
            ("40/TM-01", vec![]),
            ("40/TM-08", vec![Standing { tolerates_disruption: true, ..pod() }]),
            ("40/TM-11", vec![over]),
            ("40/TM-12", vec![of(Owner::Node, false)]),
            ("40/TM-18", vec![stuck]),
        ];
        for (case, pods) in cases {
            assert_eq!(drain(&pods, None, Mode::ForceDelete, now()), None, "{case}");
        }
    }

    #[test]
    fn pods_are_deleted_in_time_for_the_deadline() {
        let grace = |seconds| Standing { grace_seconds: Some(seconds), ..pod() };
        let deleted = |seconds| Standing { deletion: Some(at(seconds)), ..pod() };
        let unset = Standing { grace_seconds: None, ..pod() };
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
    fn the_forced_are_deleted_whatever_their_tier_and_only_if_the_node_goes() {
        let critical = Standing { grace_seconds: Some(600), ..of(Owner::Other, true) };
        let pods = [pod(), critical];
        let of = |mode| drain(&pods, Some(at(300)), mode, now()).unwrap();
        let forced = Draining { forced: vec![1], tier: vec![0], waiting: 2 };
        assert_eq!(of(Mode::ForceDelete), forced, "40/TM-25");
        let left_alone = Draining { forced: vec![], tier: vec![0], waiting: 2 };
        assert_eq!(of(Mode::Timeout), left_alone, "45/EV-1");
        let alone = drain(&pods[1..], Some(at(300)), Mode::ForceDelete, now()).unwrap();
        assert_eq!((alone.forced, alone.tier, alone.waiting), (vec![0], vec![], 1));
    }

    #[test]
    fn the_grace_period_is_what_is_left_and_at_least_a_second() {
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
            assert_eq!(is_too_early(since, now()), early, "{case}");
        }
    }
}
