//! What controllers and their queues do, as metrics: what the harness tells, recorded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::labels::{Controller, Queue, QueuePriority, ReconcileResult};
use super::list::CoreMetrics;
use super::{Metrics, Registry};
use crate::harness::{Begun, Ended, Finished, Observe};

impl Observe for Metrics {
    fn started(&self, controller: &'static str, workers: usize) {
        let of_controller = Controller { controller };
        self.max_concurrent_reconciles.set(&of_controller, number(workers));
        self.active_workers.set(&of_controller, 0.0);
        for result in ["error", "requeue_after", "requeue", "success"] {
            self.reconcile.add(&ReconcileResult { controller, result }, 0.0);
        }
        for counter in [
            &self.reconcile_errors,
            &self.terminal_reconcile_errors,
            &self.reconcile_panics,
            &self.reconcile_timeouts,
        ] {
            counter.add(&of_controller, 0.0);
        }
        self.depth(controller, 0);
        self.workqueue_adds.add(&Queue { name: controller, controller }, 0.0);
        self.workqueue_retries.add(&Queue { name: controller, controller }, 0.0);
        self.running.lock().entry(controller).or_default().clear();
    }

    fn added(&self, controller: &'static str, count: usize, depth: usize) {
        self.workqueue_adds.add(&Queue { name: controller, controller }, number(count));
        self.depth(controller, depth);
    }

    fn retried(&self, controller: &'static str) {
        self.workqueue_retries.inc(&Queue { name: controller, controller });
    }

    fn taken(&self, controller: &'static str, begun: Begun) {
        let Begun { at, waited, depth, active } = begun;
        self.running.begin(controller, at);
        let queue = Queue { name: controller, controller };
        self.workqueue_queue_duration.observe(&queue, waited.as_secs_f64());
        self.depth(controller, depth);
        self.active_workers.set(&Controller { controller }, number(active));
    }

    fn finished(&self, controller: &'static str, ended: Ended, active: usize) {
        let Ended { began, took, how } = ended;
        self.running.end(controller, began);
        let of_controller = Controller { controller };
        let result = match how {
            Finished::Success => "success",
            Finished::RequeueAfter => "requeue_after",
            Finished::Requeue => "requeue",
            // A panic is an error too, as upstream has it.
            Finished::Error | Finished::Panic => "error",
        };
        self.reconcile.inc(&ReconcileResult { controller, result });
        if matches!(how, Finished::Error | Finished::Panic) {
            self.reconcile_errors.inc(&of_controller);
        }
        if how == Finished::Panic {
            self.reconcile_panics.inc(&of_controller);
        }
        self.reconcile_time.observe(&of_controller, took.as_secs_f64());
        let queue = Queue { name: controller, controller };
        self.workqueue_work_duration.observe(&queue, took.as_secs_f64());
        self.active_workers.set(&of_controller, number(active));
    }
}

impl Metrics {
    fn depth(&self, controller: &str, depth: usize) {
        // Keys have no priorities here, which is upstream's priority 0.
        let labels = QueuePriority { name: controller, controller, priority: "0" };
        self.workqueue_depth.set(&labels, number(depth));
    }
}

/// When the reconciles that run now began. Clones are handles to the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Running(Arc<Mutex<Began>>);

/// How many reconciles of a controller began at a time.
type Began = BTreeMap<&'static str, BTreeMap<Timestamp, usize>>;

impl Running {
    /// Their ages are set whenever somebody looks: a reconcile that hangs says nothing by itself.
    pub(super) fn shown_in(registry: &Registry, metrics: &CoreMetrics) -> Self {
        let running = Self::default();
        let (shown, sum) = (running.clone(), metrics.workqueue_unfinished_work.clone());
        let longest = metrics.workqueue_longest_running_processor.clone();
        registry.refresh(move |now| {
            for (&controller, began) in shown.lock().iter() {
                let age = |at: &Timestamp| now.duration_since(*at).as_secs_f64().max(0.0);
                let ages = began.iter().map(|(at, &count)| age(at) * number(count));
                let queue = Queue { name: controller, controller };
                sum.set(&queue, ages.sum());
                longest.set(&queue, began.keys().next().map_or(0.0, age));
            }
        });
        running
    }

    fn begin(&self, controller: &'static str, at: Timestamp) {
        *self.lock().entry(controller).or_default().entry(at).or_default() += 1;
    }

    fn end(&self, controller: &'static str, began: Timestamp) {
        let mut all = self.lock();
        let Some(running) = all.get_mut(controller) else { return };
        let Some(count) = running.get_mut(&began) else { return };
        *count -= 1;
        if *count == 0 {
            running.remove(&began);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Began> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of workers and keys are small")]
fn number(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
