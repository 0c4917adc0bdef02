//! Runs a controller: takes keys from its queue and reconciles them.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, FutureExt, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use jiff::Timestamp;
use tokio::task::coop::consume_budget;
use tracing::error;

use super::observer::{ControllerObserver, ReconcileEnd, ReconcileStart, ReconcileStatus};
use super::queue::DequeuedKey;
use super::{Controller, Outcome, ReconcileError, ReconcileResult, Shutdown, WorkQueue};
use crate::clock::Clock;
use crate::rng::SeededRng;
use crate::watch::ObjectKey;

#[cfg(test)]
mod tests;

tokio::task_local! {
    static CURRENT_RECONCILE: ReconcileContext;
}

/// The reconcile that the current task runs. It is no span: most reconciles log nothing, and
/// creating spans for them took a twenty-fifth of the time of a scale-up.
#[derive(Clone, Debug)]
pub(crate) struct ReconcileContext {
    pub(crate) controller: &'static str,
    pub(crate) group: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) key: Arc<ObjectKey>,
    pub(crate) id: u128,
}

/// Returns the controller that runs the current reconcile, for metrics; empty outside of one.
pub fn current_controller() -> &'static str {
    CURRENT_RECONCILE.try_with(|current| current.controller).unwrap_or_default()
}

/// Calls a function with the current reconcile; none outside of one.
pub(crate) fn with_reconcile_context<R>(show: impl FnOnce(&ReconcileContext) -> R) -> Option<R> {
    CURRENT_RECONCILE.try_with(show).ok()
}

/// Wraps work so that it keeps the current reconcile on another thread.
pub(crate) fn with_inherited_context<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let current = with_reconcile_context(Clone::clone);
    move || match current {
        Some(current) => CURRENT_RECONCILE.sync_scope(current, work),
        None => work(),
    }
}

/// What controllers run on.
#[derive(Clone, Debug)]
pub struct Harness {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The source of reconcile ids.
    pub rng: Arc<SeededRng>,
    /// Receives the start of each controller.
    pub observer: Arc<dyn ControllerObserver>,
    /// When to take no more work.
    pub shutdown: Shutdown,
}

impl Harness {
    /// Runs a controller until the shutdown begins and its running reconciles have ended. All of it
    /// is one task, so its reconciles share one thread at a time: they wait more than they compute,
    /// and long computations run on an executor.
    pub async fn run(&self, mut controller: Controller) {
        let (name, queue) = (controller.name, controller.queue.clone());
        let mut ids = self.rng.fork("reconcile ids").fork(name);
        let observer = self.observer.controller_started(name, controller.workers);
        queue.set_observer(&observer);
        let sources = std::mem::take(&mut controller.sources);
        // Kept until the end. What they call holds the process's knowledge, which holds them.
        let _subscriptions: Vec<_> =
            sources.into_iter().filter_map(|source| source(&queue)).collect();
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < controller.workers && !self.shutdown.has_begun() {
                let Some(taken) = queue.try_dequeue() else { break };
                let DequeuedKey { key, queue_duration: waited } = taken;
                let begun = ReconcileStart {
                    started_at: self.clock.now(),
                    queue_duration: waited,
                    active: running.len() + 1,
                };
                observer.reconcile_started(begun);
                running.push(self.reconcile_key(&controller, key, begun.started_at, ids.u128()));
            }
            if self.shutdown.has_begun() && running.is_empty() {
                return;
            }
            // A shutdown ends the wait for keys, not the wait for those in work.
            let can_take = running.len() < controller.workers && !self.shutdown.has_begun();
            let key_or_shutdown = async {
                if can_take {
                    select(
                        std::pin::pin!(queue.wait_for_key()),
                        std::pin::pin!(self.shutdown.wait()),
                    )
                    .await;
                } else if self.shutdown.has_begun() {
                    std::future::pending::<()>().await;
                } else {
                    self.shutdown.wait().await;
                }
            };
            let ended = async {
                match running.next().await {
                    Some(ended) => ended,
                    None => std::future::pending().await,
                }
            };
            let ended = match select(std::pin::pin!(key_or_shutdown), std::pin::pin!(ended)).await {
                Either::Left(_) => None,
                Either::Right((ended, _)) => Some(ended),
            };
            if let Some(ended) = ended {
                observer.reconcile_finished(ended, running.len());
                // Many reconciles never wait. Those of 15,000 pending pods end together, and would
                // all run before any other task does.
                consume_budget().await;
            }
        }
    }

    async fn reconcile_key(
        &self,
        controller: &Controller,
        key: Arc<ObjectKey>,
        began: Timestamp,
        id: u128,
    ) -> ReconcileEnd {
        let queue = &controller.queue;
        let current = ReconcileContext {
            controller: controller.name,
            group: controller.group,
            kind: controller.kind,
            key: key.clone(),
            id,
        };
        let work = async {
            match AssertUnwindSafe(controller.reconcile(&key)).catch_unwind().await {
                Ok(result) => apply_outcome(queue, &key, result),
                Err(panic) => {
                    error!(error = panic_message(panic.as_ref()), "Observed a panic");
                    queue.add_rate_limited(&key);
                    ReconcileStatus::Panic
                }
            }
        };
        let how = CURRENT_RECONCILE.scope(current, work).await;
        queue.done(&key);
        ReconcileEnd { started_at: began, duration: elapsed(began, self.clock.now()), status: how }
    }
}

/// Requeues or forgets the key as its outcome requires.
fn apply_outcome(
    queue: &WorkQueue,
    key: &Arc<ObjectKey>,
    result: ReconcileResult,
) -> ReconcileStatus {
    match result {
        Ok(Outcome::Done) => {
            queue.forget(key);
            ReconcileStatus::Success
        }
        Ok(Outcome::RequeueAfter(pause)) => {
            queue.forget(key);
            queue.add_after(key, pause);
            ReconcileStatus::RequeueAfter
        }
        Ok(Outcome::Requeue) => {
            queue.add_rate_limited(key);
            ReconcileStatus::Requeue
        }
        Err(error) => {
            log_error(&error);
            queue.add_rate_limited(key);
            ReconcileStatus::Error
        }
    }
}

fn log_error(error: &ReconcileError) {
    error!(error = error as &(dyn std::error::Error + 'static), "Reconciler error");
}

fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}
