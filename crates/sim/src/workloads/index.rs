//! Objects by the owner that decides over them.

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
    /// Those that nobody decides over.
    free: BTreeMap<ObjectKey, Arc<K>>,
}

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), by_owner: BTreeMap::new(), free: BTreeMap::new() }
    }
}

impl<K: Resource> Index<K> {
    pub(super) fn take_in(&mut self, change: &Change<K>) {
        let key = &change.key;
        if let Some(before) = self.all.remove(key) {
            match controller_of(before.meta()) {
                None => drop(self.free.remove(key)),
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
                None => &mut self.free,
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

    /// What an owner with this selector has, should take, and should let go.
    pub(super) fn claim(&self, owner: &impl Resource, selector: &Selector) -> Claim<K> {
        let meta = owner.meta();
        let mut claim = Claim { kept: Vec::new(), adopt: Vec::new(), release: Vec::new() };
        for object in self.of_owner(meta.uid.as_deref().unwrap_or_default()) {
            let is_meant = selector.matches(labels(object.as_ref()));
            let place = if is_meant { &mut claim.kept } else { &mut claim.release };
            place.push(Arc::clone(object));
        }
        if meta.deletion_timestamp.is_some() {
            // Who is about to go neither takes nor lets go.
            claim.release.clear();
            return claim;
        }
        claim.release.retain(|object| object.meta().deletion_timestamp.is_none());
        for object in within(&self.free, meta.namespace.as_deref().unwrap_or_default()) {
            let is_staying = object.meta().deletion_timestamp.is_none();
            if is_staying && selector.matches(labels(object.as_ref())) {
                claim.adopt.push(Arc::clone(object));
            }
        }
        claim
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
pub(super) struct Claim<K> {
    pub(super) kept: Vec<Arc<K>>,
    /// Free ones that the selector means.
    pub(super) adopt: Vec<Arc<K>>,
    /// Owned ones that the selector does not mean any more.
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
        index.take_in(&Change {
            key: ObjectKey::of(after.as_deref().unwrap()),
            before: None,
            after,
        });
    }

    #[test]
    fn owners_take_free_pods_that_they_mean_and_let_go_of_others() {
        let mut index = Index::default();
        put(&mut index, pod("kept", "x", owned()));
        put(&mut index, pod("relabelled", "y", owned()));
        put(&mut index, pod("free", "x", json!({})));
        put(&mut index, pod("other", "y", json!({})));
        put(&mut index, pod("ending", "x", json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})));
        let labels = [("app".to_owned(), "x".to_owned())].into();
        let selector = Selector::Matching(LabelSelector::of_labels(labels));
        let claim = index.claim(&pod("o", "", json!({})), &selector);
        assert_eq!(names(&claim.kept), ["kept"]);
        assert_eq!(names(&claim.adopt), ["free"]);
        assert_eq!(names(&claim.release), ["relabelled"]);
        let ending = pod("o", "", json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
        let claim = index.claim(&ending, &selector);
        assert_eq!((claim.adopt.len(), claim.release.len()), (0, 0));
    }

    #[test]
    fn what_changes_its_owner_or_goes_leaves_nothing_behind() {
        let mut index = Index::default();
        put(&mut index, pod("p", "x", json!({})));
        put(&mut index, pod("p", "x", owned()));
        assert_eq!((index.free.len(), index.of_owner("o").count()), (0, 1));
        index.take_in(&Change { key: ObjectKey::new("a", "p"), before: None, after: None });
        assert!(index.all.is_empty() && index.by_owner.is_empty() && index.free.is_empty());
    }
}
