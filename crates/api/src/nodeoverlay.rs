//! NodeOverlay (`karpenter.sh/v1alpha1`, gate NodeOverlay): corrections of what the provider says
//! about instance types.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::grammar::Quantity;
use crate::requirement::OverlayRequirement;
use crate::schema;

/// Desired state of a NodeOverlay.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1alpha1",
    kind = "NodeOverlay",
    plural = "nodeoverlays",
    shortname = "overlays",
    category = "karpenter",
    status = "NodeOverlayStatus",
    doc = "A NodeOverlay changes the price or adds resources of the instance types that it selects.",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Weight", type_ = "integer", json_path = ".spec.weight", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rules(&[
    ("!has(self.price) || !has(self.priceAdjustment)", "cannot set both 'price' and 'priceAdjustment'"),
])))]
pub struct NodeOverlaySpec {
    /// Which instance types and offerings the overlay selects.
    #[schemars(schema_with = "requirements")]
    pub requirements: Vec<OverlayRequirement>,
    /// A change of the price: a signed number, or a signed percentage not below -100%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$"))]
    pub price_adjustment: Option<String>,
    /// A price that replaces the provider's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = r"^\d+(\.\d+)?$"))]
    pub price: Option<String>,
    /// Extended resources that the selected instance types have besides the known ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = schema::rules(&[(
        "self.all(r, !(r in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",
        "invalid resource restricted",
    )])))]
    pub capacity: Option<BTreeMap<String, Quantity>>,
    /// Overlays of a higher weight win; absent counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub weight: Option<i32>,
}

fn requirements(generator: &mut SchemaGenerator) -> Schema {
    schema::requirements::<OverlayRequirement>(
        generator,
        &schema::key_rules(false),
        &schema::overlay_requirement_rules(),
    )
}

/// Observed state of a NodeOverlay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeOverlayStatus {
    /// Conditions of the overlay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Option<Vec<Condition>>,
}
