//! Tests of the lifecycle controller, on the embedded API with a fake cloud.

mod end_to_end;
mod finalization;
mod initialization;
mod launch;
mod liveness;
mod registration;

use karpenter_operator::harness::Controller;

use super::*;
use crate::testing::Bench;

/// A process and its lifecycle controller.
async fn bench() -> (Bench, Controller) {
    let bench = Bench::new().await;
    let lifecycle = controller(&bench.context);
    (bench, lifecycle)
}

/// The same controller with these hooks.
fn with_hooks(bench: &Bench, hooks: Vec<Arc<dyn RegistrationHook>>) -> Controller {
    let lifecycle = LifecycleReconciler::new(&bench.context, hooks);
    Controller::new("nodeclaim.lifecycle", &bench.context.clock, lifecycle)
}
