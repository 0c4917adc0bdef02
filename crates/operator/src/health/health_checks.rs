//! What probes ask for: checks that are looked at by who does the work, and answered by others.
//!
//! ```text
//! runtime, every second ──look──▶ results ◀──ask── thread of the probes
//! ```
//!
//! A check takes locks that the work takes too, and whoever holds one may be held up himself. So who
//! asks is shown the results of the last look, and how long ago that was: if nobody looks any more,
//! the runtime does nothing at all.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Clock;
use crate::harness::tasks::Tasks;

/// How often to look.
const EVALUATION_INTERVAL: Duration = Duration::from_secs(1);
/// How long nobody may have looked: as long as upstream's chart lets a probe take.
const STALE_AFTER: Duration = Duration::from_secs(30);
/// The check that somebody looks.
const RUNTIME_CHECK: &str = "runtime";

/// Says that something is well, or what is not. It must not wait.
type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What checks found, by name.
pub(super) type CheckResults = BTreeMap<&'static str, Result<(), String>>;

/// Named checks. Clones are handles to the same ones.
#[derive(Clone)]
pub struct HealthChecks(Arc<Inner>);

struct Inner {
    clock: Arc<dyn Clock>,
    checks: Mutex<BTreeMap<&'static str, Check>>,
    /// When somebody last looked, by the clock that nobody sets, and what was found.
    last_results: Mutex<Option<(Duration, CheckResults)>>,
}

impl HealthChecks {
    /// One check of this name, which is always well: somebody answers.
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

    /// Looks now, and again and again for as long as the tasks run.
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

    /// Looks, for who asks until the next time.
    pub(super) fn evaluate(&self) {
        let checks = self.0.checks.lock().unwrap_or_else(PoisonError::into_inner);
        let results = checks.iter().map(|(name, check)| (*name, check())).collect();
        drop(checks);
        let now = self.0.clock.monotonic();
        *self.0.last_results.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, results));
    }

    /// What was found at the last look, and whether that was lately.
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
