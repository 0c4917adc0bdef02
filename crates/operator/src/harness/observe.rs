//! What the harness tells about its work, for metrics.

use std::fmt::Debug;
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
    /// How many keys wait still.
    pub depth: usize,
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

/// Is told what controllers do. All of it is called from the controllers' loops and must be quick.
pub trait Observe: Debug + Send + Sync {
    /// A controller has started, with so many workers.
    fn started(&self, _controller: &'static str, _workers: usize) {}

    /// So many keys have come into the queue, where so many wait now.
    fn added(&self, _controller: &'static str, _count: usize, _depth: usize) {}

    /// A key is to come into the queue after a pause.
    fn retried(&self, _controller: &'static str) {}

    /// A key has left the queue and is in work.
    fn taken(&self, _controller: &'static str, _begun: Begun) {}

    /// A reconcile has ended; so many still run.
    fn finished(&self, _controller: &'static str, _ended: Ended, _active: usize) {}
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observe for NoObserver {}
