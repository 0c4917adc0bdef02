//! The scheduler of a simulated cluster, which replaces kube-scheduler.
//!
//! ```text
//! watches ─▶ SchedulerCache ◀── schedule_pod ── Queue   (pure: cache, placement, score, queue)
//!                                    │
//!                                    ▼
//!          claims bound or provisioned, pod bound; or condition and event    (run)
//! ```
//!
//! It has kube-scheduler's filters, their reasons and messages, its scores in spirit, and its order
//! and backoff of pods that do not fit. It leaves out preemption, dynamic resources (ResourceClaims
//! of a pod are ignored), scheduling groups, extenders and profiles. Start reading at `placement`.

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
