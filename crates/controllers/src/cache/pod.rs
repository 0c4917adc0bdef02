//! Pods as they are read: what decisions, drains and metrics look at, and nothing else.
//!
//! Most of a pod is what its containers run, with which files and variables, and who wrote which
//! field. What is not named here is skipped while the answer is read, before it takes memory: of a
//! plain pod a quarter is left.
//!
//! Invariant: what is read of pods anywhere in the product is named here. A test reads whole pods and
//! these and compares.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, Container, ContainerPort, ContainerStatus, EphemeralVolumeSource,
    PersistentVolumeClaimVolumeSource, Pod, PodCondition, PodExtendedResourceClaimStatus,
    PodResourceClaim, PodResourceClaimStatus, PodSchedulingGate, PodSpec, PodStatus,
    ResourceRequirements, Toleration, TopologySpreadConstraint, Volume,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use serde::{Deserialize, Deserializer};

/// A copy of the object as somebody applied it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Conditions that nobody reads. Kubelets set them on every pod.
const UNREAD: [&str; 3] = ["Initialized", "ContainersReady", "PodReadyToStartContainers"];

/// A pod without what nobody reads.
#[derive(Clone, Debug)]
pub(super) struct ReadPod(Box<Pod>);

impl From<ReadPod> for Pod {
    fn from(read: ReadPod) -> Self {
        *read.0
    }
}

impl<'de> Deserialize<'de> for ReadPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Wire { metadata, spec, status } = Wire::deserialize(deserializer)?;
        Ok(Self(Box::new(Pod {
            metadata: metadata.into(),
            spec: spec.map(Into::into),
            status: status.map(Into::into),
        })))
    }
}

impl Resource for ReadPod {
    type DynamicType = ();
    type Scope = <Pod as Resource>::Scope;

    fn kind(kind: &()) -> Cow<'_, str> {
        Pod::kind(kind)
    }

    fn group(kind: &()) -> Cow<'_, str> {
        Pod::group(kind)
    }

    fn version(kind: &()) -> Cow<'_, str> {
        Pod::version(kind)
    }

    fn plural(kind: &()) -> Cow<'_, str> {
        Pod::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    metadata: Meta,
    spec: Option<Spec>,
    status: Option<ReadStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

impl From<Meta> for ObjectMeta {
    fn from(meta: Meta) -> Self {
        let mut annotations = meta.annotations;
        if let Some(annotations) = &mut annotations {
            annotations.remove(LAST_APPLIED);
        }
        Self {
            name: meta.name,
            namespace: meta.namespace,
            uid: meta.uid,
            resource_version: meta.resource_version,
            creation_timestamp: meta.creation_timestamp,
            deletion_timestamp: meta.deletion_timestamp,
            deletion_grace_period_seconds: meta.deletion_grace_period_seconds,
            labels: meta.labels,
            annotations,
            owner_references: meta.owner_references.map(exact),
            ..Self::default()
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
    node_selector: Option<BTreeMap<String, String>>,
    affinity: Option<Affinity>,
    tolerations: Option<Vec<Toleration>>,
    topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
    scheduling_gates: Option<Vec<PodSchedulingGate>>,
    containers: Option<Vec<ReadContainer>>,
    init_containers: Option<Vec<ReadContainer>>,
    resources: Option<ResourceRequirements>,
    overhead: Option<BTreeMap<String, Quantity>>,
    resource_claims: Option<Vec<PodResourceClaim>>,
    volumes: Option<Vec<ReadVolume>>,
    priority: Option<i32>,
    priority_class_name: Option<String>,
    termination_grace_period_seconds: Option<i64>,
}

impl From<Spec> for PodSpec {
    fn from(spec: Spec) -> Self {
        let claims = |volume: &ReadVolume| {
            volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some()
        };
        let volumes = spec.volumes.map(|all| all.into_iter().filter(claims).map(Into::into));
        Self {
            node_name: spec.node_name,
            node_selector: spec.node_selector,
            affinity: spec.affinity,
            tolerations: spec.tolerations.map(exact),
            topology_spread_constraints: spec.topology_spread_constraints.map(exact),
            scheduling_gates: spec.scheduling_gates.map(exact),
            containers: converted(spec.containers.unwrap_or_default()),
            init_containers: spec.init_containers.map(converted),
            resources: spec.resources,
            overhead: spec.overhead,
            resource_claims: spec.resource_claims.map(exact),
            volumes: volumes.map(|volumes| exact(volumes.collect())),
            priority: spec.priority,
            priority_class_name: spec.priority_class_name,
            termination_grace_period_seconds: spec.termination_grace_period_seconds,
            ..Self::default()
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadContainer {
    #[serde(default)]
    name: String,
    resources: Option<ResourceRequirements>,
    ports: Option<Vec<ContainerPort>>,
    restart_policy: Option<String>,
}

impl From<ReadContainer> for Container {
    fn from(read: ReadContainer) -> Self {
        Self {
            name: read.name,
            resources: read.resources,
            ports: read.ports.map(exact),
            restart_policy: read.restart_policy,
            ..Self::default()
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadVolume {
    #[serde(default)]
    name: String,
    persistent_volume_claim: Option<PersistentVolumeClaimVolumeSource>,
    ephemeral: Option<EphemeralVolumeSource>,
}

impl From<ReadVolume> for Volume {
    fn from(read: ReadVolume) -> Self {
        Self {
            name: read.name,
            persistent_volume_claim: read.persistent_volume_claim,
            ephemeral: read.ephemeral,
            ..Self::default()
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadStatus {
    phase: Option<String>,
    conditions: Option<Vec<PodCondition>>,
    nominated_node_name: Option<String>,
    start_time: Option<Time>,
    container_statuses: Option<Vec<ReadContainerStatus>>,
    init_container_statuses: Option<Vec<ReadContainerStatus>>,
    resource_claim_statuses: Option<Vec<PodResourceClaimStatus>>,
    extended_resource_claim_status: Option<PodExtendedResourceClaimStatus>,
}

impl From<ReadStatus> for PodStatus {
    fn from(status: ReadStatus) -> Self {
        let conditions = status.conditions.map(|mut conditions| {
            conditions.retain(|condition| !UNREAD.contains(&condition.type_.as_str()));
            exact(conditions)
        });
        Self {
            phase: status.phase,
            conditions,
            nominated_node_name: status.nominated_node_name,
            start_time: status.start_time,
            container_statuses: status.container_statuses.map(with_resources),
            init_container_statuses: status.init_container_statuses.map(with_resources),
            resource_claim_statuses: status.resource_claim_statuses.map(exact),
            extended_resource_claim_status: status.extended_resource_claim_status,
            ..Self::default()
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadContainerStatus {
    #[serde(default)]
    name: String,
    resources: Option<ResourceRequirements>,
    allocated_resources: Option<BTreeMap<String, Quantity>>,
}

impl From<ReadContainerStatus> for ContainerStatus {
    fn from(read: ReadContainerStatus) -> Self {
        Self {
            name: read.name,
            resources: read.resources,
            allocated_resources: read.allocated_resources,
            ..Self::default()
        }
    }
}

/// Those that say what they were given; of others nothing is read.
fn with_resources(statuses: Vec<ReadContainerStatus>) -> Vec<ContainerStatus> {
    let says = |status: &ReadContainerStatus| status.resources.is_some();
    exact(statuses.into_iter().filter(says).map(Into::into).collect())
}

fn converted<A, B: From<A>>(list: Vec<A>) -> Vec<B> {
    exact(list.into_iter().map(Into::into).collect())
}

/// A list that is read element by element has room for four at least.
fn exact<T>(mut list: Vec<T>) -> Vec<T> {
    list.shrink_to_fit();
    list
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use karpenter_cluster::ingest::{self, Objects, Settings};
    use serde_json::{Value, json};

    use super::*;

    /// With something in every field that is read, and much that is not.
    fn whole() -> Value {
        let resources = |cpu: &str| {
            json!({
                "requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"memory": "2Gi"},
                "claims": [{"name": "gpu"}],
            })
        };
        let container = |name: &str, cpu: &str| {
            json!({
                "name": name, "image": "app", "command": ["run"], "args": ["fast"],
                "env": [{"name": "A", "value": "b"}], "resources": resources(cpu),
                "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                "readinessProbe": {"httpGet": {"path": "/", "port": 80}},
            })
        };
        let mut sidecar = container("sidecar", "200m");
        sidecar["restartPolicy"] = "Always".into();
        let given = |name: &str| {
            json!([{
                "name": name, "ready": true, "image": "app", "imageID": "x", "restartCount": 1,
                "resources": resources("700m"), "allocatedResources": {"cpu": "700m"},
            }])
        };
        let expression = json!({"key": "tier", "operator": "In", "values": ["a"]});
        let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}});
        json!({
            "metadata": {
                "name": "p", "generateName": "p-", "namespace": "n", "uid": "u", "generation": 3,
                "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
                "deletionTimestamp": "2026-01-02T00:00:00Z", "deletionGracePeriodSeconds": 30,
                "labels": {"app": "a"},
                "annotations": {
                    "karpenter.sh/do-not-disrupt": "30m", LAST_APPLIED: "{}",
                    "controller.kubernetes.io/pod-deletion-cost": "100",
                },
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "o",
                    "controller": true,
                }],
                "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:metadata": {}}}],
            },
            "spec": {
                "nodeSelector": {"disk": "ssd"}, "schedulerName": "default-scheduler",
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [expression]}],
                    }},
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
                },
                "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
                "topologySpreadConstraints": [{
                    "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": "a"}},
                }],
                "containers": [container("main", "500m")], "initContainers": [sidecar],
                "resources": {"requests": {"cpu": "1"}}, "overhead": {"cpu": "10m"},
                "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
                "volumes": [
                    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                    {"name": "scratch", "ephemeral": {}},
                    {"name": "token", "projected": {"sources": []}},
                ],
                "priority": 10, "priorityClassName": "system-node-critical",
                "terminationGracePeriodSeconds": 60, "serviceAccountName": "default",
            },
            "status": {
                "phase": "Running", "nominatedNodeName": "x", "startTime": "2026-01-01T00:00:05Z",
                "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "qosClass": "Burstable",
                "conditions": [
                    {"type": "Initialized", "status": "True"},
                    {"type": "Ready", "status": "False", "reason": "ContainersNotReady"},
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
                ],
                "containerStatuses": given("main"), "initContainerStatuses": given("sidecar"),
                "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "gpu"}],
            },
        })
    }

    fn read(json: Value) -> Pod {
        serde_json::from_value::<ReadPod>(json).unwrap().into()
    }

    #[test]
    fn decisions_see_the_same_as_in_the_whole_pod() {
        let settings = Settings::kwok(Timestamp::UNIX_EPOCH);
        let ingested = |pod: Pod| {
            let objects = Objects { pods: vec![pod], ..Objects::default() };
            let ingested = ingest::snapshot(&objects, &settings);
            (ingested.snapshot.pods.clone(), format!("{:?}", ingested.marked))
        };
        let (whole_pods, marked) = ingested(serde_json::from_value(whole()).unwrap());
        assert_eq!(whole_pods.len(), 1, "{marked}");
        assert_eq!(ingested(read(whole())), (whole_pods, marked));
    }

    #[test]
    fn nothing_is_kept_that_nobody_reads() {
        let kept = serde_json::to_value(read(whole())).unwrap();
        let expected = json!({
            "main": {"name": "main", "ports": [{
                "containerPort": 80, "hostPort": 8080, "protocol": "TCP",
            }]},
            "meta": ["annotations", "creationTimestamp", "deletionGracePeriodSeconds",
                "deletionTimestamp", "labels", "name", "namespace", "ownerReferences",
                "resourceVersion", "uid"],
            "conditions": ["Ready", "PodScheduled"], "volumes": ["data", "scratch"],
        });
        let mut main = kept["spec"]["containers"][0].clone();
        main.as_object_mut().unwrap().remove("resources");
        let names = |list: &Value, field: &str| -> Vec<Value> {
            list.as_array().unwrap().iter().map(|one| one[field].clone()).collect()
        };
        let found = json!({
            "main": main,
            "meta": kept["metadata"].as_object().unwrap().keys().collect::<Vec<_>>(),
            "conditions": names(&kept["status"]["conditions"], "type"),
            "volumes": names(&kept["spec"]["volumes"], "name"),
        });
        assert_eq!(found, expected);
        assert!(kept["metadata"]["annotations"].get(LAST_APPLIED).is_none());
    }

    #[test]
    fn a_pod_may_lack_everything() {
        for json in
            [json!({}), json!({"metadata": {}, "spec": {"containers": null}, "status": null})]
        {
            assert_eq!(read(json).metadata, ObjectMeta::default());
        }
    }
}
