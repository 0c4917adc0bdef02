//! Static drift hashes: one number for the parts of a NodePool or EC2NodeClass that, when changed,
//! make existing nodes drift (spec 10 §12).
//!
//! The numbers are upstream's bit for bit, so that a cluster can be taken over, or handed back,
//! without a single node drifting. Upstream walks its structs by reflection; here every struct
//! writes down its Go names and fields, in Go's order. A value that Go would call zero is left
//! out, an empty map or list that is present is not: so `None` is "left out" in this module.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::ec2_nodeclass::{
    BlockDevice, BlockDeviceMapping, ConnectionTracking, CpuOptions, Ec2NodeClassSpec,
    EnclaveOptions, MetadataOptions, NetworkInterface, PlacementGroupSelector,
};
use crate::grammar::{Duration, NillableDuration, Quantity};
use crate::node_class_ref::NodeClassRef;
use crate::nodepool::{NodeClaimTemplate, NodeClaimTemplateSpec, NodePoolSpec, TemplateMeta};

/// Version of the NodePool hash; written beside it.
pub const NODEPOOL_HASH_VERSION: &str = "v3";
/// Version of the EC2NodeClass hash; written beside it.
pub const EC2_NODE_CLASS_HASH_VERSION: &str = "v6";

/// The value of annotation `karpenter.sh/nodepool-hash`: of all that a pool says, only the template
/// counts, and of that not the requirements.
pub fn nodepool_hash(pool: &NodePoolSpec) -> String {
    let NodeClaimTemplate { metadata, spec } = &pool.template;
    StructHash::new("NodeClaimTemplate")
        .field("ObjectMeta", metadata.as_ref().and_then(template_meta))
        .field("Spec", template_spec(spec))
        .hash
        .to_string()
}

/// The value of annotation `karpenter.k8s.aws/ec2nodeclass-hash`. The AMI family counts as the one
/// that field and alias resolve to, so that writing it out drifts nothing; `ca_bundle` is the
/// cluster's, empty if there is none.
pub fn ec2_node_class_hash(spec: &Ec2NodeClassSpec, ca_bundle: &str) -> String {
    let parts = [
        node_class_spec(spec),
        fnv(spec.family().as_bytes()),
        fnv(ca_bundle.as_bytes()),
        fnv(kubelet_text(spec).as_bytes()),
    ];
    parts.into_iter().fold(0, |all, part| all ^ part).to_string()
}

fn template_meta(meta: &TemplateMeta) -> Option<u64> {
    StructHash::new("ObjectMeta")
        .field("Labels", meta.labels.as_ref().map(map))
        .field("Annotations", meta.annotations.as_ref().map(map))
        .unless_zero()
}

fn template_spec(spec: &NodeClaimTemplateSpec) -> Option<u64> {
    StructHash::new("NodeClaimTemplateSpec")
        .field("Taints", spec.taints.as_deref().map(|taints| set(taints, taint)))
        .field("StartupTaints", spec.startup_taints.as_deref().map(|taints| set(taints, taint)))
        .field("NodeClassRef", Some(node_class_ref(&spec.node_class_ref)))
        .field("TerminationGracePeriod", spec.termination_grace_period.as_ref().map(duration))
        .field("ExpireAfter", spec.expire_after.as_ref().and_then(nillable_duration))
        .unless_zero()
}

fn taint(taint: &Taint) -> u64 {
    StructHash::new("Taint")
        .field("Key", text(&taint.key))
        .field("Value", taint.value.as_deref().and_then(text))
        .field("Effect", text(&taint.effect))
        .field("TimeAdded", taint.time_added.as_ref().map(time))
        .hash
}

/// A pointer in Go, so never left out.
fn node_class_ref(reference: &NodeClassRef) -> u64 {
    StructHash::new("NodeClassReference")
        .field("Kind", text(&reference.kind))
        .field("Name", text(&reference.name))
        .field("Group", text(&reference.group))
        .hash
}

/// A pointer to a struct in Go: a zero duration leaves out the field, not the struct.
fn duration(duration: &Duration) -> u64 {
    let nanos = duration.value().map_or(0, |value| nanos(&value));
    StructHash::new("Duration").field("Duration", (nanos != 0).then(|| integer(nanos))).hash
}

/// A struct with a pointer in Go: zero is hashed, `Never` is not there.
fn nillable_duration(duration: &NillableDuration) -> Option<u64> {
    let value = duration.value().ok().flatten()?;
    Some(StructHash::new("NillableDuration").field("Duration", Some(integer(nanos(&value)))).hash)
}

/// Go keeps nanoseconds in 64 bits, and so does the grammar: a longer one does not parse.
fn nanos(duration: &jiff::SignedDuration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Go's binary form of a time that was read from JSON: version 1, big-endian seconds since the
/// year 1, nanoseconds, and the offset from UTC in minutes.
fn time(time: &Time) -> u64 {
    const UNIX_EPOCH_SINCE_YEAR_1: i64 = 62_135_596_800;
    let mut bytes = vec![1];
    bytes.extend((time.0.as_second() + UNIX_EPOCH_SINCE_YEAR_1).to_be_bytes());
    bytes.extend(time.0.subsec_nanosecond().to_be_bytes());
    bytes.extend(0_i16.to_be_bytes());
    StructHash::new("Time").field("Time", Some(fnv(&bytes))).hash
}

fn node_class_spec(spec: &Ec2NodeClassSpec) -> u64 {
    StructHash::new("EC2NodeClassSpec")
        .field(
            "PlacementGroupSelector",
            spec.placement_group_selector.as_ref().map(placement_group_selector),
        )
        .field("AssociatePublicIPAddress", spec.associate_public_ip_address.map(boolean))
        .field("UserData", spec.user_data.as_deref().map(string))
        .field("Role", spec.role.as_deref().and_then(text))
        .field("InstanceProfile", spec.instance_profile.as_deref().map(string))
        .field("Tags", spec.tags.as_ref().map(map))
        .field(
            "BlockDeviceMappings",
            spec.block_device_mappings.as_deref().map(|list| set(list, block_device_mapping)),
        )
        .field("InstanceStorePolicy", spec.instance_store_policy.as_deref().map(string))
        .field(
            "NetworkInterfaces",
            spec.network_interfaces.as_deref().map(|list| set(list, network_interface)),
        )
        .field("DetailedMonitoring", spec.detailed_monitoring.map(boolean))
        .field("MetadataOptions", spec.metadata_options.as_ref().map(metadata_options))
        .field("ConnectionTracking", spec.connection_tracking.as_ref().map(connection_tracking))
        .field("Context", spec.context.as_deref().map(string))
        .field("CPUOptions", spec.cpu_options.as_ref().map(cpu_options))
        .field("EnclaveOptions", spec.enclave_options.as_ref().map(enclave_options))
        .hash
}

fn placement_group_selector(selector: &PlacementGroupSelector) -> u64 {
    StructHash::new("PlacementGroupSelector")
        .field("Name", selector.name.as_deref().map(string))
        .field("ID", selector.id.as_deref().map(string))
        .hash
}

fn block_device_mapping(mapping: &BlockDeviceMapping) -> u64 {
    StructHash::new("BlockDeviceMapping")
        .field("DeviceName", mapping.device_name.as_deref().map(string))
        .field("EBS", mapping.ebs.as_ref().map(block_device))
        .field("RootVolume", mapping.root_volume.filter(|root| *root).map(boolean))
        .hash
}

fn block_device(device: &BlockDevice) -> u64 {
    StructHash::new("BlockDevice")
        .field("DeleteOnTermination", device.delete_on_termination.map(boolean))
        .field("Encrypted", device.encrypted.map(boolean))
        .field("IOPS", device.iops.map(integer))
        .field("KMSKeyID", device.kms_key_id.as_deref().map(string))
        .field("SnapshotID", device.snapshot_id.as_deref().map(string))
        .field("Throughput", device.throughput.map(integer))
        .field("VolumeInitializationRate", device.volume_initialization_rate.map(integer32))
        .field("VolumeSize", device.volume_size.as_ref().map(quantity))
        .field("VolumeType", device.volume_type.as_deref().map(string))
        .hash
}

fn network_interface(interface: &NetworkInterface) -> u64 {
    let index = |index: i32| (index != 0).then(|| integer32(index));
    StructHash::new("NetworkInterface")
        .field("NetworkCardIndex", index(interface.network_card_index))
        .field("DeviceIndex", index(interface.device_index))
        .field("InterfaceType", text(&interface.interface_type))
        .hash
}

fn metadata_options(options: &MetadataOptions) -> u64 {
    StructHash::new("MetadataOptions")
        .field("HTTPEndpoint", options.http_endpoint.as_deref().map(string))
        .field("HTTPProtocolIPv6", options.http_protocol_ipv6.as_deref().map(string))
        .field("HTTPPutResponseHopLimit", options.http_put_response_hop_limit.map(integer))
        .field("HTTPTokens", options.http_tokens.as_deref().map(string))
        .hash
}

fn connection_tracking(tracking: &ConnectionTracking) -> u64 {
    StructHash::new("ConnectionTracking")
        .field("TCPEstablishedTimeout", tracking.tcp_established_timeout.map(integer32))
        .field("UDPStreamTimeout", tracking.udp_stream_timeout.map(integer32))
        .field("UDPTimeout", tracking.udp_timeout.map(integer32))
        .hash
}

fn cpu_options(options: &CpuOptions) -> u64 {
    StructHash::new("CPUOptions")
        .field("NestedVirtualization", options.nested_virtualization.as_deref().map(string))
        .hash
}

/// A pointer in Go, so false is hashed too.
fn enclave_options(options: &EnclaveOptions) -> u64 {
    StructHash::new("EnclaveOptions").field("Enabled", Some(boolean(options.enabled))).hash
}

/// `spec.kubelet` as one line of JSON: keys of the first level sorted, the rest as it is stored,
/// and the five characters that Go's encoder escapes.
fn kubelet_text(spec: &Ec2NodeClassSpec) -> String {
    let Some(kubelet) = spec.kubelet.as_ref().filter(|kubelet| !kubelet.is_empty()) else {
        return "null".to_owned();
    };
    let sorted: BTreeMap<_, _> = kubelet.iter().collect();
    let text = serde_json::to_string(&sorted).expect("a JSON value can be written");
    text.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// The hash of a Go struct: its Go name, then its fields in Go's order.
struct StructHash {
    hash: u64,
    is_zero: bool,
}

impl StructHash {
    fn new(go_type: &str) -> Self {
        Self { hash: string(go_type), is_zero: true }
    }

    fn field(mut self, go_field: &str, value: Option<u64>) -> Self {
        if let Some(value) = value {
            self.hash = finish(self.hash ^ pair(string(go_field), value));
            self.is_zero = false;
        }
        self
    }

    /// For a struct that is a plain field in Go, which is left out when all of it is zero.
    fn unless_zero(self) -> Option<u64> {
        (!self.is_zero).then_some(self.hash)
    }
}

/// A plain string field in Go, where empty is zero.
fn text(text: &str) -> Option<u64> {
    (!text.is_empty()).then(|| string(text))
}

/// A string behind a pointer in Go, where empty is a value.
fn string(text: &str) -> u64 {
    fnv(text.as_bytes())
}

fn integer(number: i64) -> u64 {
    fnv(&number.to_le_bytes())
}

fn integer32(number: i32) -> u64 {
    fnv(&number.to_le_bytes())
}

fn boolean(value: bool) -> u64 {
    fnv(&[u8::from(value)])
}

fn quantity(quantity: &Quantity) -> u64 {
    string(&quantity.canonical())
}

/// Order does not matter, and two equal elements cancel out: that is upstream's arithmetic.
fn set<T>(items: &[T], hash: impl Fn(&T) -> u64) -> u64 {
    items.iter().fold(0, |all, item| all ^ hash(item))
}

fn map(map: &BTreeMap<String, String>) -> u64 {
    finish(map.iter().fold(0, |all, (key, value)| all ^ pair(string(key), string(value))))
}

fn pair(a: u64, b: u64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&a.to_le_bytes());
    bytes[8..].copy_from_slice(&b.to_le_bytes());
    fnv(&bytes)
}

fn finish(hash: u64) -> u64 {
    fnv(&hash.to_le_bytes())
}

/// 64-bit FNV-1: multiply first, then xor (FNV-1a does it the other way round).
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        hash.wrapping_mul(0x100_0000_01b3) ^ u64::from(*byte)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubelet_text_is_gos_json() {
        let text = |json: &str| {
            let kubelet = serde_json::from_str(json).expect("an object");
            kubelet_text(&Ec2NodeClassSpec { kubelet: Some(kubelet), ..Default::default() })
        };
        assert_eq!(text("{}"), "null");
        assert_eq!(
            text(r#"{"b": {"z": 1, "a": [2]}, "a": true}"#),
            r#"{"a":true,"b":{"z":1,"a":[2]}}"#
        );
        assert_eq!(
            text(r#"{"a": "<b> & \u2028\u2029"}"#),
            r#"{"a":"\u003cb\u003e \u0026 \u2028\u2029"}"#
        );
    }
}
