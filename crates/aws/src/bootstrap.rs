//! User data that makes an EC2 instance a node of the cluster (spec 50 §3).
//!
//! [`render`] is a pure function from [`BootstrapInput`] to [`UserData`], one file per family:
//!
//! ```text
//! al2           a shell script in a MIME archive, after the user's parts
//! al2023        a NodeConfig in a MIME archive, after the user's parts
//! bottlerocket  TOML settings, merged over the user's
//! windows       a PowerShell script, after the user's
//! Custom        the user's text, unchanged
//! ```
//!
//! The caller prepares the input with [`node_labels`], [`node_taints`] and [`NodeKubelet::resolve`].
//! The text is never logged and never part of an error: it may hold secrets.

mod al2;
mod al2023;
mod bottlerocket;
mod bottlerocket_settings;
mod error;
mod kubelet;
mod kubelet_args;
mod labels;
mod mime;
mod quoted_printable;
mod taints;
#[cfg(test)]
mod tests;
mod windows;

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Taint;

use crate::ami_family::AmiFamily;
pub use error::{BootstrapError, MimeError};
pub use kubelet::{NodeKubelet, ResolvedKubelet};
pub use labels::node_labels;
pub use taints::node_taints;

/// The most bytes of user data that EC2 accepts, before base64.
pub const USER_DATA_BYTES_MAX: usize = 16_384;
/// From this size on the caller warns: 90 % of [`USER_DATA_BYTES_MAX`].
pub const USER_DATA_WARNING_BYTES: usize = 14_745;

/// The cluster that nodes join.
#[derive(Clone, Copy)]
pub struct ClusterEndpoint<'a> {
    /// Name of the cluster.
    pub name: &'a str,
    /// URL of its API server.
    pub endpoint: &'a str,
    /// CA bundle of its API server, in base64.
    pub ca_bundle: Option<&'a str>,
    /// CIDR of its services; only AL2023 needs it.
    pub cidr: Option<&'a str>,
}

/// How instance-store disks are used (`spec.instanceStorePolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InstanceStorePolicy {
    /// One striped array that holds the node's ephemeral storage.
    Raid0,
}

impl InstanceStorePolicy {
    /// Returns the policy of a name in the spec.
    pub fn from_name(name: &str) -> Option<Self> {
        (name == "RAID0").then_some(Self::Raid0)
    }
}

/// The values that decide the user data of one launch template.
///
/// They are the bootstrap part of the template's name (spec 50 §4.2): equal inputs give equal
/// bytes.
#[derive(Clone, Copy)]
pub struct BootstrapInput<'a> {
    /// Family of the image.
    pub family: AmiFamily,
    /// The cluster that the node joins.
    pub cluster: ClusterEndpoint<'a>,
    /// Kubelet settings, with all values known.
    pub kubelet: &'a NodeKubelet,
    /// Labels that the kubelet registers, as [`node_labels`] returns them.
    pub labels: &'a BTreeMap<String, String>,
    /// Taints that the kubelet registers, as [`node_taints`] returns them.
    pub taints: &'a [Taint],
    /// The user's own data (`spec.userData`).
    pub user_data: Option<&'a str>,
    /// Use of instance-store disks; Windows and Custom ignore it.
    pub instance_store_policy: Option<InstanceStorePolicy>,
    /// Whether Bottlerocket binds instance storage to its default directories.
    ///
    /// See [`supports_default_bind`](crate::ami_family::supports_default_bind).
    pub bottlerocket_default_bind: bool,
}

impl BootstrapInput<'_> {
    /// The user's data; an empty text counts as none.
    fn user_text(&self) -> Option<&str> {
        self.user_data.filter(|text| !text.is_empty())
    }

    fn is_raid0(&self) -> bool {
        self.instance_store_policy == Some(InstanceStorePolicy::Raid0)
    }
}

/// Rendered user data.
#[derive(Clone, PartialEq, Eq)]
pub struct UserData {
    text: String,
    dropped_settings: Vec<String>,
}

/// Renders the user data of one launch template.
///
/// Only errors in the user's data, the CA bundle or the service CIDR make it fail. A text beyond
/// [`USER_DATA_BYTES_MAX`] is returned like any other: EC2 rejects it, and the NodeClass condition
/// reports that.
pub fn render(input: &BootstrapInput<'_>) -> Result<UserData, BootstrapError> {
    if !matches!(input.family, AmiFamily::Custom | AmiFamily::Bottlerocket) {
        check_no_nul(input.user_data)?;
    }
    match input.family {
        AmiFamily::Al2 => al2::render(input).map(UserData::new),
        AmiFamily::Al2023 => al2023::render(input).map(UserData::new),
        AmiFamily::Bottlerocket => bottlerocket::render(input),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => {
            Ok(UserData::new(windows::render(input)))
        }
        AmiFamily::Custom => Ok(UserData::new(input.user_data.unwrap_or_default().to_owned())),
    }
}

impl UserData {
    fn new(text: String) -> Self {
        Self { text, dropped_settings: Vec::new() }
    }

    /// Returns the text that the instance reads.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text in base64, as the EC2 API takes it.
    pub fn to_base64(&self) -> String {
        STANDARD.encode(&self.text)
    }

    /// Returns the size that counts for EC2's limit.
    pub fn size_bytes(&self) -> usize {
        self.text.len()
    }

    /// Whether the size is at or above [`USER_DATA_WARNING_BYTES`].
    ///
    /// The caller then logs `rendered user data is approaching the EC2 user data size limit`, with the
    /// name of the class and the size.
    pub fn is_near_limit(&self) -> bool {
        self.size_bytes() >= USER_DATA_WARNING_BYTES
    }

    /// Returns the paths of Bottlerocket settings that Karpenter does not know and dropped.
    ///
    /// The caller logs them as `Unknown parameter in userData K8s settings`.
    pub fn dropped_settings(&self) -> &[String] {
        &self.dropped_settings
    }
}

/// A NUL byte cannot be part of a script or a YAML document; shells and parsers stop at it.
fn check_no_nul(user_data: Option<&str>) -> Result<(), BootstrapError> {
    let Some((before, _)) = user_data.and_then(|text| text.split_once('\0')) else {
        return Ok(());
    };
    Err(BootstrapError::NulByte { line: line_number(before) })
}

/// Returns the number of the line that follows or contains the end of `before`.
fn line_number(before: &str) -> usize {
    before.matches('\n').count() + 1
}

impl fmt::Debug for ClusterEndpoint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the CA bundle, which logs must not hold.
        f.debug_struct("ClusterEndpoint").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for BootstrapInput<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the user's data, which may hold secrets.
        f.debug_struct("BootstrapInput")
            .field("family", &self.family)
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for UserData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserData").field("size_bytes", &self.size_bytes()).finish_non_exhaustive()
    }
}
