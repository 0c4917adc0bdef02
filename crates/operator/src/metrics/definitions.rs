//! Defines the metrics of core (spec 40 §8.1, spec 45 §15.1, spec 30 §12.3).
//!
//! Only `nodes` and `conditions` define more, as their labels depend on the provider.

use super::labels::{
    ApiAnswer, ApiHostAnswer, ApiRequest, BuildInfo, CloudCall, CloudFailure, Code,
    ConsolidationType, Controller, ControllerRule, ControllerZone, Decision, Disrupted,
    DynamicResources, Move, Name, NoLabels, NodeClaimsCreated, PodName, PodNameDynamic, PodState,
    Pool, PoolCapacityZone, PoolDecision, PoolReason, PoolResource, PoolZone, Queue, QueuePriority,
    Reason, ReasonConsolidation, RebootResult, ReconcileResult, ResourceType, SchedulingRun,
    TerminateFirst, UnhealthyDisrupted, WriteResult,
};
use super::registry::{Counter, Gauge, Histogram, MetricOpts, Registry, Stage, Summary};

const MINUTE: f64 = 60.0;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;

/// Histogram bounds for durations of decisions, in seconds.
const DURATION_BUCKETS: [f64; 45] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0, 120.0, 150.0, 300.0, 450.0, 600.0,
];
/// The number of duration bounds for reconciles: those up to a minute.
const RECONCILE_BUCKET_COUNT: usize = 40;

fn duration_buckets() -> Vec<f64> {
    DURATION_BUCKETS.to_vec()
}

fn reconcile_duration_buckets() -> Vec<f64> {
    DURATION_BUCKETS[..RECONCILE_BUCKET_COUNT].to_vec()
}

/// Prometheus' own bounds.
pub(super) fn default_buckets() -> Vec<f64> {
    vec![0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]
}

/// Returns `count` bounds; each one is the factor times the one before.
pub(super) fn exponential_buckets(start: f64, factor: f64, count: usize) -> Vec<f64> {
    std::iter::successors(Some(start), |bound| Some(bound * factor)).take(count).collect()
}

fn lifetime_buckets() -> Vec<f64> {
    let minutes = [15.0, 30.0, 45.0].map(|n| n * MINUTE);
    let hours = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0].map(|n| n * HOUR);
    let days = [1.0, 2.0, 3.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0].map(|n| n * DAY);
    minutes.into_iter().chain(hours).chain(days).collect()
}

macro_rules! list {
    ($($kind:ident $field:ident: $labels:ty = $name:literal, $stage:ident, $help:literal $(, $buckets:expr)?;)+) => {
        /// Handles of core's metrics whose labels are the same for all providers.
        #[derive(Clone, Debug)]
        pub struct CoreMetrics {
            $(#[doc = $help] pub $field: list!(@type $kind $labels),)+
        }

        impl CoreMetrics {
            pub(super) fn new(registry: &Registry) -> Self {
                Self {
                    $($field: registry.$kind(
                        MetricOpts { name: $name, stage: Stage::$stage, help: $help } $(, $buckets)?
                    ),)+
                }
            }
        }
    };
    (@type counter $labels:ty) => { Counter<$labels> };
    (@type gauge $labels:ty) => { Gauge<$labels> };
    (@type histogram $labels:ty) => { Histogram<$labels> };
    (@type summary $labels:ty) => { Summary<$labels> };
}

#[rustfmt::skip]
list! {
    gauge build_info: BuildInfo<'static> = "karpenter_build_info", Stable,
        "Always 1; its labels say what runs.";

    counter nodeclaims_created: NodeClaimsCreated<'static> = "karpenter_nodeclaims_created_total", Stable,
        "NodeClaims created, by reason, NodePool and whether minValues were lowered for them.";
    counter nodeclaims_terminated: PoolCapacityZone<'static> = "karpenter_nodeclaims_terminated_total", Stable,
        "NodeClaims that are gone, by NodePool, capacity type and zone.";
    counter nodeclaims_disrupted: Disrupted<'static> = "karpenter_nodeclaims_disrupted_total", Alpha,
        "NodeClaims that Karpenter decided to delete, by reason, NodePool, capacity type, consolidation policy and mode of termination.";
    counter nodeclaims_unhealthy_disrupted: UnhealthyDisrupted<'static> = "karpenter_nodeclaims_unhealthy_disrupted_total", Alpha,
        "NodeClaims disrupted because their nodes were unhealthy, by condition, NodePool, capacity type, image and mode of termination.";
    histogram nodeclaims_instance_termination_duration: Pool<'static> = "karpenter_nodeclaims_instance_termination_duration_seconds", Beta,
        "Time from the first order to end an instance until it is gone.", exponential_buckets(1.0, 2.0, 11);
    histogram nodeclaims_termination_duration: Pool<'static> = "karpenter_nodeclaims_termination_duration_seconds", Beta,
        "Time from the deletion of a NodeClaim until its finalizer is removed.", exponential_buckets(1.0, 2.0, 12);

    counter nodes_created: PoolZone<'static> = "karpenter_nodes_created_total", Stable,
        "Nodes that have registered, by NodePool and zone.";
    counter nodes_terminated: PoolZone<'static> = "karpenter_nodes_terminated_total", Stable,
        "Nodes whose finalizer was removed, by NodePool and zone.";
    counter nodes_drained: Pool<'static> = "karpenter_nodes_drained_total", Alpha,
        "Nodes that were drained, by NodePool.";
    summary nodes_termination_duration: Pool<'static> = "karpenter_nodes_termination_duration_seconds", Beta,
        "Time from the deletion of a Node until its finalizer is removed.";
    histogram nodes_lifetime_duration: Pool<'static> = "karpenter_nodes_lifetime_duration_seconds", Alpha,
        "Age of Nodes when they go.", lifetime_buckets();
    counter nodes_reboots: RebootResult<'static> = "karpenter_nodes_reboots_total", Beta,
        "Reboots of nodes that have ended, by result.";
    histogram nodes_reboot_duration: RebootResult<'static> = "karpenter_nodes_reboot_duration_seconds", Beta,
        "Time from the request of a reboot to its end, by result.", exponential_buckets(10.0, 2.0, 8);
    histogram nodes_reboot_recovery_duration: NoLabels = "karpenter_nodes_reboot_recovery_duration_seconds", Beta,
        "Time from the order to reboot until the node was back; successes only.", exponential_buckets(10.0, 2.0, 8);

    gauge cluster_utilization_percent: ResourceType<'static> = "karpenter_cluster_utilization_percent", Alpha,
        "What pods request of what all nodes have, in percent, by resource.";

    gauge nodepools_limit: PoolResource<'static> = "karpenter_nodepools_limit", Stable,
        "Limits of NodePools, by resource.";
    gauge nodepools_usage: PoolResource<'static> = "karpenter_nodepools_usage", Stable,
        "What the nodes of NodePools have, by resource.";
    gauge nodepools_cost: Pool<'static> = "karpenter_nodepools_cost_total", Alpha,
        "What the nodes of NodePools cost in an hour.";
    counter nodepools_cost_tracker_errors: Pool<'static> = "karpenter_nodepools_cost_tracker_errors_total", Alpha,
        "Changes of nodes that the cost of their NodePool could not follow.";
    gauge nodepools_allowed_disruptions: PoolReason<'static> = "karpenter_nodepools_allowed_disruptions", Stable,
        "Nodes that budgets let be disrupted now, by NodePool and reason.";
    gauge nodepools_nodes_consuming_budgets: PoolReason<'static> = "karpenter_nodepools_nodes_consuming_budgets", Alpha,
        "Nodes that take from budgets now, by NodePool and reason.";

    gauge pods_state: PodState<'static> = "karpenter_pods_state", Beta,
        "1 for each pod; its labels say where and how it is.";
    summary pods_startup_duration: NoLabels = "karpenter_pods_startup_duration_seconds", Stable,
        "Time from the creation of pods until they are ready.";
    histogram pods_bound_duration: DynamicResources<'static> = "karpenter_pods_bound_duration_seconds", Alpha,
        "Time from the creation of pods until they are bound.", duration_buckets();
    gauge pods_unstarted_time: PodName<'static> = "karpenter_pods_unstarted_time_seconds", Alpha,
        "Age of pods that do not run yet.";
    gauge pods_unbound_time: PodNameDynamic<'static> = "karpenter_pods_unbound_time_seconds", Alpha,
        "Age of pods that are not bound yet.";
    histogram pods_provisioning_bound_duration: DynamicResources<'static> = "karpenter_pods_provisioning_bound_duration_seconds", Alpha,
        "Time from when Karpenter first found a place for pods until they are bound.", duration_buckets();
    histogram pods_provisioning_startup_duration: NoLabels = "karpenter_pods_provisioning_startup_duration_seconds", Alpha,
        "Time from when Karpenter first found a place for pods until they are ready.", duration_buckets();
    gauge pods_provisioning_unbound_time: PodNameDynamic<'static> = "karpenter_pods_provisioning_unbound_time_seconds", Alpha,
        "Time since Karpenter first found a place for pods that are not bound yet.";
    gauge pods_provisioning_unstarted_time: PodName<'static> = "karpenter_pods_provisioning_unstarted_time_seconds", Alpha,
        "Time since Karpenter first found a place for pods that do not run yet.";
    gauge pods_provisioning_scheduling_undecided_time: PodName<'static> = "karpenter_pods_provisioning_scheduling_undecided_time_seconds", Alpha,
        "Time since Karpenter saw pods about which it has not decided yet.";
    histogram pods_scheduling_decision_duration: NoLabels = "karpenter_pods_scheduling_decision_duration_seconds", Alpha,
        "Time from when Karpenter saw pods until its first decision about them.", duration_buckets();
    counter pods_eviction_requests: Code<'static> = "karpenter_pods_eviction_requests_total", Alpha,
        "Answers to evictions, by code.";
    counter pods_drained: Reason<'static> = "karpenter_pods_drained_total", Alpha,
        "Pods that were evicted or deleted from nodes that go, by reason.";
    counter pods_disruption_initiated: Disrupted<'static> = "karpenter_pods_disruption_initiated_total", Alpha,
        "Pods on NodeClaims that Karpenter decided to delete, by reason, NodePool, capacity type, consolidation policy and mode of termination.";
    gauge pod_deletion_cost_nodes_with_pending_annotation_writes: Pool<'static> = "karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes", Alpha,
        "Nodes with pods whose deletion cost is still to be written, by NodePool.";
    counter pod_deletion_cost_pod_annotation_writes: WriteResult<'static> = "karpenter_pod_deletion_cost_pod_annotation_writes_total", Alpha,
        "Writes of deletion costs to pods, by result.";

    gauge cluster_state_node_count: NoLabels = "karpenter_cluster_state_node_count", Stable,
        "Nodes that Karpenter knows of.";
    gauge cluster_state_synced: NoLabels = "karpenter_cluster_state_synced", Stable,
        "1 when Karpenter's view is complete, 0 otherwise.";
    gauge cluster_state_unsynced_time: NoLabels = "karpenter_cluster_state_unsynced_time_seconds", Stable,
        "Time for which Karpenter's view has not been complete.";

    histogram cloudprovider_duration: CloudCall<'static> = "karpenter_cloudprovider_duration_seconds", Beta,
        "Time that calls to the cloud take, by controller, method and provider.", default_buckets();
    counter cloudprovider_errors: CloudFailure<'static> = "karpenter_cloudprovider_errors_total", Beta,
        "Calls to the cloud that failed, by controller, method, provider, kind of error and NodePool.";

    histogram scheduler_scheduling_duration: Controller<'static> = "karpenter_scheduler_scheduling_duration_seconds", Stable,
        "Time that a run of the scheduler takes.", duration_buckets();
    gauge scheduler_queue_depth: SchedulingRun<'static> = "karpenter_scheduler_queue_depth", Beta,
        "Pods that a run of the scheduler has still to place.";
    gauge scheduler_unfinished_work: SchedulingRun<'static> = "karpenter_scheduler_unfinished_work_seconds", Alpha,
        "Time since a run of the scheduler has started that has not ended.";
    gauge scheduler_ignored_pods_count: NoLabels = "karpenter_scheduler_ignored_pods_count", Alpha,
        "Pending pods that Karpenter leaves alone.";
    gauge scheduler_unschedulable_pods_count: Controller<'static> = "karpenter_scheduler_unschedulable_pods_count", Alpha,
        "Pods that the last run found no place for.";
    gauge scheduler_pending_pods_by_effective_zone_count: ControllerZone<'static> = "karpenter_scheduler_pending_pods_by_effective_zone_count", Alpha,
        "Pods of the last run by the only zone that they can go to, `flexible` or `none`.";

    histogram voluntary_disruption_decision_evaluation_duration: ReasonConsolidation<'static> = "karpenter_voluntary_disruption_decision_evaluation_duration_seconds", Beta,
        "Time that it takes to decide about disruption, by method.", duration_buckets();
    counter voluntary_disruption_decisions: Decision<'static> = "karpenter_voluntary_disruption_decisions_total", Stable,
        "Decisions to disrupt, by decision, reason and kind of consolidation.";
    counter voluntary_disruption_decisions_by_nodepool: PoolDecision<'static> = "karpenter_voluntary_disruption_decisions_by_nodepool_total", Alpha,
        "Decisions to disrupt, once for each NodePool with a node in them.";
    counter voluntary_disruption_terminate_first_decisions: TerminateFirst<'static> = "karpenter_voluntary_disruption_terminate_first_decisions_total", Alpha,
        "Decisions to end a node before its replacement is there, by NodePool, reason and what made it necessary.";
    gauge voluntary_disruption_eligible_nodes: Reason<'static> = "karpenter_voluntary_disruption_eligible_nodes", Beta,
        "Nodes that may be disrupted, by reason.";
    counter voluntary_disruption_consolidation_timeouts: ConsolidationType<'static> = "karpenter_voluntary_disruption_consolidation_timeouts_total", Beta,
        "Searches for a consolidation that ran out of time.";
    counter voluntary_disruption_failed_validations: ConsolidationType<'static> = "karpenter_voluntary_disruption_failed_validations_total", Alpha,
        "Candidates of consolidations that did not hold when they were looked at again.";
    counter voluntary_disruption_queue_failures: Decision<'static> = "karpenter_voluntary_disruption_queue_failures_total", Beta,
        "Decisions to disrupt that could not be carried out.";
    histogram consolidation_score: Move<'static> = "karpenter_consolidation_score", Alpha,
        "Scores of moves under the Balanced policy.", vec![0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0];
    counter consolidation_moves: Move<'static> = "karpenter_consolidation_moves_total", Alpha,
        "Moves of consolidation, by decision, NodePool and policy.";
    counter plan_violations: ControllerRule<'static> = "karpenter_rs_plan_violations_total", Alpha,
        "Violations found in plans before they are carried out, by controller and rule. Any is a bug.";

    histogram client_go_request_duration: ApiRequest<'static> = "client_go_request_duration_seconds", Library,
        "Time that requests to the API server take.", exponential_buckets(0.001, 1.5, 20);
    counter client_go_requests: ApiAnswer<'static> = "client_go_request_total", Library,
        "Answers of the API server.";
    counter rest_client_requests: ApiHostAnswer<'static> = "rest_client_requests_total", Library,
        "Answers of the API server, by host.";
    gauge leader_election_master_status: Name<'static> = "leader_election_master_status", Library,
        "1 on the replica that leads.";

    counter reconcile: ReconcileResult<'static> = "controller_runtime_reconcile_total", Stable,
        "Reconciles, by controller and result.";
    counter reconcile_errors: Controller<'static> = "controller_runtime_reconcile_errors_total", Stable,
        "Reconciles that failed.";
    counter terminal_reconcile_errors: Controller<'static> = "controller_runtime_terminal_reconcile_errors_total", Stable,
        "Reconciles that failed and are not tried again.";
    counter reconcile_panics: Controller<'static> = "controller_runtime_reconcile_panics_total", Stable,
        "Reconciles that panicked.";
    counter reconcile_timeouts: Controller<'static> = "controller_runtime_reconcile_timeouts_total", Stable,
        "Reconciles that took too long.";
    histogram reconcile_time: Controller<'static> = "controller_runtime_reconcile_time_seconds", Stable,
        "Time that reconciles take.", reconcile_duration_buckets();
    gauge max_concurrent_reconciles: Controller<'static> = "controller_runtime_max_concurrent_reconciles", Stable,
        "Workers of a controller.";
    gauge active_workers: Controller<'static> = "controller_runtime_active_workers", Stable,
        "Workers of a controller that work.";

    gauge workqueue_depth: QueuePriority<'static> = "workqueue_depth", Stable,
        "Keys that wait.";
    counter workqueue_adds: Queue<'static> = "workqueue_adds_total", Stable,
        "Keys that were added.";
    counter workqueue_retries: Queue<'static> = "workqueue_retries_total", Stable,
        "Keys that were added again after a failure.";
    histogram workqueue_queue_duration: Queue<'static> = "workqueue_queue_duration_seconds", Stable,
        "Time that keys wait.", exponential_buckets(1e-8, 10.0, 12);
    histogram workqueue_work_duration: Queue<'static> = "workqueue_work_duration_seconds", Stable,
        "Time that the work on a key takes.", exponential_buckets(1e-8, 10.0, 12);
    gauge workqueue_unfinished_work: Queue<'static> = "workqueue_unfinished_work_seconds", Stable,
        "Time of all work that goes on, together.";
    gauge workqueue_longest_running_processor: Queue<'static> = "workqueue_longest_running_processor_seconds", Stable,
        "Time of the longest work that goes on.";
}
