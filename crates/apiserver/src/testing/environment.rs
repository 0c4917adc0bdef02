//! Time and chance for tests: both repeat.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;

use crate::environment::Environment;

/// Starts at a fixed time and goes on with tokio's, which a test may pause.
#[derive(Debug)]
pub struct TestEnvironment {
    start: Timestamp,
    instant: tokio::time::Instant,
    draw_count: AtomicU64,
}

impl TestEnvironment {
    /// Within a tokio runtime.
    pub fn new() -> Self {
        Self {
            start: "2026-01-01T00:00:00Z".parse().expect("a time"),
            instant: tokio::time::Instant::now(),
            draw_count: AtomicU64::new(0),
        }
    }
}

impl Default for TestEnvironment {
    fn default() -> Self {
        Self::new()
    }
}

impl Environment for TestEnvironment {
    fn now(&self) -> Timestamp {
        self.start.saturating_add(self.instant.elapsed()).unwrap_or(self.start)
    }

    #[expect(clippy::disallowed_methods, reason = "the clock of these tests is tokio's")]
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }

    /// The next number of a fixed sequence (splitmix64), twice.
    fn random(&self) -> u128 {
        let half = || {
            let drawn = self.draw_count.fetch_add(1, Ordering::Relaxed);
            let mut bits = drawn.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            u128::from(bits ^ (bits >> 31))
        };
        half() << 64 | half()
    }
}
