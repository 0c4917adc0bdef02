//! The system's clock, wrapped: everything else takes times as arguments.

use std::time::Instant;

use jiff::Timestamp;

/// The time now.
#[expect(clippy::disallowed_methods, reason = "this is the wrapper")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// Measures how long something takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "this is the wrapper")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Seconds since it was started.
    pub(crate) fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
