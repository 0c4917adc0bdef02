//! Controllers that keep the mirror of the cluster up to date (spec 40 §5.7).
//!
//! The mirror is fed where informers announce changes, so upstream's `state.node`, `state.pod` and
//! `state.daemonset` are no loops here, and `state.nodeclaim` and `state.nodepool` only follow the
//! cost: there is no queue in which a change could wait. The others maintain the mirror.

use karpenter_operator::harness::Controller;

use crate::Context;

mod devices;
mod feed;
mod nodeclaim_gc;
mod pricing;
mod settings;
mod sync;

pub(crate) use devices::evaluate_device_selectors;
pub(crate) use feed::subscribe_mirror;
pub(crate) use settings::settings;
pub use sync::ready;

/// All of them.
pub(crate) fn all(context: &Context) -> Vec<Controller> {
    let mut all = vec![sync::controller(context), nodeclaim_gc::controller(context)];
    all.extend(pricing::controllers(context));
    all
}
