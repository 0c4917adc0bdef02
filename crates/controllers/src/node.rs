//! Controllers of Nodes: termination, eviction of their pods, hydration, and legacy repair.

use karpenter_operator::harness::Controller;

use crate::Context;

pub(crate) mod drain;
pub mod eviction;
mod health;
mod hydration;
mod termination;
#[cfg(test)]
pub(crate) mod testing;

pub use eviction::Evictions;

/// All of them.
pub(crate) fn all(context: &Context, evictions: &Evictions) -> Vec<Controller> {
    let mut all = vec![
        hydration::controller(context),
        eviction::controller(context, evictions),
        termination::controller(context, evictions),
    ];
    all.extend(health::controller(context));
    all
}
