//! Controllers of NodeClaims.

use karpenter_operator::harness::Controller;

use crate::Context;

mod consistency;
mod disruption;
mod expiration;
mod garbage_collection;
mod hydration;
mod lifecycle;
mod pod_events;
pub(crate) mod reboot;

/// All of them.
pub(crate) fn all(context: &Context) -> Vec<Controller> {
    vec![
        lifecycle::controller(context),
        garbage_collection::controller(context),
        expiration::controller(context),
        pod_events::controller(context),
        consistency::controller(context),
        disruption::controller(context),
        hydration::controller(context),
    ]
}
