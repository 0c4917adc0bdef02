//! The scheduling queue: orders pending pods and holds back those that do not fit.
//!
//! ```text
//! add ─▶ ready ─▶ pop ─▶ rejected ─▶ unschedulable ──(a change that could help, or 5 minutes)──┐
//!          ▲              failed ─▶ backing off ◀──(backoff not over)──────────────────────────┤
//!          └─────────────(backoff over)──┘       ◀──(backoff over)─────────────────────────────┘
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::fit_error::Blockers;
use karpenter_operator::watch::ObjectKey;

/// The backoff after the first failed attempt; each further one doubles it.
const INITIAL_BACKOFF: SignedDuration = SignedDuration::from_secs(1);
const MAX_BACKOFF: SignedDuration = SignedDuration::from_secs(10);

/// The longest wait of an unschedulable pod, in case the queue missed a change.
const MAX_UNSCHEDULABLE_WAIT: SignedDuration = SignedDuration::from_mins(5);

/// Priority, then time of creation, then name.
type Order = (Reverse<i32>, Timestamp, ObjectKey);

/// The pods that wait for a node.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: BTreeMap<ObjectKey, QueuedPod>,
    ready: BTreeSet<Order>,
    /// By the end of their backoff.
    backing_off: BTreeSet<(Timestamp, Order)>,
    /// Unschedulable pods, by the time of the latest retry.
    unschedulable: BTreeSet<(Timestamp, ObjectKey)>,
}

#[derive(Debug)]
struct QueuedPod {
    order: Order,
    attempts: u32,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Ready,
    BackingOff { until: Timestamp },
    Unschedulable { blockers: Blockers, backoff_until: Timestamp, until: Timestamp },
}

impl Queue {
    /// Adds a pod that is new or has new requirements: it is tried soon.
    pub(super) fn add(
        &mut self,
        key: &ObjectKey,
        priority: i32,
        created: Timestamp,
        now: Timestamp,
    ) {
        let order = (Reverse(priority), created, key.clone());
        let (attempts, backoff_until) = match self.waiting.get(key) {
            Some(known) => (known.attempts, known.backoff_until()),
            None => (0, None),
        };
        self.remove(key);
        let waiting = QueuedPod { order, attempts, state: State::Ready };
        self.waiting.insert(key.clone(), waiting);
        self.try_at(key, backoff_until.unwrap_or(now), now);
    }

    /// A pod waits no longer.
    pub(super) fn remove(&mut self, key: &ObjectKey) {
        if let Some(waiting) = self.waiting.remove(key) {
            self.unlist(key, &waiting);
        }
    }

    /// Returns the next pod to try.
    /// It stays first until the caller reports the result.
    pub(super) fn first(&mut self, now: Timestamp) -> Option<ObjectKey> {
        while let Some((until, order)) = self.backing_off.first().cloned() {
            if until > now {
                break;
            }
            self.set(&order.2, State::Ready);
        }
        while let Some((until, key)) = self.unschedulable.first().cloned() {
            if until > now {
                break;
            }
            self.set(&key, State::Ready);
        }
        self.ready.first().map(|(_, _, key)| key.clone())
    }

    /// Marks a pod as unschedulable until one of its blockers is removed.
    pub(super) fn mark_unschedulable(
        &mut self,
        key: &ObjectKey,
        blockers: Blockers,
        now: Timestamp,
    ) {
        let backoff_until = self.count_attempt(key, now);
        let until = later(now, MAX_UNSCHEDULABLE_WAIT);
        self.set(key, State::Unschedulable { blockers, backoff_until, until });
    }

    /// Retries a pod after its backoff, since it could not be tried or bound.
    pub(super) fn requeue_with_backoff(&mut self, key: &ObjectKey, now: Timestamp) {
        let until = self.count_attempt(key, now);
        self.set(key, State::BackingOff { until });
    }

    /// Moves unschedulable pods with one of these blockers to backoff or ready.
    pub(super) fn retry_unblocked(&mut self, by: Blockers, now: Timestamp) {
        let helped: Vec<_> = self
            .unschedulable
            .iter()
            .filter_map(|(_, key)| match self.waiting.get(key)?.state {
                State::Unschedulable { blockers, backoff_until, .. } if blockers.intersects(by) => {
                    Some((key.clone(), backoff_until))
                }
                _ => None,
            })
            .collect();
        for (key, backoff_until) in helped {
            self.try_at(&key, backoff_until, now);
        }
    }

    /// When something is to be done if nothing changes.
    pub(super) fn next_time(&self) -> Option<Timestamp> {
        let backing_off = self.backing_off.first().map(|(until, _)| *until);
        let unfit = self.unschedulable.first().map(|(until, _)| *until);
        backing_off.into_iter().chain(unfit).min()
    }

    fn count_attempt(&mut self, key: &ObjectKey, now: Timestamp) -> Timestamp {
        let Some(waiting) = self.waiting.get_mut(key) else { return now };
        waiting.attempts = waiting.attempts.saturating_add(1);
        later(now, backoff(waiting.attempts))
    }

    fn try_at(&mut self, key: &ObjectKey, time: Timestamp, now: Timestamp) {
        let state = if time <= now { State::Ready } else { State::BackingOff { until: time } };
        self.set(key, state);
    }

    fn set(&mut self, key: &ObjectKey, state: State) {
        let Some(mut waiting) = self.waiting.remove(key) else { return };
        self.unlist(key, &waiting);
        waiting.state = state;
        let order = waiting.order.clone();
        match state {
            State::Ready => self.ready.insert(order),
            State::BackingOff { until } => self.backing_off.insert((until, order)),
            State::Unschedulable { until, .. } => self.unschedulable.insert((until, key.clone())),
        };
        self.waiting.insert(key.clone(), waiting);
    }

    fn unlist(&mut self, key: &ObjectKey, waiting: &QueuedPod) {
        match waiting.state {
            State::Ready => self.ready.remove(&waiting.order),
            State::BackingOff { until } => self.backing_off.remove(&(until, waiting.order.clone())),
            State::Unschedulable { until, .. } => self.unschedulable.remove(&(until, key.clone())),
        };
    }
}

impl QueuedPod {
    fn backoff_until(&self) -> Option<Timestamp> {
        match self.state {
            State::Ready => None,
            State::BackingOff { until } => Some(until),
            State::Unschedulable { backoff_until, .. } => Some(backoff_until),
        }
    }
}

/// 1, 2, 4, 8, 10, 10 … seconds.
fn backoff(attempts: u32) -> SignedDuration {
    let factor = 1_i32 << attempts.saturating_sub(1).min(4);
    INITIAL_BACKOFF.saturating_mul(factor).min(MAX_BACKOFF)
}

fn later(now: Timestamp, duration: SignedDuration) -> Timestamp {
    now.saturating_add(duration).unwrap_or(Timestamp::MAX)
}
