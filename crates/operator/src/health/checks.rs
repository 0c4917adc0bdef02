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
use crate::harness::spawn::Tasks;

/// How often to look.
const EVERY: Duration = Duration::from_secs(1);
/// How long nobody may have looked: as long as upstream's chart lets a probe take.
const LONGEST: Duration = Duration::from_secs(30);
/// The check that somebody looks.
const RUNTIME: &str = "runtime";

/// Says that something is well, or what is not. It must not wait.
type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What checks found, by name.
pub(super) type Results = BTreeMap<&'static str, Result<(), String>>;

/// Named checks. Clones are handles to the same ones.
#[derive(Clone)]
pub struct Checks(Arc<Inner>);

struct Inner {
    clock: Arc<dyn Clock>,
    checks: Mutex<BTreeMap<&'static str, Check>>,
    /// When somebody last looked, by the clock that nobody sets, and what was found.
    found: Mutex<Option<(Duration, Results)>>,
}

impl Checks {
    /// One check of this name, which is always well: somebody answers.
    pub fn new(name: &'static str, clock: &Arc<dyn Clock>) -> Self {
        let clock = Arc::clone(clock);
        let inner = Inner { clock, checks: Mutex::default(), found: Mutex::default() };
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
    pub fn keep_looking(&self, tasks: &Tasks) {
        self.look();
        let checks = self.clone();
        tasks.spawn("checks", async move {
            loop {
                checks.0.clock.sleep(EVERY).await;
                checks.look();
            }
        });
    }

    /// Looks, for who asks until the next time.
    pub(super) fn look(&self) {
        let checks = self.0.checks.lock().unwrap_or_else(PoisonError::into_inner);
        let results = checks.iter().map(|(name, check)| (*name, check())).collect();
        drop(checks);
        let now = self.0.clock.monotonic();
        *self.0.found.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, results));
    }

    /// What was found at the last look, and whether that was lately.
    pub(super) fn results(&self) -> Results {
        let found = self.0.found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some((at, mut results)) = found else {
            return Results::from([(RUNTIME, Err("it has not begun".to_owned()))]);
        };
        let ago = self.0.clock.monotonic().saturating_sub(at);
        let is_late = ago > LONGEST;
        let runs = if is_late { Err(format!("nothing for {} s", ago.as_secs())) } else { Ok(()) };
        results.insert(RUNTIME, runs);
        results
    }
}

impl fmt::Debug for Checks {
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
    async fn a_runtime_that_does_nothing_any_more_is_told() {
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
        let (checks, tasks) = (Checks::new("well", &clock), Tasks::new());
        let results = |runs: Result<(), &str>| {
            Results::from([("well", Ok(())), (RUNTIME, runs.map_err(str::to_owned))])
        };
        let unknown = Results::from([(RUNTIME, Err("it has not begun".to_owned()))]);
        assert_eq!(checks.results(), unknown);
        checks.keep_looking(&tasks);
        clock.sleep(Duration::from_hours(1) + EVERY / 2).await;
        assert_eq!(checks.results(), results(Ok(())), "it goes on");
        tasks.stop().await;
        clock.sleep(LONGEST.saturating_sub(EVERY)).await;
        assert_eq!(checks.results(), results(Ok(())), "not for long");
        clock.sleep(EVERY).await;
        assert_eq!(checks.results(), results(Err("nothing for 30 s")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_is_looked_at_every_second_and_not_by_who_asks() {
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
        let (checks, tasks) = (Checks::new("well", &clock), Tasks::new());
        let looks = Arc::new(Mutex::new(0));
        let seen = Arc::clone(&looks);
        checks.add("counted", move || {
            *seen.lock().unwrap() += 1;
            Err("not well".to_owned())
        });
        checks.keep_looking(&tasks);
        clock.sleep(EVERY * 10 + EVERY / 2).await;
        for _ in 0..100 {
            assert_eq!(checks.results()["counted"], Err("not well".to_owned()));
        }
        assert_eq!(*looks.lock().unwrap(), 11);
        tasks.stop().await;
    }
}
