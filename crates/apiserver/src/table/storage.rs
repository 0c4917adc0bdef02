//! Volumes and what provides them.

use serde_json::Value;

use super::columns::{AGE, Column, NAME, boolean, integer, text as column, wide};
use super::printer::{Printer, printer};
use super::row::{Row, text};

const GROUP: &str = "storage.k8s.io";

/// The deprecated annotation with the name of the class.
const STORAGE_CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const DEFAULT_CLASS_ANNOTATIONS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

pub(super) const PRINTERS: &[Printer] = &[
    printer("", "persistentvolumes", VOLUME_COLUMNS, persistent_volume),
    printer("", "persistentvolumeclaims", CLAIM_COLUMNS, persistent_volume_claim),
    printer(GROUP, "storageclasses", CLASS_COLUMNS, storage_class),
    printer(GROUP, "csinodes", &[NAME, integer("Drivers"), AGE], |row| {
        vec![row.name(), row.count("spec.drivers").into(), row.age()]
    }),
    printer(GROUP, "csidrivers", DRIVER_COLUMNS, csi_driver),
    printer(GROUP, "volumeattachments", ATTACHMENT_COLUMNS, |row| {
        vec![
            row.name(),
            row.text("spec.attacher").into(),
            row.text("spec.source.persistentVolumeName").into(),
            row.text("spec.nodeName").into(),
            row.flag("status.attached").into(),
            row.age(),
        ]
    }),
];

const VOLUME_COLUMNS: &[Column] = &[
    NAME,
    column("Capacity"),
    column("Access Modes"),
    column("Reclaim Policy"),
    column("Status"),
    column("Claim"),
    column("StorageClass"),
    column("VolumeAttributesClass"),
    column("Reason"),
    AGE,
    wide("VolumeMode"),
];

const CLAIM_COLUMNS: &[Column] = &[
    NAME,
    column("Status"),
    column("Volume"),
    column("Capacity"),
    column("Access Modes"),
    column("StorageClass"),
    column("VolumeAttributesClass"),
    AGE,
    wide("VolumeMode"),
];

const CLASS_COLUMNS: &[Column] = &[
    NAME,
    column("Provisioner"),
    column("ReclaimPolicy"),
    column("VolumeBindingMode"),
    column("AllowVolumeExpansion"),
    AGE,
];

const DRIVER_COLUMNS: &[Column] = &[
    NAME,
    boolean("AttachRequired"),
    boolean("PodInfoOnMount"),
    boolean("StorageCapacity"),
    column("TokenRequests"),
    boolean("RequiresRepublish"),
    column("Modes"),
    AGE,
];

const ATTACHMENT_COLUMNS: &[Column] = &[
    NAME,
    Column { format: "name", ..column("Attacher") },
    column("PV"),
    column("Node"),
    boolean("Attached"),
    AGE,
];

fn persistent_volume(row: Row<'_>) -> Vec<Value> {
    let claim = match row.at("spec.claimRef") {
        Value::Null => String::new(),
        claim => format!("{}/{}", text(claim, "namespace"), text(claim, "name")),
    };
    vec![
        row.name(),
        row.text_or("spec.capacity.storage", "0").into(),
        access_modes(&row.texts("spec.accessModes")).into(),
        row.text("spec.persistentVolumeReclaimPolicy").into(),
        phase(row).into(),
        claim.into(),
        storage_class_name(row).into(),
        row.text_or("spec.volumeAttributesClassName", "<unset>").into(),
        row.text("status.reason").into(),
        row.age(),
        row.text_or("spec.volumeMode", "<unset>").into(),
    ]
}

fn persistent_volume_claim(row: Row<'_>) -> Vec<Value> {
    let is_bound = !row.text("spec.volumeName").is_empty();
    let (capacity, modes) = if is_bound {
        let modes = access_modes(&row.texts("status.accessModes"));
        (row.text_or("status.capacity.storage", "0"), modes)
    } else {
        ("", String::new())
    };
    vec![
        row.name(),
        phase(row).into(),
        row.text("spec.volumeName").into(),
        capacity.into(),
        modes.into(),
        storage_class_name(row).into(),
        row.text_or("spec.volumeAttributesClassName", "<unset>").into(),
        row.age(),
        row.text_or("spec.volumeMode", "<unset>").into(),
    ]
}

fn phase(row: Row<'_>) -> &str {
    if row.is_terminating() { "Terminating" } else { row.text("status.phase") }
}

fn storage_class_name(row: Row<'_>) -> &str {
    match row.metadata_entry("annotations", STORAGE_CLASS_ANNOTATION) {
        "" => row.text("spec.storageClassName"),
        name => name,
    }
}

fn access_modes(modes: &[&str]) -> String {
    const ABBREVIATIONS: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let found = ABBREVIATIONS.iter().filter(|(mode, _)| modes.contains(mode));
    let short: Vec<&str> = found.map(|(_, short)| *short).collect();
    short.join(",")
}

fn storage_class(row: Row<'_>) -> Vec<Value> {
    let is_default = DEFAULT_CLASS_ANNOTATIONS
        .iter()
        .any(|name| row.metadata_entry("annotations", name) == "true");
    let suffix = if is_default { " (default)" } else { "" };
    vec![
        format!("{}{suffix}", row.text("metadata.name")).into(),
        row.text("provisioner").into(),
        row.text_or("reclaimPolicy", "Delete").into(),
        row.text_or("volumeBindingMode", "Immediate").into(),
        row.flag("allowVolumeExpansion").into(),
        row.age(),
    ]
}

fn csi_driver(row: Row<'_>) -> Vec<Value> {
    let tokens = match row.at("spec.tokenRequests").as_array() {
        None => "<unset>".to_owned(),
        Some(requests) => {
            let audiences: Vec<&str> = requests.iter().map(|r| text(r, "audience")).collect();
            audiences.join(",")
        }
    };
    let modes = match row.texts("spec.volumeLifecycleModes").join(",") {
        modes if modes.is_empty() => "<none>".to_owned(),
        modes => modes,
    };
    vec![
        row.name(),
        (row.at("spec.attachRequired") != false).into(),
        row.flag("spec.podInfoOnMount").into(),
        row.flag("spec.storageCapacity").into(),
        tokens.into(),
        row.flag("spec.requiresRepublish").into(),
        modes.into(),
        row.age(),
    ]
}
