//! The identity of a StatefulSet pod: its ordinal, name and claims.

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::daemon_set::REVISION_HASH;
use super::super::pods::from_template;

/// The number of a pod of this set; none if its name is not one that the set gives.
pub(super) fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    let prefix = set.metadata.name.as_deref()?;
    let rest = pod.metadata.name.as_deref()?.strip_prefix(prefix)?.strip_prefix('-')?;
    let number: i32 = rest.parse().ok()?;
    (number >= 0 && number.to_string() == rest).then_some(number)
}

fn name(set: &StatefulSet, ordinal: i32) -> String {
    format!("{}-{ordinal}", set.metadata.name.as_deref().unwrap_or_default())
}

fn claim_name(template: &PersistentVolumeClaim, pod: &str) -> String {
    format!("{}-{pod}", template.metadata.name.as_deref().unwrap_or_default())
}

/// The claims of a pod, which outlive it.
pub(super) fn claims(
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    ordinal: i32,
) -> Vec<PersistentVolumeClaim> {
    let pod = name(set, ordinal);
    let templates = spec.volume_claim_templates.iter().flatten();
    let claims = templates.map(|template| {
        let mut labels = template.metadata.labels.clone().unwrap_or_default();
        labels.extend(spec.selector.match_labels.clone().unwrap_or_default());
        PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(claim_name(template, &pod)),
                namespace: set.metadata.namespace.clone(),
                labels: Some(labels),
                annotations: template.metadata.annotations.clone(),
                ..ObjectMeta::default()
            },
            spec: template.spec.clone(),
            status: None,
        }
    });
    claims.collect()
}

pub(super) fn pod(
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    template: &PodTemplateSpec,
    revision: &str,
    ordinal: i32,
) -> Pod {
    let name = name(set, ordinal);
    let mut pod = from_template(set, template);
    pod.metadata.generate_name = None;
    pod.metadata.name = Some(name.clone());
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert("statefulset.kubernetes.io/pod-name".to_owned(), name.clone());
    labels.insert("apps.kubernetes.io/pod-index".to_owned(), ordinal.to_string());
    labels.insert(REVISION_HASH.to_owned(), revision.to_owned());
    let pod_spec = pod.spec.get_or_insert_default();
    pod_spec.hostname = Some(name.clone());
    pod_spec.subdomain = spec.service_name.clone().filter(|service| !service.is_empty());
    let volumes = pod_spec.volumes.get_or_insert_default();
    for template in spec.volume_claim_templates.iter().flatten() {
        let volume = template.metadata.name.clone().unwrap_or_default();
        volumes.retain(|known| known.name != volume);
        volumes.push(Volume {
            name: volume,
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim_name(template, &name),
                read_only: None,
            }),
            ..Volume::default()
        });
    }
    pod
}
