//! What turns pending pods into NodeClaims (spec 20 §2, §5).
//!
//! ```text
//! pods, nodes ──trigger──▶ Batcher ──▶ provisioner: snapshot ─▶ solve ─▶ verify ─▶ NodeClaims
//! ```

pub(crate) mod act;
pub mod batcher;
mod buffers;
pub mod claim;
pub(crate) mod decide;
pub(crate) mod record;
mod refusals;
#[cfg(test)]
mod tests;
mod trigger;
mod warnings;

use std::sync::Arc;
use std::time::Duration;

use karpenter_operator::harness::{Controller, Outcome, Reconcile, Reconciled, Trouble};
use karpenter_operator::options::Gate;
use karpenter_operator::think::think;
use karpenter_operator::watch::ObjectKey;

use self::decide::Decision;
use crate::Context;

/// The provisioner, and what wakes it.
pub(crate) fn all(context: &Context) -> Vec<Controller> {
    let told = Arc::new(record::Told::new());
    let provisioner = Provisioner { context: context.clone(), told };
    let mut all = trigger::all(context);
    all.push(Controller::new("provisioner", &context.clock, provisioner).singleton());
    all
}

/// `provisioner`: decides about what is pending, again and again, one batch at a time.
struct Provisioner {
    context: Context,
    told: Arc<record::Told>,
}

impl Provisioner {
    /// Says what was decided. With many pods that is many texts and events, so it is not done where
    /// others wait.
    async fn tell(&self, decision: &Arc<Decision>) -> Result<(), Trouble> {
        let (context, told) = (self.context.clone(), Arc::clone(&self.told));
        let decision = Arc::clone(decision);
        let tell = move || record::record(&context, &decision, &told);
        decide::decided(think(self.context.thinker.as_ref(), tell).await)
    }
}

impl Reconcile for Provisioner {
    async fn reconcile(&self, _: &ObjectKey) -> Reconciled {
        let at_once = Ok(Outcome::After(Duration::ZERO));
        if !self.context.batcher.wait().await {
            return at_once;
        }
        // Triggers of this batch are lost; pods that still wait trigger again.
        if !self.context.mirror.is_synced(self.context.clock.now()) {
            return at_once;
        }
        let decision = decide::decide(&self.context).await?;
        if self.context.options.feature_gates.is_on(Gate::CapacityBuffer) {
            buffers::record(&self.context, decision.as_ref()).await;
        }
        let Some(decision) = decision else { return at_once };
        let decision = Arc::new(decision);
        self.tell(&decision).await?;
        act::create(&self.context, &decision).await?;
        at_once
    }
}
