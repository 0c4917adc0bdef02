//! Disrupts nodes voluntarily: removes and replaces them (spec 30 §2, §8, §9; spec 45 §5, §8, §9).
//!
//! ```text
//! snapshot ─▶ core::disruption ─▶ commands ─┬─ drift, repair ─────▶ start ─▶ queue ─▶ deleted
//!                                           └─ consolidation ─▶ delay ─▶ validation ─▶ start
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

/// Returns the disruption loop, and the queue of the commands that it starts.
pub(crate) fn all(context: &Context) -> Vec<Controller> {
    let command_queue = queue::CommandQueue::new(context);
    vec![
        reconciler::controller(context, &command_queue),
        queue::controller(context, &command_queue),
    ]
}
