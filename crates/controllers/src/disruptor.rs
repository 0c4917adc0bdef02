//! Removing and replacing nodes on purpose (spec 30 §2, §8, §9; spec 45 §5, §8, §9).
//!
//! ```text
//! snapshot ─▶ core::disruption ─▶ commands ─┬─ drift, repair ───────────────▶ start ─▶ queue ─▶ gone
//!                                           └─ consolidation ─▶ 15 s ─▶ still right? ─┘
//! ```

mod backoff;
mod cost_annotations;
mod evaluate;
mod events;
mod limits;
mod mark;
mod metrics;
pub(crate) mod observation;
mod pending_commands;
mod queue;
mod reboot;
mod reconciler;
mod start;
#[cfg(test)]
pub(crate) mod testing;
mod validation;

use karpenter_operator::harness::Controller;

use crate::Context;

/// The loop, and the queue of what it began.
pub(crate) fn all(context: &Context) -> Vec<Controller> {
    let orchestration = queue::CommandQueue::new(context);
    vec![
        reconciler::controller(context, &orchestration),
        queue::controller(context, &orchestration),
    ]
}
