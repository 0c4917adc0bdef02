//! The same for the node classes of the provider.

use karpenter_operator::harness::{Controller, Outcome, Reconcile, ReconcileResult};
use karpenter_operator::metrics::ConditionMetrics;
use karpenter_operator::metrics::conditions::{ObjectStatus, ObservedCondition};
use karpenter_operator::provider::NodeClassInformer;
use karpenter_operator::watch::ObjectKey;

use super::REQUEUE_INTERVAL;
use crate::Context;

/// Returns a controller for each kind of node class whose conditions are reported.
pub(super) fn controllers(context: &Context) -> Vec<Controller> {
    let all = context.cache.node_classes.iter();
    all.filter_map(|informer| controller(context, informer)).collect()
}

fn controller(context: &Context, informer: &NodeClassInformer) -> Option<Controller> {
    let kind = informer.kind();
    let report = kind.report?;
    let metrics = context.metrics.node_class_status(kind.kind)?.clone();
    let dependents = (report.dependents)(&context.options);
    let reconciler = NodeClassStatusReconciler {
        context: context.clone(),
        informer: informer.clone(),
        metrics,
        dependents,
    };
    let controller = Controller::new(report.controller, &context.clock, reconciler)
        .for_kind(kind.group, kind.kind);
    let controller = informer.watch_map(controller, |change| [change.key.clone()]);
    Some(controller.singleton())
}

struct NodeClassStatusReconciler {
    context: Context,
    informer: NodeClassInformer,
    metrics: ConditionMetrics,
    /// Conditions that count as Unknown while they are missing.
    dependents: &'static [&'static str],
}

impl Reconcile for NodeClassStatusReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let now = self.context.clock.now();
        if key.name.is_empty() {
            self.metrics.refresh(now);
            return Ok(Outcome::RequeueAfter(REQUEUE_INTERVAL));
        }
        let events = match self.informer.get(&key.name) {
            None => self.metrics.record_deletion("", &key.name, now),
            Some(class) => {
                let conditions = class.conditions_with(self.dependents, now);
                let conditions = conditions.iter().map(ObservedCondition::from_condition);
                let status = ObjectStatus::new(class.reference, &class.metadata, conditions);
                self.metrics.observe(&status, now)
            }
        };
        self.context.events.publish_all(events);
        Ok(Outcome::Done)
    }
}
