//! What the harness tells about its work, for metrics.

use std::fmt::Debug;
use std::time::Duration;

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

/// Is told what controllers do. All of it is called from the controllers' loops and must be quick.
pub trait Observe: Debug + Send + Sync {
    /// A controller has started, with so many workers.
    fn started(&self, _controller: &'static str, _workers: usize) {}

    /// A key has come into the queue, where so many wait now.
    fn added(&self, _controller: &'static str, _depth: usize) {}

    /// A key has come back for a retry.
    fn retried(&self, _controller: &'static str) {}

    /// A key has left the queue after a wait; so many are left there, and so many are in work.
    fn taken(&self, _controller: &'static str, _waited: Duration, _depth: usize, _active: usize) {}

    /// A reconcile has ended; so many are still in work.
    fn finished(&self, _controller: &'static str, _took: Duration, _how: Finished, _active: usize) {
    }
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observe for NoObserver {}
