//! Pods by name and by node. A pod on a node that is not known is kept, and published when its node
//! comes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_core::copy_on_write::CopyOnWrite;
use karpenter_core::disruption::do_not_disrupt::PodProtection;
use karpenter_core::pod::{OwnerKind, Pod};
use karpenter_core::resources::Resources;

use super::MirrorState;
use crate::ingest::parsed_pods::ParsedPods;
use crate::ingest::{Reader, pod as ingest, text};
use crate::snapshot_view::PodKey;
use crate::wire::Pod as WirePod;

/// All pods.
#[derive(Default)]
pub(super) struct Pods {
    by_name: HashMap<PodKey, PodEntry>,
    by_node: HashMap<String, BTreeSet<PodKey>>,
    /// Protected pods by the time at which their protection ends.
    by_protection_end: BTreeMap<Timestamp, BTreeSet<PodKey>>,
    replicas: ParsedPods<Arc<WirePod>>,
}

pub(super) struct PodEntry {
    pub(super) wire: Arc<WirePod>,
    pub(super) value: CopyOnWrite<Pod>,
    pub(super) limits: Arc<Resources>,
    node_name: String,
    slot: Option<usize>,
    protected_until: Option<Timestamp>,
}

impl Pods {
    /// Returns the pods with this node name, whether or not the node is known.
    pub(super) fn on_node(&self, node: &str) -> impl Iterator<Item = (&PodKey, &PodEntry)> {
        let names = self.by_node.get(node).into_iter().flatten();
        names.filter_map(|name| self.by_name.get_key_value(name))
    }

    pub(super) fn get(&self, name: &PodKey) -> Option<&PodEntry> {
        self.by_name.get(name)
    }

    /// The pod with its own name, which costs no memory to keep.
    pub(super) fn find(&self, namespace: &str, name: &str) -> Option<(PodKey, &PodEntry)> {
        let name = (namespace.to_owned(), name.to_owned());
        self.by_name.get_key_value(&name).map(|(name, entry)| (Arc::clone(name), entry))
    }

    fn names_on(&self, node: &str) -> Vec<PodKey> {
        self.by_node.get(node).into_iter().flatten().cloned().collect()
    }
}

impl MirrorState {
    pub(super) fn set_pod(
        &mut self,
        name: &PodKey,
        wire: Option<Arc<WirePod>>,
        r: &mut Reader<'_>,
    ) {
        let before = self.unindex_pod(name);
        // A StatefulSet recreates a pod under its name, and the watch may skip the deletion of the
        // old one: state of the old pod does not apply to the new one.
        let is_another = match (&before, &wire) {
            (Some(before), Some(wire)) => before.wire.metadata.uid != wire.metadata.uid,
            _ => false,
        };
        if is_another {
            self.times.clear(name);
            self.unconsolidated_at = r.now();
        }
        let was_bound = before.as_ref().is_some_and(|entry| !entry.node_name.is_empty());
        let slot = before.as_ref().and_then(|entry| entry.slot);
        let old_node = before.as_ref().map(|entry| entry.node_name.clone()).unwrap_or_default();
        let Some(wire) = wire else {
            if let Some(entry) = before {
                self.unpublish_pod(entry.slot);
                self.times.clear(name);
                self.unconsolidated_at = r.now();
                self.update_daemon_of_pod(name, Some(&entry.wire), None, r);
                self.invalidate_usage(&old_node);
            }
            return;
        };
        let (value, limits) = ingest::pod(Arc::clone(&wire), None, &mut self.pods.replicas, r);
        self.pods.replicas.sweep();
        let node_name = wire.spec.as_ref().map_or("", |spec| text(spec.node_name.as_ref()));
        let node_name = node_name.to_owned();
        let is_new_binding = !node_name.is_empty() && (!was_bound || old_node != node_name);
        let protected_until = match ingest::protection(&wire, r.now()) {
            PodProtection::Until(until) => Some(until),
            _ => None,
        };
        let entry = PodEntry {
            wire: Arc::clone(&wire),
            value: value.into(),
            limits,
            node_name: node_name.clone(),
            slot,
            protected_until,
        };
        self.index_pod(name, entry);
        self.publish_pod(name);
        if is_new_binding {
            self.unconsolidated_at = r.now();
        }
        let before = before.as_ref().map(|entry| &*entry.wire);
        self.update_daemon_of_pod(name, before, Some(&wire), r);
        self.invalidate_usage(&old_node);
        self.invalidate_usage(&node_name);
    }

    fn index_pod(&mut self, name: &PodKey, entry: PodEntry) {
        if !entry.node_name.is_empty() {
            let on_node = self.pods.by_node.entry(entry.node_name.clone()).or_default();
            on_node.insert(Arc::clone(name));
        }
        if let Some(until) = entry.protected_until {
            self.pods.by_protection_end.entry(until).or_default().insert(Arc::clone(name));
        }
        self.pods.by_name.insert(Arc::clone(name), entry);
    }

    fn unindex_pod(&mut self, name: &PodKey) -> Option<PodEntry> {
        let entry = self.pods.by_name.remove(name)?;
        if let Some(on_node) = self.pods.by_node.get_mut(&entry.node_name) {
            on_node.remove(name);
            if on_node.is_empty() {
                self.pods.by_node.remove(&entry.node_name);
            }
        }
        if let Some(until) = entry.protected_until
            && let Some(names) = self.pods.by_protection_end.get_mut(&until)
        {
            names.remove(name);
            if names.is_empty() {
                self.pods.by_protection_end.remove(&until);
            }
        }
        Some(entry)
    }

    /// Publishes a pod, or removes it while its node is not known.
    fn publish_pod(&mut self, name: &PodKey) {
        let Some(entry) = self.pods.by_name.get_mut(name) else { return };
        let node = match entry.node_name.as_str() {
            "" => None,
            node => {
                let Some(slot) = self.state_nodes.slot_of_node(node) else {
                    let slot = entry.slot.take();
                    self.unpublish_pod(slot);
                    return;
                };
                Some(slot)
            }
        };
        if entry.value.node != node {
            entry.value.node = node;
        }
        entry.slot = Some(self.view.put_pod(entry.slot, name, entry.value.clone()));
    }

    fn unpublish_pod(&mut self, slot: Option<usize>) {
        let Some(slot) = slot else { return };
        if let Some(moved) = self.view.remove_pod(slot)
            && let Some(entry) = self.pods.by_name.get_mut(&moved)
        {
            entry.slot = Some(slot);
        }
    }

    /// Publishes all pods of a node that was added, removed or moved.
    pub(super) fn republish_pods_on(&mut self, node: &str) {
        for name in self.pods.names_on(node) {
            self.publish_pod(&name);
        }
    }

    /// Ends expired pod protections.
    pub(super) fn expire_protections(&mut self, now: Timestamp) {
        while let Some(first) =
            self.pods.by_protection_end.first_entry().filter(|e| *e.key() <= now)
        {
            for name in first.remove() {
                if let Some(entry) = self.pods.by_name.get_mut(&name) {
                    entry.protected_until = None;
                    entry.value.do_not_disrupt = false;
                }
                self.publish_pod(&name);
            }
        }
    }
}

impl PodEntry {
    /// Whether the pod uses resources of its node.
    pub(super) fn is_using_resources(&self) -> bool {
        !self.value.is_terminal()
    }

    /// Whether it has a node, known or not.
    pub(super) fn is_bound(&self) -> bool {
        !self.node_name.is_empty()
    }

    pub(super) fn is_daemon(&self) -> bool {
        self.value.owner == OwnerKind::DaemonSet
    }
}
