//! Feeds the mirror from the informers.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::serde::de::DeserializeOwned;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_cluster::mirror::{ListedObjects, Mirror};
use karpenter_operator::watch::{Informer, ObjectKey};
use kube::Resource;

use crate::{Cache, Context};

#[cfg(test)]
mod tests;

/// Subscribes the mirror to all informers. They replay the objects that they have, so it may be
/// called at any time, once.
pub(crate) fn subscribe_mirror(context: &Context) {
    let (cache, mirror) = (context.cache.clone(), &context.mirror);
    let feed = Feed { mirror: Arc::clone(mirror), update_lock: Arc::default() };
    feed.follow(&cache.pods, |mirror, key, it| mirror.set_pod(&key.namespace, &key.name, it));
    feed.follow(&cache.nodes, |mirror, key, it| mirror.set_node(&key.name, it));
    feed.follow(&cache.node_claims, |mirror, key, it| mirror.set_node_claim(&key.name, it));
    feed.follow(&cache.csi_nodes, |mirror, key, it| mirror.set_csi_node(&key.name, it.as_deref()));
    feed.follow(&cache.node_pools, |mirror, key, it| {
        mirror.set_node_pool(&key.name, it.as_deref());
    });
    feed.follow(&cache.daemon_sets, |mirror, key, it| {
        mirror.set_daemon_set(&key.namespace, &key.name, it);
    });
    feed.follow(&cache.namespaces, |mirror, key, it| {
        mirror.set_namespace(&key.name, it.as_deref());
    });
    feed.follow(&cache.pod_disruption_budgets, |mirror, key, it| {
        mirror.set_pod_disruption_budget(&key.namespace, &key.name, it.as_deref());
    });
    follow_volumes(&feed, &cache);
    follow_workloads(&feed, &cache);
    follow_devices(&feed, &cache);
    let provider = Arc::clone(&context.provider);
    let is_ours = move |claim: &&Arc<NodeClaim>| provider.serves(&claim.spec.node_class_ref);
    let listed = move || ListedObjects {
        unlisted_kinds: cache.unsynced_kinds(),
        node_claims: names(cache.node_claims.all().iter().filter(&is_ours)),
        nodes: names(&cache.nodes.all()),
    };
    mirror.set_list_source(listed);
}

fn follow_volumes(feed: &Feed, cache: &Cache) {
    feed.follow(&cache.persistent_volume_claims, |mirror, key, it| {
        mirror.set_persistent_volume_claim(&key.namespace, &key.name, it.as_deref());
    });
    feed.follow(&cache.persistent_volumes, |mirror, key, it| {
        mirror.set_persistent_volume(&key.name, it.as_deref());
    });
    feed.follow(&cache.storage_classes, |mirror, key, it| {
        mirror.set_storage_class(&key.name, it.as_deref());
    });
}

fn follow_workloads(feed: &Feed, cache: &Cache) {
    feed.follow(&cache.services, |mirror, key, it| {
        mirror.set_service(&key.namespace, &key.name, it.as_deref());
    });
    feed.follow(&cache.replication_controllers, |mirror, key, it| {
        mirror.set_replication_controller(&key.namespace, &key.name, it.as_deref());
    });
    feed.follow(&cache.replica_sets, |mirror, key, it| {
        mirror.set_replica_set(&key.namespace, &key.name, it);
    });
    feed.follow(&cache.stateful_sets, |mirror, key, it| {
        mirror.set_stateful_set(&key.namespace, &key.name, it);
    });
    feed.follow(&cache.deployments, |mirror, key, it| {
        mirror.set_deployment(&key.namespace, &key.name, it);
    });
    feed.follow(&cache.pod_templates, |mirror, key, it| {
        mirror.set_pod_template(&key.namespace, &key.name, it);
    });
    feed.follow(&cache.capacity_buffers, |mirror, key, it| {
        mirror.set_capacity_buffer(&key.namespace, &key.name, it);
    });
}

fn follow_devices(feed: &Feed, cache: &Cache) {
    feed.follow(&cache.resource_claims, |mirror, key, it| {
        mirror.set_resource_claim(&key.namespace, &key.name, it.as_deref());
    });
    feed.follow(&cache.resource_slices, |mirror, key, it| {
        mirror.set_resource_slice(&key.name, it.as_deref());
    });
    feed.follow(&cache.device_classes, |mirror, key, it| {
        mirror.set_device_class(&key.name, it.as_deref());
    });
}

/// Sets all Nodes and NodeClaims of the informers anew, and removes deleted ones.
pub(super) fn resync_mirror(context: &Context) {
    let (cache, mirror) = (&context.cache, &context.mirror);
    for node in cache.nodes.all() {
        let name = node.metadata.name.clone().unwrap_or_default();
        mirror.set_node(&name, cache.nodes.get("", &name));
    }
    for claim in cache.node_claims.all() {
        let name = claim.metadata.name.clone().unwrap_or_default();
        mirror.set_node_claim(&name, cache.node_claims.get("", &name));
    }
    super::nodeclaim_gc::remove_deleted_claims(context);
}

fn names<'a, K: Resource + 'a>(objects: impl IntoIterator<Item = &'a Arc<K>>) -> Vec<String> {
    objects.into_iter().filter_map(|object| object.meta().name.clone()).collect()
}

struct Feed {
    mirror: Arc<Mirror>,
    /// Held while an object is read and passed on. So the last object that reaches the mirror is
    /// the last one that was read.
    update_lock: Arc<Mutex<()>>,
}

impl Feed {
    fn follow<K>(&self, informer: &Informer<K>, set: fn(&Mirror, &ObjectKey, Option<Arc<K>>))
    where
        K: Resource + Clone + fmt::Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let (read, update_lock) = (informer.downgrade(), Arc::clone(&self.update_lock));
        // The mirror holds the informers to read what they have listed, so they must not hold it.
        let mirror = Arc::downgrade(&self.mirror);
        let subscription = informer.subscribe(move |change| {
            let Some(mirror) = mirror.upgrade() else { return };
            let _guard = update_lock.lock().unwrap_or_else(PoisonError::into_inner);
            set(&mirror, &change.key, read.get(&change.key));
        });
        subscription.detach();
    }
}
