//! Generates the claims of StatefulSets, and StorageClasses that the input lacks.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_cluster::ingest::Objects;
use karpenter_cluster::wire::{PodSpec, Volume};

use crate::plan::report::Remark;

/// The class of claims that name none, if there is no default. No object can have this name.
const ASSUMED_DEFAULT: &str = "(default)";

/// The StorageClasses of the input, and the assumed ones.
pub(super) struct StorageClasses {
    known: Vec<String>,
    /// Names, with the first workload that requests the class.
    assumed: BTreeMap<String, String>,
}

impl StorageClasses {
    pub(super) fn from_objects(objects: &Objects) -> Self {
        let names = objects.storage_classes.iter().filter_map(|class| class.metadata.name.clone());
        Self { known: names.collect(), assumed: BTreeMap::new() }
    }

    /// Returns the class of a workload's claim; assumes it if it is absent.
    fn class_of_claim(&mut self, requested: Option<&str>, workload: &str) -> String {
        let name = requested.unwrap_or(ASSUMED_DEFAULT).to_owned();
        // The empty class requests an existing volume, which no provisioner creates.
        let is_missing = !name.is_empty() && !self.known.contains(&name);
        if is_missing && !self.assumed.contains_key(&name) {
            self.assumed.insert(name.clone(), workload.to_owned());
        }
        name
    }

    /// Adds the assumed classes and returns remarks about them.
    pub(super) fn add_assumed_classes(self, objects: &mut Objects) -> Vec<Remark> {
        let remark = |(name, workload): (&String, &String)| {
            let (object, problem) = match name.as_str() {
                ASSUMED_DEFAULT => (
                    workload.clone(),
                    "claims name no StorageClass, and the input has no default one".to_owned(),
                ),
                name => (
                    format!("StorageClass {name}"),
                    format!("is not in the input, and {workload} asks for it"),
                ),
            };
            Remark {
                object,
                place: None,
                field: None,
                problem: format!(
                    "{problem}; assumed that volumes are made in the zone of the pod, any zone"
                ),
                fix: Some("add it to the input: kubectl get storageclasses -o yaml".to_owned()),
                left_out: false,
                broken: false,
            }
        };
        let remarks = self.assumed.iter().map(remark).collect();
        objects.storage_classes.extend(self.assumed.into_keys().map(|name| StorageClass {
            metadata: ObjectMeta { name: Some(name), ..ObjectMeta::default() },
            provisioner: "assumed".to_owned(),
            volume_binding_mode: Some("WaitForFirstConsumer".to_owned()),
            ..StorageClass::default()
        }));
        remarks
    }
}

/// Returns the claim of a StatefulSet's pod from a template.
pub(super) fn instantiate_claim(
    template: &PersistentVolumeClaim,
    (namespace, pod): (&str, &str),
    workload: &str,
    classes: &mut StorageClasses,
) -> PersistentVolumeClaim {
    let mut claim = template.clone();
    claim.metadata.name = Some(claim_name(template, pod));
    claim.metadata.namespace = Some(namespace.to_owned());
    claim.status = None;
    let spec = claim.spec.get_or_insert_default();
    let class = classes.class_of_claim(spec.storage_class_name.as_deref(), workload);
    spec.storage_class_name = Some(class);
    claim
}

fn claim_name(template: &PersistentVolumeClaim, pod: &str) -> String {
    format!("{}-{pod}", template.metadata.name.as_deref().unwrap_or_default())
}

/// Replaces the volume of the template's name with its claim.
pub(super) fn mount_claim(spec: &mut PodSpec, template: &PersistentVolumeClaim, pod: &str) {
    let name = template.metadata.name.clone().unwrap_or_default();
    let volumes = spec.volumes.get_or_insert_default();
    volumes.retain(|volume| volume.name != name);
    volumes.push(Volume {
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim_name(template, pod),
            read_only: None,
        }),
        name,
        ..Volume::default()
    });
}
