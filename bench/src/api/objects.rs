//! Objects as a cluster has them: nodes as a kubelet registers them, pods as a ReplicaSet's
//! controller makes them, their binding, and what the kubelet says of them when they run.

use serde_json::{Value, json};

const APPS: usize = 100;

pub(super) fn namespace(index: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("team-{index}")}})
}

fn node_name(index: usize) -> String {
    format!("node-{index:05}")
}

fn pod_name(index: usize) -> String {
    format!("app-{}-7d9c6b8f54-{index:06}", index % APPS)
}

pub(super) fn pods_path(index: usize, namespaces: usize) -> String {
    format!("/api/v1/namespaces/team-{}/pods", index % namespaces)
}

pub(super) fn pod_path(index: usize, namespaces: usize, subresource: &str) -> String {
    let path = format!("{}/{}", pods_path(index, namespaces), pod_name(index));
    if subresource.is_empty() { path } else { format!("{path}/{subresource}") }
}

pub(super) fn node(index: usize) -> Value {
    let name = node_name(index);
    let zone = ["a", "b", "c"][index % 3];
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": "2026-11-15T10:00:00Z",
            "lastTransitionTime": "2026-11-15T09:00:00Z",
        })
    };
    let amounts = json!({
        "cpu": "8", "memory": "32386544Ki", "pods": "58", "ephemeral-storage": "20959212Ki",
        "hugepages-1Gi": "0", "hugepages-2Mi": "0",
    });
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "karpenter.sh/capacity-type": "spot",
                "karpenter.sh/nodepool": "general",
                "karpenter.sh/registered": "true",
                "karpenter.sh/initialized": "true",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "m5.2xlarge",
                "topology.kubernetes.io/region": "us-west-2",
                "topology.kubernetes.io/zone": format!("us-west-2{zone}"),
            },
            "annotations": {
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
            "finalizers": ["karpenter.sh/termination"],
        },
        "spec": {"providerID": format!("aws:///us-west-2{zone}/i-{index:017x}")},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
                condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
            ],
            "addresses": [
                {"type": "InternalIP", "address": address(index)},
                {"type": "Hostname", "address": name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": format!("{index:032x}"), "systemUUID": format!("{index:032x}"),
                "bootID": format!("{index:032x}"), "kernelVersion": "6.12.40",
                "osImage": "Amazon Linux 2023", "containerRuntimeVersion": "containerd://2.1.4",
                "kubeletVersion": "v1.36.3", "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64",
            },
        },
    })
}

fn address(index: usize) -> String {
    format!("10.{}.{}.{}", index / 65_536 % 256, index / 256 % 256, index % 256)
}

pub(super) fn pod(index: usize) -> Value {
    let app = format!("app-{}", index % APPS);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(index),
            "generateName": format!("{app}-7d9c6b8f54-"),
            "labels": {
                "app": app,
                "app.kubernetes.io/part-of": "shop",
                "pod-template-hash": "7d9c6b8f54",
            },
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
        },
        "spec": {
            "containers": [{
                "name": "web",
                "image": "registry.example/shop/web:1.27.3",
                "ports": [{"name": "http", "containerPort": 8080}],
                "env": [
                    {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "LOG_LEVEL", "value": "info"},
                ],
                "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "256Mi"}},
                "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5},
            }],
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": app}},
            }],
        },
    })
}

pub(super) fn binding(index: usize, nodes: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod_name(index)},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node_name(index % nodes.max(1))},
    })
}

pub(super) fn running_status(index: usize) -> Value {
    // No two pods of a node start in one second, and hardly any two that are alike.
    let (hour, minute, second) = (index / 3_600 % 24, index / 60 % 60, index % 60);
    let since = format!("2026-11-15T{hour:02}:{minute:02}:{second:02}Z");
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": since});
    json!({
        "status": {
            "phase": "Running",
            "conditions": [
                condition("PodReadyToStartContainers"), condition("Initialized"),
                condition("Ready"), condition("ContainersReady"), condition("PodScheduled"),
            ],
            "startTime": since,
            "hostIP": address(index % 5_000),
            "hostIPs": [{"ip": address(index % 5_000)}],
            "podIP": address(1_000_000 + index),
            "podIPs": [{"ip": address(1_000_000 + index)}],
            "containerStatuses": [{
                "name": "web", "ready": true, "started": true, "restartCount": 0,
                "image": "registry.example/shop/web:1.27.3",
                "imageID": "registry.example/shop/web@sha256:3c1b8ed5d2f1f1c2f6d3a0f4ce7d1d2b8e0f9a7c6b5d4e3f2a1b0c9d8e7f6a5b",
                "containerID": format!("containerd://{index:064x}"),
                "state": {"running": {"startedAt": since}},
            }],
        },
    })
}

pub(super) fn annotation(watchers: usize, change: usize) -> Value {
    json!({"metadata": {"annotations": {"bench": format!("{watchers}-{change}")}}})
}
