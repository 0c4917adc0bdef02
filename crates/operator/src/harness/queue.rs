//! The work queue of a controller: which objects to reconcile, and when.
//!
//! ```text
//! add ──▶ ready ──next──▶ running ──done──▶ (gone)
//!           ▲               │  add meanwhile: ready again when done
//!           └── delayed ◀───┘  later, or again with backoff
//! ```
//!
//! Invariant: a key is reconciled at most once at a time, and waits at most once in each of ready
//! and delayed. The state of a key is in one place, and a finished key has none.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::observer::WorkObserver;
use super::rate_limit::{RateLimit, TokenBucket};
use crate::clock::Clock;
use crate::watch::ObjectKey;

#[cfg(test)]
mod tests;

/// A queue of keys. Clones share one queue.
#[derive(Clone)]
pub struct WorkQueue(Arc<Inner>);

struct Inner {
    clock: Arc<dyn Clock>,
    limit: RateLimit,
    state: Mutex<State>,
    notify: Notify,
    /// Receives the number of added keys.
    observer: OnceLock<Arc<dyn WorkObserver>>,
}

struct State {
    /// The states of all keys that are not finished. `ready` and `delayed` hold their order.
    keys: HashMap<Arc<ObjectKey>, KeyState>,
    ready: VecDeque<Arc<ObjectKey>>,
    /// By time, then by arrival.
    delayed: BTreeSet<(Due, Arc<ObjectKey>)>,
    /// The number of the last delayed key; orders keys with equal times.
    last_arrival: u64,
    /// The number of ready keys that were not reported to the observer yet.
    unreported: usize,
    bucket: TokenBucket,
}

/// When a key becomes ready, by the monotonic clock, and the number of its arrival.
type Due = (Duration, u64);

/// The state of a key in the queue.
#[derive(Default, PartialEq)]
struct KeyState {
    /// When the key was added to `ready`.
    ready_since: Option<Duration>,
    is_running: bool,
    /// It was added while it was in work.
    is_dirty: bool,
    /// Where it is in `delayed`.
    due: Option<Due>,
    /// How often it has failed since it last came to rest.
    failures: u32,
}

/// A key taken from the queue, with the time it waited.
#[derive(Debug)]
pub(super) struct DequeuedKey {
    pub(super) key: Arc<ObjectKey>,
    pub(super) queue_duration: Duration,
}

impl WorkQueue {
    /// An empty queue.
    pub fn new(clock: &Arc<dyn Clock>, limit: RateLimit) -> Self {
        let state = State {
            keys: HashMap::new(),
            ready: VecDeque::new(),
            delayed: BTreeSet::new(),
            last_arrival: 0,
            unreported: 0,
            bucket: TokenBucket::new(limit.per_second, limit.burst),
        };
        Self(Arc::new(Inner {
            clock: clock.clone(),
            limit,
            state: Mutex::new(state),
            notify: Notify::new(),
            observer: OnceLock::new(),
        }))
    }

    /// Sets the observer and reports the keys added so far. A queue has one observer, the first.
    pub(super) fn set_observer(&self, observer: &Arc<dyn WorkObserver>) {
        let _ = self.0.observer.set(observer.clone());
        self.report_added(self.state());
    }

    /// Adds a key, to be reconciled as soon as possible.
    pub fn add(&self, key: impl Into<Arc<ObjectKey>>) {
        let now = self.0.clock.monotonic();
        let mut state = self.state();
        state.add(&key.into(), now);
        self.report_added(state);
        self.0.notify.notify_one();
    }

    /// Adds a key after a delay. Of several delays the earliest counts.
    pub fn add_after(&self, key: &Arc<ObjectKey>, pause: Duration) {
        if pause.is_zero() {
            return self.add(key.clone());
        }
        let due = self.0.clock.monotonic().saturating_add(pause);
        self.state().delay(key, due);
        if let Some(observer) = self.0.observer.get() {
            observer.key_delayed();
        }
        self.0.notify.notify_one();
    }

    /// Adds a key after its backoff, which grows until [`Self::forget`].
    pub fn add_rate_limited(&self, key: &Arc<ObjectKey>) {
        let now = self.0.clock.now();
        let pause = {
            let mut state = self.state();
            let standing = state.key_state(key);
            let pause = self.0.limit.backoff(standing.failures);
            standing.failures = standing.failures.saturating_add(1);
            pause.max(state.bucket.reserve(now))
        };
        self.add_after(key, pause);
    }

    /// The key has come to rest: its next failure is its first.
    pub fn forget(&self, key: &ObjectKey) {
        self.state().update_key(key, |standing| standing.failures = 0);
    }

    /// Drops the retries of a key: its failures, and the time at which it becomes ready.
    pub(super) fn cancel_retries(&self, key: &Arc<ObjectKey>) {
        let mut state = self.state();
        let mut cancelled = None;
        state.update_key(key, |standing| {
            standing.failures = 0;
            cancelled = standing.due.take();
        });
        if let Some(due) = cancelled {
            state.delayed.remove(&(due, key.clone()));
        }
    }

    /// Returns how many keys are ready.
    pub fn len(&self) -> usize {
        self.state().ready.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the next ready key; none if no key is ready.
    pub(super) fn try_dequeue(&self) -> Option<DequeuedKey> {
        let now = self.0.clock.monotonic();
        let mut state = self.state();
        state.move_due_to_ready(now);
        let taken = state.ready.pop_front().map(|key| {
            let standing = state.key_state(&key);
            let since = standing.ready_since.take().unwrap_or(now);
            standing.is_running = true;
            DequeuedKey { key, queue_duration: now.saturating_sub(since) }
        });
        self.report_added(state);
        taken
    }

    /// The key is out of work.
    pub(super) fn done(&self, key: &Arc<ObjectKey>) {
        let now = self.0.clock.monotonic();
        let mut state = self.state();
        let mut is_dirty = false;
        state.update_key(key, |standing| {
            standing.is_running = false;
            is_dirty = std::mem::take(&mut standing.is_dirty);
        });
        if is_dirty {
            state.add(key, now);
        }
        self.report_added(state);
    }

    /// Waits until a key may be ready: a key was added, or a delay has ended.
    pub(super) async fn wait_for_key(&self) {
        let first = self.state().delayed.first().map(|((due, _), _)| *due);
        let notified = self.0.notify.notified();
        match first {
            None => notified.await,
            Some(due) => {
                let time = self.0.clock.sleep(due.saturating_sub(self.0.clock.monotonic()));
                futures_util::future::select(std::pin::pin!(notified), time).await;
            }
        }
    }

    /// Reports the added keys to the observer, if it is set.
    fn report_added(&self, mut state: MutexGuard<'_, State>) {
        let Some(observer) = self.0.observer.get() else { return };
        let count = std::mem::take(&mut state.unreported);
        drop(state);
        if count > 0 {
            observer.keys_added(count);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn key_state(&mut self, key: &Arc<ObjectKey>) -> &mut KeyState {
        self.keys.entry(key.clone()).or_default()
    }

    /// Changes the state of a known key, and drops the state if the key is finished.
    fn update_key(&mut self, key: &ObjectKey, change: impl FnOnce(&mut KeyState)) {
        let Some(standing) = self.keys.get_mut(key) else { return };
        change(standing);
        if *standing == KeyState::default() {
            self.keys.remove(key);
        }
    }

    fn add(&mut self, key: &Arc<ObjectKey>, now: Duration) {
        let standing = self.key_state(key);
        if standing.is_running {
            standing.is_dirty = true;
        } else if standing.ready_since.is_none() {
            standing.ready_since = Some(now);
            self.ready.push_back(key.clone());
            self.unreported += 1;
        }
    }

    fn delay(&mut self, key: &Arc<ObjectKey>, time: Duration) {
        let due = (time, self.last_arrival + 1);
        let standing = self.key_state(key);
        match standing.due {
            Some(known) if known.0 <= time => return,
            known => {
                standing.due = Some(due);
                if let Some(known) = known {
                    self.delayed.remove(&(known, key.clone()));
                }
            }
        }
        self.last_arrival += 1;
        self.delayed.insert((due, key.clone()));
    }

    fn move_due_to_ready(&mut self, now: Duration) {
        while self.delayed.first().is_some_and(|((due, _), _)| *due <= now) {
            let Some((_, key)) = self.delayed.pop_first() else { return };
            self.key_state(&key).due = None;
            self.add(&key, now);
        }
    }
}

impl fmt::Debug for WorkQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("WorkQueue")
            .field("ready", &state.ready.len())
            .field("running", &state.keys.values().filter(|key| key.is_running).count())
            .field("delayed", &state.delayed.len())
            .finish_non_exhaustive()
    }
}
