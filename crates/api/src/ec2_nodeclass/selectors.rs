//! How an EC2NodeClass finds subnets, security groups, images, reservations and placement groups.
//!
//! The "mutually exclusive" rules of subnets, security groups and reservations refuse only a list
//! in which *every* term breaks them: that is what clusters rely on today (spec 10 §6.3, S3).

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema::rules;

fn tags(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {"type": "string"},
        "maxProperties": 20,
        "x-kubernetes-validations": rules(&[(
            "self.all(k, k != '' && self[k] != '')",
            "empty tag keys or values aren't supported",
        )]),
    })
}

/// Selects subnets: by tags or by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubnetSelectorTerm {
    /// Tags that the subnet has; `*` as a value stands for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "tags")]
    pub tags: Option<BTreeMap<String, String>>,
    /// Id of the subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "subnet-[0-9a-z]+"))]
    pub id: Option<String>,
}

pub(super) fn subnet_rules() -> Value {
    rules(&[
        ("size(self) > 0", "subnetSelectorTerms cannot be empty"),
        (
            "self.all(t, has(t.tags) || has(t.id))",
            "expected at least one, got none, ['tags', 'id']",
        ),
        (
            "!self.all(t, has(t.id) && has(t.tags))",
            "'id' is mutually exclusive, cannot be set with a combination of other fields in a subnet selector term",
        ),
    ])
}

/// Selects security groups: by tags, id or name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecurityGroupSelectorTerm {
    /// Tags that the security group has; `*` as a value stands for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "tags")]
    pub tags: Option<BTreeMap<String, String>>,
    /// Id of the security group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "sg-[0-9a-z]+"))]
    pub id: Option<String>,
    /// Name of the security group, which is not its Name tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

pub(super) fn security_group_rules() -> Value {
    rules(&[
        ("size(self) > 0", "securityGroupSelectorTerms cannot be empty"),
        (
            "self.all(t, has(t.tags) || has(t.id) || has(t.name))",
            "expected at least one, got none, ['tags', 'id', 'name']",
        ),
        (
            "!self.all(t, has(t.id) && (has(t.tags) || has(t.name)))",
            "'id' is mutually exclusive, cannot be set with a combination of other fields in a security group selector term",
        ),
        (
            "!self.all(t, has(t.name) && (has(t.tags) || has(t.id)))",
            "'name' is mutually exclusive, cannot be set with a combination of other fields in a security group selector term",
        ),
    ])
}

/// Selects capacity reservations: by id, or by tags, owner and match criteria together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservationSelectorTerm {
    /// Tags that the reservation has; `*` as a value stands for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "tags")]
    pub tags: Option<BTreeMap<String, String>>,
    /// Id of the reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^cr-[0-9a-z]+$"))]
    pub id: Option<String>,
    /// Account that owns the reservation.
    #[serde(default, rename = "ownerID", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^[0-9]{12}$"))]
    pub owner_id: Option<String>,
    /// Whether instances have to name the reservation to use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["open", "targeted"]))]
    pub instance_match_criteria: Option<String>,
}

pub(super) fn capacity_reservation_rules() -> Value {
    rules(&[
        (
            "self.all(t, has(t.tags) || has(t.id) || has(t.instanceMatchCriteria))",
            "expected at least one, got none, ['tags', 'id', 'instanceMatchCriteria']",
        ),
        (
            "!self.all(t, has(t.id) && (has(t.tags) || has(t.ownerID) || has(t.instanceMatchCriteria)))",
            "'id' is mutually exclusive, cannot be set along with other fields in a capacity reservation selector term",
        ),
    ])
}

/// Selects a placement group: by name or by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    ("has(self.name) || has(self.id)", "expected at least one, got none, ['name', 'id']"),
    ("!has(self.name) || !has(self.id)", "'name' and 'id' are mutually exclusive"),
])))]
pub struct PlacementGroupSelector {
    /// Name of the placement group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub name: Option<String>,
    /// Id of the placement group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^pg-[0-9a-z]+$"))]
    pub id: Option<String>,
}

/// Selects images: by alias, by id, by SSM parameter, or by tags, name and owner together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AmiSelectorTerm {
    /// Family and version of an AWS image, as in al2023@latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 30), extend("x-kubernetes-validations" = alias_rules()))]
    pub alias: Option<String>,
    /// Tags that the image has; `*` as a value stands for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "tags")]
    pub tags: Option<BTreeMap<String, String>>,
    /// Id of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "ami-[0-9a-z]+"))]
    pub id: Option<String>,
    /// Name of the image, which is not its Name tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Account or alias that owns the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Name or ARN of an SSM parameter that holds the image's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssm_parameter: Option<String>,
}

pub(super) fn ami_rules() -> Value {
    rules(&[
        (
            "self.all(t, has(t.tags) || has(t.id) || has(t.name) || has(t.alias) || has(t.ssmParameter))",
            "expected at least one, got none, ['tags', 'id', 'name', 'alias', 'ssmParameter']",
        ),
        (
            "!self.exists(t, has(t.id) && (has(t.alias) || has(t.tags) || has(t.name) || has(t.owner)))",
            "'id' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
        ),
        (
            "!self.exists(t, has(t.alias) && (has(t.id) || has(t.tags) || has(t.name) || has(t.owner)))",
            "'alias' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
        ),
        (
            "size(self) == 1 || !self.exists(t, has(t.alias))",
            "'alias' is mutually exclusive, cannot be set with a combination of other amiSelectorTerms",
        ),
    ])
}

fn alias_rules() -> Value {
    rules(&[
        (
            "self.matches('^[a-zA-Z0-9]+@.+$')",
            "'alias' is improperly formatted, must match the format 'family@version'",
        ),
        (
            "self.split('@')[0] in ['al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025']",
            "family is not supported, must be one of the following: 'al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025'",
        ),
        (
            "!(self.split('@')[0] in ['windows2019', 'windows2022', 'windows2025']) || (self.contains('@') && self.split('@')[1] == 'latest')",
            "windows families may only specify version 'latest'",
        ),
    ])
}
