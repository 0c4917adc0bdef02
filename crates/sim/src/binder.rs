//! The binder: stands in for kube-scheduler.
//!
//! ```text
//! watches ─▶ World ◀── place ── Queue      (pure: world, place, score, queue)
//!                        │
//!                        ▼
//!          claims bound or provisioned, pod bound; or condition and event    (run)
//! ```
//!
//! It has kube-scheduler's filters, their reasons and messages, its scores in spirit, and its order
//! and patience with pods that do not fit. It leaves out preemption, dynamic resources (claims of
//! a pod are not looked at), scheduling groups, extenders and profiles. Start reading at [`place`].

mod amounts;
mod ask;
pub(crate) mod audit;
mod classes;
mod place;
mod queue;
mod run;
mod scheduler;
mod score;
mod storage;
#[cfg(test)]
mod tests;
mod topology;
mod unfit;
mod world;
mod write;

pub use ask::{NodeAsk, Pod};
pub use place::{Placement, place};
pub use run::run;
pub use scheduler::{Decision, SCHEDULER_NAME, Scheduler};
pub use storage::{BIND_COMPLETED, ClaimStep, SELECTED_NODE};
pub use unfit::{Blockers, Reason, Tally, Unfit};
pub use world::{Pending, World};
