//! Reads CapacityBuffers into virtual pods that keep capacity free (spec 20 §3.20, spec 40 §6.2).

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{PodTemplate, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_api::capacity_buffer::CapacityBuffer;
use karpenter_core::buffers::virtual_pods::{Buffer, virtual_pods};
use karpenter_core::buffers::{BufferSize, PodSource};
use karpenter_core::pod::Pod;
use karpenter_core::resources::{PODS, Resources};

use super::{Objects, Reader, dynamic_resources, pod_spec, quantity, requests, text};
use crate::wire::PodSpec as WireSpec;

const KIND: &str = "CapacityBuffer";
/// The most virtual pods of one buffer, and of all buffers: more than any cluster can hold.
const MAX_PODS_PER_BUFFER: u32 = 50_000;
const MAX_BUFFER_PODS: usize = 200_000;

/// Returns the virtual pods of all buffers. A buffer that cannot be resolved has none and a
/// diagnostic.
pub(super) fn read(objects: &Objects, reader: &mut Reader<'_>) -> Vec<Pod> {
    if !reader.settings.gates.capacity_buffer || objects.capacity_buffers.is_empty() {
        return Vec::new();
    }
    let mut templates = Templates::default();
    objects.pod_templates.iter().for_each(|wire| templates.pod_template(wire));
    objects.deployments.iter().for_each(|wire| templates.deployment(wire));
    objects.stateful_sets.iter().for_each(|wire| templates.stateful_set(wire));
    objects.replica_sets.iter().for_each(|wire| templates.replica_set(wire));
    pods(&objects.capacity_buffers, &templates, reader)
}

/// The virtual pods of these buffers.
pub(crate) fn pods<'a>(
    buffers: impl IntoIterator<Item = &'a CapacityBuffer>,
    templates: &Templates<'_>,
    reader: &mut Reader<'_>,
) -> Vec<Pod> {
    let mut pods = Vec::new();
    for buffer in buffers {
        match resolve(buffer, templates, reader) {
            Ok(mut resolved) => {
                let remaining = u32::try_from(MAX_BUFFER_PODS - pods.len()).unwrap_or(0);
                let remaining = remaining.min(MAX_PODS_PER_BUFFER);
                if resolved.replicas > remaining {
                    let requested = resolved.replicas;
                    let problem =
                        format!("asks for {requested} pods; room is kept for {remaining}");
                    reader.report_problems(KIND, &buffer.metadata, &[problem]);
                    resolved.replicas = remaining;
                }
                pods.extend(virtual_pods(&resolved));
            }
            Err(reason) => reader.reject(KIND, &buffer.metadata, reason),
        }
    }
    pods
}

/// Where the pods of buffers come from, by kind, namespace and name.
#[derive(Default)]
pub(crate) struct Templates<'a> {
    by_name: HashMap<(&'static str, &'a str, &'a str), BufferSource<'a>>,
}

#[derive(Clone, Copy)]
struct BufferSource<'a> {
    workload: PodSource,
    template: Option<&'a PodTemplateSpec>,
}

impl<'a> Templates<'a> {
    pub(crate) fn pod_template(&mut self, wire: &'a PodTemplate) {
        let template = wire.template.as_ref();
        self.insert("PodTemplate", &wire.metadata, PodSource::PodTemplate, template);
    }

    pub(crate) fn deployment(&mut self, wire: &'a Deployment) {
        let spec = wire.spec.as_ref();
        let workload = scalable_workload(spec.and_then(|spec| spec.replicas));
        self.insert("Deployment", &wire.metadata, workload, spec.map(|spec| &spec.template));
    }

    pub(crate) fn stateful_set(&mut self, wire: &'a StatefulSet) {
        let spec = wire.spec.as_ref();
        let workload = scalable_workload(spec.and_then(|spec| spec.replicas));
        self.insert("StatefulSet", &wire.metadata, workload, spec.map(|spec| &spec.template));
    }

    pub(crate) fn replica_set(&mut self, wire: &'a ReplicaSet) {
        let spec = wire.spec.as_ref();
        let workload = scalable_workload(spec.and_then(|spec| spec.replicas));
        let template = spec.and_then(|spec| spec.template.as_ref());
        self.insert("ReplicaSet", &wire.metadata, workload, template);
    }

    fn insert(
        &mut self,
        kind: &'static str,
        meta: &'a ObjectMeta,
        workload: PodSource,
        template: Option<&'a PodTemplateSpec>,
    ) {
        let key = (kind, text(meta.namespace.as_ref()), text(meta.name.as_ref()));
        self.by_name.insert(key, BufferSource { workload, template });
    }

    /// Returns the workload or PodTemplate that a buffer references. A PodTemplate wins.
    fn resolve_source(&self, buffer: &CapacityBuffer) -> Result<BufferSource<'a>, String> {
        let namespace = text(buffer.metadata.namespace.as_ref());
        let (kind, name) = match (&buffer.spec.pod_template_ref, &buffer.spec.scalable_ref) {
            (Some(template), _) => ("PodTemplate", template.name.as_str()),
            (None, Some(scalable)) => {
                let group = text(scalable.api_group.as_ref());
                let kind = ["Deployment", "StatefulSet", "ReplicaSet"]
                    .into_iter()
                    .find(|kind| *kind == scalable.kind && matches!(group, "" | "apps"))
                    .ok_or_else(|| format!("cannot scale {} of {group:?}", scalable.kind))?;
                (kind, scalable.name.as_str())
            }
            (None, None) => {
                return Err("Neither podTemplateRef nor scalableRef is set".to_owned());
            }
        };
        let source = self.by_name.get(&(kind, namespace, name));
        source.copied().ok_or_else(|| format!("{kind} {namespace}/{name} is not there"))
    }
}

fn scalable_workload(replicas: Option<i32>) -> PodSource {
    PodSource::Scalable { replicas: replicas.map(non_negative) }
}

/// Converts to an unsigned number; negative numbers become 0.
fn non_negative(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// Returns how many pods of this workload and template the buffer keeps capacity for.
pub fn buffer_replicas(
    buffer: &CapacityBuffer,
    workload: PodSource,
    template: Option<&PodTemplateSpec>,
) -> Result<u32, String> {
    let mut problems = Vec::new();
    let wire = template_spec(template);
    let requests = requests::pod_requests(&wire, None, &mut problems);
    let replicas = replicas(buffer, workload, &requests, &mut problems);
    if problems.is_empty() { Ok(replicas) } else { Err(problems.join("; ")) }
}

fn template_spec(template: Option<&PodTemplateSpec>) -> WireSpec {
    template.and_then(|template| template.spec.as_ref()).map(Into::into).unwrap_or_default()
}

fn replicas(
    buffer: &CapacityBuffer,
    workload: PodSource,
    requests: &Resources,
    problems: &mut Vec<String>,
) -> u32 {
    let limits = buffer.spec.limits.as_ref();
    let size = BufferSize {
        pod_source: workload,
        percentage: buffer.spec.percentage.map(non_negative),
        replicas: buffer.spec.replicas.map(non_negative),
        limits: quantity::field_resources(limits, "spec.limits", problems),
    };
    // That a pod is one pod is no request that limits could be about.
    let limited: Resources = requests.iter().filter(|(name, _)| *name != PODS).collect();
    size.replicas_for(&limited)
}

/// The buffer with its size and the pods that it stands for.
fn resolve(
    buffer: &CapacityBuffer,
    templates: &Templates<'_>,
    reader: &Reader<'_>,
) -> Result<Buffer, String> {
    let source = templates.resolve_source(buffer)?;
    let mut problems = Vec::new();
    let wire = template_spec(source.template);
    let requests = requests::pod_requests(&wire, None, &mut problems);
    let replicas = replicas(buffer, source.workload, &requests, &mut problems);
    let claims = dynamic_resources::claims(&wire, None);
    let spec = pod_spec::read(&wire, requests, claims, reader.aliases, &mut problems);
    if !problems.is_empty() {
        return Err(problems.join("; "));
    }
    let template = source.template.and_then(|template| template.metadata.as_ref());
    let labels = template.and_then(|meta| meta.labels.clone()).unwrap_or_default();
    let meta = &buffer.metadata;
    Ok(Buffer {
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        replicas,
        labels: Arc::new(labels),
        spec: Arc::new(spec),
        created: reader.now,
    })
}
