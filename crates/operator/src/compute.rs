//! Runs long decisions: on a blocking thread, or inline in simulations.
//!
//! A decision about many thousand pods takes a part of a second in which no other task runs. In
//! production it runs on a thread of its own; in a simulated world, where everything runs on one
//! thread in a fixed order, it runs in the caller.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;

use crate::harness::with_inherited_context;

/// A piece of work without an answer.
type Work = Box<dyn FnOnce() + Send>;

/// Runs long work. It is used as `Arc<dyn Executor>`, through [`run`].
pub trait Executor: Debug + Send + Sync {
    /// Runs the work; the future completes when it has ended.
    fn execute(&self, work: Work) -> BoxFuture<'static, ()>;
}

/// Runs a decision on an executor and returns its result. None if it panicked. Its logs have the
/// context of the calling reconcile.
pub async fn run<T: Send + 'static>(
    executor: &dyn Executor,
    decide: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let answer: Arc<Mutex<Option<T>>> = Arc::default();
    let slot = answer.clone();
    let decide = with_inherited_context(decide);
    executor
        .execute(Box::new(move || {
            let decided = decide();
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(decided);
        }))
        .await;
    answer.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Runs work on a thread of tokio's blocking pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blocking;

impl Executor for Blocking {
    fn execute(&self, work: Work) -> BoxFuture<'static, ()> {
        Box::pin(async {
            if let Err(error) = tokio::task::spawn_blocking(work).await {
                tracing::error!(error = %error, "Work on another thread did not come to an end");
            }
        })
    }
}

/// Runs work in the caller.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inline;

impl Executor for Inline {
    fn execute(&self, work: Work) -> BoxFuture<'static, ()> {
        work();
        Box::pin(std::future::ready(()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn decisions_do_not_block_the_async_runtime() {
        // One thread does all the rest. It answers while the decision is being made, or never.
        let (answer, answered) = mpsc::channel();
        let decision = run(&Blocking, move || answered.recv_timeout(Duration::from_secs(30)));
        let probe = async move { answer.send("ok") };
        let (decided, sent) = futures_util::future::join(decision, probe).await;
        assert_eq!((decided, sent), (Some(Ok("ok")), Ok(())));
    }

    #[tokio::test]
    async fn both_executors_return_the_result() {
        assert_eq!(run(&Blocking, || 6 * 7).await, Some(42));
        assert_eq!(run(&Inline, || 6 * 7).await, Some(42));
    }

    #[tokio::test]
    async fn a_panic_on_an_executor_returns_none() {
        assert_eq!(run::<u32>(&Blocking, || panic!("on purpose")).await, None);
    }
}
