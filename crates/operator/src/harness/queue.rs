//! Which objects a controller has to look at, and when.
//!
//! ```text
//! add ──▶ ready ──next──▶ running ──done──▶ (gone)
//!           ▲               │  add meanwhile: ready again when done
//!           └── delayed ◀───┘  later, or again with backoff
//! ```
//!
//! Invariant: a key is in work at most once, and waits at most once in each of ready and delayed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Notify;

use super::limit::{Bucket, Limit};
use super::observe::Observe;
use crate::clock::Clock;
use crate::watch::ObjectKey;

#[cfg(test)]
mod tests;

/// A queue of keys. Clones are the same queue.
#[derive(Clone)]
pub struct Queue(Arc<Inner>);

struct Inner {
    clock: Arc<dyn Clock>,
    limit: Limit,
    state: Mutex<State>,
    news: Notify,
    /// Whose queue it is, and who is told what comes into it.
    observer: OnceLock<(&'static str, Arc<dyn Observe>)>,
}

struct State {
    ready: VecDeque<ObjectKey>,
    /// Since when keys are in `ready`.
    waiting: BTreeMap<ObjectKey, Timestamp>,
    running: BTreeSet<ObjectKey>,
    /// Keys that were added while they were in work.
    dirty: BTreeSet<ObjectKey>,
    delayed: BTreeSet<(Timestamp, u64, ObjectKey)>,
    due: BTreeMap<ObjectKey, (Timestamp, u64)>,
    /// Ties of `delayed` go by the order of arrival.
    arrivals: u64,
    /// How many keys have come into `ready` of which nobody was told yet.
    untold: usize,
    failures: BTreeMap<ObjectKey, u32>,
    bucket: Bucket,
}

/// A key to work on.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) key: ObjectKey,
    pub(super) waited: Duration,
    pub(super) depth: usize,
}

impl Queue {
    /// An empty queue.
    pub fn new(clock: &Arc<dyn Clock>, limit: Limit) -> Self {
        let state = State {
            ready: VecDeque::new(),
            waiting: BTreeMap::new(),
            running: BTreeSet::new(),
            dirty: BTreeSet::new(),
            delayed: BTreeSet::new(),
            due: BTreeMap::new(),
            arrivals: 0,
            untold: 0,
            failures: BTreeMap::new(),
            bucket: Bucket::new(limit.per_second, limit.burst),
        };
        Self(Arc::new(Inner {
            clock: clock.clone(),
            limit,
            state: Mutex::new(state),
            news: Notify::new(),
            observer: OnceLock::new(),
        }))
    }

    /// From now on the observer is told what comes into the queue of that controller, and now of what
    /// came before. A queue has one observer, the first.
    pub(super) fn observed_by(&self, controller: &'static str, observer: &Arc<dyn Observe>) {
        let _ = self.0.observer.set((controller, observer.clone()));
        self.tell(self.state());
    }

    /// The key is to be looked at as soon as possible.
    pub fn add(&self, key: ObjectKey) {
        let now = self.0.clock.now();
        let mut state = self.state();
        state.add(key, now);
        self.tell(state);
        self.0.news.notify_one();
    }

    /// The key is to be looked at after a while. Of several times the earliest counts.
    pub fn add_after(&self, key: ObjectKey, pause: Duration) {
        if pause.is_zero() {
            return self.add(key);
        }
        let due = self.0.clock.now().checked_add(pause).unwrap_or(Timestamp::MAX);
        self.state().delay(key, due);
        if let Some((controller, observer)) = self.0.observer.get() {
            observer.retried(controller);
        }
        self.0.news.notify_one();
    }

    /// The key is to be looked at again, later each time until [`Self::forget`].
    pub fn add_limited(&self, key: ObjectKey) {
        let now = self.0.clock.now();
        let pause = {
            let mut state = self.state();
            let failures = state.failures.entry(key.clone()).or_default();
            let pause = self.0.limit.pause(*failures);
            *failures = failures.saturating_add(1);
            pause.max(state.bucket.take(now))
        };
        self.add_after(key, pause);
    }

    /// The key has come to rest: its next failure is its first.
    pub fn forget(&self, key: &ObjectKey) {
        self.state().failures.remove(key);
    }

    /// How many keys wait to be looked at now.
    pub fn len(&self) -> usize {
        self.state().ready.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the next key into work, if one is ready.
    pub(super) fn next(&self) -> Option<Taken> {
        let now = self.0.clock.now();
        let mut state = self.state();
        state.wake_delayed(now);
        let taken = state.ready.pop_front().map(|key| {
            let since = state.waiting.remove(&key).unwrap_or(now);
            state.running.insert(key.clone());
            let waited = Duration::try_from(now.duration_since(since)).unwrap_or_default();
            Taken { key, waited, depth: state.ready.len() }
        });
        self.tell(state);
        taken
    }

    /// The key is out of work.
    pub(super) fn done(&self, key: &ObjectKey) {
        let now = self.0.clock.now();
        let mut state = self.state();
        state.running.remove(key);
        if state.dirty.remove(key) {
            state.add(key.clone(), now);
        }
        self.tell(state);
    }

    /// Done when there may be something to take: a key came, or the time of one.
    pub(super) async fn news(&self) {
        let first = self.state().delayed.first().map(|(due, ..)| *due);
        let news = self.0.news.notified();
        match first {
            None => news.await,
            Some(due) => {
                let time = self.0.clock.sleep_until(due);
                futures_util::future::select(std::pin::pin!(news), time).await;
            }
        }
    }

    /// Tells the observer, if there is one yet, what has come into the queue.
    fn tell(&self, mut state: MutexGuard<'_, State>) {
        let Some((controller, observer)) = self.0.observer.get() else { return };
        let (count, depth) = (std::mem::take(&mut state.untold), state.ready.len());
        drop(state);
        if count > 0 {
            observer.added(controller, count, depth);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, key: ObjectKey, now: Timestamp) {
        if self.running.contains(&key) {
            self.dirty.insert(key);
        } else if !self.waiting.contains_key(&key) {
            self.waiting.insert(key.clone(), now);
            self.ready.push_back(key);
            self.untold += 1;
        }
    }

    fn delay(&mut self, key: ObjectKey, due: Timestamp) {
        if let Some(known) = self.due.get(&key).copied() {
            if known.0 <= due {
                return;
            }
            self.delayed.remove(&(known.0, known.1, key.clone()));
        }
        self.arrivals += 1;
        self.due.insert(key.clone(), (due, self.arrivals));
        self.delayed.insert((due, self.arrivals, key));
    }

    fn wake_delayed(&mut self, now: Timestamp) {
        while self.delayed.first().is_some_and(|(due, ..)| *due <= now) {
            let Some((.., key)) = self.delayed.pop_first() else { return };
            self.due.remove(&key);
            self.add(key, now);
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Queue")
            .field("ready", &state.ready.len())
            .field("running", &state.running.len())
            .field("delayed", &state.delayed.len())
            .finish_non_exhaustive()
    }
}
