//! What kubelets write: the status of nodes and pods, and leases.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::labels;
use karpenter_core::catalog::InstanceType;
use karpenter_operator::cloud::nodeclaim::quantities;
use kube::ResourceExt as _;
use serde_json::{Value, json};

/// The version that the kubelets say they are.
const KUBELET_VERSION: &str = "v1.36.3";

pub(super) fn is_ready(node: &Node) -> bool {
    is_ready_as(node, "True")
}

/// Whether the kubelet was not heard of for too long.
pub(super) fn is_unknown(node: &Node) -> bool {
    is_ready_as(node, "Unknown")
}

fn is_ready_as(node: &Node, status: &str) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == status)
}

/// An address of 10.0.0.0/8; they come round after sixteen million.
fn address(number: u32) -> String {
    let [_, b, c, d] = number.to_be_bytes();
    format!("10.{b}.{c}.{d}")
}

/// Returns the capacity of each built-in instance type.
/// A kubelet reports this capacity, whatever the cloud has announced.
pub(super) fn capacities_by_instance_type() -> BTreeMap<String, Value> {
    let types = karpenter_kwok::catalog::built_in();
    let capacity = |kind: &InstanceType| {
        let amounts = quantities(&kind.capacity).into_iter();
        amounts.map(|(name, amount)| (name, Value::from(amount.as_str()))).collect()
    };
    types.iter().map(|kind| (kind.name.clone(), capacity(kind))).collect()
}

pub(super) fn node_ready(
    node: &Node,
    capacity: Option<&Value>,
    number: u32,
    now: Timestamp,
) -> Value {
    let time = time(now);
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": time, "lastTransitionTime": time,
        })
    };
    let label = |key: &str, other: &str| {
        node.labels().get(key).cloned().unwrap_or_else(|| other.to_owned())
    };
    let id = node.metadata.uid.clone().unwrap_or_default();
    let mut ready = json!({"status": {
        "addresses": [
            {"type": "InternalIP", "address": address(number)},
            {"type": "Hostname", "address": node.name_any()},
        ],
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": label(labels::ARCH, labels::AMD64),
            "operatingSystem": label(labels::OS, labels::LINUX),
            "kubeletVersion": KUBELET_VERSION,
            "kubeProxyVersion": "",
            "containerRuntimeVersion": "simulated://1",
            "kernelVersion": "simulated",
            "osImage": "simulated",
            "machineID": id, "systemUUID": id, "bootID": id,
        },
    }});
    if let Some(capacity) = capacity {
        ready["status"]["capacity"] = capacity.clone();
    }
    ready
}

/// A lease that holds for four renewals, as that of the kubelet.
pub(super) fn lease(node: &Node, every: Duration, now: Timestamp) -> Value {
    let name = node.name_any();
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name,
            "namespace": "kube-node-lease",
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Node", "name": name,
                "uid": node.metadata.uid.clone().unwrap_or_default(),
            }],
        },
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": every.as_secs() * 4,
            "renewTime": format!("{now:.6}"),
        },
    })
}

/// Returns the patch that renews an existing lease.
pub(super) fn renewal(now: Timestamp) -> Value {
    json!({"spec": {"renewTime": format!("{now:.6}")}})
}

pub(super) fn pod_running(pod: &Pod, node: &Node, number: u32, now: Timestamp) -> Value {
    let time = time(now);
    let address = address(number);
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let statuses: Vec<Value> = containers
        .map(|container| {
            let image = container.image.clone().unwrap_or_default();
            json!({
                "name": container.name, "image": image, "imageID": "", "ready": true, "started": true,
                "restartCount": 0, "state": {"running": {"startedAt": time}},
            })
        })
        .collect();
    json!({"status": {
        "phase": "Running",
        "hostIP": node_address(node),
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": time,
        "conditions": conditions(pod, "True", None, &time),
        "containerStatuses": statuses,
    }})
}

pub(super) fn pod_succeeded(pod: &Pod, now: Timestamp) -> Value {
    let time = time(now);
    let running = pod.status.as_ref().and_then(|status| status.container_statuses.clone());
    let statuses: Vec<Value> = running
        .unwrap_or_default()
        .into_iter()
        .map(|container| {
            json!({
                "name": container.name, "image": container.image, "imageID": "", "ready": false,
                "started": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": time}},
            })
        })
        .collect();
    json!({"status": {
        "phase": "Succeeded",
        "conditions": conditions(pod, "False", Some("PodCompleted"), &time),
        "containerStatuses": statuses,
    }})
}

/// The conditions of a pod, with those of its containers; what the scheduler wrote stays.
fn conditions(pod: &Pod, ready: &str, reason: Option<&str>, time: &str) -> Vec<Value> {
    let kept = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ours = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"];
    let mut conditions: Vec<Value> = kept
        .filter(|condition| !ours.contains(&condition.type_.as_str()))
        .filter_map(|condition| serde_json::to_value(condition).ok())
        .collect();
    for kind in ours {
        let follows = matches!(kind, "Ready" | "ContainersReady");
        let mut condition = json!({
            "type": kind, "status": if follows { ready } else { "True" },
            "lastProbeTime": null, "lastTransitionTime": time,
        });
        if let Some(reason) = reason.filter(|_| follows) {
            condition["reason"] = reason.into();
        }
        conditions.push(condition);
    }
    conditions
}

fn node_address(node: &Node) -> String {
    let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let internal = addresses.into_iter().find(|address| address.type_ == "InternalIP");
    internal.map(|address| address.address.clone()).unwrap_or_default()
}

/// Whole seconds, as Kubernetes writes times.
fn time(now: Timestamp) -> String {
    format!("{now:.0}")
}
