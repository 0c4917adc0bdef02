//! Volumes, claims and their classes.

use serde_json::{Map, Value};

use super::access::{at, flag, has, items, part, text};
use super::built_in::{BASE, BuiltIn, Generation, Status};
use super::{Around, checks};
use crate::shape::Amount;
use crate::status::{About, Failure};

pub(super) static VOLUME: BuiltIn = BuiltIn {
    model: "io.k8s.api.core.v1.PersistentVolume",
    status: Status::Own,
    admit_create: |volume, _| {
        protect(volume, "kubernetes.io/pv-protection");
        Ok(())
    },
    create: |volume| {
        let now = at(volume, "/metadata/creationTimestamp").clone();
        let status = part(volume, "status");
        status.insert("phase".to_owned(), "Pending".into());
        status.insert("lastPhaseTransitionTime".to_owned(), now);
    },
    admit_status: note_transition,
    validate: checks::volume,
    validate_update: checks::volume_update,
    fields: named,
    ..BASE
};

pub(super) static CLAIM: BuiltIn = BuiltIn {
    model: "io.k8s.api.core.v1.PersistentVolumeClaim",
    status: Status::Own,
    admit_create: |claim, around| {
        protect(claim, "kubernetes.io/pvc-protection");
        default_class(claim, around);
        Ok(())
    },
    create: normalize_sources,
    update: |claim, _| normalize_sources(claim),
    admit_update: may_grow,
    validate: checks::claim,
    validate_update: checks::claim_update,
    fields: named,
    ..BASE
};

pub(super) static STORAGE_CLASS: BuiltIn = BuiltIn {
    model: "io.k8s.api.storage.v1.StorageClass",
    validate: checks::storage_class,
    validate_update: checks::storage_class_update,
    ..BASE
};

pub(super) static CSI_DRIVER: BuiltIn = BuiltIn {
    model: "io.k8s.api.storage.v1.CSIDriver",
    generation: Generation::SpecFromNone,
    updates_unconditionally: false,
    ..BASE
};

pub(super) static CSI_NODE: BuiltIn = BuiltIn {
    model: "io.k8s.api.storage.v1.CSINode",
    validate: checks::csi_node,
    validate_update: checks::csi_node_update,
    updates_unconditionally: false,
    ..BASE
};

pub(super) static CSI_STORAGE_CAPACITY: BuiltIn = BuiltIn {
    model: "io.k8s.api.storage.v1.CSIStorageCapacity",
    updates_unconditionally: false,
    ..BASE
};

pub(super) static VOLUME_ATTACHMENT: BuiltIn = BuiltIn {
    model: "io.k8s.api.storage.v1.VolumeAttachment",
    status: Status::Own,
    validate: checks::volume_attachment,
    validate_update: checks::volume_attachment_update,
    updates_unconditionally: false,
    ..BASE
};

/// The time as objects carry it.
pub(super) fn now(around: Around<'_>) -> Value {
    let now = around.environment.now();
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}

fn named(object: &Value) -> Vec<(&'static str, String)> {
    vec![("name", text(object, "/metadata/name").to_owned())]
}

/// What is in use does not go away.
fn protect(object: &mut Value, finalizer: &str) {
    let finalizers = items(part(object, "metadata"), "finalizers");
    if finalizers.iter().all(|found| found != finalizer) {
        finalizers.push(finalizer.into());
    }
}

/// The newest default class, or the first by name of those that came together.
fn default_class(claim: &mut Value, around: Around<'_>) {
    const DEFAULT: [&str; 2] = [
        "/metadata/annotations/storageclass.kubernetes.io~1is-default-class",
        "/metadata/annotations/storageclass.beta.kubernetes.io~1is-default-class",
    ];
    const CLASS: &str = "/metadata/annotations/volume.beta.kubernetes.io~1storage-class";
    if has(claim, "/spec/storageClassName") || has(claim, CLASS) {
        return;
    }
    let classes = around.objects.list("storage.k8s.io", "storageclasses", "");
    let mut defaults: Vec<&Value> = classes
        .iter()
        .filter(|class| DEFAULT.iter().any(|pointer| text(class, pointer) == "true"))
        .collect();
    defaults.sort_by_key(|class| {
        let age = std::cmp::Reverse(text(class, "/metadata/creationTimestamp"));
        (age, text(class, "/metadata/name"))
    });
    if let Some(class) = defaults.first() {
        let name = at(class, "/metadata/name").clone();
        part(claim, "spec").insert("storageClassName".to_owned(), name);
    }
}

/// One source in two fields: the older one only knows claims and snapshots, and drops the rest.
fn normalize_sources(claim: &mut Value) {
    let is_known = |source: &Value| {
        matches!(
            (text(source, "/apiGroup"), text(source, "/kind")),
            ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
        )
    };
    let spec = part(claim, "spec");
    if has_field(spec, "dataSource") && !has_field(spec, "dataSourceRef") {
        if is_known(&spec["dataSource"]) {
            spec.insert("dataSourceRef".to_owned(), spec["dataSource"].clone());
        } else {
            spec.shift_remove("dataSource");
        }
    } else if has_field(spec, "dataSourceRef") && !has_field(spec, "dataSource") {
        let source = &spec["dataSourceRef"];
        if text(source, "/namespace").is_empty() {
            spec.insert("dataSource".to_owned(), source.clone());
        }
    }
}

fn has_field(fields: &Map<String, Value>, name: &str) -> bool {
    fields.get(name).is_some_and(|value| !value.is_null())
}

/// A bound claim may only grow if its class says so.
fn may_grow(new: &mut Value, old: &Value, around: Around<'_>) -> Result<(), Failure> {
    let size = |claim: &Value| {
        Amount::parse(text(claim, "/spec/resources/requests/storage")).map_or(0, Amount::nanos)
    };
    if size(new) <= size(old) || text(old, "/status/phase") != "Bound" {
        return Ok(());
    }
    let class = text(old, "/spec/storageClassName");
    let class = around.objects.get("storage.k8s.io", "storageclasses", "", class);
    if class.is_some_and(|class| flag(&class, "/allowVolumeExpansion")) {
        return Ok(());
    }
    let name = text(new, "/metadata/name");
    let about = About { group: "", kind: "persistentvolumeclaims", name };
    let why = "only dynamically provisioned pvc can be resized and the storageclass that \
               provisions the pvc must support resize";
    Err(Failure::forbidden(about, why))
}

/// A phase that changes says since when, unless its writer does.
fn note_transition(new: &mut Value, old: &Value, around: Around<'_>) {
    const TIME: &str = "/status/lastPhaseTransitionTime";
    let same_phase = text(new, "/status/phase") == text(old, "/status/phase");
    let (given, before) = (at(new, TIME), at(old, TIME));
    let time = if same_phase && given.is_null() {
        before.clone()
    } else if !same_phase && (given.is_null() || given == before) {
        now(around)
    } else {
        return;
    };
    part(new, "status").insert("lastPhaseTransitionTime".to_owned(), time);
}
