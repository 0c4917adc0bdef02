//! EC2NodeClass (`karpenter.k8s.aws/v1`): how AWS makes the nodes of a pool.
//!
//! The spec is here, its larger parts in the modules below. `kubelet` is kept as the JSON that the
//! user wrote; [`crate::kubelet`] checks it, because the API server does not.

mod derived;
mod devices;
mod family;
mod selectors;
mod status;

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use derived::Cluster;
pub use devices::{BlockDevice, BlockDeviceMapping, NetworkInterface};
pub use family::{AL2023, Alias, AliasError, BOTTLEROCKET, CUSTOM};
pub use selectors::{
    AmiSelectorTerm, CapacityReservationSelectorTerm, PlacementGroupSelector,
    SecurityGroupSelectorTerm, SubnetSelectorTerm,
};
pub use status::{
    Ami, AmiRequirement, CapacityReservation, Ec2NodeClassStatus, SecurityGroup, Subnet,
};

use crate::schema;

/// AMI families that the API knows, in the order that the schema lists them.
pub const AMI_FAMILIES: [&str; 7] =
    ["AL2", AL2023, BOTTLEROCKET, CUSTOM, "Windows2019", "Windows2022", "Windows2025"];

/// Desired state of an EC2NodeClass.
///
/// The API server accepts an object without a spec, which then reads as an empty one.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.k8s.aws",
    version = "v1",
    kind = "EC2NodeClass",
    root = "Ec2NodeClass",
    plural = "ec2nodeclasses",
    shortname = "ec2nc",
    shortname = "ec2ncs",
    category = "karpenter",
    status = "Ec2NodeClassStatus",
    doc = "An EC2NodeClass says how EC2 instances become nodes: images, networks, role, disks, kubelet.",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Role", type_ = "string", json_path = ".spec.role", priority = 1)
)]
#[serde(rename_all = "camelCase", remote = "Self")]
#[schemars(extend("x-kubernetes-validations" = spec_rules()))]
pub struct Ec2NodeClassSpec {
    /// Subnets that instances are launched into; a subnet has to match one of the terms.
    #[schemars(length(max = 30), extend("x-kubernetes-validations" = selectors::subnet_rules()))]
    pub subnet_selector_terms: Vec<SubnetSelectorTerm>,
    /// Security groups of the instances; a group has to match one of the terms.
    #[schemars(length(max = 30), extend("x-kubernetes-validations" = selectors::security_group_rules()))]
    pub security_group_selector_terms: Vec<SecurityGroupSelectorTerm>,
    /// Capacity reservations that may be used; a reservation has to match one of the terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 30), extend("x-kubernetes-validations" = selectors::capacity_reservation_rules()))]
    pub capacity_reservation_selector_terms: Option<Vec<CapacityReservationSelectorTerm>>,
    /// Placement group that instances are launched into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_group_selector: Option<PlacementGroupSelector>,
    /// Whether instances get a public IPv4 address; absent leaves it to the subnet.
    #[serde(default, rename = "associatePublicIPAddress", skip_serializing_if = "Option::is_none")]
    pub associate_public_ip_address: Option<bool>,
    /// Number of IP prefixes given to the primary network interface at launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ip_prefix_count: Option<i32>,
    /// Images that instances are launched from; an image has to match one of the terms.
    #[schemars(length(min = 1, max = 30), extend("x-kubernetes-validations" = selectors::ami_rules()))]
    pub ami_selector_terms: Vec<AmiSelectorTerm>,
    /// Which user data and defaults go with the image; absent follows the alias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = AMI_FAMILIES))]
    pub ami_family: Option<String>,
    /// User data to merge with the generated one; with family Custom it is used as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// IAM role of the nodes, for which an instance profile is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = schema::not_empty("role")))]
    pub role: Option<String>,
    /// Instance profile of the nodes, instead of a role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = schema::not_empty("instanceProfile")))]
    pub instance_profile: Option<String>,
    /// Tags of the instances, volumes, network interfaces and launch templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = tag_rules()))]
    pub tags: Option<BTreeMap<String, String>>,
    /// Settings of the kubelet, as in a KubeletConfiguration file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "kubelet")]
    pub kubelet: Option<serde_json::Map<String, serde_json::Value>>,
    /// Disks of the instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 50), extend("x-kubernetes-validations" = schema::rules(&[(
        "self.filter(m, has(m.rootVolume) && m.rootVolume).size() <= 1",
        "must have only one blockDeviceMappings with rootVolume",
    )])))]
    pub block_device_mappings: Option<Vec<BlockDeviceMapping>>,
    /// What happens with instance-store disks; RAID0 makes them the node's ephemeral storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["RAID0"]))]
    pub instance_store_policy: Option<String>,
    /// Network interfaces of the instances, the primary one included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 150), extend("x-kubernetes-validations" = devices::network_interface_rules()))]
    pub network_interfaces: Option<Vec<NetworkInterface>>,
    /// Whether EC2's detailed monitoring is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detailed_monitoring: Option<bool>,
    /// How the instance metadata service can be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = json!({
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 1,
        "httpTokens": "required",
    })))]
    pub metadata_options: Option<MetadataOptions>,
    /// How long idle connections of the primary network interface are tracked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_tracking: Option<ConnectionTracking>,
    /// Reserved by EC2; passed on in the CreateFleet call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Processor features of the instances.
    #[serde(default, rename = "cpuOptions", skip_serializing_if = "Option::is_none")]
    pub cpu_options: Option<CpuOptions>,
    /// Whether Nitro Enclaves may run on the instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enclave_options: Option<EnclaveOptions>,
}

crate::serde_default::absent_is_default!(Ec2NodeClassSpec);

/// Returns a schema that accepts any object: the API server checks nothing inside.
/// A schema of the fields would prune fields that it does not know.
fn kubelet(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {"x-kubernetes-preserve-unknown-fields": true},
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// X1 and F1 to F7 of spec 10 §6.3.
fn spec_rules() -> serde_json::Value {
    let aliases = [
        ("AL2", "an"),
        ("AL2023", "an"),
        ("Bottlerocket", "a"),
        ("Windows2019", "a"),
        ("Windows2022", "a"),
        ("Windows2025", "a"),
    ];
    let mut rules = vec![json!({
        "rule": "has(self.role) != has(self.instanceProfile)",
        "message": "must specify exactly one of ['role', 'instanceProfile']",
    })];
    for (family, article) in aliases {
        let alias = family.to_lowercase();
        rules.push(json!({
            "rule": format!(
                "!has(self.amiFamily) || self.amiFamily in ['{family}', 'Custom'] || \
                 !self.amiSelectorTerms.exists(t, has(t.alias) && t.alias.startsWith('{alias}@'))"
            ),
            "message": format!(
                "if set, amiFamily must be '{family}' or 'Custom' when using {article} {family} alias"
            ),
        }));
    }
    rules.push(json!({
        "rule": "has(self.amiFamily) || self.amiSelectorTerms.exists(t, has(t.alias))",
        "message": "must specify amiFamily if amiSelectorTerms does not contain an alias",
    }));
    serde_json::Value::Array(rules)
}

/// T1 to T6 of spec 10 §6.3.
fn tag_rules() -> serde_json::Value {
    use crate::tags;
    let restricted = |pattern: &str| format!("tag contains a restricted tag matching {pattern}");
    let mut rules = vec![
        json!({"rule": "self.all(k, k != '')", "message": "empty tag keys aren't supported"}),
        json!({
            "rule": format!("!('{}' in self)", tags::EKS_CLUSTER_NAME),
            "message": restricted(tags::EKS_CLUSTER_NAME),
        }),
        json!({
            "rule": "self.all(k, !k.startsWith('kubernetes.io/cluster'))",
            "message": restricted("kubernetes.io/cluster/"),
        }),
    ];
    rules.extend(
        [tags::NODEPOOL, tags::NODECLAIM, tags::EC2_NODE_CLASS]
            .map(|key| json!({"rule": format!("!('{key}' in self)"), "message": restricted(key)})),
    );
    serde_json::Value::Array(rules)
}

/// How the instance metadata service can be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetadataOptions {
    /// Whether the service answers at all.
    #[serde(default, rename = "httpEndpoint", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "enabled", "enum" = ["enabled", "disabled"]))]
    pub http_endpoint: Option<String>,
    /// Whether the service answers over IPv6.
    #[serde(default, rename = "httpProtocolIPv6", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "disabled", "enum" = ["enabled", "disabled"]))]
    pub http_protocol_ipv6: Option<String>,
    /// Most network hops of an answer; 1 keeps it away from pods without host network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64), extend("default" = 1))]
    pub http_put_response_hop_limit: Option<i64>,
    /// Whether requests need a session token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "required", "enum" = ["required", "optional"]))]
    pub http_tokens: Option<String>,
}

/// How long idle connections are tracked, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rules(&[(
    "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
    "at least one of tcpEstablishedTimeout, udpStreamTimeout, or udpTimeout must be set",
)])))]
pub struct ConnectionTracking {
    /// For established TCP connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 432_000))]
    pub tcp_established_timeout: Option<i32>,
    /// For UDP flows that carried more than one request and response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 180))]
    pub udp_stream_timeout: Option<i32>,
    /// For UDP flows with traffic in one direction or a single exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 30, max = 60))]
    pub udp_timeout: Option<i32>,
}

/// Processor features of the instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CpuOptions {
    /// Whether virtual machines may run on the instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["enabled", "disabled"]))]
    pub nested_virtualization: Option<String>,
}

/// Nitro Enclaves of the instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnclaveOptions {
    /// Whether enclaves may run.
    pub enabled: bool,
}
