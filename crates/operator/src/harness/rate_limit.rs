//! Rate limits of retries: backoff per key and token buckets (spec 40 §0.3).

use std::time::Duration;

use jiff::Timestamp;

/// A rate limit: the longer of an exponential delay per key and a token bucket's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// The first delay of a key; each next one is twice as long.
    pub base_delay: Duration,
    /// The longest delay of a key.
    pub max_delay: Duration,
    /// How many retries per second all keys have together.
    pub per_second: f64,
    /// How many of them may come at once.
    pub burst: f64,
}

impl RateLimit {
    /// What most controllers have.
    pub const DEFAULT: Self = Self {
        base_delay: Duration::from_millis(5),
        max_delay: Duration::from_secs(1000),
        per_second: 10.0,
        burst: 100.0,
    };

    /// Slower from the start, and never slower than a minute.
    pub const REASONABLE: Self = Self {
        base_delay: Duration::from_millis(100),
        max_delay: Duration::from_mins(1),
        ..Self::DEFAULT
    };

    /// `nodeclaim.lifecycle`: launches are dear.
    pub fn lifecycle(workers: usize) -> Self {
        Self::per_worker(Duration::from_secs(1), Duration::from_mins(1), 0.01, workers)
    }

    /// `node.termination`.
    pub fn termination(workers: usize) -> Self {
        Self::per_worker(Duration::from_millis(100), Duration::from_secs(10), 0.1, workers)
    }

    /// The eviction queue.
    pub fn eviction(workers: usize) -> Self {
        Self::per_worker(Duration::from_millis(100), Duration::from_secs(10), 1.0, workers)
    }

    fn per_worker(base: Duration, longest: Duration, share: f64, workers: usize) -> Self {
        let workers = u32::try_from(workers).unwrap_or(u32::MAX);
        let per_second = (f64::from(workers) * share).ceil();
        Self { base_delay: base, max_delay: longest, per_second, burst: 10.0 * per_second }
    }

    /// Returns the delay of a key after this many failures.
    pub(super) fn backoff(&self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
        self.base_delay.saturating_mul(factor).min(self.max_delay)
    }
}

/// How many workers a controller has on this much CPU, from `least` on one core to `most` on sixty.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "some thousands, and cut on purpose"
)]
pub fn scaled_workers(cpu_requests_millis: i64, least: usize, most: usize) -> usize {
    let cores = (cpu_requests_millis as f64 / 1000.0).ceil();
    let slope = most.saturating_sub(least) as f64 / 59.0;
    let workers = (slope * (cores - 1.0)).trunc() + least as f64;
    (workers.max(0.0) as usize).clamp(least, most.max(least))
}

/// A token bucket. A caller that finds no token waits for the next one.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    per_second: f64,
    burst: f64,
    tokens: f64,
    last_refill: Option<Timestamp>,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(per_second: f64, burst: f64) -> Self {
        Self { per_second, burst, tokens: burst, last_refill: None }
    }

    /// Takes a token if there is one.
    pub fn try_take(&mut self, now: Timestamp) -> bool {
        self.refill(now);
        let is_there = self.tokens >= 1.0;
        if is_there {
            self.tokens -= 1.0;
        }
        is_there
    }

    fn refill(&mut self, now: Timestamp) {
        // A clock that was set back gives nothing and takes nothing.
        let elapsed = self.last_refill.map_or(0.0, |then| now.duration_since(then).as_secs_f64());
        self.last_refill = Some(now);
        self.tokens = (self.tokens + elapsed.max(0.0) * self.per_second).min(self.burst);
    }

    /// Takes a token and returns how long to wait for it.
    pub fn reserve(&mut self, now: Timestamp) -> Duration {
        self.refill(now);
        self.tokens -= 1.0;
        let missing = (-self.tokens).max(0.0);
        Duration::try_from_secs_f64(missing / self.per_second).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_count_scales_with_cpu_requests() {
        let cases = [
            ("40/OP-12", 500, 10),
            ("40/OP-12", 1500, 26),
            ("40/OP-12", 15_000, 244),
            ("40/OP-12", 60_000, 1000),
            ("40/OP-12", 100_000, 1000),
        ];
        for (case, millis, workers) in cases {
            assert_eq!(scaled_workers(millis, 10, 1000), workers, "{case}: {millis}");
        }
    }

    #[test]
    fn the_token_bucket_scales_with_the_workers() {
        let limit = RateLimit::per_worker(Duration::ZERO, Duration::ZERO, 25.0 / 100.0, 150);
        assert_eq!((limit.per_second, limit.burst), (38.0, 380.0), "40/OP-13");
    }

    #[test]
    fn backoff_doubles_up_to_the_maximum_delay() {
        let pauses =
            [0, 1, 2, 9, 10, 40, u32::MAX].map(|n| RateLimit::REASONABLE.backoff(n).as_millis());
        assert_eq!(pauses, [100, 200, 400, 51_200, 60_000, 60_000, 60_000]);
    }

    #[test]
    fn a_token_bucket_admits_a_burst_and_then_its_rate() {
        let mut bucket = TokenBucket::new(10.0, 2.0);
        let start = Timestamp::UNIX_EPOCH;
        let waits = [(); 4].map(|()| bucket.reserve(start).as_millis());
        assert_eq!(waits, [0, 0, 100, 200]);
        let later = start + Duration::from_mins(1);
        assert_eq!(bucket.reserve(later).as_millis(), 0);
        let earlier = start + Duration::from_secs(1);
        assert_eq!(bucket.reserve(earlier).as_millis(), 0, "the clock was set back");
    }
}
