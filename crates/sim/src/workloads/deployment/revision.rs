//! Finds the ReplicaSet of a template, and keeps the revision annotations of ReplicaSets.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::pods::{TEMPLATE_HASH, owner_reference, template_hash};
use super::Rollout;

pub(in super::super) const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MOST: &str = "deployment.kubernetes.io/max-replicas";

/// The history of revisions is cut from its beginning beyond this.
const LONGEST_HISTORY: usize = 2000;

/// Annotations of a Deployment that are its own.
const NOT_COPIED: [&str; 5] =
    ["kubectl.kubernetes.io/last-applied-configuration", REVISION, HISTORY, DESIRED, MOST];

type Annotations = BTreeMap<String, String>;

fn number<T: std::str::FromStr>(set: &ReplicaSet, key: &str) -> Option<T> {
    set.metadata.annotations.as_ref()?.get(key)?.parse().ok()
}

pub(super) fn revision_of(set: &ReplicaSet) -> i64 {
    number(set, REVISION).unwrap_or_default()
}

/// The size of the Deployment when this ReplicaSet was sized.
pub(super) fn desired_replicas(set: &ReplicaSet) -> Option<i32> {
    number(set, DESIRED)
}

/// Returns the most pods of the Deployment when this ReplicaSet was sized.
pub(super) fn max_replicas(set: &ReplicaSet) -> Option<i32> {
    number(set, MOST)
}

pub(super) fn annotate_sizes(set: &mut ReplicaSet, desired: i32, most: i32) {
    let annotations = set.metadata.annotations.get_or_insert_default();
    annotations.insert(DESIRED.to_owned(), desired.to_string());
    annotations.insert(MOST.to_owned(), most.to_string());
}

impl Rollout<'_> {
    /// The revision after those of all old ReplicaSets.
    fn next_revision(&self) -> i64 {
        self.old().map(|index| revision_of(&self.sets[index])).max().unwrap_or_default() + 1
    }

    /// The new ReplicaSet has the annotations of the Deployment, and the last revision.
    pub(super) fn sync_new_annotations(&mut self) {
        let Some(new) = self.new else { return };
        let next = self.next_revision();
        let from = self.deployment.metadata.annotations.clone().unwrap_or_default();
        let set = &mut self.sets[new];
        if let Some(spec) = &mut set.spec {
            spec.min_ready_seconds = self.spec.min_ready_seconds;
        }
        let old = revision_of(set);
        let annotations = set.metadata.annotations.get_or_insert_default();
        copy_annotations(&from, annotations);
        if old < next {
            if old > 0 {
                append_to_history(annotations, old);
            }
            annotations.insert(REVISION.to_owned(), next.to_string());
        }
    }

    pub(super) fn new_set(&self, replicas: i32) -> ReplicaSet {
        let collisions = self.deployment.status.as_ref().and_then(|status| status.collision_count);
        let hash = template_hash(&self.spec.template, collisions);
        let label = || (TEMPLATE_HASH.to_owned(), hash.clone());
        let mut template = self.spec.template.clone();
        let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
        labels.extend([label()]);
        let labels = labels.clone();
        let mut selector = self.spec.selector.clone();
        selector.match_labels.get_or_insert_default().extend([label()]);
        let meta = &self.deployment.metadata;
        let mut annotations = Annotations::new();
        copy_annotations(&meta.annotations.clone().unwrap_or_default(), &mut annotations);
        annotations.insert(REVISION.to_owned(), self.next_revision().to_string());
        let mut set = ReplicaSet {
            metadata: ObjectMeta {
                name: Some(format!("{}-{hash}", meta.name.as_deref().unwrap_or_default())),
                namespace: meta.namespace.clone(),
                labels: Some(labels),
                annotations: Some(annotations),
                owner_references: Some(vec![owner_reference(self.deployment)]),
                ..ObjectMeta::default()
            },
            spec: Some(ReplicaSetSpec {
                replicas: Some(replicas),
                min_ready_seconds: self.spec.min_ready_seconds,
                selector,
                template: Some(template),
            }),
            status: None,
        };
        let desired = self.replicas();
        annotate_sizes(&mut set, desired, desired.saturating_add(self.max_surge()));
        set
    }

    /// The revision that the Deployment should name and does not.
    pub(super) fn revision(&self, created: Option<&ReplicaSet>) -> Option<String> {
        let new = created.or_else(|| self.new.map(|new| &self.sets[new]))?;
        let revision = new.metadata.annotations.as_ref()?.get(REVISION)?;
        let current =
            self.deployment.metadata.annotations.as_ref().and_then(|all| all.get(REVISION));
        (current != Some(revision)).then(|| revision.clone())
    }
}

fn copy_annotations(from: &Annotations, to: &mut Annotations) {
    let copied = from.iter().filter(|(key, _)| !NOT_COPIED.contains(&key.as_str()));
    to.extend(copied.map(|(key, value)| (key.clone(), value.clone())));
}

/// Appends a revision to the comma-separated history annotation of a ReplicaSet.
fn append_to_history(annotations: &mut Annotations, revision: i64) {
    let history = annotations.entry(HISTORY.to_owned()).or_default();
    if !history.is_empty() {
        history.push(',');
    }
    history.push_str(&revision.to_string());
    while history.len() > LONGEST_HISTORY {
        match history.split_once(',') {
            Some((_, rest)) => *history = rest.to_owned(),
            None => break,
        }
    }
}
