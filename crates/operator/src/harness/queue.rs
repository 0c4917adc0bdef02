//! Which objects a controller has to look at, and when.
//!
//! ```text
//! add ──▶ ready ──next──▶ running ──done──▶ (gone)
//!           ▲               │  add meanwhile: ready again when done
//!           └── delayed ◀───┘  later, or again with backoff
//! ```
//!
//! Invariant: a key is in work at most once, and waits at most once in each of ready and delayed.
//! What is known of a key is in one place, and nothing is kept of a key that is at rest.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::limit::{Bucket, Limit};
use super::observe::ObserveWork;
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
    /// Who is told what comes into it.
    observer: OnceLock<Arc<dyn ObserveWork>>,
}

struct State {
    /// What is known of keys that are not at rest. Their order is that of `ready` and `delayed`.
    keys: HashMap<Arc<ObjectKey>, Standing>,
    ready: VecDeque<Arc<ObjectKey>>,
    /// By time, then by arrival.
    delayed: BTreeSet<(Due, Arc<ObjectKey>)>,
    /// Ties of `delayed` go by the order of arrival.
    arrivals: u64,
    /// How many keys have come into `ready` of which nobody was told yet.
    untold: usize,
    bucket: Bucket,
}

/// When a key is to be looked at, by the clock that nobody sets, and the number of its arrival.
type Due = (Duration, u64);

/// What is known of a key.
#[derive(Default, PartialEq)]
struct Standing {
    /// Since when it is in `ready`.
    waits: Option<Duration>,
    is_running: bool,
    /// It was added while it was in work.
    is_dirty: bool,
    /// Where it is in `delayed`.
    due: Option<Due>,
    /// How often it has failed since it last came to rest.
    failures: u32,
}

/// A key to work on.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) key: Arc<ObjectKey>,
    pub(super) waited: Duration,
}

impl Queue {
    /// An empty queue.
    pub fn new(clock: &Arc<dyn Clock>, limit: Limit) -> Self {
        let state = State {
            keys: HashMap::new(),
            ready: VecDeque::new(),
            delayed: BTreeSet::new(),
            arrivals: 0,
            untold: 0,
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

    /// From now on the observer is told what comes into the queue, and now of what came before. A
    /// queue has one observer, the first.
    pub(super) fn observed_by(&self, observer: &Arc<dyn ObserveWork>) {
        let _ = self.0.observer.set(observer.clone());
        self.tell(self.state());
    }

    /// The key is to be looked at as soon as possible.
    pub fn add(&self, key: impl Into<Arc<ObjectKey>>) {
        let now = self.0.clock.monotonic();
        let mut state = self.state();
        state.add(&key.into(), now);
        self.tell(state);
        self.0.news.notify_one();
    }

    /// The key is to be looked at after a while. Of several times the earliest counts.
    pub fn add_after(&self, key: &Arc<ObjectKey>, pause: Duration) {
        if pause.is_zero() {
            return self.add(key.clone());
        }
        let due = self.0.clock.monotonic().saturating_add(pause);
        self.state().delay(key, due);
        if let Some(observer) = self.0.observer.get() {
            observer.retried();
        }
        self.0.news.notify_one();
    }

    /// The key is to be looked at again, later each time until [`Self::forget`].
    pub fn add_limited(&self, key: &Arc<ObjectKey>) {
        let now = self.0.clock.now();
        let pause = {
            let mut state = self.state();
            let standing = state.standing(key);
            let pause = self.0.limit.pause(standing.failures);
            standing.failures = standing.failures.saturating_add(1);
            pause.max(state.bucket.take(now))
        };
        self.add_after(key, pause);
    }

    /// The key has come to rest: its next failure is its first.
    pub fn forget(&self, key: &ObjectKey) {
        self.state().change(key, |standing| standing.failures = 0);
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
        let now = self.0.clock.monotonic();
        let mut state = self.state();
        state.wake_delayed(now);
        let taken = state.ready.pop_front().map(|key| {
            let standing = state.standing(&key);
            let since = standing.waits.take().unwrap_or(now);
            standing.is_running = true;
            Taken { key, waited: now.saturating_sub(since) }
        });
        self.tell(state);
        taken
    }

    /// The key is out of work.
    pub(super) fn done(&self, key: &Arc<ObjectKey>) {
        let now = self.0.clock.monotonic();
        let mut state = self.state();
        let mut is_dirty = false;
        state.change(key, |standing| {
            standing.is_running = false;
            is_dirty = std::mem::take(&mut standing.is_dirty);
        });
        if is_dirty {
            state.add(key, now);
        }
        self.tell(state);
    }

    /// Done when there may be something to take: a key came, or the time of one.
    pub(super) async fn news(&self) {
        let first = self.state().delayed.first().map(|((due, _), _)| *due);
        let news = self.0.news.notified();
        match first {
            None => news.await,
            Some(due) => {
                let time = self.0.clock.sleep(due.saturating_sub(self.0.clock.monotonic()));
                futures_util::future::select(std::pin::pin!(news), time).await;
            }
        }
    }

    /// Tells the observer, if there is one yet, what has come into the queue.
    fn tell(&self, mut state: MutexGuard<'_, State>) {
        let Some(observer) = self.0.observer.get() else { return };
        let count = std::mem::take(&mut state.untold);
        drop(state);
        if count > 0 {
            observer.added(count);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn standing(&mut self, key: &Arc<ObjectKey>) -> &mut Standing {
        self.keys.entry(key.clone()).or_default()
    }

    /// Changes what is known of a key, if anything is, and forgets a key that is at rest then.
    fn change(&mut self, key: &ObjectKey, change: impl FnOnce(&mut Standing)) {
        let Some(standing) = self.keys.get_mut(key) else { return };
        change(standing);
        if *standing == Standing::default() {
            self.keys.remove(key);
        }
    }

    fn add(&mut self, key: &Arc<ObjectKey>, now: Duration) {
        let standing = self.standing(key);
        if standing.is_running {
            standing.is_dirty = true;
        } else if standing.waits.is_none() {
            standing.waits = Some(now);
            self.ready.push_back(key.clone());
            self.untold += 1;
        }
    }

    fn delay(&mut self, key: &Arc<ObjectKey>, time: Duration) {
        let due = (time, self.arrivals + 1);
        let standing = self.standing(key);
        match standing.due {
            Some(known) if known.0 <= time => return,
            known => {
                standing.due = Some(due);
                if let Some(known) = known {
                    self.delayed.remove(&(known, key.clone()));
                }
            }
        }
        self.arrivals += 1;
        self.delayed.insert((due, key.clone()));
    }

    fn wake_delayed(&mut self, now: Duration) {
        while self.delayed.first().is_some_and(|((due, _), _)| *due <= now) {
            let Some((_, key)) = self.delayed.pop_first() else { return };
            self.standing(&key).due = None;
            self.add(&key, now);
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Queue")
            .field("ready", &state.ready.len())
            .field("running", &state.keys.values().filter(|key| key.is_running).count())
            .field("delayed", &state.delayed.len())
            .finish_non_exhaustive()
    }
}
