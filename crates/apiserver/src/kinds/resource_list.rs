//! Lists the built-in resources, as API discovery returns them.

use super::built_in_kind::BuiltInKind;
use super::{
    KindDefinition, Resource, Subresource, apps, batch, core, crd, event, node, pod, policy, rbac,
};
use super::{dynamic_resources, review, scheduling, service, storage, types};
use crate::type_model::Types;

/// A built-in resource.
struct ResourceRow {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    namespaced: bool,
    subresources: &'static [Subresource],
    built_in_kind: &'static BuiltInKind,
}

/// Returns the built-in types and the resources that are served from the start.
pub fn built_in_resources() -> (Types, Vec<Resource>) {
    let types = types().clone();
    let resources = ROWS
        .iter()
        .map(|row| Resource {
            group: row.group.into(),
            version: "v1".into(),
            plural: row.plural.into(),
            singular: row.kind.to_lowercase().into(),
            kind: row.kind.into(),
            list_kind: format!("{}List", row.kind).into(),
            short_names: row.short_names.iter().map(|&name| name.into()).collect(),
            categories: row.categories.iter().map(|&name| name.into()).collect(),
            namespaced: row.namespaced,
            subresources: row.subresources.to_vec(),
            type_id: types
                .find_by_name(row.built_in_kind.type_name)
                .expect("the table has the type of every row"),
            definition: KindDefinition::BuiltIn(row.built_in_kind),
        })
        .collect();
    (types, resources)
}

/// Returns the rules of the built-in kind that `apiVersion` and `kind` name.
pub(super) fn find_built_in_kind(api_version: &str, kind: &str) -> Option<&'static BuiltInKind> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let named = |row: &&ResourceRow| version == "v1" && row.kind == kind && row.group == group;
    ROWS.iter().find(named).map(|row| row.built_in_kind)
}

const CORE: &str = "";
const APPS: &str = "apps";
const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const DEVICES: &str = "resource.k8s.io";

const ALL: &[&str] = &["all"];
const NAMESPACED: bool = true;
const CLUSTER: bool = false;

use Subresource::{
    Binding, EphemeralContainers, Eviction, Finalize, Log, Resize, Scale, Status, Token,
};

const fn row(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    namespaced: bool,
    subresources: &'static [Subresource],
    rules: &'static BuiltInKind,
) -> ResourceRow {
    ResourceRow {
        group,
        kind,
        plural,
        short_names,
        categories: &[],
        namespaced,
        subresources,
        built_in_kind: rules,
    }
}

impl ResourceRow {
    const fn in_categories(mut self, categories: &'static [&'static str]) -> Self {
        self.categories = categories;
        self
    }
}

#[rustfmt::skip]
const ROWS: &[ResourceRow] = &[
    row(CORE, "ConfigMap", "configmaps", &["cm"], NAMESPACED, &[], &core::CONFIG_MAP),
    row(CORE, "Endpoints", "endpoints", &["ep"], NAMESPACED, &[], &core::ENDPOINTS),
    row(CORE, "Event", "events", &["ev"], NAMESPACED, &[], &event::EVENT),
    row(CORE, "LimitRange", "limitranges", &["limits"], NAMESPACED, &[], &core::LIMIT_RANGE),
    row(CORE, "Namespace", "namespaces", &["ns"], CLUSTER, &[Status, Finalize], &core::NAMESPACE),
    row(CORE, "Node", "nodes", &["no"], CLUSTER, &[Status], &node::NODE),
    row(CORE, "PersistentVolumeClaim", "persistentvolumeclaims", &["pvc"], NAMESPACED, &[Status], &storage::PERSISTENT_VOLUME_CLAIM),
    row(CORE, "PersistentVolume", "persistentvolumes", &["pv"], CLUSTER, &[Status], &storage::PERSISTENT_VOLUME),
    row(CORE, "Pod", "pods", &["po"], NAMESPACED, &[Status, Binding, Eviction, Resize, EphemeralContainers, Log], &pod::POD).in_categories(ALL),
    row(CORE, "PodTemplate", "podtemplates", &[], NAMESPACED, &[], &core::POD_TEMPLATE),
    row(CORE, "ReplicationController", "replicationcontrollers", &["rc"], NAMESPACED, &[Status, Scale], &apps::REPLICATION_CONTROLLER).in_categories(ALL),
    row(CORE, "ResourceQuota", "resourcequotas", &["quota"], NAMESPACED, &[Status], &core::RESOURCE_QUOTA),
    row(CORE, "Secret", "secrets", &[], NAMESPACED, &[], &core::SECRET),
    row(CORE, "ServiceAccount", "serviceaccounts", &["sa"], NAMESPACED, &[Token], &core::SERVICE_ACCOUNT),
    row(CORE, "Service", "services", &["svc"], NAMESPACED, &[Status], &service::SERVICE).in_categories(ALL),
    row("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", &["crd", "crds"], CLUSTER, &[Status], &crd::CUSTOM_RESOURCE_DEFINITION).in_categories(&["api-extensions"]),
    row(APPS, "ControllerRevision", "controllerrevisions", &[], NAMESPACED, &[], &apps::CONTROLLER_REVISION),
    row(APPS, "DaemonSet", "daemonsets", &["ds"], NAMESPACED, &[Status], &apps::DAEMON_SET).in_categories(ALL),
    row(APPS, "Deployment", "deployments", &["deploy"], NAMESPACED, &[Status, Scale], &apps::DEPLOYMENT).in_categories(ALL),
    row(APPS, "ReplicaSet", "replicasets", &["rs"], NAMESPACED, &[Status, Scale], &apps::REPLICA_SET).in_categories(ALL),
    row(APPS, "StatefulSet", "statefulsets", &["sts"], NAMESPACED, &[Status, Scale], &apps::STATEFUL_SET).in_categories(ALL),
    row(AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews", &[], CLUSTER, &[], &review::SELF_SUBJECT_REVIEW),
    row(AUTHORIZATION, "LocalSubjectAccessReview", "localsubjectaccessreviews", &[], NAMESPACED, &[], &review::LOCAL_SUBJECT_ACCESS_REVIEW),
    row(AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews", &[], CLUSTER, &[], &review::SELF_SUBJECT_ACCESS_REVIEW),
    row(AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews", &[], CLUSTER, &[], &review::SELF_SUBJECT_RULES_REVIEW),
    row(AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews", &[], CLUSTER, &[], &review::SUBJECT_ACCESS_REVIEW),
    row("batch", "CronJob", "cronjobs", &["cj"], NAMESPACED, &[Status], &batch::CRON_JOB).in_categories(ALL),
    row("batch", "Job", "jobs", &[], NAMESPACED, &[Status], &batch::JOB).in_categories(ALL),
    row("coordination.k8s.io", "Lease", "leases", &[], NAMESPACED, &[], &core::LEASE),
    row("discovery.k8s.io", "EndpointSlice", "endpointslices", &[], NAMESPACED, &[], &core::ENDPOINT_SLICE),
    row("events.k8s.io", "Event", "events", &["ev"], NAMESPACED, &[], &event::EVENTS_V1_EVENT),
    row("node.k8s.io", "RuntimeClass", "runtimeclasses", &[], CLUSTER, &[], &scheduling::RUNTIME_CLASS),
    row("policy", "PodDisruptionBudget", "poddisruptionbudgets", &["pdb"], NAMESPACED, &[Status], &policy::POD_DISRUPTION_BUDGET),
    row(RBAC, "ClusterRoleBinding", "clusterrolebindings", &[], CLUSTER, &[], &rbac::CLUSTER_ROLE_BINDING),
    row(RBAC, "ClusterRole", "clusterroles", &[], CLUSTER, &[], &rbac::CLUSTER_ROLE),
    row(RBAC, "RoleBinding", "rolebindings", &[], NAMESPACED, &[], &rbac::ROLE_BINDING),
    row(RBAC, "Role", "roles", &[], NAMESPACED, &[], &rbac::ROLE),
    row(DEVICES, "DeviceClass", "deviceclasses", &[], CLUSTER, &[], &dynamic_resources::DEVICE_CLASS),
    row(DEVICES, "ResourceClaim", "resourceclaims", &[], NAMESPACED, &[Status], &dynamic_resources::RESOURCE_CLAIM),
    row(DEVICES, "ResourceClaimTemplate", "resourceclaimtemplates", &[], NAMESPACED, &[], &dynamic_resources::RESOURCE_CLAIM_TEMPLATE),
    row(DEVICES, "ResourceSlice", "resourceslices", &[], CLUSTER, &[], &dynamic_resources::RESOURCE_SLICE),
    row("scheduling.k8s.io", "PriorityClass", "priorityclasses", &["pc"], CLUSTER, &[], &scheduling::PRIORITY_CLASS),
    row(STORAGE, "CSIDriver", "csidrivers", &[], CLUSTER, &[], &storage::CSI_DRIVER),
    row(STORAGE, "CSINode", "csinodes", &[], CLUSTER, &[], &storage::CSI_NODE),
    row(STORAGE, "CSIStorageCapacity", "csistoragecapacities", &[], NAMESPACED, &[], &storage::CSI_STORAGE_CAPACITY),
    row(STORAGE, "StorageClass", "storageclasses", &["sc"], CLUSTER, &[], &storage::STORAGE_CLASS),
    row(STORAGE, "VolumeAttachment", "volumeattachments", &[], CLUSTER, &[Status], &storage::VOLUME_ATTACHMENT),
];
