//! `nodeclaim.podevents`: writes the time of the last pod event on a node to its claim.
//!
//! A pod that is bound to the node, ends there or leaves is an event. Consolidation waits after
//! that time. Pods that were there when the process started do not count as new; upstream stamps
//! all claims at every restart (spec 40 Q4).

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karpenter_cluster::wire::Pod;
use karpenter_core::lifecycle::pod_events::{self, PodFacts};
use karpenter_operator::harness::{Controller, Outcome, Reconcile, ReconcileResult};
use karpenter_operator::watch::{Change, ObjectKey};
use karpenter_operator::write::{Precondition, WriteOutcome, patch_status};
use kube::Api;

use crate::{Context, objects};

#[cfg(test)]
mod tests;

pub(crate) fn controller(context: &Context) -> Controller {
    let started = whole_second(context.clock.now());
    Controller::new("nodeclaim.podevents", &context.clock, PodEventsReconciler(context.clone()))
        .for_kind("", "Pod")
        .watch_if(&context.cache.pods, move |change| is_pod_event(change, started))
}

fn is_pod_event(change: &Change<Pod>, started: Timestamp) -> bool {
    let Some(after) = &change.after else { return false };
    match &change.before {
        Some(before) if before.metadata.uid == after.metadata.uid => {
            pod_events::is_pod_event(Some(facts(before)), facts(after))
        }
        _ => is_created_since(after, started) && pod_events::is_pod_event(None, facts(after)),
    }
}

fn is_created_since(pod: &Pod, started: Timestamp) -> bool {
    pod.metadata.creation_timestamp.as_ref().is_some_and(|created| created.0 >= started)
}

/// The API has no finer times.
fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn facts(pod: &Pod) -> PodFacts {
    PodFacts {
        is_bound: !node_name(pod).is_empty(),
        is_terminal: objects::is_terminal(pod),
        is_terminating: objects::is_terminating(pod),
        is_daemon: objects::is_daemon(pod),
    }
}

fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

struct PodEventsReconciler(Context);

impl Reconcile for PodEventsReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let Self(context) = self;
        let cache = &context.cache;
        let pod = cache.pods.get(&key.namespace, &key.name).filter(|pod| !objects::is_daemon(pod));
        let node = pod.and_then(|pod| cache.nodes.get("", node_name(&pod)));
        let claim = node.and_then(|node| objects::claim_of(cache, &node));
        let Some(claim) = claim.filter(|claim| context.manages_claim(claim)) else {
            return Ok(Outcome::Done);
        };
        let now = context.clock.now();
        let last = claim.status.as_ref().and_then(|status| status.last_pod_event_time.as_ref());
        if !pod_events::is_update_due(last.map(|time| time.0), now) {
            return Ok(Outcome::Done);
        }
        let mut noted = claim.as_ref().clone();
        noted.status.get_or_insert_default().last_pod_event_time = Some(Time(whole_second(now)));
        let api = Api::all(context.client.clone());
        let written = patch_status(&api, claim.as_ref(), &noted, Precondition::None).await?;
        let end = written.early_outcome().unwrap_or_default();
        if let WriteOutcome::Applied(claim) = written {
            cache.node_claims.apply_write_result(*claim);
        }
        Ok(end)
    }
}
