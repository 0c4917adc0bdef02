//! The provisioner turns pending pods into NodeClaims (spec 20 §2, §5).
//!
//! ```text
//! pods, nodes ──trigger──▶ Batcher ──▶ provisioner: snapshot ─▶ solve ─▶ verify ─▶ NodeClaims
//! ```

pub mod batcher;
mod buffers;
pub mod claim;
pub(crate) mod claim_creation;
pub(crate) mod decision;
pub(crate) mod events;
mod preference_warnings;
#[cfg(test)]
mod tests;
mod trigger;
mod unschedulable_pods;

use std::sync::Arc;
use std::time::Duration;

use karpenter_operator::compute::run;
use karpenter_operator::harness::{
    Controller, Outcome, Reconcile, ReconcileError, ReconcileResult,
};
use karpenter_operator::options::Gate;
use karpenter_operator::watch::ObjectKey;

use self::decision::Decision;
use crate::Context;

/// Returns the provisioner, and the controllers that trigger it.
pub(crate) fn all(context: &Context) -> Vec<Controller> {
    let log_history = Arc::new(events::LogHistory::new());
    let provisioner = Provisioner { context: context.clone(), log_history };
    let mut all = trigger::all(context);
    all.push(Controller::new("provisioner", &context.clock, provisioner).singleton());
    all
}

/// `provisioner`: decides about pending pods, one batch at a time.
struct Provisioner {
    context: Context,
    log_history: Arc<events::LogHistory>,
}

impl Provisioner {
    /// Records a decision in logs, metrics and events. With many pods that takes long, so it runs
    /// on the executor.
    async fn record_decision(&self, decision: &Arc<Decision>) -> Result<(), ReconcileError> {
        let (context, log_history) = (self.context.clone(), Arc::clone(&self.log_history));
        let decision = Arc::clone(decision);
        let record = move || events::record_decision(&context, &decision, &log_history);
        decision::ok_or_unfinished(run(self.context.executor.as_ref(), record).await)
    }
}

impl Reconcile for Provisioner {
    async fn reconcile(&self, _: &ObjectKey) -> ReconcileResult {
        let at_once = Ok(Outcome::RequeueAfter(Duration::ZERO));
        if !self.context.batcher.wait().await {
            return at_once;
        }
        // Triggers of this batch are lost; pods that still wait trigger again.
        if !self.context.mirror.is_synced(self.context.clock.now()) {
            return at_once;
        }
        let decision = decision::decide(&self.context).await?;
        if self.context.options.feature_gates.is_enabled(Gate::CapacityBuffer) {
            buffers::update_buffers(&self.context, decision.as_ref()).await;
        }
        let Some(decision) = decision else { return at_once };
        let decision = Arc::new(decision);
        self.record_decision(&decision).await?;
        claim_creation::create_claims(&self.context, &decision).await?;
        at_once
    }
}
