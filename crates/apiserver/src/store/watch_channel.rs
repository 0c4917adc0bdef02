//! The last change of a table, for those who wait for it.
//!
//! As tokio's `watch` channel, but waiters are woken in the order in which they began to wait. That
//! one wakes them in a random order, and a world under one seed would take another course each time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Who tells. When it is dropped there is no more news.
#[derive(Debug)]
pub(crate) struct Sender<T>(Arc<Shared<T>>);

/// Who waits.
#[derive(Debug)]
pub(crate) struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen_count: u64,
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<T> {
    latest: Option<T>,
    count: u64,
    is_closed: bool,
}

/// There is no more news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed;

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Sender<T> {
    pub(crate) fn new() -> Self {
        let state = Mutex::new(State { latest: None, count: 0, is_closed: false });
        Self(Arc::new(Shared { state, changed: Notify::new() }))
    }

    pub(crate) fn send(&self, value: T) {
        let old = {
            let mut state = self.0.lock();
            state.count += 1;
            state.latest.replace(value)
        };
        drop(old);
        self.0.changed.notify_waiters();
    }

    /// A reader who has seen all that there is.
    pub(crate) fn subscribe(&self) -> Receiver<T> {
        let seen = self.0.lock().count;
        Receiver { shared: Arc::clone(&self.0), seen_count: seen }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.changed.notify_waiters();
    }
}

impl<T: Clone> Receiver<T> {
    /// The last news, which counts as seen.
    pub(crate) fn latest(&mut self) -> Option<T> {
        let state = self.shared.lock();
        self.seen_count = state.count;
        state.latest.clone()
    }

    /// Waits for news that was not seen; it counts as seen from then on.
    pub(crate) async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            // Made before the look: it hears of all that is told after it was made.
            let changed = self.shared.changed.notified();
            {
                let state = self.shared.lock();
                if state.count != self.seen_count {
                    self.seen_count = state.count;
                    return Ok(());
                }
                if state.is_closed {
                    return Err(Closed);
                }
            }
            changed.await;
        }
    }
}
