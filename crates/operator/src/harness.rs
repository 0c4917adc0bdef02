//! The harness: runs controllers.
//!
//! ```text
//! Informer ──change──▶ Queue ──key──▶ Reconcile ──Outcome──▶ done, later, or again with backoff
//!                        ▲                                      │
//!                        └──────────────────────────────────────┘
//! ```
//!
//! A [`Controller`] is a name, its watches, and a [`Reconcile`]. It receives the key of an object,
//! never a change: it reads the object and does the missing work. One key is never reconciled twice
//! at the same time. A panic ends that one reconcile, which is retried like a failed one; a terminal
//! error is not retried until the object changes. Each reconcile has a span, `reconcile`. The harness
//! knows nothing of nodes or pods.

mod controller;
mod error;
mod observer;
mod queue;
mod rate_limit;
mod reconcile_loop;
mod shutdown;
pub mod tasks;

pub use controller::{Controller, Outcome, Reconcile, ReconcileResult};
pub use error::ReconcileError;
pub use observer::{
    ControllerObserver, NoopObserver, ReconcileEnd, ReconcileStart, ReconcileStatus, WorkObserver,
};
pub use queue::WorkQueue;
pub use rate_limit::{RateLimit, TokenBucket, scaled_workers};
pub(crate) use reconcile_loop::with_inherited_context;
pub use reconcile_loop::{Harness, current_controller};
pub use shutdown::Shutdown;
