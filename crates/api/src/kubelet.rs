//! Checks of `spec.kubelet` of an EC2NodeClass, which the API server takes as it comes
//! (spec 10 §6.6).
//!
//! The steps run in this order and stop at the first that fails:
//!
//! ```text
//! 1 check_structure    is it a KubeletConfiguration that makes sense
//! 2 check_expressions  may it hold expressions
//! 4 check_family       does the image family apply all of it
//! ```
//!
//! Steps 3 and 5, compiling and evaluating the expressions, need CEL and the instance types; they
//! belong to the AWS provider.

mod decode;
mod managed_settings;
mod semantics;
mod type_model;

use serde_json::{Map, Value};

pub use managed_settings::{
    MANAGED_KEYS, ManagedSettingError, ManagedSettings, MaxPods, is_expression,
};

use crate::ec2_nodeclass::{AL2023, BOTTLEROCKET, CUSTOM};
use crate::reasons::{ec2_node_class as reasons, messages};

/// Why `spec.kubelet` is invalid: reason and message of ValidationSucceeded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidKubelet {
    /// Reason of the condition.
    pub reason: &'static str,
    /// Message of the condition: all that the step found.
    pub message: String,
}

/// Step 1: checks keys, types and meaning.
pub fn check_structure(config: &Map<String, Value>) -> Result<(), InvalidKubelet> {
    let decoded = match config.get("maxPods") {
        // An expression stands where the kubelet wants a number; only the other fields are
        // checked here.
        Some(Value::String(_)) => {
            let mut plain = config.clone();
            plain.insert("maxPods".to_owned(), 0.into());
            decode::errors(&plain)
        }
        _ => decode::errors(config),
    };
    let decoded = decoded.into_iter().map(|error| format!("spec.kubelet: {error}"));
    let errors: Vec<_> = decoded.chain(semantics::errors(config)).collect();
    result_from_errors(reasons::INVALID_KUBELET_CONFIGURATION, &errors)
}

/// Step 2: expressions need gate NodeClassCEL.
pub fn check_expressions(config: &Map<String, Value>, gate: bool) -> Result<(), InvalidKubelet> {
    if gate || !has_expressions(config) {
        return Ok(());
    }
    Err(InvalidKubelet {
        reason: reasons::KUBELET_EXPRESSIONS_DISABLED,
        message: messages::KUBELET_EXPRESSIONS_DISABLED.to_owned(),
    })
}

/// Whether some value has to be evaluated for each instance type. A configuration that cannot be
/// read has none; step 1 reports it.
pub fn has_expressions(config: &Map<String, Value>) -> bool {
    ManagedSettings::parse(config).is_ok_and(|managed| managed.has_expressions())
}

/// Step 4: refuses settings that the image family would drop without a word.
///
/// AL2023 hands the whole configuration on, and with Custom the user data is the user's own.
pub fn check_family(config: &Map<String, Value>, family: &str) -> Result<(), InvalidKubelet> {
    if matches!(family, CUSTOM | AL2023) {
        return Ok(());
    }
    let managed = ManagedSettings::parse(config).unwrap_or_default();
    let mut dropped: Vec<_> =
        config.keys().map(String::as_str).filter(|key| !MANAGED_KEYS.contains(key)).collect();
    if family == BOTTLEROCKET && managed.pods_per_core.is_some() {
        dropped.push("podsPerCore"); // it has no such setting
    }
    dropped.sort_unstable();

    let mut errors = Vec::new();
    if !dropped.is_empty() {
        let dropped = dropped.join(", ");
        errors.push(format!(
            "spec.kubelet has fields not applied by the {family} AMI family that would be silently \
             dropped: {dropped}"
        ));
    }
    let servers = managed.cluster_dns.len();
    if servers > 1 {
        errors.push(format!(
            "spec.kubelet.clusterDNS: the {family} AMI family doesn't accept multiple entries, only \
             one, but {servers} were set"
        ));
    }
    result_from_errors(reasons::UNSUPPORTED_KUBELET_CONFIGURATION, &errors)
}

fn result_from_errors(reason: &'static str, errors: &[String]) -> Result<(), InvalidKubelet> {
    if errors.is_empty() {
        Ok(())
    } else {
        Err(InvalidKubelet { reason, message: errors.join("; ") })
    }
}

#[cfg(test)]
mod tests;
