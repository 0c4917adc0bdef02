//! The reference from a pool or a claim to the provider's node class.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Names the node class of a NodePool or NodeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeClassRef {
    /// Kind of the node class, for example EC2NodeClass.
    #[schemars(extend("x-kubernetes-validations" = schema::rules(&[("self != ''", "kind may not be empty")])))]
    pub kind: String,
    /// Name of the node class.
    #[schemars(extend("x-kubernetes-validations" = schema::rules(&[("self != ''", "name may not be empty")])))]
    pub name: String,
    /// API group of the node class, without a version.
    #[schemars(extend(
        "pattern" = "^[^/]*$",
        "x-kubernetes-validations" = schema::rules(&[("self != ''", "group may not be empty")]),
    ))]
    pub group: String,
}
