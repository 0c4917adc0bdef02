//! One line of a `requirements` list, as NodePool, NodeClaim and NodeOverlay write it.
//!
//! Texts stay texts here: a bad operator or number is reported by admission or by
//! [`crate::validation`], and must never make an object unreadable. What requirements *mean* is in
//! `karpenter-core`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{KEY_PATTERN, LABEL_VALUE_PATTERN};

/// Every operator that a requirement may use, in the order that the schema lists them.
pub const OPERATORS: [&str; 8] =
    ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"];

/// A constraint on one label key of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// Label key that the constraint is about.
    #[schemars(length(max = 316), extend("pattern" = KEY_PATTERN))]
    pub key: String,
    /// Relation between the key and the values.
    #[schemars(extend("enum" = OPERATORS))]
    pub operator: String,
    /// Values for In and NotIn; one integer for Gt, Lt, Gte and Lte; none for Exists and
    /// DoesNotExist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic", "maxLength" = 63, "pattern" = LABEL_VALUE_PATTERN))]
    pub values: Option<Vec<String>>,
    /// How many different values of the key the instance types of a launch have to offer (alpha).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::min_values")]
    pub min_values: Option<i64>,
}

/// A requirement of a NodeOverlay, which has no `minValues`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverlayRequirement {
    /// Label key that the constraint is about.
    #[schemars(length(max = 316), extend("pattern" = KEY_PATTERN))]
    pub key: String,
    /// Relation between the key and the values.
    #[schemars(extend("enum" = OPERATORS))]
    pub operator: String,
    /// Values for In and NotIn; one integer for Gt, Lt, Gte and Lte; none for Exists and
    /// DoesNotExist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic", "maxLength" = 63, "pattern" = LABEL_VALUE_PATTERN))]
    pub values: Option<Vec<String>>,
}
