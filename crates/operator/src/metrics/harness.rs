//! Records the work of controllers and their queues as metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::definitions::CoreMetrics;
use super::labels::{Controller, Queue, QueuePriority, ReconcileResult};
use super::{Metrics, Registry};
use crate::harness::{
    ControllerObserver, ReconcileEnd, ReconcileStart, ReconcileStatus, WorkObserver,
};

impl ControllerObserver for Metrics {
    fn controller_started(
        &self,
        controller: &'static str,
        workers: usize,
    ) -> Arc<dyn WorkObserver> {
        let of_controller = Controller { controller };
        self.max_concurrent_reconciles.set(&of_controller, number(workers));
        self.reconcile_timeouts.add(&of_controller, 0.0);
        let work = Arc::new(ControllerWork::new(controller, self));
        self.controllers.lock().insert(controller, work.clone());
        work
    }
}

/// The metrics of one controller's reconciles and queue.
///
/// Its series are resolved once, and gauges of the current state are set only at a scrape: doing
/// both for each reconcile took a twenty-fifth of the time of a scale-up.
struct ControllerWork {
    adds: prometheus::Counter,
    retries: prometheus::Counter,
    queue_duration: prometheus::Histogram,
    work_duration: prometheus::Histogram,
    reconcile_duration: prometheus::Histogram,
    succeeded: prometheus::Counter,
    requeued: prometheus::Counter,
    requeued_after: prometheus::Counter,
    failed: prometheus::Counter,
    errors: prometheus::Counter,
    terminal_errors: prometheus::Counter,
    panics: prometheus::Counter,
    in_progress: Mutex<WorkInProgress>,
}

#[derive(Default)]
struct WorkInProgress {
    /// Added keys minus taken keys. A sum does not depend on the order of reports from several
    /// threads: a key may be taken before its addition is reported.
    depth: i64,
    active: usize,
    /// The number of running reconciles by start time.
    running_by_start: BTreeMap<Timestamp, usize>,
}

impl ControllerWork {
    fn new(controller: &'static str, metrics: &CoreMetrics) -> Self {
        let of_controller = Controller { controller };
        let queue = Queue { name: controller, controller };
        let ended = |result| metrics.reconcile.series(&ReconcileResult { controller, result });
        Self {
            adds: metrics.workqueue_adds.series(&queue),
            retries: metrics.workqueue_retries.series(&queue),
            queue_duration: metrics.workqueue_queue_duration.series(&queue),
            work_duration: metrics.workqueue_work_duration.series(&queue),
            reconcile_duration: metrics.reconcile_time.series(&of_controller),
            succeeded: ended("success"),
            requeued: ended("requeue"),
            requeued_after: ended("requeue_after"),
            failed: ended("error"),
            errors: metrics.reconcile_errors.series(&of_controller),
            terminal_errors: metrics.terminal_reconcile_errors.series(&of_controller),
            panics: metrics.reconcile_panics.series(&of_controller),
            in_progress: Mutex::default(),
        }
    }

    fn in_progress(&self) -> MutexGuard<'_, WorkInProgress> {
        self.in_progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WorkObserver for ControllerWork {
    fn keys_added(&self, count: usize) {
        self.adds.inc_by(number(count));
        self.in_progress().depth += i64::try_from(count).unwrap_or_default();
    }

    fn key_delayed(&self) {
        self.retries.inc();
    }

    fn reconcile_started(&self, begun: ReconcileStart) {
        let ReconcileStart { started_at: at, queue_duration: waited, active } = begun;
        self.queue_duration.observe(waited.as_secs_f64());
        let mut now = self.in_progress();
        now.depth -= 1;
        now.active = active;
        *now.running_by_start.entry(at).or_default() += 1;
    }

    fn reconcile_finished(&self, ended: ReconcileEnd, active: usize) {
        let ReconcileEnd { started_at: began, duration: took, status: how } = ended;
        match how {
            ReconcileStatus::Success => self.succeeded.inc(),
            ReconcileStatus::RequeueAfter => self.requeued_after.inc(),
            ReconcileStatus::Requeue => self.requeued.inc(),
            // Panics and terminal errors count as errors too, as in controller-runtime.
            ReconcileStatus::Error | ReconcileStatus::TerminalError | ReconcileStatus::Panic => {
                self.failed.inc();
                self.errors.inc();
            }
        }
        match how {
            ReconcileStatus::TerminalError => self.terminal_errors.inc(),
            ReconcileStatus::Panic => self.panics.inc(),
            _ => {}
        }
        self.reconcile_duration.observe(took.as_secs_f64());
        self.work_duration.observe(took.as_secs_f64());
        let mut now = self.in_progress();
        now.active = active;
        if let Some(count) = now.running_by_start.get_mut(&began) {
            *count -= 1;
            if *count == 0 {
                now.running_by_start.remove(&began);
            }
        }
    }
}

impl fmt::Debug for ControllerWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Work")
    }
}

/// The metrics of all controllers. Clones share the same state.
#[derive(Clone, Debug, Default)]
pub(super) struct AllControllerWork(Arc<Mutex<BTreeMap<&'static str, Arc<ControllerWork>>>>);

impl AllControllerWork {
    /// Registers a refresher that sets the gauges at each scrape: a hanging reconcile reports
    /// nothing.
    pub(super) fn register(registry: &Registry, metrics: &CoreMetrics) -> Self {
        let all = Self::default();
        let (shown, metrics) = (all.clone(), metrics.clone());
        registry.add_refresher(move |time| {
            for (&controller, work) in shown.lock().iter() {
                set_gauges(&metrics, controller, &work.in_progress(), time);
            }
        });
        all
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Arc<ControllerWork>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn set_gauges(metrics: &CoreMetrics, controller: &str, now: &WorkInProgress, time: Timestamp) {
    metrics.active_workers.set(&Controller { controller }, number(now.active));
    // Keys have no priorities here, which is upstream's priority 0.
    let labels = QueuePriority { name: controller, controller, priority: "0" };
    let depth = usize::try_from(now.depth).unwrap_or_default();
    metrics.workqueue_depth.set(&labels, number(depth));
    let age = |at: &Timestamp| time.duration_since(*at).as_secs_f64().max(0.0);
    let ages = now.running_by_start.iter().map(|(at, &count)| age(at) * number(count));
    let queue = Queue { name: controller, controller };
    metrics.workqueue_unfinished_work.set(&queue, ages.sum());
    let longest = now.running_by_start.keys().next().map_or(0.0, age);
    metrics.workqueue_longest_running_processor.set(&queue, longest);
}

#[expect(clippy::cast_precision_loss, reason = "counts of workers and keys are small")]
fn number(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
