//! A channel that sends the last change of a table to the watchers.
//!
//! It differs from tokio's `watch` channel in the order in which it wakes receivers: the order in
//! which they began to wait. Tokio's wakes them in a random order, and a simulation would run
//! differently each time under one seed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Sends values. Dropping the sender closes the channel.
#[derive(Debug)]
pub(crate) struct Sender<T>(Arc<Shared<T>>);

/// Waits for values that it has not seen.
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

/// The sender was dropped: no more values follow.
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

    /// Returns a receiver that has seen the current value.
    pub(crate) fn subscribe(&self) -> Receiver<T> {
        let seen_count = self.0.lock().count;
        Receiver { shared: Arc::clone(&self.0), seen_count }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.changed.notify_waiters();
    }
}

impl<T: Clone> Receiver<T> {
    /// Returns the last value and marks it as seen.
    pub(crate) fn latest(&mut self) -> Option<T> {
        let state = self.shared.lock();
        self.seen_count = state.count;
        state.latest.clone()
    }

    /// Waits for an unseen value and marks it as seen.
    pub(crate) async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            // Created before the check of the counter, so that it notices every value sent after
            // its creation.
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
