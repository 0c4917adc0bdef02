//! KWOKNodeClass (`karpenter.kwok.sh/v1alpha1`): nodes that no cloud has to make.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::grammar::Duration;
use crate::schema;

/// Desired state of a KWOKNodeClass; usually absent as a whole.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.kwok.sh",
    version = "v1alpha1",
    kind = "KWOKNodeClass",
    root = "KwokNodeClass",
    plural = "kwoknodeclasses",
    shortname = "kwoknc",
    shortname = "kwokncs",
    category = "karpenter",
    status = "KwokNodeClassStatus",
    doc = "A KWOKNodeClass makes nodes that exist in the Kubernetes API alone.",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct KwokNodeClassSpec {
    /// Time between the launch of a node and its registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = schema::DURATION_PATTERN))]
    pub node_registration_delay: Option<Duration>,
}

crate::serde_default::absent_is_default!(KwokNodeClassSpec);

/// Observed state of a KWOKNodeClass. No controller writes it: the schema's default makes every
/// class ready at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("default" = json!({"conditions": [{
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": "2024-01-01T01:01:01Z",
}]})))]
pub struct KwokNodeClassStatus {
    /// Conditions of the node class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain_conditions")]
    pub conditions: Option<Vec<Condition>>,
}
