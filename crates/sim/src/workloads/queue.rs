//! The work queue of the workload controllers: which objects to sync, and when.
//!
//! One entry per object. Many changes of one object's pods make one sync: the next sync is at least
//! [`MIN_SYNC_INTERVAL`] away, so the work for n pods that change one by one is not n times n.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use karpenter_operator::watch::ObjectKey;

/// The shortest time between two syncs of one object.
pub(super) const MIN_SYNC_INTERVAL: Duration = Duration::from_millis(100);

/// The backoff after the first failed sync; each further failure doubles it.
const INITIAL_BACKOFF: Duration = Duration::from_millis(200);

/// The most times that failures double the backoff.
const MAX_DOUBLINGS: u32 = 8;

/// An object, and the controller that syncs it. At one time they go in this order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    Deployment(ObjectKey),
    ReplicaSet(ObjectKey),
    StatefulSet(ObjectKey),
    DaemonSet(ObjectKey),
    Job(ObjectKey),
    Budget(ObjectKey),
    /// A pod with a finalizer of a Job that may be gone.
    UncountedPod(ObjectKey),
    /// Whether the node is alive, and its taints.
    Node(String),
    /// Whether the pod must leave its node.
    Eviction(ObjectKey),
    /// A pod whose node may be gone.
    OrphanedPod(ObjectKey),
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    times: BTreeMap<Timestamp, BTreeSet<Item>>,
    items: BTreeMap<Item, Timestamp>,
    /// The last sync of each item, and its failures in a row.
    last_syncs: BTreeMap<Item, LastSync>,
}

#[derive(Debug, Clone, Copy)]
struct LastSync {
    at: Timestamp,
    failures: u32,
}

impl Queue {
    /// Something about the object has changed.
    pub(super) fn add(&mut self, item: Item, now: Timestamp) {
        let free = self
            .last_syncs
            .get(&item)
            .map_or(now, |last_sync| later(last_sync.at, MIN_SYNC_INTERVAL));
        self.at(item, free.max(now));
    }

    /// Not before this time. An earlier time for the same object wins.
    pub(super) fn at(&mut self, item: Item, time: Timestamp) {
        if let Some(old) = self.items.get(&item).copied() {
            if old <= time {
                return;
            }
            self.take_out(old, &item);
        }
        self.items.insert(item.clone(), time);
        self.times.entry(time).or_default().insert(item);
    }

    /// Queues an item again after a failed sync, with growing backoff.
    pub(super) fn requeue_with_backoff(&mut self, item: Item, now: Timestamp) {
        let last_sync =
            self.last_syncs.entry(item.clone()).or_insert(LastSync { at: now, failures: 0 });
        let wait = INITIAL_BACKOFF * 2_u32.pow(last_sync.failures.min(MAX_DOUBLINGS));
        last_sync.failures += 1;
        self.at(item, later(now, wait));
    }

    pub(super) fn reset_backoff(&mut self, item: &Item) {
        if let Some(last_sync) = self.last_syncs.get_mut(item) {
            last_sync.failures = 0;
        }
    }

    /// The object is gone.
    pub(super) fn forget(&mut self, item: &Item) {
        self.last_syncs.remove(item);
        if let Some(time) = self.items.remove(item) {
            self.take_out(time, item);
        }
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.times.keys().next().copied()
    }

    /// Takes the next due item from the queue, the earliest first.
    pub(super) fn take(&mut self, now: Timestamp) -> Option<Item> {
        let mut first = self.times.first_entry().filter(|first| *first.key() <= now)?;
        let item = first.get_mut().pop_first()?;
        if first.get().is_empty() {
            first.remove();
        }
        self.items.remove(&item);
        let failures = self.last_syncs.get(&item).map_or(0, |last_sync| last_sync.failures);
        self.last_syncs.insert(item.clone(), LastSync { at: now, failures });
        Some(item)
    }

    fn take_out(&mut self, time: Timestamp, item: &Item) {
        if let Some(items) = self.times.get_mut(&time) {
            items.remove(item);
            if items.is_empty() {
                self.times.remove(&time);
            }
        }
    }
}

pub(super) fn later(time: Timestamp, after: Duration) -> Timestamp {
    time.checked_add(after).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    fn node(name: &str) -> Item {
        Item::Node(name.to_owned())
    }

    #[test]
    fn changes_are_coalesced_and_the_next_sync_waits_its_interval() {
        let mut queue = Queue::default();
        queue.add(node("a"), at(0));
        queue.add(node("a"), at(0));
        assert_eq!(queue.take(at(0)), Some(node("a")));
        assert_eq!(queue.take(at(0)), None);
        queue.add(node("a"), at(10));
        queue.add(node("a"), at(20));
        assert_eq!(queue.next(), Some(at(100)));
        assert_eq!(queue.take(at(99)), None);
        assert_eq!(queue.take(at(100)), Some(node("a")));
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn the_earlier_time_wins_and_equal_times_go_in_order() {
        let mut queue = Queue::default();
        queue.at(node("b"), at(50));
        queue.at(node("b"), at(20));
        queue.at(node("b"), at(70));
        queue.at(node("a"), at(20));
        let taken: Vec<_> = std::iter::from_fn(|| queue.take(at(100))).collect();
        assert_eq!(taken, [node("a"), node("b")]);
    }

    #[test]
    fn repeated_failures_double_the_backoff() {
        let mut queue = Queue::default();
        let mut now = at(0);
        let mut waits = Vec::new();
        for _ in 0..3 {
            queue.requeue_with_backoff(node("a"), now);
            let next = queue.next().unwrap();
            waits.push(next.as_millisecond() - now.as_millisecond());
            now = next;
            assert_eq!(queue.take(now), Some(node("a")));
        }
        assert_eq!(waits, [200, 400, 800]);
        queue.reset_backoff(&node("a"));
        queue.requeue_with_backoff(node("a"), now);
        assert_eq!(queue.next().unwrap().as_millisecond() - now.as_millisecond(), 200);
    }

    #[test]
    fn a_removed_item_leaves_no_state() {
        let mut queue = Queue::default();
        queue.add(node("a"), at(0));
        queue.forget(&node("a"));
        assert_eq!(queue.take(at(0)), None);
        assert!(queue.last_syncs.is_empty() && queue.items.is_empty() && queue.times.is_empty());
    }
}
