//! Records running scheduler runs as metrics: their queue depth and age.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::definitions::CoreMetrics;
use super::labels::SchedulingRun;
use super::registry::Gauge;
use super::{Metrics, Registry};

/// The running and last scheduler runs. Clones share the same state.
#[derive(Clone)]
pub(super) struct SchedulingRuns {
    state: Arc<Mutex<State>>,
    depth: Gauge<SchedulingRun<'static>>,
    age: Gauge<SchedulingRun<'static>>,
}

#[derive(Default)]
struct State {
    /// When runs began that have not ended, by controller and id.
    running: BTreeMap<(&'static str, String), Timestamp>,
    /// The last run of each controller; its depth is shown until the next one.
    last_runs: BTreeMap<&'static str, String>,
}

impl SchedulingRuns {
    /// Registers a refresher that sets the ages of runs at each scrape.
    pub(super) fn register(registry: &Registry, metrics: &CoreMetrics) -> Self {
        let solves = Self {
            state: Arc::default(),
            depth: metrics.scheduler_queue_depth.clone(),
            age: metrics.scheduler_unfinished_work.clone(),
        };
        let shown = solves.clone();
        registry.add_refresher(move |now| {
            for ((controller, id), began) in &shown.lock().running {
                let age = now.duration_since(*began).as_secs_f64().max(0.0);
                shown.age.set(&SchedulingRun { controller, scheduling_id: id }, age);
            }
        });
        solves
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Metrics {
    /// Starts a scheduler run with this many pods. It ends when the returned guard is dropped.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "numbers of pods")]
    pub fn start_scheduling_run(
        &self,
        controller: &'static str,
        scheduling_id: String,
        pods: usize,
    ) -> SchedulingRunGuard {
        let solves = self.scheduling_runs.clone();
        let key = (controller, scheduling_id);
        let mut state = solves.lock();
        if let Some(last) = state.last_runs.insert(controller, key.1.clone()) {
            solves.depth.remove(&SchedulingRun { controller, scheduling_id: &last });
        }
        state.running.insert(key.clone(), self.registry.now());
        solves.depth.set(&run_labels(&key), pods as f64);
        drop(state);
        SchedulingRunGuard { scheduling_runs: solves, key }
    }
}

/// A running scheduler run; dropping it ends the run.
pub struct SchedulingRunGuard {
    scheduling_runs: SchedulingRuns,
    key: (&'static str, String),
}

impl Drop for SchedulingRunGuard {
    fn drop(&mut self) {
        let mut state = self.scheduling_runs.lock();
        state.running.remove(&self.key);
        self.scheduling_runs.age.remove(&run_labels(&self.key));
        if state.last_runs.get(self.key.0) == Some(&self.key.1) {
            self.scheduling_runs.depth.set(&run_labels(&self.key), 0.0);
        }
    }
}

fn run_labels<'a>((controller, id): &'a (&'static str, String)) -> SchedulingRun<'a> {
    SchedulingRun { controller, scheduling_id: id }
}

impl fmt::Debug for SchedulingRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Solves({} running)", self.lock().running.len())
    }
}

impl fmt::Debug for SchedulingRunGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Solve({} {})", self.key.0, self.key.1)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::{Clock, TokioClock};
    use crate::metrics::MetricsConfig;

    const DEPTH: &str = "karpenter_scheduler_queue_depth";
    const AGE: &str = "karpenter_scheduler_unfinished_work_seconds";

    #[tokio::test(start_paused = true)]
    async fn a_scheduling_run_ages_until_it_ends_and_keeps_its_queue_depth() {
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
        let metrics = Metrics::new(clock.clone(), &MetricsConfig::default());
        let value = |name: &str, controller: &str, id: &str| {
            metrics.registry().value(name, &[("controller", controller), ("scheduling_id", id)])
        };
        let other = metrics.start_scheduling_run("disruption", "x".to_owned(), 1);
        drop(other);
        let run = metrics.start_scheduling_run("provisioner", "a".to_owned(), 7);
        clock.sleep(Duration::from_secs(3)).await;
        assert_eq!(value(DEPTH, "provisioner", "a"), Some(7.0));
        assert_eq!(value(AGE, "provisioner", "a"), Some(3.0));
        clock.sleep(Duration::from_secs(2)).await;
        assert_eq!(value(AGE, "provisioner", "a"), Some(5.0));
        drop(run);
        assert_eq!(value(AGE, "provisioner", "a"), None);
        assert_eq!(value(DEPTH, "provisioner", "a"), Some(0.0));
        let _next = metrics.start_scheduling_run("provisioner", "b".to_owned(), 2);
        assert_eq!(value(DEPTH, "provisioner", "a"), None);
        assert_eq!(value(DEPTH, "provisioner", "b"), Some(2.0));
        assert_eq!(value(DEPTH, "disruption", "x"), Some(0.0), "another controller's");
    }
}
