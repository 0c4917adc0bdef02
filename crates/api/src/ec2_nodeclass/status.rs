//! What the selectors of an EC2NodeClass found.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Observed state of an EC2NodeClass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ec2NodeClassStatus {
    /// Subnets that were found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnets: Option<Vec<Subnet>>,
    /// Security groups that were found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<Vec<SecurityGroup>>,
    /// Capacity reservations that were found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_reservations: Option<Vec<CapacityReservation>>,
    /// Images that were found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amis: Option<Vec<Ami>>,
    /// Instance profile of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_profile: Option<String>,
    /// Conditions of the node class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain_conditions")]
    pub conditions: Option<Vec<Condition>>,
}

/// A subnet that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Subnet {
    /// Id of the subnet.
    pub id: String,
    /// Name of its zone.
    pub zone: String,
    /// Id of its zone, the same in every account.
    #[serde(default, rename = "zoneID", skip_serializing_if = "Option::is_none")]
    pub zone_id: Option<String>,
}

/// A security group that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecurityGroup {
    /// Id of the security group.
    pub id: String,
    /// Name of the security group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// An image that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ami {
    /// Id of the image.
    pub id: String,
    /// Whether its owner deprecated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<bool>,
    /// Name of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Instance types that the image fits.
    pub requirements: Vec<AmiRequirement>,
}

/// One requirement of an image, without constraints of its own in the schema.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AmiRequirement {
    /// Label key that the constraint is about.
    pub key: String,
    /// Relation between the key and the values.
    pub operator: String,
    /// Values of the relation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Option<Vec<String>>,
}

/// A capacity reservation that was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservation {
    /// Zone of the reserved instances.
    pub availability_zone: String,
    /// When the reservation ends; absent if it is open-ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub end_time: Option<Time>,
    /// Id of the reservation.
    #[schemars(extend("pattern" = "^cr-[0-9a-z]+$"))]
    pub id: String,
    /// Whether instances have to name the reservation to use it.
    #[schemars(extend("enum" = ["open", "targeted"]))]
    pub instance_match_criteria: String,
    /// Instance type of the reserved instances.
    pub instance_type: String,
    /// Whether EC2 may interrupt instances of the reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruptible: Option<bool>,
    /// Account that owns the reservation.
    #[serde(rename = "ownerID")]
    #[schemars(extend("pattern" = "^[0-9]{12}$"))]
    pub owner_id: String,
    /// An ordinary reservation or a capacity block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "default", "enum" = ["default", "capacity-block"]))]
    pub reservation_type: Option<String>,
    /// Whether the reservation is about to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "active", "enum" = ["active", "expiring"]))]
    pub state: Option<String>,
}
