//! Removing and replacing nodes on purpose (spec 30 §2, §8, §9; spec 45 §5, §8, §9).
//!
//! ```text
//! snapshot ─▶ core::disruption ─▶ commands ─┬─ drift, repair ───────────────▶ start ─▶ queue ─▶ gone
//!                                           └─ consolidation ─▶ 15 s ─▶ still right? ─┘
//! ```

mod backoff;
mod costs;
mod cycle;
mod look;
mod mark;
mod pending;
mod queue;
mod reboot;
mod report;
mod room;
pub(crate) mod sight;
mod start;
mod tell;
#[cfg(test)]
pub(crate) mod testing;
mod validation;

use karpenter_operator::harness::Controller;

use crate::Context;

/// The loop, and the queue of what it began.
pub(crate) fn all(context: &Context) -> Vec<Controller> {
    let orchestration = queue::Orchestration::new(context);
    vec![cycle::controller(context, &orchestration), queue::controller(context, &orchestration)]
}
