//! Runs a controller: takes keys from its queue and reconciles them.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, FutureExt, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use jiff::Timestamp;
use tokio::task::coop::consume_budget;
use tracing::{Instrument as _, Span, error, info_span};

use super::observer::{ControllerObserver, ReconcileEnd, ReconcileStart, ReconcileStatus};
use super::queue::DequeuedKey;
use super::{Controller, Outcome, ReconcileError, ReconcileResult, Shutdown, WorkQueue};
use crate::clock::Clock;
use crate::rng::SeededRng;
use crate::watch::ObjectKey;

#[cfg(test)]
mod tests;

tokio::task_local! {
    /// The controller of the running reconcile. Metrics need it without a log subscriber, too, and
    /// there are no spans then.
    static CURRENT_CONTROLLER: &'static str;
}

/// Returns the controller that runs the current reconcile, for metrics; empty outside of one.
pub fn current_controller() -> &'static str {
    CURRENT_CONTROLLER.try_with(|controller| *controller).unwrap_or_default()
}

/// Wraps work so that it keeps the controller and the span of the reconcile on another thread.
pub(crate) fn with_inherited_context<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let controller = CURRENT_CONTROLLER.try_with(|controller| *controller).ok();
    let span = Span::current();
    move || {
        let work = || span.in_scope(work);
        match controller {
            Some(controller) => CURRENT_CONTROLLER.sync_scope(controller, work),
            None => work(),
        }
    }
}

/// Creates the span of a reconcile. Log records inside it have its fields.
///
/// The span is a root: the harness decides when a reconcile runs, not the task that changed the
/// object.
fn reconcile_span(controller: &Controller, key: &ObjectKey, id: u128) -> Span {
    info_span!(
        parent: None,
        "reconcile",
        controller = controller.name,
        controllerGroup = controller.group,
        controllerKind = controller.kind,
        namespace = key.namespace,
        name = key.name,
        reconcileID = format_args!("{id:032x}"),
    )
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
        let work = work.instrument(reconcile_span(controller, &key, id));
        let how = CURRENT_CONTROLLER.scope(controller.name, work).await;
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
            if error.is_terminal() {
                queue.cancel_retries(key);
                return ReconcileStatus::TerminalError;
            }
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
