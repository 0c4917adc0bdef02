//! AL2023: a NodeConfig for nodeadm as the last part of a MIME archive (spec 50 §3.5).
//!
//! nodeadm merges the NodeConfigs in their order, so that Karpenter's wins.

mod yaml;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::kubelet_args::node_labels_flag;
use super::mime::{self, Part};
use super::{BootstrapError, BootstrapInput};

pub(super) fn render(input: &BootstrapInput<'_>) -> Result<String, BootstrapError> {
    let node_config = node_config(input)?;
    let text = format!("# Karpenter Generated NodeConfig\n{}", yaml::write(&node_config));
    let mut parts = user_parts(input)?;
    mime::check_open(&parts)?;
    parts.push(Part::node_config(mime::without_carriage_returns(&text)));
    Ok(mime::write(&parts))
}

/// The user's data as parts: those of an archive, a NodeConfig, or a shell script.
fn user_parts(input: &BootstrapInput<'_>) -> Result<Vec<Part>, BootstrapError> {
    let Some(text) = input.user_text().map(mime::without_carriage_returns) else {
        return Ok(Vec::new());
    };
    if mime::is_archive(&text) {
        let parts = mime::parse(&text)?;
        return Ok(parts.into_iter().map(Part::with_content_type_only).collect());
    }
    if yaml::is_mapping_or_empty(&text) {
        Ok(vec![Part::node_config(text)])
    } else {
        Ok(vec![Part::shell_script(text)])
    }
}

fn node_config(input: &BootstrapInput<'_>) -> Result<Value, BootstrapError> {
    let mut kubelet = json!({ "config": kubelet_config(input) });
    if let Some(flag) = node_labels_flag(input.labels) {
        kubelet["flags"] = json!([flag]);
    }
    let local_storage = if input.is_raid0() { json!({ "strategy": "RAID0" }) } else { json!({}) };
    Ok(json!({
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "metadata": {},
        "spec": {
            "cluster": cluster(input)?,
            "containerd": {},
            "instance": { "localStorage": local_storage },
            "kubelet": kubelet,
        },
    }))
}

fn cluster(input: &BootstrapInput<'_>) -> Result<Value, BootstrapError> {
    let cluster = &input.cluster;
    let cidr = cluster.cidr.filter(|cidr| !cidr.is_empty()).ok_or(BootstrapError::ClusterCidr)?;
    let mut details = json!({
        "apiServerEndpoint": cluster.endpoint,
        "cidr": cidr,
        "name": cluster.name,
    });
    if let Some(ca) = cluster.ca_bundle.filter(|ca| !ca.is_empty()) {
        let lines = ca.replace(['\r', '\n'], "");
        let decoded = STANDARD.decode(lines).map_err(|_| BootstrapError::CaBundle)?;
        if !decoded.is_empty() {
            details["certificateAuthority"] = STANDARD.encode(decoded).into();
        }
    }
    Ok(details)
}

/// The user's whole configuration, with the taints.
fn kubelet_config(input: &BootstrapInput<'_>) -> Map<String, Value> {
    let taints = input.taints.iter().map(|taint| {
        let mut fields = json!({ "effect": taint.effect, "key": taint.key });
        if let Some(value) = taint.value.as_deref().filter(|value| !value.is_empty()) {
            fields["value"] = value.into();
        }
        fields
    });
    let mut config = input.kubelet.config().clone();
    config.insert("registerWithTaints".to_owned(), taints.collect());
    config
}
