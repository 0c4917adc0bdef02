//! Lists the workloads that create pods: replicas, template, and problems that an API server would
//! reject.

use std::borrow::Cow;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use karpenter_cluster::ingest::Objects;
use karpenter_cluster::wire::Pod;

use super::existing_objects::{is_empty_selector, selects};
use super::namespaced_name;
use super::storage::mount_claim;

/// Something that makes pods.
pub(super) struct Workload<'a> {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) metadata: &'a ObjectMeta,
    pub(super) selector: Option<Cow<'a, LabelSelector>>,
    pub(super) template: Option<&'a PodTemplateSpec>,
    /// The number of requested pods, and the field that holds it.
    pub(super) requested_pods: (&'static str, i32),
    /// The first number of a StatefulSet's pods.
    pub(super) first_ordinal: u64,
    pub(super) volume_claims: &'a [PersistentVolumeClaim],
}

/// A problem of a workload that an API server would reject.
pub(super) struct WorkloadProblem {
    pub(super) field: &'static str,
    pub(super) problem: String,
    pub(super) fix: &'static str,
}

/// Lists all workloads that request pods.
pub(super) fn list_workloads<'a>(objects: &'a Objects, jobs: &'a [Job]) -> Vec<Workload<'a>> {
    let mut workloads = Vec::new();
    for deployment in &objects.deployments {
        let spec = deployment.spec.as_ref();
        workloads.push(Workload {
            selector: spec.map(|spec| Cow::Borrowed(&spec.selector)),
            template: spec.map(|spec| &spec.template),
            ..Workload::new("Deployment", &deployment.metadata, spec.and_then(|s| s.replicas))
        });
    }
    for set in &objects.stateful_sets {
        let spec = set.spec.as_ref();
        let start = spec.and_then(|spec| spec.ordinals.as_ref()?.start);
        let claims = spec.and_then(|spec| spec.volume_claim_templates.as_deref());
        workloads.push(Workload {
            selector: spec.map(|spec| Cow::Borrowed(&spec.selector)),
            template: spec.map(|spec| &spec.template),
            first_ordinal: u64::try_from(start.unwrap_or(0)).unwrap_or(0),
            volume_claims: claims.unwrap_or_default(),
            ..Workload::new("StatefulSet", &set.metadata, spec.and_then(|spec| spec.replicas))
        });
    }
    for set in &objects.replica_sets {
        let spec = set.spec.as_ref();
        workloads.push(Workload {
            selector: spec.map(|spec| Cow::Borrowed(&spec.selector)),
            template: spec.and_then(|spec| spec.template.as_ref()),
            ..Workload::new("ReplicaSet", &set.metadata, spec.and_then(|spec| spec.replicas))
        });
    }
    for controller in &objects.replication_controllers {
        let spec = controller.spec.as_ref();
        let template = spec.and_then(|spec| spec.template.as_ref());
        // What selects nothing selects by the labels of the template.
        let selector = spec.and_then(|spec| spec.selector.clone()).filter(|s| !s.is_empty());
        let own = || template.and_then(|template| template.metadata.as_ref()?.labels.clone());
        let match_labels = selector.or_else(own);
        workloads.push(Workload {
            api_version: "v1",
            selector: Some(Cow::Owned(LabelSelector { match_labels, match_expressions: None })),
            template,
            ..Workload::new(
                "ReplicationController",
                &controller.metadata,
                spec.and_then(|spec| spec.replicas),
            )
        });
    }
    workloads.extend(jobs.iter().filter_map(job_workload));
    workloads
}

fn job_workload(job: &Job) -> Option<Workload<'_>> {
    let spec = job.spec.as_ref();
    let status = job.status.as_ref();
    let is_over = status.is_some_and(|status| {
        let conditions = status.conditions.as_deref().unwrap_or_default();
        conditions.iter().any(|c| matches!(&*c.type_, "Complete" | "Failed") && c.status == "True")
    });
    if is_over || spec.is_some_and(|spec| spec.suspend == Some(true)) {
        return None;
    }
    let parallel = spec.and_then(|spec| spec.parallelism).unwrap_or(1);
    let done = status.and_then(|status| status.succeeded).unwrap_or(0).max(0);
    let requested = match spec.and_then(|spec| spec.completions) {
        Some(all) if all < 0 => ("spec.completions", all),
        Some(all) if parallel >= 0 => {
            ("spec.parallelism", all.saturating_sub(done).max(0).min(parallel))
        }
        _ => ("spec.parallelism", parallel),
    };
    Some(Workload {
        api_version: "batch/v1",
        selector: spec.and_then(|spec| spec.selector.as_ref()).map(Cow::Borrowed),
        template: spec.map(|spec| &spec.template),
        requested_pods: requested,
        ..Workload::new("Job", &job.metadata, None)
    })
}

impl<'a> Workload<'a> {
    fn new(kind: &'static str, metadata: &'a ObjectMeta, replicas: Option<i32>) -> Self {
        Self {
            api_version: "apps/v1",
            kind,
            metadata,
            selector: None,
            template: None,
            requested_pods: ("spec.replicas", replicas.unwrap_or(1)),
            first_ordinal: 0,
            volume_claims: &[],
        }
    }

    /// Returns the number of requested pods.
    pub(super) fn replicas(&self) -> u64 {
        u64::try_from(self.requested_pods.1).unwrap_or(0)
    }

    /// Returns `Kind namespace/name`.
    pub(super) fn object_name(&self) -> String {
        let (namespace, name) = namespaced_name(self.metadata);
        format!("{} {namespace}/{name}", self.kind)
    }

    /// Returns why an API server would reject the workload, if it would.
    pub(super) fn problem(&self) -> Option<WorkloadProblem> {
        let (field, requested) = self.requested_pods;
        if requested < 0 {
            let problem = format!("must not be negative, is {requested}");
            return Some(WorkloadProblem { field, problem, fix: "write 0 or more" });
        }
        let spec = self.template.and_then(|template| template.spec.as_ref());
        if spec.is_none_or(|spec| spec.containers.is_empty()) {
            return Some(WorkloadProblem {
                field: "spec.template",
                problem: "has no containers".to_owned(),
                fix: "write the pod that it makes: spec: {containers: [...]}",
            });
        }
        if self.kind == "Job" {
            return None; // its selector is made up by the API server
        }
        let Some(selector) = self.selector.as_ref().filter(|selector| !is_empty_selector(selector))
        else {
            return Some(WorkloadProblem {
                field: "spec.selector",
                problem: "must not be empty".to_owned(),
                fix: "select the labels of spec.template.metadata",
            });
        };
        let none = std::collections::BTreeMap::new();
        let labels = self.template.and_then(|template| template.metadata.as_ref()?.labels.as_ref());
        (!selects(selector, labels.unwrap_or(&none))).then(|| WorkloadProblem {
            field: "spec.selector",
            problem: "does not match the labels of its own pods".to_owned(),
            fix: "write the same labels into spec.selector and spec.template.metadata",
        })
    }
}

impl Workload<'_> {
    /// Returns a pod of the workload. `template` is the pod without name and owner.
    pub(super) fn make_pod(&self, template: &Pod, name: &str, number: u64) -> Pod {
        let namespace = template.metadata.namespace.as_deref().unwrap_or_default();
        let mut labels = template.metadata.labels.clone().unwrap_or_default();
        let mut spec = template.spec.clone().unwrap_or_default();
        let owner = self.metadata.name.clone().unwrap_or_default();
        if self.kind == "StatefulSet" {
            labels.insert("statefulset.kubernetes.io/pod-name".to_owned(), name.to_owned());
            labels.insert("apps.kubernetes.io/pod-index".to_owned(), number.to_string());
            for claim in self.volume_claims {
                mount_claim(&mut spec, claim, &format!("{owner}-{number}"));
            }
        }
        Pod {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace.to_owned()),
                labels: Some(labels),
                annotations: template.metadata.annotations.clone(),
                owner_references: Some(vec![OwnerReference {
                    api_version: self.api_version.to_owned(),
                    kind: self.pod_owner_kind().to_owned(),
                    name: owner.clone(),
                    uid: self.uid(namespace, &owner),
                    controller: Some(true),
                    block_owner_deletion: None,
                }]),
                ..ObjectMeta::default()
            },
            spec: Some(spec),
            status: None,
        }
    }

    /// Returns the kind that controls the pods.
    fn pod_owner_kind(&self) -> &'static str {
        if self.kind == "Deployment" { "ReplicaSet" } else { self.kind }
    }

    pub(super) fn make_replica_set(&self) -> ReplicaSet {
        let (namespace, name) = namespaced_name(self.metadata);
        ReplicaSet {
            metadata: ObjectMeta {
                uid: Some(self.uid(&namespace, &name)),
                name: Some(name),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            spec: Some(ReplicaSetSpec {
                selector: self.selector.as_deref().cloned().unwrap_or_default(),
                ..ReplicaSetSpec::default()
            }),
            status: None,
        }
    }

    /// The uid of the workload, or the one that the input's rules give it.
    fn uid(&self, namespace: &str, name: &str) -> String {
        let uid = self.metadata.uid.clone().filter(|uid| !uid.is_empty());
        uid.unwrap_or_else(|| format!("{}/{namespace}/{name}", self.kind))
    }
}
