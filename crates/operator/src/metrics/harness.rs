//! What controllers and their queues do, as metrics: what the harness tells, recorded.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::labels::{Controller, Queue, QueuePriority, ReconcileResult};
use super::list::CoreMetrics;
use super::{Metrics, Registry};
use crate::harness::{Begun, Ended, Finished, Observe, ObserveWork};

impl Observe for Metrics {
    fn started(&self, controller: &'static str, workers: usize) -> Arc<dyn ObserveWork> {
        let of_controller = Controller { controller };
        self.max_concurrent_reconciles.set(&of_controller, number(workers));
        for counter in [&self.terminal_reconcile_errors, &self.reconcile_timeouts] {
            counter.add(&of_controller, 0.0);
        }
        let work = Arc::new(Work::of(controller, self));
        self.work.lock().insert(controller, work.clone());
        work
    }
}

/// What one controller does.
///
/// Its series are looked up once, and what is true only now is a gauge only when somebody looks:
/// doing both for each reconcile was a twenty-fifth of the work of a scale-up.
struct Work {
    adds: prometheus::Counter,
    retries: prometheus::Counter,
    waited: prometheus::Histogram,
    worked: prometheus::Histogram,
    took: prometheus::Histogram,
    succeeded: prometheus::Counter,
    requeued: prometheus::Counter,
    requeued_after: prometheus::Counter,
    failed: prometheus::Counter,
    errors: prometheus::Counter,
    panics: prometheus::Counter,
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    /// Keys that came less those that were taken. A sum does not care about the order in which
    /// threads tell; a key may be taken before somebody tells that it came.
    depth: i64,
    active: usize,
    /// How many of the reconciles that run began at a time.
    began: BTreeMap<Timestamp, usize>,
}

impl Work {
    fn of(controller: &'static str, metrics: &CoreMetrics) -> Self {
        let of_controller = Controller { controller };
        let queue = Queue { name: controller, controller };
        let ended = |result| metrics.reconcile.series(&ReconcileResult { controller, result });
        Self {
            adds: metrics.workqueue_adds.series(&queue),
            retries: metrics.workqueue_retries.series(&queue),
            waited: metrics.workqueue_queue_duration.series(&queue),
            worked: metrics.workqueue_work_duration.series(&queue),
            took: metrics.reconcile_time.series(&of_controller),
            succeeded: ended("success"),
            requeued: ended("requeue"),
            requeued_after: ended("requeue_after"),
            failed: ended("error"),
            errors: metrics.reconcile_errors.series(&of_controller),
            panics: metrics.reconcile_panics.series(&of_controller),
            now: Mutex::default(),
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ObserveWork for Work {
    fn added(&self, count: usize) {
        self.adds.inc_by(number(count));
        self.now().depth += i64::try_from(count).unwrap_or_default();
    }

    fn retried(&self) {
        self.retries.inc();
    }

    fn taken(&self, begun: Begun) {
        let Begun { at, waited, active } = begun;
        self.waited.observe(waited.as_secs_f64());
        let mut now = self.now();
        now.depth -= 1;
        now.active = active;
        *now.began.entry(at).or_default() += 1;
    }

    fn finished(&self, ended: Ended, active: usize) {
        let Ended { began, took, how } = ended;
        match how {
            Finished::Success => self.succeeded.inc(),
            Finished::RequeueAfter => self.requeued_after.inc(),
            Finished::Requeue => self.requeued.inc(),
            // A panic is an error too, as upstream has it.
            Finished::Error | Finished::Panic => {
                self.failed.inc();
                self.errors.inc();
            }
        }
        if how == Finished::Panic {
            self.panics.inc();
        }
        self.took.observe(took.as_secs_f64());
        self.worked.observe(took.as_secs_f64());
        let mut now = self.now();
        now.active = active;
        if let Some(count) = now.began.get_mut(&began) {
            *count -= 1;
            if *count == 0 {
                now.began.remove(&began);
            }
        }
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Work")
    }
}

/// What all controllers do. Clones are handles to the same.
#[derive(Clone, Debug, Default)]
pub(super) struct AllWork(Arc<Mutex<BTreeMap<&'static str, Arc<Work>>>>);

impl AllWork {
    /// Gauges are set whenever somebody looks: a reconcile that hangs says nothing by itself.
    pub(super) fn shown_in(registry: &Registry, metrics: &CoreMetrics) -> Self {
        let all = Self::default();
        let (shown, metrics) = (all.clone(), metrics.clone());
        registry.refresh(move |time| {
            for (&controller, work) in shown.lock().iter() {
                show(&metrics, controller, &work.now(), time);
            }
        });
        all
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Arc<Work>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn show(metrics: &CoreMetrics, controller: &str, now: &Now, time: Timestamp) {
    metrics.active_workers.set(&Controller { controller }, number(now.active));
    // Keys have no priorities here, which is upstream's priority 0.
    let labels = QueuePriority { name: controller, controller, priority: "0" };
    let depth = usize::try_from(now.depth).unwrap_or_default();
    metrics.workqueue_depth.set(&labels, number(depth));
    let age = |at: &Timestamp| time.duration_since(*at).as_secs_f64().max(0.0);
    let ages = now.began.iter().map(|(at, &count)| age(at) * number(count));
    let queue = Queue { name: controller, controller };
    metrics.workqueue_unfinished_work.set(&queue, ages.sum());
    let longest = now.began.keys().next().map_or(0.0, age);
    metrics.workqueue_longest_running_processor.set(&queue, longest);
}

#[expect(clippy::cast_precision_loss, reason = "counts of workers and keys are small")]
fn number(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
