//! The published snapshot, updated change by change.
//!
//! ```text
//! pods: [ real, one slot each | virtual pods of buffers, replaced for each snapshot ]
//! ```
//!
//! Readers hold the snapshot by its `Arc`. If a reader still holds it, the next change copies its
//! lists of pointers (2 ms for 100,000 pods), else it changes them in place. A removed entry is
//! replaced by the last one, so a change never moves more than one other entry.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use karpenter_core::copy_on_write::CopyOnWrite;
use karpenter_core::id::NodeId;
use karpenter_core::pod::Pod;
use karpenter_core::selector::Labels;
use karpenter_core::snapshot::{Snapshot, StateNode};

/// The namespace and name of a pod.
pub(crate) type PodKey = Arc<(String, String)>;

/// The snapshot, with the pod key or provider id of each slot.
#[derive(Debug, Default)]
pub(crate) struct SnapshotView {
    snapshot: Arc<Snapshot>,
    generation: u64,
    pod_keys: Vec<PodKey>,
    provider_ids: Vec<String>,
    namespaces: BTreeMap<String, Labels>,
    pods_in_namespace: HashMap<String, usize>,
}

impl SnapshotView {
    /// The snapshot as it is.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot)
    }

    /// Counts the changes.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the snapshot for a change, and increments the generation.
    pub(crate) fn snapshot_mut(&mut self) -> &mut Snapshot {
        self.generation += 1;
        Arc::make_mut(&mut self.snapshot)
    }

    /// Puts a pod into its slot, or into a new one. Returns where.
    pub(crate) fn put_pod(
        &mut self,
        slot: Option<usize>,
        name: &PodKey,
        pod: CopyOnWrite<Pod>,
    ) -> usize {
        if let Some(slot) = slot {
            if !self.snapshot.pods[slot].ptr_eq(&pod) {
                self.snapshot_mut().pods[slot] = pod;
            }
            return slot;
        }
        self.set_virtual_pods(Vec::new());
        self.count_namespace(&name.0);
        self.pod_keys.push(Arc::clone(name));
        self.snapshot_mut().pods.push(pod);
        self.pod_keys.len() - 1
    }

    /// Removes a pod. Returns the key of the pod that moved into its slot.
    pub(crate) fn remove_pod(&mut self, slot: usize) -> Option<PodKey> {
        self.set_virtual_pods(Vec::new());
        self.snapshot_mut().pods.swap_remove(slot);
        let name = self.pod_keys.swap_remove(slot);
        self.uncount_namespace(&name.0);
        self.pod_keys.get(slot).cloned()
    }

    /// Replaces the virtual pods.
    pub(crate) fn set_virtual_pods(&mut self, pods: Vec<Pod>) {
        let real = self.pod_keys.len();
        if self.snapshot.pods.len() == real && pods.is_empty() {
            return;
        }
        for pod in self.snapshot_mut().pods.split_off(real) {
            self.uncount_namespace(&pod.namespace);
        }
        for pod in &pods {
            self.count_namespace(&pod.namespace);
        }
        self.snapshot_mut().pods.extend(pods.into_iter().map(CopyOnWrite::from));
    }

    /// Puts a node into its slot, or into a new one. Returns where.
    pub(crate) fn put_node(
        &mut self,
        slot: Option<NodeId>,
        provider_id: &str,
        node: StateNode,
    ) -> NodeId {
        if let Some(slot) = slot {
            // Heartbeats change no field that decisions read.
            if *self.snapshot.nodes[slot.index()] != node {
                self.snapshot_mut().nodes[slot.index()] = node.into();
            }
            return slot;
        }
        self.provider_ids.push(provider_id.to_owned());
        self.snapshot_mut().nodes.push(node.into());
        NodeId::new(self.provider_ids.len() - 1)
    }

    /// Removes a node. Returns the provider id of the node that moved into its slot.
    pub(crate) fn remove_node(&mut self, slot: NodeId) -> Option<String> {
        self.snapshot_mut().nodes.swap_remove(slot.index());
        self.provider_ids.swap_remove(slot.index());
        self.provider_ids.get(slot.index()).cloned()
    }

    /// The node in a slot.
    pub(crate) fn node(&self, slot: NodeId) -> &CopyOnWrite<StateNode> {
        &self.snapshot.nodes[slot.index()]
    }

    /// Sets the labels of a namespace, or none for one that is gone. One that pods are in stays.
    pub(crate) fn set_namespace(&mut self, name: &str, labels: Option<Labels>) {
        match labels {
            Some(labels) => {
                self.namespaces.insert(name.to_owned(), labels);
            }
            None => {
                self.namespaces.remove(name);
            }
        }
        self.publish_namespace(name);
    }

    fn count_namespace(&mut self, name: &str) {
        if let Some(count) = self.pods_in_namespace.get_mut(name) {
            *count += 1;
        } else {
            self.pods_in_namespace.insert(name.to_owned(), 1);
            self.publish_namespace(name);
        }
    }

    fn uncount_namespace(&mut self, name: &str) {
        let Some(count) = self.pods_in_namespace.get_mut(name) else { return };
        *count -= 1;
        if *count == 0 {
            self.pods_in_namespace.remove(name);
            self.publish_namespace(name);
        }
    }

    fn publish_namespace(&mut self, name: &str) {
        let labels = match self.namespaces.get(name) {
            Some(labels) => Some(labels.clone()),
            None => self.pods_in_namespace.contains_key(name).then(Labels::new),
        };
        if self.snapshot.namespaces.get(name) == labels.as_ref() {
            return;
        }
        let namespaces = &mut *self.snapshot_mut().namespaces;
        match labels {
            Some(labels) => namespaces.insert(name.to_owned(), labels),
            None => namespaces.remove(name),
        };
    }
}
