//! Objects by something else than their name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use k8s_openapi::serde::de::DeserializeOwned;
use kube::Resource;

use super::{Informer, ObjectKey, lock};

/// The objects of an informer by a value, such as pods by the name of their node. Clones share it.
pub struct Index<K> {
    informer: Informer<K>,
    keys: Arc<Mutex<IndexKeys>>,
}

#[derive(Default)]
struct IndexKeys {
    keys_by_value: BTreeMap<String, BTreeSet<ObjectKey>>,
    value_by_key: BTreeMap<ObjectKey, String>,
}

impl IndexKeys {
    fn set(&mut self, key: &ObjectKey, value: Option<&str>) {
        if self.value_by_key.get(key).map(String::as_str) == value {
            return;
        }
        if let Some(before) = self.value_by_key.remove(key)
            && let Some(keys) = self.keys_by_value.get_mut(&before)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.keys_by_value.remove(&before);
            }
        }
        if let Some(value) = value {
            self.value_by_key.insert(key.clone(), value.to_owned());
            self.keys_by_value.entry(value.to_owned()).or_default().insert(key.clone());
        }
    }
}

impl<K> Index<K>
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// Creates an index by the result of `value`; objects without one are not in it.
    pub fn new(informer: &Informer<K>, value: fn(&K) -> Option<&str>) -> Self {
        let keys: Arc<Mutex<IndexKeys>> = Arc::default();
        let (shared, read) = (keys.clone(), informer.downgrade());
        let subscription = informer.subscribe(move |change| {
            // Read again under the lock: changes may arrive out of order, and the last one to get
            // here has to write the current value.
            let mut keys = lock(&shared);
            let object = read.get(&change.key);
            keys.set(&change.key, object.as_ref().and_then(|object| value(object)));
        });
        subscription.detach();
        Self { informer: informer.clone(), keys }
    }

    /// The objects of the value, in the order of their names, and of their namespaces where these
    /// are equal. None have the empty value.
    pub fn get(&self, value: &str) -> Vec<Arc<K>> {
        let keys: Vec<_> = match lock(&self.keys).keys_by_value.get(value) {
            Some(keys) if !value.is_empty() => keys.iter().cloned().collect(),
            _ => return Vec::new(),
        };
        keys.iter().filter_map(|key| self.informer.get(&key.namespace, &key.name)).collect()
    }
}

impl<K: Clone> Clone for Index<K> {
    fn clone(&self) -> Self {
        Self { informer: self.informer.clone(), keys: Arc::clone(&self.keys) }
    }
}

impl<K> fmt::Debug for Index<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("values", &lock(&self.keys).keys_by_value.len())
            .finish_non_exhaustive()
    }
}
