//! What the harness tells about its work, for metrics.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileStatus {
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
pub struct ReconcileStart {
    /// When.
    pub started_at: Timestamp,
    /// How long its key had waited.
    pub queue_duration: Duration,
    /// How many reconciles run now.
    pub active: usize,
}

/// A reconcile that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReconcileEnd {
    /// When it had begun.
    pub started_at: Timestamp,
    /// How long it took.
    pub duration: Duration,
    /// How it ended.
    pub status: ReconcileStatus,
}

/// Is told which controllers there are.
pub trait ControllerObserver: Debug + Send + Sync {
    /// A controller starts, with so many workers. The answer is told what it does.
    fn controller_started(&self, controller: &'static str, workers: usize)
    -> Arc<dyn WorkObserver>;
}

/// Is told what one controller does. All of it is called from the controller's loop, or from where
/// keys come from, and must be quick. Threads may tell in another order than things happened.
pub trait WorkObserver: Debug + Send + Sync {
    /// So many keys have come into the queue. Each of them is [reconcile_started](Self::reconcile_started) once.
    fn keys_added(&self, _count: usize) {}

    /// A key is to come into the queue after a pause.
    fn key_delayed(&self) {}

    /// A key has left the queue and is in work.
    fn reconcile_started(&self, _begun: ReconcileStart) {}

    /// A reconcile has ended; so many still run.
    fn reconcile_finished(&self, _ended: ReconcileEnd, _active: usize) {}
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoopObserver;

impl ControllerObserver for NoopObserver {
    fn controller_started(&self, _: &'static str, _: usize) -> Arc<dyn WorkObserver> {
        Arc::new(Self)
    }
}

impl WorkObserver for NoopObserver {}
