//! Runs background tasks. All of them start here, so that shutdown and simulation see every one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use tokio::task::{AbortHandle, JoinSet};

#[cfg(test)]
mod tests;

/// The background tasks of one process, real or simulated. Clones are handles to the same tasks,
/// which are cancelled with the last of them. A task that holds a handle lives until
/// [`Self::stop`].
///
/// ```text
/// spawn ──▶ running ──▶ ended           by itself, or by a panic, which ends that task alone
///              └──────▶ cancelled       by stop, at its next await
/// ```
#[derive(Clone, Default)]
pub struct Tasks(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    running: JoinSet<()>,
    entries: BTreeMap<u64, TaskEntry>,
    started: u64,
    panic_count: u64,
    is_stopped: bool,
}

struct TaskEntry {
    name: &'static str,
    handle: AbortHandle,
}

impl Tasks {
    /// No tasks yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a task; requires a tokio runtime. The name describes the task. After a stop no task
    /// is started any more, and the future is dropped.
    pub fn spawn(&self, name: &'static str, future: impl Future<Output = ()> + Send + 'static) {
        // Boxed, so that what it holds is dropped outside the lock if it is not started.
        let future: BoxFuture<'static, ()> = Box::pin(future);
        let mut state = self.state();
        if state.is_stopped {
            drop(state);
            return;
        }
        state.remove_finished();
        let handle = state.running.spawn(future);
        state.started += 1;
        let number = state.started;
        state.entries.insert(number, TaskEntry { name, handle });
    }

    /// The names of the tasks that run, oldest first.
    pub fn running(&self) -> Vec<&'static str> {
        let mut state = self.state();
        state.remove_finished();
        state.entries.values().map(|entry| entry.name).collect()
    }

    /// Returns how many tasks have panicked so far.
    pub fn panic_count(&self) -> u64 {
        let mut state = self.state();
        state.remove_finished();
        state.panic_count
    }

    /// Cancels every task and waits until all have ended; from now on none starts. This is how a
    /// process dies in a simulation. Tasks that have to end in order are stopped before.
    pub async fn stop(&self) {
        let mut running = {
            let mut state = self.state();
            state.is_stopped = true;
            std::mem::take(&mut state.running)
        };
        running.abort_all();
        while let Some(result) = running.join_next().await {
            if result.is_err_and(|error| error.is_panic()) {
                self.state().panic_count += 1;
            }
        }
        self.state().entries.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is whole at every moment, so a panic elsewhere leaves it usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Drops ended tasks, so that memory is bounded by the running ones.
    fn remove_finished(&mut self) {
        while let Some(result) = self.running.try_join_next() {
            if result.is_err_and(|error| error.is_panic()) {
                self.panic_count += 1;
            }
        }
        self.entries.retain(|_, entry| !entry.handle.is_finished());
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tasks").field(&self.running()).finish()
    }
}
