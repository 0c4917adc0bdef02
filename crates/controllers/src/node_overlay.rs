//! `nodeoverlay.controller`: evaluates all NodeOverlays together (spec 40 §6.1; gate NodeOverlay).
//!
//! Any change of an overlay, a pool or a node class makes one evaluation of everything. Other
//! controllers see its result through the cloud of the context.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use karpenter_api::conditions;
use karpenter_api::nodeoverlay::NodeOverlay;
use karpenter_api::nodepool::NodePool;
use karpenter_api::reasons::{self, messages};
use karpenter_cluster::ingest::node_overlay;
use karpenter_core::catalog::Catalog;
use karpenter_core::overlay::{Evaluation, OverlayStatus, evaluate};
use karpenter_core::requirement::Requirements;
use karpenter_core::resources::Resources;
use karpenter_core::snapshot::{NodeClassRef, Pool};
use karpenter_operator::compute::run;
use karpenter_operator::harness::{
    Controller, Outcome, RateLimit, Reconcile, ReconcileError, ReconcileResult,
};
use karpenter_operator::provider::NodeClass;
use karpenter_operator::watch::{Change, ObjectKey};
use karpenter_operator::write::{Precondition, WriteOutcome, patch_status};
use kube::{Api, Resource, ResourceExt as _};

use crate::Context;
use crate::context::Overlays;
use crate::provisioner::decision;

#[cfg(test)]
mod tests;

const REQUEUE_INTERVAL: Duration = Duration::from_hours(6);

/// The controller, if the gate is on.
pub(crate) fn all(context: &Context) -> Vec<Controller> {
    let Some(overlays) = &context.overlays else { return Vec::new() };
    let (cache, clock) = (&context.cache, &context.clock);
    let reconcile = NodeOverlayReconciler { context: context.clone(), overlays: overlays.clone() };
    let mut controller = Controller::new("nodeoverlay.controller", clock, reconcile)
        .for_kind("karpenter.sh", "NodeOverlay")
        .rate_limit(clock, RateLimit::REASONABLE)
        .singleton()
        .watch_map(&cache.node_overlays, key_if_generation_changed)
        .watch_map(&cache.node_pools, key_if_generation_changed);
    for classes in &cache.node_classes {
        controller = classes.watch_map(controller, key_if_class_generation_changed);
    }
    vec![controller]
}

/// Returns the single key if the generation of an object has changed.
fn key_if_generation_changed<K: Resource>(change: &Change<K>) -> Option<ObjectKey> {
    let generation = |object: &Option<Arc<K>>| object.as_ref().map(|o| o.meta().generation);
    (generation(&change.before) != generation(&change.after)).then(ObjectKey::default)
}

fn key_if_class_generation_changed(change: &Change<NodeClass>) -> Option<ObjectKey> {
    let generation = |class: &Option<Arc<NodeClass>>| class.as_ref().map(|c| c.metadata.generation);
    (generation(&change.before) != generation(&change.after)).then(ObjectKey::default)
}

struct NodeOverlayReconciler {
    context: Context,
    overlays: Overlays,
}

impl Reconcile for NodeOverlayReconciler {
    async fn reconcile(&self, _: &ObjectKey) -> ReconcileResult {
        let context = &self.context;
        let (pools, catalog, errors) = self.catalog().await;
        let wire = context.cache.node_overlays.all();
        let read =
            |wire: &Arc<NodeOverlay>| node_overlay(wire, &context.provider.rules, &catalog.aliases);
        let overlays: Vec<_> = wire.iter().map(read).collect();
        let evaluated: BTreeSet<String> = catalog.pools.keys().cloned().collect();
        let evaluation =
            run(context.executor.as_ref(), move || evaluate(&pools, &catalog, &overlays)).await;
        let Some(evaluation) = evaluation else {
            return Err(ReconcileError::new("an evaluation did not come to an end"));
        };
        if !self.write_conditions(&wire, &evaluation).await? {
            return Ok(Outcome::Requeue);
        }
        self.overlays.store.publish(evaluated, evaluation.overrides);
        context.mirror.mark_unconsolidated(context.clock.now());
        match ReconcileError::join(errors) {
            Some(error) => Err(error),
            None => Ok(Outcome::RequeueAfter(REQUEUE_INTERVAL)),
        }
    }
}

impl NodeOverlayReconciler {
    /// Returns all pools, and their instance types without overlays.
    async fn catalog(&self) -> (Vec<Pool>, Catalog, Vec<ReconcileError>) {
        let mut catalog = decision::empty_catalog(&self.context);
        let (mut pools, mut errors) = (Vec::new(), Vec::new());
        for wire in self.context.cache.node_pools.all() {
            if !self.context.manages_pool(&wire) {
                continue;
            }
            let name = wire.name_any();
            match self.overlays.cloud.instance_types(&wire).await {
                Ok(types) => {
                    catalog.pools.insert(name, types);
                    pools.push(pool(&wire));
                }
                Err(error) => {
                    let error =
                        ReconcileError::with_context("listing instance types for nodepool", error);
                    errors.push(error.with_field("NodePool", name));
                }
            }
        }
        (pools, catalog, errors)
    }

    /// Writes the result of each overlay. Returns false if one has changed or was deleted
    /// meanwhile: then another evaluation is due, and this one must not be used.
    async fn write_conditions(
        &self,
        overlays: &[Arc<NodeOverlay>],
        evaluation: &Evaluation,
    ) -> Result<bool, ReconcileError> {
        let context = &self.context;
        let api: Api<NodeOverlay> = Api::all(context.client.clone());
        let mut is_current = true;
        for overlay in overlays {
            let name = overlay.name_any();
            let verdict = evaluation.statuses.iter().find(|(of, _)| *of == name);
            let Some((_, verdict)) = verdict else { continue };
            let mut after = NodeOverlay::clone(overlay);
            let mut set = after.condition_set(context.clock.now());
            let validated = conditions::VALIDATION_SUCCEEDED;
            match verdict {
                OverlayStatus::Accepted => set.set_true(validated),
                OverlayStatus::Invalid(problem) => {
                    set.set_false(validated, reasons::nodeoverlay::RUNTIME_VALIDATION, problem)
                }
                OverlayStatus::Conflict => {
                    let reason = reasons::nodeoverlay::CONFLICT;
                    set.set_false(validated, reason, messages::CONFLICT)
                }
            };
            match patch_status(&api, overlay, &after, Precondition::ResourceVersion).await? {
                WriteOutcome::Unchanged => {}
                WriteOutcome::Applied(written) => {
                    context.cache.node_overlays.apply_write_result(*written);
                }
                WriteOutcome::Conflict | WriteOutcome::NotFound => is_current = false,
            }
        }
        Ok(is_current)
    }
}

/// The part of a pool that overlays select by.
fn pool(wire: &NodePool) -> Pool {
    let template = &wire.spec.template;
    let class = &template.spec.node_class_ref;
    let labels = template.metadata.as_ref().and_then(|meta| meta.labels.clone());
    Pool {
        name: wire.name_any(),
        weight: wire.spec.weight,
        requirements: Requirements::default(),
        labels: labels.unwrap_or_default(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        limits: Resources::default(),
        node_class: NodeClassRef {
            group: class.group.clone(),
            kind: class.kind.clone(),
            name: class.name.clone(),
        },
        consolidate_after: None,
    }
}
