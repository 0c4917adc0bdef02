//! Shares one control plane among all tests of a test binary.

use anyhow::{Result, anyhow};
use tokio::sync::OnceCell;

use crate::control_plane::{ControlPlane, Parts};

/// A control plane that starts on first use and stops with the process.
///
/// ```ignore
/// static CONTROL_PLANE: SharedControlPlane = SharedControlPlane::new(Parts::API);
///
/// let client = CONTROL_PLANE.get().await?.client()?;
/// ```
///
/// A `static` is never dropped. That is all right here: the programs end when their pipe to this
/// process closes, and their directory goes with them.
#[derive(Debug)]
pub struct SharedControlPlane {
    parts: Parts,
    started: OnceCell<Result<ControlPlane, String>>,
}

impl SharedControlPlane {
    pub const fn new(parts: Parts) -> Self {
        Self { parts, started: OnceCell::const_new() }
    }

    /// The control plane. If it did not start, every test gets the same error and none waits for
    /// another attempt.
    pub async fn get(&self) -> Result<&ControlPlane> {
        let start = || async {
            let started = ControlPlane::start_with(self.parts).await;
            started.map_err(|error| format!("{error:#}"))
        };
        // Boxed: this future would be part of every test's.
        let started = Box::pin(self.started.get_or_init(start)).await;
        started.as_ref().map_err(|error| anyhow!("{error}"))
    }
}
