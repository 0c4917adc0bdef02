//! Waits until a condition outside this process is true, without blocking other tasks.

use std::time::Duration;

use anyhow::{Result, bail};
use xtask::host::Stopwatch;

/// Calls `probe` until it returns a value.
///
/// An `Err` is not "not yet": it ends the waiting at once. A probe that returns no value in time
/// fails with `description`.
pub async fn until<T>(
    description: &str,
    limit: Duration,
    mut probe: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let watch = Stopwatch::start();
    loop {
        if let Some(answer) = probe().await? {
            return Ok(answer);
        }
        if watch.elapsed() > limit {
            bail!("{description}: not within {} s", limit.as_secs());
        }
        pause().await;
    }
}

/// A moment in which something else may come true.
#[expect(clippy::disallowed_methods, reason = "this is the module that wraps sleeping")]
pub async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}
