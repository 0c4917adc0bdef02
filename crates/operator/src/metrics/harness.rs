//! What controllers and their queues do, as metrics: what the harness tells, recorded.

use std::time::Duration;

use super::Metrics;
use super::labels::{Controller, Queue, QueuePriority, ReconcileResult};
use crate::harness::{Finished, Observe};

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
    }

    fn added(&self, controller: &'static str, depth: usize) {
        self.workqueue_adds.inc(&Queue { name: controller, controller });
        self.depth(controller, depth);
    }

    fn retried(&self, controller: &'static str) {
        self.workqueue_retries.inc(&Queue { name: controller, controller });
    }

    fn taken(&self, controller: &'static str, waited: Duration, depth: usize, active: usize) {
        let queue = Queue { name: controller, controller };
        self.workqueue_queue_duration.observe(&queue, waited.as_secs_f64());
        self.depth(controller, depth);
        self.active_workers.set(&Controller { controller }, number(active));
    }

    fn finished(&self, controller: &'static str, took: Duration, how: Finished, active: usize) {
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
        let labels = QueuePriority { name: controller, controller, priority: "" };
        self.workqueue_depth.set(&labels, number(depth));
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of workers and keys are small")]
fn number(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::SystemClock;
    use crate::metrics::MetricsConfig;

    #[test]
    fn the_work_of_a_controller_is_recorded() {
        let metrics = Metrics::new(Arc::new(SystemClock), &MetricsConfig::default());
        let name = "nodepool.hash";
        metrics.started(name, 10);
        metrics.added(name, 1);
        metrics.taken(name, Duration::from_millis(5), 0, 1);
        metrics.finished(name, Duration::from_millis(7), Finished::Panic, 0);
        metrics.retried(name);
        let value = |metric: &str, labels: &[(&str, &str)]| {
            metrics.registry().value(metric, labels).unwrap_or(f64::NAN)
        };
        let of = [("controller", name)];
        let queue = [("controller", name), ("name", name)];
        for (metric, labels, wanted) in [
            ("controller_runtime_max_concurrent_reconciles", &of[..], 10.0),
            ("controller_runtime_reconcile_errors_total", &of, 1.0),
            ("controller_runtime_reconcile_panics_total", &of, 1.0),
            ("controller_runtime_reconcile_timeouts_total", &of, 0.0),
            ("controller_runtime_active_workers", &of, 0.0),
            ("controller_runtime_reconcile_time_seconds", &of, 1.0),
            ("workqueue_adds_total", &queue, 1.0),
            ("workqueue_retries_total", &queue, 1.0),
            ("workqueue_queue_duration_seconds", &queue, 1.0),
            ("workqueue_work_duration_seconds", &queue, 1.0),
        ] {
            assert!((value(metric, labels) - wanted).abs() < 1e-9, "{metric}");
        }
        let results = ["error", "requeue_after", "requeue", "success"].map(|result| {
            value("controller_runtime_reconcile_total", &[("controller", name), ("result", result)])
        });
        assert_eq!(results.map(|count| count > 0.0), [true, false, false, false]);
    }
}
