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
//! a pod are not looked at), scheduling groups, extenders and profiles. Start reading at `placement`.

mod amounts;
pub(crate) mod audit;
mod cache;
mod fit_error;
mod placement;
mod pod_classes;
mod pod_info;
mod queue;
mod run;
mod score;
mod state;
mod storage;
#[cfg(test)]
mod tests;
mod topology;
mod write;

pub use cache::{PendingPod, SchedulerCache};
pub use fit_error::{Blockers, FitError, RejectionCounts, RejectionReason};
pub use placement::{Placement, schedule_pod};
pub use pod_info::{NodeRequirements, PodInfo};
pub use run::run;
pub use state::{Decision, SCHEDULER_NAME, SchedulerState};
pub use storage::{BIND_COMPLETED, SELECTED_NODE, VolumeClaimStep};
