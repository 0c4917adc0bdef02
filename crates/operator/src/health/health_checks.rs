//! Evaluates health checks in the runtime and keeps the results for probes.
//!
//! ```text
//! runtime, every second ──evaluate──▶ results ◀──read── thread of the probes
//! ```
//!
//! A check takes locks that controllers take too, and a holder of one may be blocked itself. So a
//! probe reads the last results and their age: if no evaluation has run lately, the runtime hangs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Clock;
use crate::harness::tasks::Tasks;

/// How often the runtime evaluates all checks.
const EVALUATION_INTERVAL: Duration = Duration::from_secs(1);
/// The age at which results count as stale: upstream's chart allows probes as much.
const STALE_AFTER: Duration = Duration::from_secs(30);
/// The check that the runtime evaluates checks at all.
const RUNTIME_CHECK: &str = "runtime";

/// Returns an error if the component is unhealthy. It must not wait.
type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The results of all checks, by name.
pub(super) type CheckResults = BTreeMap<&'static str, Result<(), String>>;

/// Named health checks. Clones share the same checks.
#[derive(Clone)]
pub struct HealthChecks(Arc<Inner>);

struct Inner {
    clock: Arc<dyn Clock>,
    checks: Mutex<BTreeMap<&'static str, Check>>,
    /// The last results, with their time on the monotonic clock.
    last_results: Mutex<Option<(Duration, CheckResults)>>,
}

impl HealthChecks {
    /// Creates one check of this name that always succeeds: the process responds.
    pub fn new(name: &'static str, clock: &Arc<dyn Clock>) -> Self {
        let clock = Arc::clone(clock);
        let inner = Inner { clock, checks: Mutex::default(), last_results: Mutex::default() };
        let checks = Self(Arc::new(inner));
        checks.add(name, || Ok(()));
        checks
    }

    /// Adds a check, or replaces the one of the same name.
    pub fn add(
        &self,
        name: &'static str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        let mut checks = self.0.checks.lock().unwrap_or_else(PoisonError::into_inner);
        checks.insert(name, Box::new(check));
    }

    /// Evaluates all checks at once, and again every second until the tasks stop.
    pub fn evaluate_periodically(&self, tasks: &Tasks) {
        self.evaluate();
        let checks = self.clone();
        tasks.spawn("checks", async move {
            loop {
                checks.0.clock.sleep(EVALUATION_INTERVAL).await;
                checks.evaluate();
            }
        });
    }

    /// Evaluates all checks and stores the results for probes.
    pub(super) fn evaluate(&self) {
        let checks = self.0.checks.lock().unwrap_or_else(PoisonError::into_inner);
        let results = checks.iter().map(|(name, check)| (*name, check())).collect();
        drop(checks);
        let now = self.0.clock.monotonic();
        *self.0.last_results.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, results));
    }

    /// Returns the last results, with an error if they are stale.
    pub(super) fn results(&self) -> CheckResults {
        let found = self.0.last_results.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some((at, mut results)) = found else {
            return CheckResults::from([(RUNTIME_CHECK, Err("it has not begun".to_owned()))]);
        };
        let ago = self.0.clock.monotonic().saturating_sub(at);
        let is_late = ago > STALE_AFTER;
        let runs = if is_late { Err(format!("nothing for {} s", ago.as_secs())) } else { Ok(()) };
        results.insert(RUNTIME_CHECK, runs);
        results
    }
}

impl fmt::Debug for HealthChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.results()).finish()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::clock::TokioClock;

    #[tokio::test(start_paused = true)]
    async fn a_stalled_runtime_fails_its_health_check() {
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
        let (checks, tasks) = (HealthChecks::new("well", &clock), Tasks::new());
        let results = |runs: Result<(), &str>| {
            CheckResults::from([("well", Ok(())), (RUNTIME_CHECK, runs.map_err(str::to_owned))])
        };
        let unknown = CheckResults::from([(RUNTIME_CHECK, Err("it has not begun".to_owned()))]);
        assert_eq!(checks.results(), unknown);
        checks.evaluate_periodically(&tasks);
        clock.sleep(Duration::from_hours(1) + EVALUATION_INTERVAL / 2).await;
        assert_eq!(checks.results(), results(Ok(())), "it goes on");
        tasks.stop().await;
        clock.sleep(STALE_AFTER.saturating_sub(EVALUATION_INTERVAL)).await;
        assert_eq!(checks.results(), results(Ok(())), "not for long");
        clock.sleep(EVALUATION_INTERVAL).await;
        assert_eq!(checks.results(), results(Err("nothing for 30 s")));
    }

    #[tokio::test(start_paused = true)]
    async fn checks_are_evaluated_every_second_and_not_by_probe_requests() {
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
        let (checks, tasks) = (HealthChecks::new("well", &clock), Tasks::new());
        let evaluations = Arc::new(Mutex::new(0));
        let seen = Arc::clone(&evaluations);
        checks.add("counted", move || {
            *seen.lock().unwrap() += 1;
            Err("not well".to_owned())
        });
        checks.evaluate_periodically(&tasks);
        clock.sleep(EVALUATION_INTERVAL * 10 + EVALUATION_INTERVAL / 2).await;
        for _ in 0..100 {
            assert_eq!(checks.results()["counted"], Err("not well".to_owned()));
        }
        assert_eq!(*evaluations.lock().unwrap(), 11);
        tasks.stop().await;
    }
}
