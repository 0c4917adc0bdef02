//! Tests of the metrics of reconciles and work queues.

use std::time::Duration;

use super::*;
use crate::clock::{Clock, TokioClock};
use crate::harness::tasks::Tasks;
use crate::harness::{
    Controller as Runs, Harness, Outcome, RateLimit, Reconcile, ReconcileError, ReconcileResult,
    Shutdown, WorkQueue as Keys,
};
use crate::metrics::MetricsConfig;
use crate::rng::SeededRng;
use crate::watch::ObjectKey;

const NAME: &str = "nodepool.hash";

/// A reconciler whose outcome depends on the key's name.
struct ScriptedReconciler(Arc<dyn Clock>);

impl Reconcile for ScriptedReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        match key.name.as_str() {
            "panics" => panic!("on purpose"),
            "fails" => Err(ReconcileError::new("no")),
            "invalid" => Err(ReconcileError::terminal("no")),
            "later" => Ok(Outcome::RequeueAfter(Duration::from_hours(1))),
            "conflicts" => Ok(Outcome::Requeue),
            "slow" => {
                self.0.sleep(Duration::from_secs(30)).await;
                Ok(Outcome::Done)
            }
            _ => Ok(Outcome::Done),
        }
    }
}

/// A controller of that script that runs, its keys, and its metrics.
struct Bench {
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    keys: Keys,
    tasks: Tasks,
}

impl Bench {
    /// What fails waits an hour, so nothing is tried twice. These keys are there before it runs.
    fn start(before: &[&str]) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
        let metrics = Metrics::new(clock.clone(), &MetricsConfig::default());
        let harness = Harness {
            clock: clock.clone(),
            rng: Arc::new(SeededRng::new(1)),
            observer: Arc::new(metrics.clone()),
            shutdown: Shutdown::new(),
        };
        let hour = Duration::from_hours(1);
        let keys = Keys::new(
            &clock,
            RateLimit { base_delay: hour, max_delay: hour, ..RateLimit::DEFAULT },
        );
        for name in before {
            keys.add(ObjectKey::new("", name));
        }
        let controller =
            Runs::new(NAME, &clock, ScriptedReconciler(clock.clone())).workers(2).queue(&keys);
        let tasks = Tasks::new();
        tasks.spawn(NAME, async move { harness.run(controller).await });
        Self { clock, metrics, keys, tasks }
    }

    async fn sleep(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    fn value(&self, metric: &str, labels: &[(&str, &str)]) -> f64 {
        self.metrics.registry().value(metric, labels).unwrap_or(f64::NAN)
    }

    fn controller_value(&self, metric: &str) -> f64 {
        self.value(&format!("controller_runtime_{metric}"), &[("controller", NAME)])
    }

    fn queue_value(&self, metric: &str) -> f64 {
        let labels = [("controller", NAME), ("name", NAME)];
        self.value(&format!("workqueue_{metric}"), &labels)
    }

    fn depth(&self) -> f64 {
        let labels = [("controller", NAME), ("name", NAME), ("priority", "0")];
        self.value("workqueue_depth", &labels)
    }

    #[track_caller]
    fn assert_values(&self, of: fn(&Self, &str) -> f64, wanted: &[(&str, f64)]) {
        for (metric, wanted) in wanted {
            let value = of(self, metric);
            assert!((value - wanted).abs() < 1e-9, "{metric} is {value}, not {wanted}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn reconciles_and_queue_work_of_a_controller_are_recorded() {
    let bench = Bench::start(&["panics", "fails", "invalid", "later", "conflicts", "fine"]);
    bench.sleep(1).await;
    bench.assert_values(
        Bench::controller_value,
        &[
            ("max_concurrent_reconciles", 2.0),
            ("reconcile_errors_total", 3.0),
            ("terminal_reconcile_errors_total", 1.0),
            ("reconcile_panics_total", 1.0),
            ("reconcile_timeouts_total", 0.0),
            ("active_workers", 0.0),
            ("reconcile_time_seconds", 6.0),
        ],
    );
    bench.assert_values(
        Bench::queue_value,
        &[
            ("adds_total", 6.0),
            ("retries_total", 4.0),
            ("queue_duration_seconds", 6.0),
            ("work_duration_seconds", 6.0),
        ],
    );
    let results = ["error", "requeue_after", "requeue", "success"].map(|result| {
        let labels = [("controller", NAME), ("result", result)];
        format!("{result} {}", bench.value("controller_runtime_reconcile_total", &labels))
    });
    assert_eq!(results, ["error 3", "requeue_after 1", "requeue 1", "success 1"]);
    bench.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_key_counts_as_added_once_while_it_is_ready() {
    let bench = Bench::start(&["later"]);
    bench.sleep(1).await;
    bench.assert_values(Bench::queue_value, &[("adds_total", 1.0), ("retries_total", 1.0)]);
    bench.sleep(3600).await;
    bench.assert_values(Bench::queue_value, &[("adds_total", 2.0), ("retries_total", 2.0)]);
    for name in ["slow", "b", "c", "c"] {
        bench.keys.add(ObjectKey::new("", name));
    }
    assert!((bench.depth() - 3.0).abs() < 1e-9, "nothing was taken yet: {}", bench.depth());
    bench.assert_values(Bench::queue_value, &[("adds_total", 5.0)]);
    bench.sleep(1).await;
    bench.keys.add(ObjectKey::new("", "slow"));
    bench.assert_values(Bench::queue_value, &[("adds_total", 5.0)]);
    bench.sleep(30).await;
    bench.assert_values(Bench::queue_value, &[("adds_total", 6.0)]);
    bench.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn queue_depth_does_not_depend_on_the_order_of_reports() {
    let bench = Bench::start(&[]);
    let work = bench.metrics.controller_started(NAME, 1);
    let take = || {
        let at = bench.clock.now();
        work.reconcile_started(ReconcileStart {
            started_at: at,
            queue_duration: Duration::ZERO,
            active: 1,
        });
    };
    // Another thread has added a key and not reported it yet.
    take();
    assert!(bench.depth().abs() < 1e-9, "{}", bench.depth());
    work.keys_added(1);
    assert!(bench.depth().abs() < 1e-9, "nothing waits: {}", bench.depth());
    work.keys_added(3);
    take();
    assert!((bench.depth() - 2.0).abs() < 1e-9, "{}", bench.depth());
    bench.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unfinished_work_ages_until_the_reconcile_ends() {
    let bench = Bench::start(&["slow"]);
    let ages = |sum: f64, longest: f64| {
        [("unfinished_work_seconds", sum), ("longest_running_processor_seconds", longest)]
    };
    bench.sleep(10).await;
    bench.assert_values(Bench::queue_value, &ages(10.0, 10.0));
    // Another one, which waits for the time of the first.
    bench.keys.add(ObjectKey::new("other", "slow"));
    bench.sleep(5).await;
    bench.assert_values(Bench::queue_value, &ages(20.0, 15.0));
    bench.sleep(16).await;
    bench.assert_values(Bench::queue_value, &ages(21.0, 21.0));
    bench.sleep(10).await;
    bench.assert_values(Bench::queue_value, &ages(0.0, 0.0));
    bench.tasks.stop().await;
}
