//! Indexes the pods and owners of the input, which are not generated again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use karpenter_cluster::ingest::Objects;

use super::workload::Workload;
use super::{NamespacedName, namespaced_name};

type Labels = BTreeMap<String, String>;
/// A namespace and two more texts.
type Triple<'a> = (&'a str, &'a str, &'a str);

/// The names, owners and labels of pods in the input.
pub(super) struct ExistingObjects<'a> {
    pub(super) names: BTreeSet<NamespacedName>,
    /// Owners of pods and ReplicaSets: namespace, kind, name.
    owners: BTreeSet<Triple<'a>>,
    /// Labels of pods by namespace, and by one of their labels, so that a selector checks few.
    by_label: HashMap<Triple<'a>, Vec<&'a Labels>>,
    by_namespace: HashMap<&'a str, Vec<&'a Labels>>,
}

impl<'a> ExistingObjects<'a> {
    pub(super) fn index(objects: &'a Objects) -> Self {
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
            present.names.insert(namespaced_name(metadata));
            let namespace = metadata.namespace.as_deref().unwrap_or_default();
            let Some(labels) = &metadata.labels else { continue };
            present.by_namespace.entry(namespace).or_default().push(labels);
            for (key, value) in labels {
                present.by_label.entry((namespace, key, value)).or_default().push(labels);
            }
        }
        present
    }

    /// Returns whether the input has a workload's pods, or a Deployment's ReplicaSets.
    pub(super) fn has_pods_of(&self, workload: &Workload<'_>) -> bool {
        let namespace = workload.metadata.namespace.as_deref().unwrap_or_default();
        let name = workload.metadata.name.as_deref().unwrap_or_default();
        if self.owners.contains(&(namespace, workload.kind, name)) {
            return true;
        }
        // An empty selector would claim the pods of all workloads.
        let Some(selector) =
            workload.selector.as_deref().filter(|selector| !is_empty_selector(selector))
        else {
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

pub(super) fn is_empty_selector(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

pub(super) fn selects(selector: &LabelSelector, labels: &Labels) -> bool {
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
