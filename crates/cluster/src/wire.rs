//! Wire types of pods with only the fields that decisions, drains and metrics read.
//!
//! Most of a pod describes what its containers run, with which files and variables, and field
//! ownership. Deserialization skips the fields that these types do not name. Types with all fields
//! would be large even where these are empty: 2.1 KB for a container, 2.4 KB for a pod. The types
//! here have the names of the full types and of their fields.
//!
//! Invariant: the types name every pod field that the product reads. A test reads full pods and
//! these and compares.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{
    self as whole, Affinity, ContainerPort, EphemeralVolumeSource,
    PersistentVolumeClaimVolumeSource, PodCondition, PodExtendedResourceClaimStatus,
    PodResourceClaim, PodResourceClaimStatus, PodSchedulingGate, ResourceRequirements, Toleration,
    TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The annotation in which `kubectl apply` stores the applied object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Conditions that no code reads. Kubelets set them on every pod.
const DROPPED_CONDITIONS: [&str; 3] =
    ["Initialized", "ContainersReady", "PodReadyToStartContainers"];

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "Pod")]
pub struct Pod {
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<PodSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<PodStatus>,
}

impl k8s_openapi::Resource for Pod {
    const API_VERSION: &'static str = <whole::Pod as k8s_openapi::Resource>::API_VERSION;
    const GROUP: &'static str = <whole::Pod as k8s_openapi::Resource>::GROUP;
    const KIND: &'static str = <whole::Pod as k8s_openapi::Resource>::KIND;
    const VERSION: &'static str = <whole::Pod as k8s_openapi::Resource>::VERSION;
    const URL_PATH_SEGMENT: &'static str = <whole::Pod as k8s_openapi::Resource>::URL_PATH_SEGMENT;
    type Scope = NamespaceResourceScope;
}

impl k8s_openapi::Metadata for Pod {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl From<&whole::Pod> for Pod {
    fn from(pod: &whole::Pod) -> Self {
        Self {
            metadata: pod.metadata.clone(),
            spec: pod.spec.as_ref().map(Into::into),
            status: pod.status.as_ref().map(Into::into),
        }
    }
}

/// The requests and constraints of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "PodSpec")]
pub struct PodSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Shared by the pods that `plan` generates from one template.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "serialize_shared",
        deserialize_with = "deserialize_shared"
    )]
    pub affinity: Option<Arc<Affinity>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "shrunk_list")]
    pub tolerations: Option<Vec<Toleration>>,
    /// Shared like the affinity.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "serialize_shared",
        deserialize_with = "shared_list"
    )]
    pub topology_spread_constraints: Option<Arc<Vec<TopologySpreadConstraint>>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "shrunk_list")]
    pub scheduling_gates: Option<Vec<PodSchedulingGate>>,
    #[serde(deserialize_with = "containers")]
    pub containers: Vec<Container>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "shrunk_list")]
    pub init_containers: Option<Vec<Container>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overhead: Option<BTreeMap<String, Quantity>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "shrunk_list")]
    pub resource_claims: Option<Vec<PodResourceClaim>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "claim_volumes")]
    pub volumes: Option<Vec<Volume>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
}

impl From<&whole::PodSpec> for PodSpec {
    fn from(whole: &whole::PodSpec) -> Self {
        Self {
            node_name: whole.node_name.clone(),
            node_selector: whole.node_selector.clone(),
            affinity: whole.affinity.clone().map(Arc::new),
            tolerations: whole.tolerations.clone(),
            topology_spread_constraints: whole.topology_spread_constraints.clone().map(Arc::new),
            scheduling_gates: whole.scheduling_gates.clone(),
            containers: whole.containers.iter().map(Into::into).collect(),
            init_containers: converted(whole.init_containers.as_ref()),
            resources: whole.resources.clone(),
            overhead: whole.overhead.clone(),
            resource_claims: whole.resource_claims.clone(),
            volumes: converted(whole.volumes.as_ref()).map(retain_claim_volumes),
            priority: whole.priority,
            priority_class_name: whole.priority_class_name.clone(),
            termination_grace_period_seconds: whole.termination_grace_period_seconds,
        }
    }
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "Container")]
pub struct Container {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "shrunk_list")]
    pub ports: Option<Vec<ContainerPort>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
}

impl From<&whole::Container> for Container {
    fn from(whole: &whole::Container) -> Self {
        Self {
            name: whole.name.clone(),
            resources: whole.resources.clone(),
            ports: whole.ports.clone(),
            restart_policy: whole.restart_policy.clone(),
        }
    }
}

/// A volume that is, or makes, a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "Volume")]
pub struct Volume {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<PersistentVolumeClaimVolumeSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<Box<EphemeralVolumeSource>>,
}

impl From<&whole::Volume> for Volume {
    fn from(whole: &whole::Volume) -> Self {
        Self {
            name: whole.name.clone(),
            persistent_volume_claim: whole.persistent_volume_claim.clone(),
            ephemeral: whole.ephemeral.clone().map(Box::new),
        }
    }
}

/// Where a pod is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "PodStatus")]
pub struct PodStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "read_conditions")]
    pub conditions: Option<Vec<PodCondition>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominated_node_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "statuses_with_resources")]
    pub container_statuses: Option<Vec<ContainerStatus>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "statuses_with_resources")]
    pub init_container_statuses: Option<Vec<ContainerStatus>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "shrunk_list")]
    pub resource_claim_statuses: Option<Vec<PodResourceClaimStatus>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extended_resource_claim_status: Option<PodExtendedResourceClaimStatus>,
}

impl From<&whole::PodStatus> for PodStatus {
    fn from(whole: &whole::PodStatus) -> Self {
        Self {
            phase: whole.phase.clone(),
            conditions: whole.conditions.clone().map(retain_read_conditions),
            nominated_node_name: whole.nominated_node_name.clone(),
            start_time: whole.start_time.clone(),
            container_statuses: converted(whole.container_statuses.as_ref())
                .map(retain_statuses_with_resources),
            init_container_statuses: converted(whole.init_container_statuses.as_ref())
                .map(retain_statuses_with_resources),
            resource_claim_statuses: whole.resource_claim_statuses.clone(),
            extended_resource_claim_status: whole.extended_resource_claim_status.clone(),
        }
    }
}

/// What a container was given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "ContainerStatus")]
pub struct ContainerStatus {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_resources: Option<BTreeMap<String, Quantity>>,
}

impl From<&whole::ContainerStatus> for ContainerStatus {
    fn from(whole: &whole::ContainerStatus) -> Self {
        Self {
            name: whole.name.clone(),
            resources: whole.resources.clone(),
            allocated_resources: whole.allocated_resources.clone(),
        }
    }
}

/// The metadata fields that are read.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "ObjectMeta")]
struct PodMetadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    #[serde(deserialize_with = "shrunk_list")]
    owner_references: Option<Vec<OwnerReference>>,
}

impl From<PodMetadata> for ObjectMeta {
    fn from(meta: PodMetadata) -> Self {
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
            owner_references: meta.owner_references,
            ..Self::default()
        }
    }
}

fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    PodMetadata::deserialize(deserializer).map(Into::into)
}

fn converted<'a, A, B: From<&'a A>>(list: Option<&'a Vec<A>>) -> Option<Vec<B>> {
    Some(list?.iter().map(Into::into).collect())
}

/// Drops all volumes except persistent volume claims and ephemeral volumes.
fn retain_claim_volumes(mut volumes: Vec<Volume>) -> Vec<Volume> {
    volumes.retain(|volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some());
    volumes
}

fn retain_read_conditions(mut conditions: Vec<PodCondition>) -> Vec<PodCondition> {
    conditions.retain(|condition| !DROPPED_CONDITIONS.contains(&condition.type_.as_str()));
    conditions
}

/// Drops container statuses without resources.
fn retain_statuses_with_resources(mut statuses: Vec<ContainerStatus>) -> Vec<ContainerStatus> {
    statuses.retain(|status| status.resources.is_some());
    statuses
}

/// Reads a list without spare capacity; element-wise reading reserves at least four elements.
fn shrunk_list<'de, T, D>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    shrunk_list_after(deserializer, |list| list)
}

fn shrunk_list_after<'de, T, D>(
    deserializer: D,
    change: impl FnOnce(Vec<T>) -> Vec<T>,
) -> Result<Option<Vec<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let list = Option::<Vec<T>>::deserialize(deserializer)?;
    Ok(list.map(|list| {
        let mut list = change(list);
        list.shrink_to_fit();
        list
    }))
}

fn shared_list<'de, T, D>(deserializer: D) -> Result<Option<Arc<Vec<T>>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(shrunk_list(deserializer)?.map(Arc::new))
}

fn deserialize_shared<'de, T, D>(deserializer: D) -> Result<Option<Arc<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.map(Arc::new))
}

#[expect(clippy::ref_option, reason = "serde passes the field")]
fn serialize_shared<T: Serialize, S: Serializer>(
    value: &Option<Arc<T>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.as_deref().serialize(serializer)
}

fn containers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Container>, D::Error> {
    shrunk_list(deserializer).map(Option::unwrap_or_default)
}

fn claim_volumes<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<Volume>>, D::Error> {
    shrunk_list_after(deserializer, retain_claim_volumes)
}

fn read_conditions<'de, D>(deserializer: D) -> Result<Option<Vec<PodCondition>>, D::Error>
where
    D: Deserializer<'de>,
{
    shrunk_list_after(deserializer, retain_read_conditions)
}

fn statuses_with_resources<'de, D>(
    deserializer: D,
) -> Result<Option<Vec<ContainerStatus>>, D::Error>
where
    D: Deserializer<'de>,
{
    shrunk_list_after(deserializer, retain_statuses_with_resources)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::ingest::test_settings::test_settings;
    use crate::ingest::{self, Objects};

    /// Returns a pod with a value in every field that is read, and in many others.
    fn full_pod() -> Value {
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
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn ingest_of_a_trimmed_pod_equals_ingest_of_the_full_pod() {
        let settings = test_settings(Timestamp::UNIX_EPOCH);
        let ingested = |pod: Pod| {
            let objects = Objects { pods: vec![pod], ..Objects::default() };
            let ingested = ingest::snapshot(&objects, &settings);
            (ingested.snapshot.pods.clone(), format!("{:?}", ingested.diagnostics))
        };
        let (whole_pods, marked) =
            ingested((&serde_json::from_value::<whole::Pod>(full_pod()).unwrap()).into());
        assert_eq!(whole_pods.len(), 1, "{marked}");
        assert_eq!(ingested(read(full_pod())), (whole_pods, marked));
    }

    #[test]
    fn unused_pod_fields_are_dropped() {
        let kept = serde_json::to_value(read(full_pod())).unwrap();
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
    fn an_empty_pod_is_decoded() {
        for json in
            [json!({}), json!({"metadata": {}, "spec": {"containers": null}, "status": null})]
        {
            assert_eq!(read(json).metadata, ObjectMeta::default());
        }
    }
}
