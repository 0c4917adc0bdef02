//! Disks and network interfaces of the instances.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::grammar::Quantity;
use crate::schema::rules;

/// One disk of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockDeviceMapping {
    /// Device name, for example /dev/xvda.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// The EBS volume behind the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ebs: Option<BlockDevice>,
    /// Whether pods' ephemeral storage is on this disk; one disk at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_volume: Option<bool>,
}

/// An EBS volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    ("has(self.snapshotID) || has(self.volumeSize)", "snapshotID or volumeSize must be defined"),
    (
        "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
        "snapshotID must be set when volumeInitializationRate is set",
    ),
])))]
pub struct BlockDevice {
    /// Whether the volume goes with the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_on_termination: Option<bool>,
    /// Whether the volume is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    /// Operations per second of a provisioned volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<i64>,
    /// KMS key of an encrypted volume: id, alias or ARN.
    #[serde(default, rename = "kmsKeyID", skip_serializing_if = "Option::is_none")]
    pub kms_key_id: Option<String>,
    /// Snapshot that the volume starts from.
    #[serde(default, rename = "snapshotID", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// Throughput of a gp3 volume, in MiB per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<i64>,
    /// Rate at which the snapshot is read into the volume, in MiB per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 300))]
    pub volume_initialization_rate: Option<i32>,
    /// Size of the volume in Gi, G, Ti or T.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "volume_size")]
    pub volume_size: Option<Quantity>,
    /// Type of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"]))]
    pub volume_type: Option<String>,
}

/// The pattern has gaps (18Ti) and admits a bare unit (Ti); both are part of the interface.
fn volume_size(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "pattern": "^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|[5][0-8][0-9]{3}|59000)Gi|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|[6][0-3][0-9]{3}|64000)G|([1-9]||[1-5][0-7]|58)Ti|([1-9]||[1-5][0-9]|6[0-3]|64)T)$",
    })
}

/// One network interface of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkInterface {
    /// Network card that the interface is on.
    #[schemars(range(min = 0))]
    pub network_card_index: i32,
    /// Place of the interface on its card.
    #[schemars(range(min = 0))]
    pub device_index: i32,
    /// An ordinary interface, or one for EFA traffic alone.
    #[schemars(extend("enum" = ["interface", "efa-only"]))]
    pub interface_type: String,
}

pub(super) fn network_interface_rules() -> Value {
    rules(&[
        (
            "size(self) == 0 || self.exists(i, i.networkCardIndex == 0 && i.deviceIndex == 0 && i.interfaceType == 'interface')",
            "networkInterfaces must include a primary interface with interfaceType='interface'",
        ),
        (
            "self.all(i, self.exists_one(j, j.networkCardIndex == i.networkCardIndex && j.deviceIndex == i.deviceIndex) && (i.interfaceType != 'efa-only' || self.exists_one(j, j.interfaceType == 'efa-only' && j.networkCardIndex == i.networkCardIndex)))",
            "networkInterfaces must not have duplicate networkCardIndex and deviceIndex pairs, and can have at most one efa device per network card",
        ),
    ])
}
