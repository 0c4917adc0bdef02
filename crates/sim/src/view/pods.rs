//! Reads from a pod what a view shows: its state, workload and requests.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use karpenter_cluster::ingest::conversion;
use kube::ResourceExt as _;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodState {
    /// The scheduler has not tried it yet.
    Pending,
    /// The scheduler found no place for it.
    Unschedulable,
    /// It has a node, and does not run yet.
    Bound,
    Running,
    /// It is being terminated.
    Ending,
    Succeeded,
    Failed,
}

impl PodState {
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Unschedulable => "unschedulable",
            Self::Bound => "bound",
            Self::Running => "running",
            Self::Ending => "ending",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }

    /// Returns whether a pod in this state uses capacity of its node.
    pub(super) fn uses_capacity(self) -> bool {
        matches!(self, Self::Bound | Self::Running | Self::Ending)
    }
}

/// Returns the state of a pod.
pub fn pod_state(pod: &Pod) -> PodState {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let has_node = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    match phase {
        "Succeeded" => PodState::Succeeded,
        "Failed" => PodState::Failed,
        _ if pod.metadata.deletion_timestamp.is_some() => PodState::Ending,
        "Running" => PodState::Running,
        _ if has_node => PodState::Bound,
        _ if unschedulable(pod).is_some() => PodState::Unschedulable,
        _ => PodState::Pending,
    }
}

/// The scheduler's words for why the pod has no node.
pub fn message_of(pod: &Pod) -> String {
    unschedulable(pod).unwrap_or_default().to_owned()
}

fn unschedulable(pod: &Pod) -> Option<&str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|condition| condition.type_ == "PodScheduled")?;
    (condition.status == "False" && condition.reason.as_deref() == Some("Unschedulable"))
        .then(|| condition.message.as_deref().unwrap_or_default())
}

/// `default/web` for the pods of a Deployment, StatefulSet and so on; a bare pod is its own.
pub fn workload_of(pod: &Pod) -> String {
    let owners = pod.metadata.owner_references.iter().flatten();
    let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
    let name = controller.map_or_else(|| pod.name_any(), |owner| owner.name.clone());
    let hash = pod.labels().get("pod-template-hash");
    let name = match hash.and_then(|hash| name.strip_suffix(&format!("-{hash}"))) {
        Some(deployment) => deployment.to_owned(),
        None => name,
    };
    format!("{}/{name}", pod.namespace().unwrap_or_default())
}

/// Millicores and bytes that the containers request.
pub(super) fn requests_of(pod: &Pod) -> (u64, u64) {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let requests =
        containers.filter_map(|container| container.resources.as_ref()?.requests.as_ref());
    requests.map(amounts).fold((0, 0), |sum, (cpu, memory)| (sum.0 + cpu, sum.1 + memory))
}

/// Millicores and bytes in a list of resources.
pub(super) fn amounts(resources: &BTreeMap<String, Quantity>) -> (u64, u64) {
    let resources = conversion::resources(Some(resources));
    let positive = |amount| u64::try_from(amount).unwrap_or_default();
    (positive(resources.amount("cpu").millis()), positive(resources.amount("memory").units()))
}
