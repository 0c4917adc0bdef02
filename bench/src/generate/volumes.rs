//! Generates PersistentVolumeClaims, volumes and storage classes.

use serde_json::{Value, json};

use super::apps::App;
use super::objects::{ZONE, ZONES, requirement};
use super::{Case, Feature, Features};
use crate::random::SeededRng;

const DRIVER: &str = "ebs.csi.aws.com";
/// The classes of unbound claims; the last two make the pod unschedulable.
const UNBOUND_CLAIM_CLASSES: [&str; 9] =
    ["late", "late", "late", "zonal", "zonal", "split", "split", "soon", "missing"];

/// The storage classes that claims of this module use.
pub(super) fn add_classes(case: &mut Case) {
    let class = |name: &str, mode: &str| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": DRIVER, "volumeBindingMode": mode,
        })
    };
    case.objects.push(class("late", "WaitForFirstConsumer"));
    case.objects.push(class("soon", "Immediate"));
    let mut zonal = class("zonal", "WaitForFirstConsumer");
    zonal["allowedTopologies"] = json!([{"matchLabelExpressions": [{"key": ZONE, "values": ["test-zone-b", "test-zone-c"]}]}]);
    case.objects.push(zonal);
    let mut split = class("split", "WaitForFirstConsumer");
    split["allowedTopologies"] = json!([
        {"matchLabelExpressions": [{"key": ZONE, "values": ["test-zone-a"]}]},
        {"matchLabelExpressions": [{"key": ZONE, "values": ["test-zone-d"]}]},
    ]);
    case.objects.push(split);
}

/// Adds a volume, or a claim per StatefulSet pod, to some applications.
pub(super) fn add_volumes(
    app: &mut App,
    features: Features,
    random: &mut SeededRng,
    case: &mut Case,
) {
    if features.has(Feature::StatefulSets) && random.rng(0.2) {
        app.stateful = true;
        for i in 0..app.count {
            let pod = format!("{}-{i}", app.name);
            add_claim(&format!("data-{pod}"), app.namespace, random, case);
        }
        return;
    }
    if !features.has(Feature::Volumes) || !random.rng(0.3) {
        return;
    }
    let claim = format!("shared-{}", app.name);
    if random.rng(0.1) {
        // The claim does not exist.
    } else {
        add_claim(&claim, app.namespace, random, case);
    }
    app.push("volumes", json!({"name": "shared", "persistentVolumeClaim": {"claimName": claim}}));
    if random.rng(0.2) {
        let template = json!({"spec": {"storageClassName": random.pick(&["late", "zonal"]), "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        app.push(
            "volumes",
            json!({"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}),
        );
    }
}

/// Mounts the claim of a StatefulSet's pod.
pub(super) fn mount_own_claim(pod: &mut Value, name: &str) {
    let volume =
        json!({"name": "data", "persistentVolumeClaim": {"claimName": format!("data-{name}")}});
    match &mut pod["spec"]["volumes"] {
        Value::Array(volumes) => volumes.push(volume),
        absent => *absent = json!([volume]),
    }
}

/// A claim: bound to a volume somewhere, or waiting for its first pod, or with a class that is not
/// there.
fn add_claim(name: &str, namespace: &str, random: &mut SeededRng, case: &mut Case) {
    let mut spec =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let bound = random.rng(0.4);
    spec["storageClassName"] =
        if bound { "late" } else { random.pick(&UNBOUND_CLAIM_CLASSES) }.into();
    if bound {
        let volume = format!("pv-{namespace}-{name}");
        spec["volumeName"] = volume.clone().into();
        let zones = random.sample(&ZONES, 1 + random.clone().below(2));
        case.objects.push(json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
            "spec": {
                "csi": {"driver": DRIVER, "volumeHandle": name}, "storageClassName": "late",
                "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
                "claimRef": {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement(ZONE, "In", &zones)]}]}},
            },
        }));
    }
    case.objects.push(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": namespace},
        "spec": spec, "status": {"phase": if bound { "Bound" } else { "Pending" }},
    }));
}

/// Returns the CSINode of a node.
pub(super) fn csi_node(node: &str, random: &mut SeededRng) -> Value {
    let mut driver = json!({"name": DRIVER, "nodeID": node, "topologyKeys": [ZONE]});
    if let Some(count) = random.pick(&[None, Some(1), Some(3), Some(25)]) {
        driver["allocatable"] = json!({"count": count});
    }
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": node}, "spec": {"drivers": [driver]}})
}
