//! What runs controllers.
//!
//! ```text
//! Informer ──change──▶ Queue ──key──▶ Reconcile ──Outcome──▶ done, later, or again with backoff
//!                        ▲                                      │
//!                        └──────────────────────────────────────┘
//! ```
//!
//! A [`Controller`] is a name, what it watches, and a [`Reconcile`]. It is told which object may
//! need something, never what happened: it reads the object and does what is missing. One key is
//! never in work twice at once. A panic ends that one reconcile, which is tried again like one that
//! failed. The harness knows nothing of nodes or pods.

mod controller;
mod limit;
mod observe;
mod queue;
mod run;
mod shutdown;
pub mod spawn;
mod trouble;

pub use controller::{Controller, Outcome, Reconcile, Reconciled};
pub use limit::{Bucket, Limit, scaled_workers};
pub use observe::{Begun, Ended, Finished, NoObserver, Observe, ObserveWork};
pub use queue::Queue;
pub(crate) use run::{Current, carrying, with_current};
pub use run::{Harness, current_controller};
pub use shutdown::Shutdown;
pub use trouble::Trouble;
