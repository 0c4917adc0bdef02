//! What the harness tells about its work, for metrics.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// Nothing left to do.
    Success,
    /// It wants to run again after a time.
    RequeueAfter,
    /// It wants to run again, with backoff.
    Requeue,
    /// It failed.
    Error,
    /// It panicked.
    Panic,
}

/// A reconcile that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// When.
    pub at: Timestamp,
    /// How long its key had waited.
    pub waited: Duration,
    /// How many reconciles run now.
    pub active: usize,
}

/// A reconcile that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// When it had begun.
    pub began: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// How it ended.
    pub how: Finished,
}

/// Is told which controllers there are.
pub trait Observe: Debug + Send + Sync {
    /// A controller starts, with so many workers. The answer is told what it does.
    fn started(&self, controller: &'static str, workers: usize) -> Arc<dyn ObserveWork>;
}

/// Is told what one controller does. All of it is called from the controller's loop, or from where
/// keys come from, and must be quick. Threads may tell in another order than things happened.
pub trait ObserveWork: Debug + Send + Sync {
    /// So many keys have come into the queue. Each of them is [taken](Self::taken) once.
    fn added(&self, _count: usize) {}

    /// A key is to come into the queue after a pause.
    fn retried(&self) {}

    /// A key has left the queue and is in work.
    fn taken(&self, _begun: Begun) {}

    /// A reconcile has ended; so many still run.
    fn finished(&self, _ended: Ended, _active: usize) {}
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observe for NoObserver {
    fn started(&self, _: &'static str, _: usize) -> Arc<dyn ObserveWork> {
        Arc::new(Self)
    }
}

impl ObserveWork for NoObserver {}
