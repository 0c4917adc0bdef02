//! The end of a process, in order.

use tokio::sync::watch;

/// Signals the end of the process to all of its parts. Clones share one signal.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Sender<bool>);

impl Shutdown {
    /// Nothing is ending yet.
    pub fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Begins the end: no new work is taken.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Whether the end has begun.
    pub fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the shutdown has begun.
    pub async fn wait(&self) {
        // The sender lives as long as self, so this ends only when the value is there.
        let _ = self.0.subscribe().wait_for(|begun| *begun).await;
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}
