//! Interfaces through which the harness reports reconciles and queues to metrics.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

/// The result of a reconcile, for metrics.
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
    /// It failed, and a retry would fail again.
    TerminalError,
    /// It panicked.
    Panic,
}

/// The start of a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReconcileStart {
    /// When the reconcile started.
    pub started_at: Timestamp,
    /// How long the key waited in the queue.
    pub queue_duration: Duration,
    /// How many reconciles run now.
    pub active: usize,
}

/// The end of a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReconcileEnd {
    /// When the reconcile started.
    pub started_at: Timestamp,
    /// How long the reconcile took.
    pub duration: Duration,
    /// The result of the reconcile.
    pub status: ReconcileStatus,
}

/// Observes the start of controllers.
pub trait ControllerObserver: Debug + Send + Sync {
    /// Called when a controller starts, with its number of workers. Returns the observer of its
    /// work.
    fn controller_started(&self, controller: &'static str, workers: usize)
    -> Arc<dyn WorkObserver>;
}

/// Observes the work of one controller. The controller's loop and the sources of keys call it, so
/// it must be quick. Calls of different threads may arrive in another order than the work happened.
pub trait WorkObserver: Debug + Send + Sync {
    /// Called when keys were added to the queue. Each of them is
    /// [reconcile_started](Self::reconcile_started) once.
    fn keys_added(&self, _count: usize) {}

    /// Called when a key will be added to the queue after a delay.
    fn key_delayed(&self) {}

    /// Called when a key was taken from the queue and its reconcile starts.
    fn reconcile_started(&self, _begun: ReconcileStart) {}

    /// Called when a reconcile has ended, with the number of those still running.
    fn reconcile_finished(&self, _ended: ReconcileEnd, _active: usize) {}
}

/// An observer that ignores all calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoopObserver;

impl ControllerObserver for NoopObserver {
    fn controller_started(&self, _: &'static str, _: usize) -> Arc<dyn WorkObserver> {
        Arc::new(Self)
    }
}

impl WorkObserver for NoopObserver {}
