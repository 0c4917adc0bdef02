//! The loop of a controller.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, FutureExt, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use jiff::Timestamp;
use tokio::task::coop::consume_budget;
use tracing::error;

use super::observe::{Begun, Ended, Finished, Observe};
use super::queue::Taken;
use super::{Controller, Outcome, Queue, Reconciled, Shutdown, Trouble};
use crate::chance::Chance;
use crate::clock::Clock;
use crate::watch::ObjectKey;

#[cfg(test)]
mod tests;

tokio::task_local! {
    static CURRENT: Current;
}

/// The reconcile in which something happens. It is no span: most reconciles have nothing to say, and
/// making spans for them was a twenty-fifth of the work of a scale-up.
#[derive(Clone, Debug)]
pub(crate) struct Current {
    pub(crate) controller: &'static str,
    pub(crate) group: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) key: Arc<ObjectKey>,
    pub(crate) id: u128,
}

/// The controller in whose reconcile this is asked, for metrics; empty outside of one.
pub fn current_controller() -> &'static str {
    CURRENT.try_with(|current| current.controller).unwrap_or_default()
}

/// Shows the reconcile in which this is asked, if it is in one.
pub(crate) fn with_current<R>(show: impl FnOnce(&Current) -> R) -> Option<R> {
    CURRENT.try_with(show).ok()
}

/// Work that may be done on another thread, as a part of the reconcile in which this is asked.
pub(crate) fn carrying<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let current = with_current(Clone::clone);
    move || match current {
        Some(current) => CURRENT.sync_scope(current, work),
        None => work(),
    }
}

/// What controllers run on.
#[derive(Clone, Debug)]
pub struct Harness {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where ids of reconciles come from.
    pub chance: Arc<Chance>,
    /// Who is told what happens.
    pub observer: Arc<dyn Observe>,
    /// When to take no more work.
    pub shutdown: Shutdown,
}

impl Harness {
    /// Runs a controller until the shutdown begins and what is in work has ended. All of it is one
    /// task, so its reconciles share one thread at a time: they wait for others more than they
    /// compute, and what computes long is for other threads.
    pub async fn run(&self, mut controller: Controller) {
        let (name, queue) = (controller.name, controller.queue.clone());
        let mut ids = self.chance.fork("reconcile ids").fork(name);
        let observer = self.observer.started(name, controller.workers);
        queue.observed_by(&observer);
        let sources = std::mem::take(&mut controller.sources);
        // Kept until the end. What they call holds the process's knowledge, which holds them.
        let _subscriptions: Vec<_> =
            sources.into_iter().filter_map(|source| source(&queue)).collect();
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < controller.workers && !self.shutdown.has_begun() {
                let Some(taken) = queue.next() else { break };
                let Taken { key, waited } = taken;
                let begun = Begun { at: self.clock.now(), waited, active: running.len() + 1 };
                observer.taken(begun);
                running.push(self.work(&controller, key, begun.at, ids.u128()));
            }
            if self.shutdown.has_begun() && running.is_empty() {
                return;
            }
            // A shutdown ends the wait for keys, not the wait for those in work.
            let can_take = running.len() < controller.workers && !self.shutdown.has_begun();
            let news = async {
                if can_take {
                    select(std::pin::pin!(queue.news()), std::pin::pin!(self.shutdown.begun()))
                        .await;
                } else if self.shutdown.has_begun() {
                    std::future::pending::<()>().await;
                } else {
                    self.shutdown.begun().await;
                }
            };
            let ended = async {
                match running.next().await {
                    Some(ended) => ended,
                    None => std::future::pending().await,
                }
            };
            let ended = match select(std::pin::pin!(news), std::pin::pin!(ended)).await {
                Either::Left(_) => None,
                Either::Right((ended, _)) => Some(ended),
            };
            if let Some(ended) = ended {
                observer.finished(ended, running.len());
                // Many reconciles wait for nothing. Those of 15,000 pending pods come back together,
                // and would all be done before anybody else has a turn.
                consume_budget().await;
            }
        }
    }

    async fn work(
        &self,
        controller: &Controller,
        key: Arc<ObjectKey>,
        began: Timestamp,
        id: u128,
    ) -> Ended {
        let queue = &controller.queue;
        let current = Current {
            controller: controller.name,
            group: controller.group,
            kind: controller.kind,
            key: key.clone(),
            id,
        };
        let work = async {
            match AssertUnwindSafe(controller.reconcile(&key)).catch_unwind().await {
                Ok(result) => settle(queue, &key, result),
                Err(panic) => {
                    error!(error = panic_text(panic.as_ref()), "Observed a panic");
                    queue.add_limited(&key);
                    Finished::Panic
                }
            }
        };
        let how = CURRENT.scope(current, work).await;
        queue.done(&key);
        Ended { began, took: elapsed(began, self.clock.now()), how }
    }
}

/// Puts the key where its outcome says.
fn settle(queue: &Queue, key: &Arc<ObjectKey>, result: Reconciled) -> Finished {
    match result {
        Ok(Outcome::Done) => {
            queue.forget(key);
            Finished::Success
        }
        Ok(Outcome::After(pause)) => {
            queue.forget(key);
            queue.add_after(key, pause);
            Finished::RequeueAfter
        }
        Ok(Outcome::Again) => {
            queue.add_limited(key);
            Finished::Requeue
        }
        Err(trouble) => {
            log(&trouble);
            queue.add_limited(key);
            Finished::Error
        }
    }
}

fn log(trouble: &Trouble) {
    error!(error = trouble as &(dyn std::error::Error + 'static), "Reconciler error");
}

fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}
