//! Indexes objects by name and by their controlling owner.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_core::selector::{Labels, Selector};
use kube::Resource;

use super::pods::controller_of;
use karpenter_operator::watch::{Change, ObjectKey};

/// Objects of one kind as of the last changes, by name and by owner.
#[derive(Debug)]
pub(super) struct Index<K> {
    all: BTreeMap<ObjectKey, Arc<K>>,
    by_owner: BTreeMap<String, BTreeMap<ObjectKey, Arc<K>>>,
    /// Objects without a controller.
    orphans: BTreeMap<ObjectKey, Arc<K>>,
}

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), by_owner: BTreeMap::new(), orphans: BTreeMap::new() }
    }
}

impl<K: Resource> Index<K> {
    pub(super) fn apply(&mut self, change: &Change<K>) {
        let key = &change.key;
        if let Some(before) = self.all.remove(key) {
            match controller_of(before.meta()) {
                None => drop(self.orphans.remove(key)),
                Some(owner) => {
                    let siblings = self.by_owner.get_mut(&owner.uid);
                    let is_empty = siblings.is_some_and(|siblings| {
                        siblings.remove(key);
                        siblings.is_empty()
                    });
                    if is_empty {
                        self.by_owner.remove(&owner.uid);
                    }
                }
            }
        }
        if let Some(after) = &change.after {
            self.all.insert(key.clone(), Arc::clone(after));
            let place = match controller_of(after.meta()) {
                None => &mut self.orphans,
                Some(owner) => self.by_owner.entry(owner.uid.clone()).or_default(),
            };
            place.insert(key.clone(), Arc::clone(after));
        }
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Arc<K>> {
        self.all.get(key)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<K>> {
        self.all.values()
    }

    pub(super) fn in_namespace<'a>(
        &'a self,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Arc<K>> {
        within(&self.all, namespace)
    }

    pub(super) fn of_owner(&self, uid: &str) -> impl Iterator<Item = &Arc<K>> {
        self.by_owner.get(uid).into_iter().flat_map(BTreeMap::values)
    }

    /// Returns the objects that an owner controls, should adopt and should release.
    pub(super) fn ownership_of(&self, owner: &impl Resource, selector: &Selector) -> Ownership<K> {
        let meta = owner.meta();
        let mut ownership = Ownership { owned: Vec::new(), adopt: Vec::new(), release: Vec::new() };
        for object in self.of_owner(meta.uid.as_deref().unwrap_or_default()) {
            let is_meant = selector.matches(labels(object.as_ref()));
            let place = if is_meant { &mut ownership.owned } else { &mut ownership.release };
            place.push(Arc::clone(object));
        }
        if meta.deletion_timestamp.is_some() {
            // An owner that is being deleted neither adopts nor releases.
            ownership.release.clear();
            return ownership;
        }
        ownership.release.retain(|object| object.meta().deletion_timestamp.is_none());
        for object in within(&self.orphans, meta.namespace.as_deref().unwrap_or_default()) {
            let is_staying = object.meta().deletion_timestamp.is_none();
            if is_staying && selector.matches(labels(object.as_ref())) {
                ownership.adopt.push(Arc::clone(object));
            }
        }
        ownership
    }
}

fn within<'a, K>(
    objects: &'a BTreeMap<ObjectKey, Arc<K>>,
    namespace: &'a str,
) -> impl Iterator<Item = &'a Arc<K>> {
    let from = objects.range(ObjectKey::new(namespace, "")..);
    from.take_while(move |(key, _)| key.namespace == namespace).map(|(_, object)| object)
}

static NO_LABELS: Labels = Labels::new();

pub(super) fn labels<K: Resource>(object: &K) -> &Labels {
    object.meta().labels.as_ref().unwrap_or(&NO_LABELS)
}

#[derive(Debug)]
pub(super) struct Ownership<K> {
    pub(super) owned: Vec<Arc<K>>,
    /// Orphans that the selector matches.
    pub(super) adopt: Vec<Arc<K>>,
    /// Owned ones that the selector no longer matches.
    pub(super) release: Vec<Arc<K>>,
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use karpenter_core::selector::LabelSelector;
    use serde_json::{Value, json};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "tables read better so")]
    fn pod(name: &str, app: &str, more: Value) -> Pod {
        let mut meta = json!({"name": name, "namespace": "a", "uid": name, "labels": {"app": app}});
        meta.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(json!({"metadata": meta})).unwrap()
    }

    fn owned() -> Value {
        json!({"ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "o", "uid": "o", "controller": true},
        ]})
    }

    fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
        pods.iter().map(|pod| pod.metadata.name.as_deref().unwrap()).collect()
    }

    fn put(index: &mut Index<Pod>, pod: Pod) {
        let after = Some(Arc::new(pod));
        index.apply(&Change { key: ObjectKey::of(after.as_deref().unwrap()), before: None, after });
    }

    #[test]
    fn owners_adopt_matching_orphans_and_release_other_pods() {
        let mut index = Index::default();
        put(&mut index, pod("kept", "x", owned()));
        put(&mut index, pod("relabelled", "y", owned()));
        put(&mut index, pod("free", "x", json!({})));
        put(&mut index, pod("other", "y", json!({})));
        put(&mut index, pod("ending", "x", json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})));
        let labels = [("app".to_owned(), "x".to_owned())].into();
        let selector = Selector::Matching(LabelSelector::from_labels(labels));
        let ownership = index.ownership_of(&pod("o", "", json!({})), &selector);
        assert_eq!(names(&ownership.owned), ["kept"]);
        assert_eq!(names(&ownership.adopt), ["free"]);
        assert_eq!(names(&ownership.release), ["relabelled"]);
        let ending = pod("o", "", json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
        let ownership = index.ownership_of(&ending, &selector);
        assert_eq!((ownership.adopt.len(), ownership.release.len()), (0, 0));
    }

    #[test]
    fn the_index_drops_entries_on_owner_change_and_deletion() {
        let mut index = Index::default();
        put(&mut index, pod("p", "x", json!({})));
        put(&mut index, pod("p", "x", owned()));
        assert_eq!((index.orphans.len(), index.of_owner("o").count()), (0, 1));
        index.apply(&Change { key: ObjectKey::new("a", "p"), before: None, after: None });
        assert!(index.all.is_empty() && index.by_owner.is_empty() && index.orphans.is_empty());
    }
}
