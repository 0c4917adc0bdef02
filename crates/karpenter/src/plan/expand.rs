//! Generates the pods that controllers would create: for a Deployment, StatefulSet, ReplicaSet,
//! ReplicationController or Job without pods in the input.
//!
//! DaemonSets are not expanded, since a decision knows what they add to each node; CronJobs are not
//! either, since it is unknown when they run. A workload that an API server would reject gets no
//! pods, but a remark.

mod existing_objects;
mod storage;
mod workload;

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_cluster::wire::Pod;
use serde::Serialize;

use self::existing_objects::ExistingObjects;
use self::storage::StorageClasses;
use self::workload::{Workload, WorkloadProblem};
use super::cluster_objects::ClusterObjects;
use super::file_objects::FileObjects;
use super::report::Remark;

/// The limits of the pods generated in one run.
#[derive(Clone, Copy, Debug)]
struct Limits {
    pods_per_workload: usize,
    /// More than most clusters hold, less than memory does.
    pods: usize,
    /// Of templates, each counted once for every pod, since each pod has a copy.
    bytes: usize,
}

impl Limits {
    const PLAN: Self = Self { pods_per_workload: 50_000, pods: 200_000, bytes: 256 << 20 };
}

/// A workload whose pods were generated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ExpandedWorkload {
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// How many pods were generated.
    pub(crate) pods: usize,
    /// How many requested pods exceed the limits.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) left_out: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Generates the pods of workloads without pods; adds remarks about the others.
pub(crate) fn expand_workloads(gathered: &mut ClusterObjects) -> Vec<ExpandedWorkload> {
    expand_within(gathered, Limits::PLAN)
}

fn expand_within(gathered: &mut ClusterObjects, limits: Limits) -> Vec<ExpandedWorkload> {
    let ClusterObjects { objects, jobs, file_objects, .. } = &*gathered;
    let present = ExistingObjects::index(objects);
    let mut expansion = Expansion {
        used_pod_names: present.names.clone(),
        classes: StorageClasses::from_objects(objects),
        limits,
        bytes: 0,
        pods: Vec::new(),
        claims: Vec::new(),
        replica_sets: Vec::new(),
    };
    let (mut expanded, mut remarks) = (Vec::new(), Vec::new());
    for workload in workload::list_workloads(objects, jobs) {
        if present.has_pods_of(&workload) {
            continue;
        }
        if let Some(flaw) = workload.problem() {
            remarks.push(invalid_workload_remark(&workload, flaw, gathered));
            continue;
        }
        if workload.replicas() > 0 {
            let made = expansion.add_workload(&workload, file_objects);
            remarks.extend(truncated_workload_remark(&workload, &made, gathered));
            expanded.push(made);
        }
    }
    let known: BTreeSet<_> = objects
        .persistent_volume_claims
        .iter()
        .map(|claim| namespaced_name(&claim.metadata))
        .collect();
    expansion.claims.retain(|claim| !known.contains(&namespaced_name(&claim.metadata)));
    let objects = &mut gathered.objects;
    objects.pods.append(&mut expansion.pods);
    objects.persistent_volume_claims.append(&mut expansion.claims);
    objects.replica_sets.append(&mut expansion.replica_sets);
    remarks.extend(expansion.classes.add_assumed_classes(objects));
    gathered.remarks.extend(remarks);
    expanded
}

fn invalid_workload_remark(
    workload: &Workload<'_>,
    flaw: WorkloadProblem,
    gathered: &ClusterObjects,
) -> Remark {
    let WorkloadProblem { field, problem, fix } = flaw;
    Remark {
        object: workload.object_name(),
        place: workload_location(workload, field, gathered),
        field: Some(field.to_owned()),
        problem,
        fix: Some(fix.to_owned()),
        left_out: true,
        broken: true,
    }
}

/// Returns the remark about a workload that exceeds the limits.
fn truncated_workload_remark(
    workload: &Workload<'_>,
    made: &ExpandedWorkload,
    gathered: &ClusterObjects,
) -> Option<Remark> {
    let (field, requested) = workload.requested_pods;
    (made.left_out > 0).then(|| Remark {
        object: workload.object_name(),
        place: workload_location(workload, field, gathered),
        field: Some(field.to_owned()),
        problem: format!("asks for {requested} pods; {} of them are planned", made.pods),
        fix: Some("ask for fewer, or plan the rest apart".to_owned()),
        left_out: false,
        broken: true,
    })
}

fn workload_location(
    workload: &Workload<'_>,
    field: &str,
    gathered: &ClusterObjects,
) -> Option<String> {
    let (namespace, name) = namespaced_name(workload.metadata);
    gathered.field_location(workload.kind, &namespace, &name, field)
}

/// Namespace and name.
type NamespacedName = (String, String);

fn namespaced_name(metadata: &ObjectMeta) -> NamespacedName {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

/// The pods and claims that were made so far.
struct Expansion {
    used_pod_names: BTreeSet<NamespacedName>,
    classes: StorageClasses,
    limits: Limits,
    /// What the pods take, by the size of their templates.
    bytes: usize,
    pods: Vec<Pod>,
    claims: Vec<PersistentVolumeClaim>,
    /// Those between a Deployment and its pods: default spread constraints read them.
    replica_sets: Vec<ReplicaSet>,
}

impl Expansion {
    fn add_workload(
        &mut self,
        workload: &Workload<'_>,
        file_objects: &FileObjects,
    ) -> ExpandedWorkload {
        let (namespace, name) = namespaced_name(workload.metadata);
        let object = workload.object_name();
        let requested = workload.replicas();
        // All pods of a workload get the same defaults.
        let template = file_objects.pod_from_template(workload.template, &namespace);
        let claims = workload.volume_claims.iter();
        let claims: Vec<_> = claims.map(|claim| file_objects.claim_from_template(claim)).collect();
        let size = serde_json::to_vec(&(&template, &claims)).map_or(1, |text| text.len()).max(1);
        let made = self.allowed_pod_count(requested, size);
        for number in (workload.first_ordinal..).take(made) {
            let numbered = format!("{name}-{number}");
            let pod_name = self.unused_pod_name(&namespace, &numbered);
            self.pods.push(workload.make_pod(&template, &pod_name, number));
            let pod = (namespace.as_str(), numbered.as_str());
            for template in &claims {
                self.claims.push(storage::instantiate_claim(
                    template,
                    pod,
                    &object,
                    &mut self.classes,
                ));
            }
        }
        if workload.kind == "Deployment" {
            self.replica_sets.push(workload.make_replica_set());
        }
        let left_out = requested.saturating_sub(u64::try_from(made).unwrap_or(u64::MAX));
        ExpandedWorkload { kind: workload.kind, pods: made, left_out, namespace, name }
    }

    /// Returns how many pods of `size` bytes the limits allow; counts them as generated.
    fn allowed_pod_count(&mut self, requested: u64, size: usize) -> usize {
        let Limits { pods_per_workload, pods, bytes } = self.limits;
        let allowed = usize::try_from(requested)
            .unwrap_or(usize::MAX)
            .min(pods_per_workload)
            .min(pods.saturating_sub(self.pods.len()))
            .min(bytes.saturating_sub(self.bytes) / size);
        self.bytes += size.saturating_mul(allowed);
        allowed
    }

    /// Returns a new pod name: a Deployment and a StatefulSet may share one.
    fn unused_pod_name(&mut self, namespace: &str, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        while !self.used_pod_names.insert((namespace.to_owned(), name.clone())) {
            name.push_str("-x");
        }
        name
    }
}

#[cfg(test)]
mod tests;
