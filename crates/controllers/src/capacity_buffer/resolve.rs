//! Resolves the reference of a CapacityBuffer, and the number of its virtual pods.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use karpenter_api::capacity_buffer::{CapacityBuffer, LocalObjectRef, ScalableRef};
use karpenter_api::reasons::{capacity_buffer as reasons, messages};
use karpenter_cluster::ingest::buffer_replicas;
use karpenter_core::buffers::PodSource;
use kube::ResourceExt as _;

use crate::Cache;

/// The result of resolving a buffer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Resolution {
    /// It is known, and so is the PodTemplate with its generation, if it is one.
    Resolved { replicas: u32, template: Option<(LocalObjectRef, i64)> },
    /// What it names is not there, which its owner can change.
    Missing { reason: &'static str, message: String },
    /// It names nothing.
    Unset,
    /// Anything else.
    Failed { message: String },
}

/// Resolves the reference of a buffer. A PodTemplate takes precedence over a workload.
pub(super) fn resolve(cache: &Cache, buffer: &CapacityBuffer) -> Resolution {
    let namespace = buffer.namespace().unwrap_or_default();
    match (&buffer.spec.pod_template_ref, &buffer.spec.scalable_ref) {
        (Some(template), _) => resolve_pod_template(cache, buffer, &namespace, template),
        (None, Some(workload)) => resolve_scalable(cache, buffer, &namespace, workload),
        (None, None) => Resolution::Unset,
    }
}

fn resolve_pod_template(
    cache: &Cache,
    buffer: &CapacityBuffer,
    namespace: &str,
    reference: &LocalObjectRef,
) -> Resolution {
    let Some(found) = cache.pod_templates.get(namespace, &reference.name) else {
        let message = not_found("podtemplates", &reference.name);
        return Resolution::Missing { reason: reasons::POD_TEMPLATE_NOT_FOUND, message };
    };
    let generation = found.metadata.generation.unwrap_or_default();
    let template = Some((reference.clone(), generation));
    resolve_replicas(buffer, PodSource::PodTemplate, found.template.as_ref(), template)
}

fn resolve_scalable(
    cache: &Cache,
    buffer: &CapacityBuffer,
    namespace: &str,
    reference: &ScalableRef,
) -> Resolution {
    let group = reference.api_group.as_deref().unwrap_or_default();
    if !matches!(group, "" | "apps") {
        return Resolution::Failed { message: messages::unsupported_scalable_group(group) };
    }
    let name = reference.name.as_str();
    let missing = |resource: &str| Resolution::Missing {
        reason: reasons::SCALABLE_REF_NOT_FOUND,
        message: not_found(&format!("{resource}.apps"), name),
    };
    match reference.kind.as_str() {
        "Deployment" => {
            let Some(found) = cache.deployments.get(namespace, name) else {
                return missing("deployments");
            };
            let spec = found.spec.as_ref();
            resolve_workload(buffer, spec.and_then(|s| s.replicas), spec.map(|s| &s.template))
        }
        "StatefulSet" => {
            let Some(found) = cache.stateful_sets.get(namespace, name) else {
                return missing("statefulsets");
            };
            let spec = found.spec.as_ref();
            resolve_workload(buffer, spec.and_then(|s| s.replicas), spec.map(|s| &s.template))
        }
        "ReplicaSet" => {
            let Some(found) = cache.replica_sets.get(namespace, name) else {
                return missing("replicasets");
            };
            let spec = found.spec.as_ref();
            resolve_workload(
                buffer,
                spec.and_then(|s| s.replicas),
                spec.and_then(|s| s.template.as_ref()),
            )
        }
        kind => Resolution::Failed { message: messages::unsupported_kind(kind) },
    }
}

fn resolve_workload(
    buffer: &CapacityBuffer,
    replicas: Option<i32>,
    template: Option<&PodTemplateSpec>,
) -> Resolution {
    let replicas = replicas.map(|replicas| u32::try_from(replicas).unwrap_or(0));
    resolve_replicas(buffer, PodSource::Scalable { replicas }, template, None)
}

fn resolve_replicas(
    buffer: &CapacityBuffer,
    workload: PodSource,
    spec: Option<&PodTemplateSpec>,
    template: Option<(LocalObjectRef, i64)>,
) -> Resolution {
    match buffer_replicas(buffer, workload, spec) {
        Ok(replicas) => Resolution::Resolved { replicas, template },
        Err(message) => Resolution::Failed { message },
    }
}

/// Returns the message that the API server has for a missing object.
fn not_found(resource: &str, name: &str) -> String {
    format!("{resource} {name:?} not found")
}
