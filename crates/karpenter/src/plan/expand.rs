//! What a folder of manifests leaves to controllers: a Deployment, StatefulSet, ReplicaSet or Job
//! without pods in the input gets the pods that its controller would make.
//!
//! DaemonSets are not expanded, since a decision knows what they add to each node; CronJobs are
//! not either, since nobody knows when they run.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodSpec, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use karpenter_cluster::ingest::Objects;
use serde::Serialize;

use super::gather::Gathered;

/// Pods that are made up in one run: more than any cluster holds, less than memory does.
const PODS_MAX: usize = 500_000;

/// A workload that was expanded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Expanded {
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// How many pods were made.
    pub(crate) pods: usize,
    /// How many pods it asks for beyond what is planned at a time.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) left_out: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Adds the pods of workloads that have none.
pub(crate) fn expand(gathered: &mut Gathered) -> Vec<Expanded> {
    expand_up_to(gathered, PODS_MAX)
}

fn expand_up_to(gathered: &mut Gathered, pods_max: usize) -> Vec<Expanded> {
    let Gathered { objects, jobs, .. } = gathered;
    let present = Present::of(objects);
    let default_class = default_storage_class(objects);
    let mut expansion = Expansion {
        taken: present.names.clone(),
        pods_max,
        pods: Vec::new(),
        claims: Vec::new(),
        replica_sets: Vec::new(),
    };
    let expanded = workloads(objects, jobs)
        .into_iter()
        .filter(|workload| workload.replicas > 0 && !present.speaks_for(workload))
        .map(|workload| expansion.add(&workload, default_class.as_deref()))
        .collect();
    objects.pods.append(&mut expansion.pods);
    let known: BTreeSet<_> =
        objects.persistent_volume_claims.iter().map(|claim| key(&claim.metadata)).collect();
    let new = |claim: &PersistentVolumeClaim| !known.contains(&key(&claim.metadata));
    objects.persistent_volume_claims.extend(expansion.claims.into_iter().filter(new));
    objects.replica_sets.append(&mut expansion.replica_sets);
    expanded
}

/// Something that makes pods.
struct Workload<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: &'a ObjectMeta,
    selector: Option<&'a LabelSelector>,
    template: &'a PodTemplateSpec,
    replicas: u64,
    /// The first number of a StatefulSet's pods.
    first: u64,
    claims: &'a [PersistentVolumeClaim],
}

fn workloads<'a>(objects: &'a Objects, jobs: &'a [Job]) -> Vec<Workload<'a>> {
    let mut workloads = Vec::new();
    for deployment in &objects.deployments {
        let Some(spec) = &deployment.spec else { continue };
        workloads.push(Workload {
            api_version: "apps/v1",
            kind: "Deployment",
            metadata: &deployment.metadata,
            selector: Some(&spec.selector),
            template: &spec.template,
            replicas: count(spec.replicas),
            first: 0,
            claims: &[],
        });
    }
    for set in &objects.stateful_sets {
        let Some(spec) = &set.spec else { continue };
        let start = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start);
        workloads.push(Workload {
            api_version: "apps/v1",
            kind: "StatefulSet",
            metadata: &set.metadata,
            selector: Some(&spec.selector),
            template: &spec.template,
            replicas: count(spec.replicas),
            first: u64::try_from(start.unwrap_or(0)).unwrap_or(0),
            claims: spec.volume_claim_templates.as_deref().unwrap_or_default(),
        });
    }
    for set in &objects.replica_sets {
        let Some((spec, template)) =
            set.spec.as_ref().and_then(|s| Some((s, s.template.as_ref()?)))
        else {
            continue;
        };
        workloads.push(Workload {
            api_version: "apps/v1",
            kind: "ReplicaSet",
            metadata: &set.metadata,
            selector: Some(&spec.selector),
            template,
            replicas: count(spec.replicas),
            first: 0,
            claims: &[],
        });
    }
    for job in jobs {
        let Some(spec) = &job.spec else { continue };
        let status = job.status.as_ref();
        let is_over = status.is_some_and(|status| {
            let conditions = status.conditions.as_deref().unwrap_or_default();
            conditions
                .iter()
                .any(|c| matches!(&*c.type_, "Complete" | "Failed") && c.status == "True")
        });
        if is_over || spec.suspend == Some(true) {
            continue;
        }
        let done = count(status.and_then(|status| status.succeeded).or(Some(0)));
        let parallel = count(spec.parallelism);
        let left = spec.completions.map(|all| count(Some(all)).saturating_sub(done));
        workloads.push(Workload {
            api_version: "batch/v1",
            kind: "Job",
            metadata: &job.metadata,
            selector: spec.selector.as_ref(),
            template: &spec.template,
            replicas: left.map_or(parallel, |left| left.min(parallel)),
            first: 0,
            claims: &[],
        });
    }
    workloads
}

/// How many are meant: one where nothing is said, none where the number is negative.
fn count(number: Option<i32>) -> u64 {
    u64::try_from(number.unwrap_or(1)).unwrap_or(0)
}

/// Namespace and name.
type Key = (String, String);

fn key(metadata: &ObjectMeta) -> Key {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

type Labels = BTreeMap<String, String>;
/// A namespace and two more texts.
type Triple<'a> = (&'a str, &'a str, &'a str);

/// What the input has already, indexed.
struct Present<'a> {
    names: BTreeSet<Key>,
    /// Owners of pods and ReplicaSets: namespace, kind, name.
    owners: BTreeSet<Triple<'a>>,
    /// Labels of pods by namespace, and by one of their labels, so that a selector looks at few.
    by_label: HashMap<Triple<'a>, Vec<&'a Labels>>,
    by_namespace: HashMap<&'a str, Vec<&'a Labels>>,
}

impl<'a> Present<'a> {
    fn of(objects: &'a Objects) -> Self {
        let mut present = Self {
            names: BTreeSet::new(),
            owners: BTreeSet::new(),
            by_label: HashMap::new(),
            by_namespace: HashMap::new(),
        };
        let pods = objects.pods.iter().map(|pod| &pod.metadata);
        let sets = objects.replica_sets.iter().map(|set| &set.metadata);
        for metadata in pods.clone().chain(sets) {
            let namespace = metadata.namespace.as_deref().unwrap_or_default();
            for owner in metadata.owner_references.iter().flatten() {
                present.owners.insert((namespace, &owner.kind, &owner.name));
            }
        }
        for metadata in pods {
            present.names.insert(key(metadata));
            let namespace = metadata.namespace.as_deref().unwrap_or_default();
            let Some(labels) = &metadata.labels else { continue };
            present.by_namespace.entry(namespace).or_default().push(labels);
            for (key, value) in labels {
                present.by_label.entry((namespace, key, value)).or_default().push(labels);
            }
        }
        present
    }

    /// Whether the input has pods of a workload, or the ReplicaSets of a Deployment.
    fn speaks_for(&self, workload: &Workload<'_>) -> bool {
        let namespace = workload.metadata.namespace.as_deref().unwrap_or_default();
        let name = workload.metadata.name.as_deref().unwrap_or_default();
        if self.owners.contains(&(namespace, workload.kind, name)) {
            return true;
        }
        // A selector without any part would claim the pods of everybody.
        let Some(selector) = workload.selector.filter(|selector| !is_empty(selector)) else {
            return false;
        };
        let first = selector.match_labels.iter().flatten().next();
        let candidates = match first {
            Some((key, value)) => self.by_label.get(&(namespace, key.as_str(), value.as_str())),
            None => self.by_namespace.get(namespace),
        };
        candidates.into_iter().flatten().any(|labels| selects(selector, labels))
    }
}

fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

fn selects(selector: &LabelSelector, labels: &Labels) -> bool {
    let has_labels = selector
        .match_labels
        .iter()
        .flatten()
        .all(|(key, value)| labels.get(key).is_some_and(|own| own == value));
    has_labels
        && selector.match_expressions.iter().flatten().all(|expression| {
            let own = labels.get(&expression.key);
            let values = expression.values.as_deref().unwrap_or_default();
            match expression.operator.as_str() {
                "In" => own.is_some_and(|own| values.contains(own)),
                "NotIn" => own.is_none_or(|own| !values.contains(own)),
                "Exists" => own.is_some(),
                "DoesNotExist" => own.is_none(),
                _ => false,
            }
        })
}

/// The class of claims that name none, as admission fills it in.
fn default_storage_class(objects: &Objects) -> Option<String> {
    const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
    let is_default = |metadata: &ObjectMeta| {
        let annotations = metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(IS_DEFAULT)).is_some_and(|value| value == "true")
    };
    let classes = objects.storage_classes.iter().map(|class| &class.metadata);
    classes.filter(|metadata| is_default(metadata)).find_map(|metadata| metadata.name.clone())
}

/// The pods and claims that were made so far.
struct Expansion {
    taken: BTreeSet<Key>,
    pods_max: usize,
    pods: Vec<Pod>,
    claims: Vec<PersistentVolumeClaim>,
    /// Those between a Deployment and its pods: default spread constraints look for them.
    replica_sets: Vec<ReplicaSet>,
}

impl Expansion {
    fn add(&mut self, workload: &Workload<'_>, default_class: Option<&str>) -> Expanded {
        let (namespace, name) = key(workload.metadata);
        let room = u64::try_from(self.pods_max - self.pods.len()).unwrap_or(0);
        let made = workload.replicas.min(room);
        for number in (workload.first..).take(usize::try_from(made).unwrap_or(0)) {
            let pod_name = self.free_name(&namespace, &format!("{name}-{number}"));
            self.pods.push(workload.pod(&namespace, &pod_name, number));
            let numbered = format!("{name}-{number}");
            let claims = workload.claims.iter();
            self.claims.extend(claims.map(|c| claim(c, &namespace, &numbered, default_class)));
        }
        if workload.kind == "Deployment" {
            self.replica_sets.push(workload.replica_set());
        }
        Expanded {
            kind: workload.kind,
            pods: usize::try_from(made).unwrap_or(usize::MAX),
            left_out: workload.replicas - made,
            namespace,
            name,
        }
    }

    /// A Deployment and a StatefulSet of one name would make pods of one name.
    fn free_name(&mut self, namespace: &str, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        while !self.taken.insert((namespace.to_owned(), name.clone())) {
            name.push_str("-x");
        }
        name
    }
}

impl Workload<'_> {
    fn pod(&self, namespace: &str, name: &str, number: u64) -> Pod {
        let template = self.template.metadata.as_ref();
        let mut labels = template.and_then(|meta| meta.labels.clone()).unwrap_or_default();
        let mut spec = self.template.spec.clone().unwrap_or_default();
        let owner = self.metadata.name.clone().unwrap_or_default();
        if self.kind == "StatefulSet" {
            labels.insert("statefulset.kubernetes.io/pod-name".to_owned(), name.to_owned());
            labels.insert("apps.kubernetes.io/pod-index".to_owned(), number.to_string());
            for claim in self.claims {
                mount(&mut spec, claim, &format!("{owner}-{number}"));
            }
        }
        Pod {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace.to_owned()),
                labels: Some(labels),
                annotations: template.and_then(|meta| meta.annotations.clone()),
                owner_references: Some(vec![OwnerReference {
                    api_version: self.api_version.to_owned(),
                    kind: self.pod_owner().to_owned(),
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

    /// The kind that controls the pods.
    fn pod_owner(&self) -> &'static str {
        if self.kind == "Deployment" { "ReplicaSet" } else { self.kind }
    }

    fn replica_set(&self) -> ReplicaSet {
        let (namespace, name) = key(self.metadata);
        ReplicaSet {
            metadata: ObjectMeta {
                uid: Some(self.uid(&namespace, &name)),
                name: Some(name),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            spec: Some(ReplicaSetSpec {
                selector: self.selector.cloned().unwrap_or_default(),
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

/// The claim that a pod of a StatefulSet gets from a template.
fn claim(
    template: &PersistentVolumeClaim,
    namespace: &str,
    pod: &str,
    default_class: Option<&str>,
) -> PersistentVolumeClaim {
    let mut claim = template.clone();
    claim.metadata.name = Some(claim_name(template, pod));
    claim.metadata.namespace = Some(namespace.to_owned());
    claim.status = None;
    let spec = claim.spec.get_or_insert_default();
    if spec.storage_class_name.is_none() {
        spec.storage_class_name = default_class.map(str::to_owned);
    }
    claim
}

fn claim_name(template: &PersistentVolumeClaim, pod: &str) -> String {
    format!("{}-{pod}", template.metadata.name.as_deref().unwrap_or_default())
}

/// Puts the claim of a StatefulSet's template in the place of the volume of that name.
fn mount(spec: &mut PodSpec, template: &PersistentVolumeClaim, pod: &str) {
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

#[cfg(test)]
mod tests;
