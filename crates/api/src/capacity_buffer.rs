//! CapacityBuffer (`autoscaling.x-k8s.io/v1beta1`, gate CapacityBuffer): spare capacity that is
//! kept ready for pods that are not there yet.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::grammar::Quantity;
use crate::schema;

/// The one provisioning strategy there is.
pub const ACTIVE_CAPACITY: &str = "buffer.x-k8s.io/active-capacity";

/// Desired state of a CapacityBuffer.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "autoscaling.x-k8s.io",
    version = "v1beta1",
    kind = "CapacityBuffer",
    plural = "capacitybuffers",
    shortname = "cb",
    category = "autoscaling",
    namespaced,
    status = "CapacityBufferStatus",
    doc = "A CapacityBuffer keeps room for a number of pods free in the cluster.",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(
        name = "Strategy",
        type_ = "string",
        json_path = ".spec.provisioningStrategy",
        description = "How the buffer's capacity is provided."
    ),
    printcolumn(
        name = "PodTemplate",
        type_ = "string",
        json_path = ".status.podTemplateRef.name",
        description = "PodTemplate that the buffer's pods are made from."
    ),
    printcolumn(
        name = "Replicas",
        type_ = "integer",
        json_path = ".status.replicas",
        description = "Number of pods that the buffer keeps room for."
    ),
    printcolumn(
        name = "ConditionsType",
        type_ = "string",
        json_path = ".status.conditions[*].type",
        description = "Names of the conditions."
    ),
    printcolumn(
        name = "ConditionsStatus",
        type_ = "string",
        json_path = ".status.conditions[*].status",
        description = "Statuses of the conditions, in the same order."
    ),
    printcolumn(
        name = "ConditionsReason",
        type_ = "string",
        json_path = ".status.conditions[*].reason",
        description = "Reasons of the conditions, in the same order."
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since the buffer was created."
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rules(&[
    (
        "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
        "If podTemplateRef is set, replicas or limits must also be set",
    ),
    (
        "!has(self.podTemplateRef) || !has(self.scalableRef)",
        "You must define either PodTemplateRef or ScalableRef, but not both",
    ),
])))]
pub struct CapacityBufferSpec {
    /// How the capacity is provided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = ACTIVE_CAPACITY))]
    pub provisioning_strategy: Option<String>,
    /// PodTemplate of the same namespace that the buffer's pods are made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectRef>,
    /// Workload of the same namespace whose pods the buffer's pods resemble.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scalable_ref: Option<ScalableRef>,
    /// Number of pods to keep room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// Share of the workload's replicas to keep room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub percentage: Option<i32>,
    /// Most resources that the buffer's pods may request together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<BTreeMap<String, Quantity>>,
}

/// Names an object of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LocalObjectRef {
    /// Name of the object.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// Names a workload of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalableRef {
    /// API group of the workload; absent means apps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Deployment, StatefulSet or ReplicaSet.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Name of the workload.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// Observed state of a CapacityBuffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferStatus {
    /// PodTemplate that the buffer's pods were made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectRef>,
    /// Number of pods that the buffer keeps room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Generation of the PodTemplate that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_generation: Option<i64>,
    /// Conditions of the buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Option<Vec<Condition>>,
    /// Strategy that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
}
