//! NodePool (`karpenter.sh/v1`): what nodes may be made, how many, and how they may be disrupted.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::grammar::{Duration, NillableDuration, Quantity};
use crate::node_class_ref::NodeClassRef;
use crate::requirement::Requirement;
use crate::{reasons, schema};

/// Desired state of a NodePool.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodePool",
    plural = "nodepools",
    category = "karpenter",
    status = "NodePoolStatus",
    doc = "A NodePool describes nodes that may be launched for pending pods, and when they may go.",
    derive = "PartialEq",
    derive = "Default",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.nodes"),
    printcolumn(
        name = "NodeClass",
        type_ = "string",
        json_path = ".spec.template.spec.nodeClassRef.name"
    ),
    printcolumn(name = "Nodes", type_ = "string", json_path = ".status.nodes"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Weight", type_ = "integer", json_path = ".spec.weight", priority = 1),
    printcolumn(name = "CPU", type_ = "string", json_path = ".status.resources.cpu", priority = 1),
    printcolumn(
        name = "Memory",
        type_ = "string",
        json_path = ".status.resources.memory",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rules(&[
    (
        "has(self.replicas) == has(oldSelf.replicas)",
        "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes",
    ),
    (
        "!has(self.replicas) || !has(self.limits) || self.limits.all(r, r == 'nodes')",
        "only 'limits.nodes' is supported on static NodePools",
    ),
    ("!has(self.replicas) || !has(self.weight)", "'weight' is not supported on static NodePools"),
])))]
pub struct NodePoolSpec {
    /// What the NodeClaims of this pool are made from. A change of it, requirements apart, drifts
    /// the pool's nodes.
    pub template: NodeClaimTemplate,
    /// When and how fast the pool's nodes may be disrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = json!({"consolidateAfter": "0s"})))]
    pub disruption: Option<Disruption>,
    /// Most resources that the pool's nodes may have together; `nodes` counts nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<BTreeMap<String, Quantity>>,
    /// Pools of a higher weight are tried first; absent counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub weight: Option<i32>,
    /// Keeps exactly this many nodes, whatever the pods ask for (alpha, gate StaticCapacity).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i64>,
}

/// What the NodeClaims of a pool are made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeClaimTemplate {
    /// Labels and annotations of the NodeClaims and their nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMeta>,
    /// Desired state of the NodeClaims.
    pub spec: NodeClaimTemplateSpec,
}

/// Labels and annotations that a pool hands on.
///
/// Absent and empty maps are kept apart: they hash differently (spec 10 §12.2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateMeta {
    /// Labels of every NodeClaim and node of the pool; each also counts as a requirement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "template_labels")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations of every NodeClaim and node of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "granular"))]
    pub annotations: Option<BTreeMap<String, String>>,
}

fn template_labels(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({
        "type": "object",
        "additionalProperties": {
            "type": "string",
            "maxLength": 63,
            "pattern": schema::LABEL_VALUE_PATTERN,
        },
        "maxProperties": 100,
        "x-kubernetes-map-type": "atomic",
        "x-kubernetes-validations": schema::label_map_rules(),
    })
}

/// Desired state of the NodeClaims of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    /// Taints of the pool's nodes; pods have to tolerate them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::taint_list")]
    pub taints: Option<Vec<Taint>>,
    /// Taints that something else removes while a node starts; pods need not tolerate them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::taint_list")]
    pub startup_taints: Option<Vec<Taint>>,
    /// What labels a node of this pool may have: instance types, zones, capacity types and more.
    #[schemars(schema_with = "requirements")]
    pub requirements: Vec<Requirement>,
    /// The node class that says how the provider makes these nodes.
    #[schemars(schema_with = "immutable_node_class_ref")]
    pub node_class_ref: NodeClassRef,
    /// Longest time that a node may take to drain before it is removed with what is left on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = schema::DURATION_PATTERN))]
    pub termination_grace_period: Option<Duration>,
    /// Age at which a node is drained and replaced, or Never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "720h", "pattern" = schema::NILLABLE_DURATION_PATTERN))]
    pub expire_after: Option<NillableDuration>,
}

fn requirements(generator: &mut SchemaGenerator) -> Schema {
    schema::requirements::<Requirement>(
        generator,
        &schema::key_rules(true),
        &schema::requirement_rules(),
    )
}

fn immutable_node_class_ref(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = NodeClassRef::json_schema(generator);
    schema.insert(
        "x-kubernetes-validations".into(),
        schema::rules(&[
            ("self.group == oldSelf.group", "nodeClassRef.group is immutable"),
            ("self.kind == oldSelf.kind", "nodeClassRef.kind is immutable"),
        ]),
    );
    schema
}

/// When and how fast the nodes of a pool may be disrupted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// How long a node has to be free of pod changes before it may be consolidated, or Never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "0s", "pattern" = schema::NILLABLE_DURATION_PATTERN))]
    pub consolidate_after: Option<NillableDuration>,
    /// Which nodes consolidation looks at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "default" = "WhenEmptyOrUnderutilized",
        "enum" = ["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"],
    ))]
    pub consolidation_policy: Option<String>,
    /// Bounds on how many nodes are disrupted at once; the tightest active one wins. An empty list
    /// sets no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 50), extend(
        "default" = json!([{"nodes": "10%"}]),
        "x-kubernetes-list-type" = "atomic",
        "x-kubernetes-validations" = schema::rules(&[
            ("self.all(b, has(b.schedule) == has(b.duration))", "'schedule' must be set with 'duration'"),
        ]),
    ))]
    pub budgets: Option<Vec<Budget>>,
}

/// How many nodes of a pool may be disrupted at once, and when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Reasons that the budget counts for; absent means every reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "budget_reasons")]
    pub reasons: Option<Vec<String>>,
    /// A number of nodes, or a percentage of the pool's nodes, rounded up.
    #[schemars(extend("default" = "10%", "pattern" = "^((100|[0-9]{1,2})%|[0-9]+)$"))]
    pub nodes: String,
    /// UTC cron schedule at which the budget becomes active; goes with duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$"))]
    pub schedule: Option<String>,
    /// How long the budget stays active after each firing of the schedule: hours and minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"))]
    pub duration: Option<Duration>,
}

fn budget_reasons(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({
        "type": "array",
        "items": {"type": "string", "enum": BUDGET_REASONS},
        "maxItems": 50,
        "x-kubernetes-list-type": "set",
    })
}

/// Reasons for disruption that a budget may name.
pub const BUDGET_REASONS: [&str; 4] = [
    reasons::disruption::UNDERUTILIZED,
    reasons::disruption::EMPTY,
    reasons::disruption::DRIFTED,
    reasons::disruption::UNHEALTHY,
];

/// Observed state of a NodePool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// Resources of the pool's nodes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<BTreeMap<String, Quantity>>,
    /// Number of the pool's nodes.
    #[serde(default)]
    #[schemars(extend("default" = 0))]
    pub nodes: i64,
    /// Generation of the node class that registration health was last judged for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    /// Conditions of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Option<Vec<Condition>>,
}
