//! Converts the fields that AWSNodeTemplates and v1beta1 EC2NodeClasses share.

use karpenter_api::tags;
use serde_json::{Map, Value, json};

use super::fields::Section;
use super::notes::{Note, Notes};
use crate::manifest::FieldPath;

/// A family that v1 does not have any more.
const UBUNTU: &str = "Ubuntu";

pub(super) const METADATA_OPTIONS: [&str; 4] =
    ["httpEndpoint", "httpProtocolIPv6", "httpPutResponseHopLimit", "httpTokens"];

/// Selects images by family, with an alias in `amiSelectorTerms`.
pub(super) fn set_ami_alias(
    family: &str,
    version: &str,
    at: &FieldPath,
    spec: &mut Map<String, Value>,
    notes: &mut Notes,
) {
    if family == "AL2" {
        notes.add(at, Note::Al2Unavailable);
    }
    let alias = format!("{}@{version}", family.to_lowercase());
    spec.insert("amiSelectorTerms".into(), json!([{ "alias": alias }]));
}

/// Sets the family of a class that selects its own images. Ubuntu's user data was AL2's.
pub(super) fn set_ami_family(
    family: &str,
    at: &FieldPath,
    spec: &mut Map<String, Value>,
    notes: &mut Notes,
) {
    let mut family = family;
    if family == UBUNTU {
        notes.add(at, Note::UbuntuConverted);
        family = "AL2";
    }
    spec.insert("amiFamily".into(), family.into());
}

/// Copies the tags except those that the controller sets itself.
pub(super) fn copy_tags(from: &Section<'_>, spec: &mut Map<String, Value>, notes: &mut Notes) {
    let mut kept = Map::new();
    let given = from.section("tags", notes);
    for (key, value) in given.string_entries(notes) {
        if is_restricted_tag(key) {
            notes.add(&given.path.key(key), Note::RestrictedTag { key: key.to_owned() });
        } else {
            kept.insert(key.to_owned(), value.into());
        }
    }
    if !kept.is_empty() {
        spec.insert("tags".into(), kept.into());
    }
}

/// Rules T1 to T6 of spec 10 §6.3, and what former releases reserved.
fn is_restricted_tag(key: &str) -> bool {
    let cluster = tags::CLUSTER_PREFIX.trim_end_matches('/');
    key.is_empty()
        || key.starts_with(cluster)
        || tags::RESTRICTED.contains(&key)
        || tags::REMOVED.contains(&key)
}

pub(super) fn copy_block_devices(
    from: &Section<'_>,
    spec: &mut Map<String, Value>,
    notes: &mut Notes,
) {
    let devices = from.list("blockDeviceMappings", notes);
    for at in &devices {
        let Some(device) = at.section(notes) else { continue };
        let Some(size) = device.section("ebs", notes).get("volumeSize") else { continue };
        if !size.value.as_str().is_some_and(is_volume_size) {
            notes.add(&size.path, Note::InvalidVolumeSize);
        }
    }
    let mut devices: Vec<_> = devices.iter().map(|at| at.value.clone()).collect();
    if devices.is_empty() && from.string("amiFamily", notes) == Some(UBUNTU) {
        // Its root device has another name than that of AL2.
        devices.push(json!({
            "deviceName": "/dev/sda1",
            "rootVolume": true,
            "ebs": { "encrypted": true, "volumeType": "gp3", "volumeSize": "20Gi" },
        }));
    }
    if !devices.is_empty() {
        spec.insert("blockDeviceMappings".into(), devices.into());
    }
}

/// The pattern of v1 (spec 10 §6.2), with its quirks: `Ti` alone passes, `18Ti` does not.
fn is_volume_size(text: &str) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &text[..text.len() - unit.len()];
    let in_range = |max: u32| {
        !digits.starts_with('0') && digits.parse::<u32>().is_ok_and(|n| (1..=max).contains(&n))
    };
    match unit {
        "Gi" => in_range(59_000),
        "G" => in_range(64_000),
        "Ti" if digits.len() == 2 => {
            in_range(58) && (digits == "58" || !digits.ends_with(['8', '9']))
        }
        "Ti" => digits.is_empty() || in_range(9),
        "T" => digits.is_empty() || in_range(64),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volume_sizes_follow_the_pattern_of_v1() {
        for size in [
            "1Gi", "20Gi", "59000Gi", "64000G", "58G", "45T", "64T", "9Ti", "17Ti", "58Ti", "Ti",
            "T",
        ] {
            assert!(is_volume_size(size), "{size}");
        }
        for size in [
            "",
            "0Gi",
            "01Gi",
            "59001Gi",
            "64001G",
            "18Ti",
            "59Ti",
            "65T",
            "100T",
            "1m",
            "20",
            "Gi",
            "-1Gi",
            "+5Gi",
            "1.5Gi",
            "99999999999Gi",
        ] {
            assert!(!is_volume_size(size), "{size}");
        }
    }
}
