//! Records a decision: events, metrics, logs, and the pod times in the mirror (spec 20 §2.6–2.9).

use karpenter_cluster::assumptions::nomination_window;
use karpenter_core::id::PodId;
use karpenter_core::plan::Plan;
use karpenter_core::pod::Pod;
use karpenter_core::snapshot::Snapshot;
use karpenter_operator::events::definitions as events;
use karpenter_operator::metrics::NoLabels;
use karpenter_operator::metrics::labels::{Controller, ControllerZone};
use karpenter_operator::telemetry::json;
use kube::Resource;
use tracing::{debug, info};

use super::decision::Decision;
use super::preference_warnings::PreferenceWarnings;
use super::unschedulable_pods::UnschedulableLog;
use crate::Context;
use crate::plan_check::{DroppedObjects, report_violations};

/// The name of the controller in metrics.
pub(super) const PROVISIONER: &str = "provisioner";
/// How many pods a log line names.
pub(super) const MAX_NAMED_PODS: usize = 5;

/// The log lines already written, so that they are not repeated.
#[derive(Debug)]
pub(super) struct LogHistory {
    preference_warnings: PreferenceWarnings,
    unschedulable: UnschedulableLog,
}

impl LogHistory {
    pub(super) fn new() -> Self {
        Self {
            preference_warnings: PreferenceWarnings::new(),
            unschedulable: UnschedulableLog::new(),
        }
    }
}

/// Records a decision, except the creation of its claims.
pub(super) fn record_decision(context: &Context, decision: &Decision, history: &LogHistory) {
    let metrics = &context.metrics;
    let labels = Controller { controller: PROVISIONER };
    metrics.scheduler_scheduling_duration.observe(&labels, decision.took.as_secs_f64());
    record_pod_times(context, decision);
    record_ignored_pods(context, decision);
    history.preference_warnings.log_new(context, decision);
    record_violations(context, decision);
    let Some(plan) = &decision.plan else { return };
    record_effective_zones(context, plan);
    history.unschedulable.report(context, decision, plan);
    nominate(context, &decision.snapshot, plan);
    publish_unusable_pools(context, decision, plan);
    log_summary(decision, plan);
}

/// Reports what verification dropped. Its pods are among the rejected ones of the plan.
fn record_violations(context: &Context, decision: &Decision) {
    let mut objects = DroppedObjects::default();
    for dropped in &decision.dropped {
        objects.pods.extend(dropped.pods.iter().map(|pod| decision.snapshot.pod(*pod).full_name()));
        objects.nodes.extend(dropped.node.clone());
        objects.node_pools.extend(dropped.node_pool.clone());
    }
    objects.node_pools.sort();
    objects.node_pools.dedup();
    report_violations(context, PROVISIONER, &decision.violations, &objects);
}

/// Records the scheduling times of pods in the mirror and in metrics.
fn record_pod_times(context: &Context, decision: &Decision) {
    let snapshot = &decision.snapshot;
    let now = context.clock.now();
    let mut waited = Vec::new();
    let mut fail = |id: &PodId| {
        let pod = snapshot.pod(*id);
        waited.extend(context.mirror.record_unschedulable(&pod.namespace, &pod.name, now));
    };
    decision.demand.ignored.keys().for_each(&mut fail);
    match &decision.plan {
        None => decision.demand.to_place.iter().for_each(fail),
        Some(plan) => {
            plan.rejected.keys().for_each(fail);
            let of_claims = plan.claims.iter();
            let of_claims =
                of_claims.map(|claim| (snapshot.pool(claim.pool).name.as_str(), &claim.pods));
            let of_nodes = plan.existing_nodes.iter();
            let of_nodes = of_nodes.map(|(node, pods)| {
                (snapshot.node(*node).pool.as_deref().unwrap_or_default(), pods)
            });
            for (pool, pods) in of_claims.chain(of_nodes) {
                for pod in non_virtual_pods(snapshot, pods) {
                    waited.extend(context.mirror.record_placement(
                        &pod.namespace,
                        &pod.name,
                        pool,
                        now,
                    ));
                }
            }
        }
    }
    let histogram = &context.metrics.pods_scheduling_decision_duration;
    for waited in waited {
        histogram.observe(&NoLabels, waited.as_secs_f64());
    }
}

#[expect(clippy::cast_precision_loss, reason = "numbers of pods")]
fn record_ignored_pods(context: &Context, decision: &Decision) {
    let ignored = &decision.demand.ignored;
    context.metrics.scheduler_ignored_pods_count.set(&NoLabels, ignored.len() as f64);
    for (id, problem) in ignored {
        let pod = decision.snapshot.pod(*id);
        debug!(Pod = pod.full_name(), error = problem.text, "ignoring pod");
        if !problem.is_opt_out {
            publish_failure(context, pod, &format!("ignoring pod, {}", problem.text));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "numbers of pods")]
fn record_effective_zones(context: &Context, plan: &Plan) {
    let gauge = &context.metrics.scheduler_pending_pods_by_effective_zone_count;
    gauge.clear();
    for (zone, pods) in &plan.effective_zones {
        gauge.set(&ControllerZone { controller: PROVISIONER, zone }, *pods as f64);
    }
}

/// Nominates existing and in-flight nodes for the pods that were placed on them.
pub(crate) fn nominate(context: &Context, snapshot: &Snapshot, plan: &Plan) {
    let window = nomination_window(context.options.batch_max_duration);
    for (id, pods) in &plan.existing_nodes {
        // A node that is only planned does not exist yet.
        let Some(node) = snapshot.nodes.get(id.index()) else { continue };
        let pods: Vec<_> = non_virtual_pods(snapshot, pods).collect();
        if pods.is_empty() {
            continue;
        }
        context.mirror.nominate(&node.provider_id, context.clock.now(), window);
        let claim = context.mirror.node_claim_of(&node.provider_id);
        let name = node.object.is_some().then_some(node.name.as_str());
        for pod in pods {
            if let Some(claim) = &claim {
                context.mirror.map_pod_to_claim(&pod.namespace, &pod.name, claim);
            }
            if let Some(wire) = context.cache.pods.get(&pod.namespace, &pod.name) {
                let event = events::nominated(wire.object_ref(&()), claim.as_deref(), name);
                context.events.publish(event);
            }
        }
    }
}

fn publish_unusable_pools(context: &Context, decision: &Decision, plan: &Plan) {
    for unusable in &plan.unusable_pools {
        let pool = &decision.snapshot.pool(unusable.pool).name;
        if let Some(pool) = decision.pools.get(pool) {
            let pool = pool.object_ref(&());
            context
                .events
                .publish(events::no_compatible_instance_types(pool, unusable.misses_min_values));
        }
    }
}

fn log_summary(decision: &Decision, plan: &Plan) {
    if !plan.claims.is_empty() {
        let place = &decision.demand.to_place;
        let first =
            place.iter().take(MAX_NAMED_PODS).map(|id| decision.snapshot.pod(*id).full_name());
        let first: Vec<_> = first.collect();
        let pods = join_names(first.iter().map(String::as_str), MAX_NAMED_PODS, place.len());
        let duration = format!("{:?}", decision.took);
        info!(Pods = ?json(&pods), duration, "found provisionable pod(s)");
        let pods: usize = plan.claims.iter().map(|claim| claim.pods.len()).sum();
        info!(nodeclaims = plan.claims.len(), pods, "computed new nodeclaim(s) to fit pod(s)");
    }
    if !plan.existing_nodes.is_empty() {
        let pods: usize = plan.existing_nodes.iter().map(|(_, pods)| pods.len()).sum();
        info!(nodes = plan.existing_nodes.len(), pods, "computed unready node(s) will fit pod(s)");
    }
}

/// Joins the first names and the number of the others, for logs.
pub(super) fn join_names<'a>(
    names: impl Iterator<Item = &'a str>,
    most: usize,
    count: usize,
) -> String {
    let names = names.take(most).collect::<Vec<_>>().join(", ");
    match count.saturating_sub(most) {
        0 => names,
        more => format!("{names} and {more} other(s)"),
    }
}

fn non_virtual_pods<'a>(
    snapshot: &'a Snapshot,
    pods: &'a [PodId],
) -> impl Iterator<Item = &'a Pod> {
    pods.iter().map(|id| snapshot.pod(*id)).filter(|pod| !pod.is_virtual)
}

pub(super) fn publish_failure(context: &Context, pod: &Pod, text: &str) {
    if let Some(wire) = context.cache.pods.get(&pod.namespace, &pod.name) {
        context.events.publish(events::failed_scheduling(wire.object_ref(&()), text));
    }
}
