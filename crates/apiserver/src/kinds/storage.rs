//! Volumes, claims and their classes.

use karpenter_grammar::Amount;
use serde_json::{Map, Value};

use super::built_in_kind::{BASE_KIND, BuiltInKind, GenerationPolicy, StatusPolicy};
use super::json_access::{at, ensure_list, ensure_object, flag, has, text};
use super::{AdmissionContext, ObjectReader, validation};
use crate::status::{StatusDetails, StatusError};

pub(super) static PERSISTENT_VOLUME: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.core.v1.PersistentVolume",
    status_policy: StatusPolicy::Subresource,
    admit_create: |volume, _| {
        add_protection_finalizer(volume, "kubernetes.io/pv-protection");
        Ok(())
    },
    prepare_for_create: |volume| {
        let now = at(volume, "/metadata/creationTimestamp").clone();
        let status = ensure_object(volume, "status");
        status.insert("phase".to_owned(), "Pending".into());
        status.insert("lastPhaseTransitionTime".to_owned(), now);
    },
    admit_status_update: set_phase_transition_time,
    validate: validation::validate_persistent_volume,
    validate_update: validation::validate_persistent_volume_update,
    selectable_fields: name_field,
    ..BASE_KIND
};

pub(super) static PERSISTENT_VOLUME_CLAIM: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.core.v1.PersistentVolumeClaim",
    status_policy: StatusPolicy::Subresource,
    admit_create: |claim, context| {
        add_protection_finalizer(claim, "kubernetes.io/pvc-protection");
        set_default_storage_class(claim, context.objects);
        Ok(())
    },
    admit_manifest: set_default_storage_class,
    prepare_for_create: sync_data_sources,
    prepare_for_update: |claim, _| sync_data_sources(claim),
    admit_update: check_volume_expansion,
    validate: validation::validate_persistent_volume_claim,
    validate_update: validation::validate_persistent_volume_claim_update,
    selectable_fields: name_field,
    ..BASE_KIND
};

pub(super) static STORAGE_CLASS: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.storage.v1.StorageClass",
    validate: validation::validate_storage_class,
    validate_update: validation::validate_storage_class_update,
    ..BASE_KIND
};

pub(super) static CSI_DRIVER: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.storage.v1.CSIDriver",
    generation_policy: GenerationPolicy::OnSpecChangeUnsetOnCreate,
    allows_unconditional_update: false,
    ..BASE_KIND
};

pub(super) static CSI_NODE: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.storage.v1.CSINode",
    validate: validation::validate_csi_node,
    validate_update: validation::validate_csi_node_update,
    allows_unconditional_update: false,
    ..BASE_KIND
};

pub(super) static CSI_STORAGE_CAPACITY: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.storage.v1.CSIStorageCapacity",
    allows_unconditional_update: false,
    ..BASE_KIND
};

pub(super) static VOLUME_ATTACHMENT: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.storage.v1.VolumeAttachment",
    status_policy: StatusPolicy::Subresource,
    validate: validation::validate_volume_attachment,
    validate_update: validation::validate_volume_attachment_update,
    allows_unconditional_update: false,
    ..BASE_KIND
};

/// Returns the current time in the format of object timestamps.
pub(super) fn timestamp_now(context: AdmissionContext<'_>) -> Value {
    let now = context.environment.now();
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}

fn name_field(object: &Value) -> Vec<(&'static str, String)> {
    vec![("name", text(object, "/metadata/name").to_owned())]
}

/// Adds a finalizer that protects the object while it is in use.
fn add_protection_finalizer(object: &mut Value, finalizer: &str) {
    let finalizers = ensure_list(ensure_object(object, "metadata"), "finalizers");
    if finalizers.iter().all(|found| found != finalizer) {
        finalizers.push(finalizer.into());
    }
}

/// Sets the default storage class of a claim that names none.
///
/// It is the newest default class, or the first by name of those of equal age.
fn set_default_storage_class(claim: &mut Value, objects: &dyn ObjectReader) {
    const DEFAULT_CLASS_POINTERS: [&str; 2] = [
        "/metadata/annotations/storageclass.kubernetes.io~1is-default-class",
        "/metadata/annotations/storageclass.beta.kubernetes.io~1is-default-class",
    ];
    const CLASS_POINTER: &str = "/metadata/annotations/volume.beta.kubernetes.io~1storage-class";
    if has(claim, "/spec/storageClassName") || has(claim, CLASS_POINTER) {
        return;
    }
    let classes = objects.list("storage.k8s.io", "storageclasses", "");
    let mut defaults: Vec<&Value> = classes
        .iter()
        .filter(|class| DEFAULT_CLASS_POINTERS.iter().any(|pointer| text(class, pointer) == "true"))
        .collect();
    defaults.sort_by_key(|class| {
        let age = std::cmp::Reverse(text(class, "/metadata/creationTimestamp"));
        (age, text(class, "/metadata/name"))
    });
    if let Some(class) = defaults.first() {
        let name = at(class, "/metadata/name").clone();
        ensure_object(claim, "spec").insert("storageClassName".to_owned(), name);
    }
}

/// Copies the data source of a claim between its two fields.
///
/// The older field only has claims and snapshots; another source in it is dropped.
fn sync_data_sources(claim: &mut Value) {
    let is_known = |source: &Value| {
        matches!(
            (text(source, "/apiGroup"), text(source, "/kind")),
            ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
        )
    };
    let spec = ensure_object(claim, "spec");
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

/// Checks that a bound claim only grows if its class allows it.
fn check_volume_expansion(
    new: &mut Value,
    old: &Value,
    context: AdmissionContext<'_>,
) -> Result<(), StatusError> {
    let size = |claim: &Value| {
        Amount::parse(text(claim, "/spec/resources/requests/storage")).map_or(0, Amount::as_nanos)
    };
    if size(new) <= size(old) || text(old, "/status/phase") != "Bound" {
        return Ok(());
    }
    let class = text(old, "/spec/storageClassName");
    let class = context.objects.get("storage.k8s.io", "storageclasses", "", class);
    if class.is_some_and(|class| flag(&class, "/allowVolumeExpansion")) {
        return Ok(());
    }
    let name = text(new, "/metadata/name");
    let about = StatusDetails { group: "", kind: "persistentvolumeclaims", name };
    let why = "only dynamically provisioned pvc can be resized and the storageclass that \
               provisions the pvc must support resize";
    Err(StatusError::forbidden(about, why))
}

/// Sets the transition time of a changed phase, unless the writer did.
fn set_phase_transition_time(new: &mut Value, old: &Value, context: AdmissionContext<'_>) {
    const TIME: &str = "/status/lastPhaseTransitionTime";
    let same_phase = text(new, "/status/phase") == text(old, "/status/phase");
    let (given, before) = (at(new, TIME), at(old, TIME));
    let time = if same_phase && given.is_null() {
        before.clone()
    } else if !same_phase && (given.is_null() || given == before) {
        timestamp_now(context)
    } else {
        return;
    };
    ensure_object(new, "status").insert("lastPhaseTransitionTime".to_owned(), time);
}
