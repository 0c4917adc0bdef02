//! Tracks DaemonSets, each with its newest pod (spec 40 §5.4).
//!
//! Upstream searches for the newest pod each minute, and keeps the last one it has seen. Here the
//! newest existing pod is known at any time; a DaemonSet without pods uses its template.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use karpenter_core::snapshot::Daemon;

use super::MirrorState;
use crate::ingest::{Reader, daemon as ingest, text};
use crate::snapshot_view::PodKey;
use crate::wire::Pod as WirePod;

/// All DaemonSets.
#[derive(Default)]
pub(super) struct Daemons {
    daemon_sets: BTreeMap<(String, String), DaemonSetEntry>,
    /// Pods by namespace and uid of what controls them, the newest first.
    pods: HashMap<(String, String), BTreeMap<Age, PodKey>>,
}

type Age = (Reverse<i64>, String);

struct DaemonSetEntry {
    wire: Arc<DaemonSet>,
    value: Daemon,
}

impl MirrorState {
    pub(super) fn set_daemon_set(
        &mut self,
        (namespace, name): (&str, &str),
        wire: Option<Arc<DaemonSet>>,
        r: &mut Reader<'_>,
    ) {
        let key = (namespace.to_owned(), name.to_owned());
        match wire {
            Some(wire) => {
                let value = self.read_daemon(&wire, r);
                self.daemons.daemon_sets.insert(key, DaemonSetEntry { wire, value });
            }
            None => {
                self.daemons.daemon_sets.remove(&key);
            }
        }
        self.publish_daemons();
    }

    /// Updates the DaemonSet that controls a changed pod, if one does.
    pub(super) fn update_daemon_of_pod(
        &mut self,
        name: &PodKey,
        before: Option<&WirePod>,
        after: Option<&WirePod>,
        r: &mut Reader<'_>,
    ) {
        let mut touched = Vec::new();
        if let Some((key, age)) = before.and_then(controlling_daemon_set)
            && let Some(pods) = self.daemons.pods.get_mut(&key)
        {
            if pods.first_key_value().is_some_and(|(first, _)| *first == age) {
                touched.push(key.clone());
            }
            pods.remove(&age);
            if pods.is_empty() {
                self.daemons.pods.remove(&key);
            }
        }
        if let Some((key, age)) = after.and_then(controlling_daemon_set) {
            let pods = self.daemons.pods.entry(key.clone()).or_default();
            pods.insert(age.clone(), Arc::clone(name));
            if pods.first_key_value().is_some_and(|(first, _)| *first == age) {
                touched.push(key);
            }
        }
        for (namespace, uid) in touched {
            self.refresh_daemons(&namespace, &uid, r);
        }
    }

    /// Reads the DaemonSets with this uid again; there is one, unless a pod names a wrong owner.
    fn refresh_daemons(&mut self, namespace: &str, uid: &str, r: &mut Reader<'_>) {
        let sets = self.daemons.daemon_sets.iter();
        let is_meant = |set: &DaemonSetEntry| text(set.wire.metadata.uid.as_ref()) == uid;
        let sets = sets.filter(|(key, set)| key.0 == namespace && is_meant(set));
        let sets: Vec<_> = sets.map(|(key, set)| (key.clone(), Arc::clone(&set.wire))).collect();
        let mut has_changed = false;
        for (key, wire) in sets {
            let value = self.read_daemon(&wire, r);
            if let Some(set) =
                self.daemons.daemon_sets.get_mut(&key).filter(|set| set.value != value)
            {
                set.value = value;
                has_changed = true;
            }
        }
        if has_changed {
            self.publish_daemons();
        }
    }

    fn read_daemon(&self, wire: &DaemonSet, r: &mut Reader<'_>) -> Daemon {
        let meta = &wire.metadata;
        let [namespace, uid] = [&meta.namespace, &meta.uid].map(|part| text(part.as_ref()));
        let pods = self.daemons.pods.get(&(namespace.to_owned(), uid.to_owned()));
        let newest = pods.and_then(|pods| pods.values().next());
        let newest = newest.and_then(|name| self.pods.get(name));
        ingest::daemon(wire, newest.map(|entry| &*entry.wire), r)
    }

    fn publish_daemons(&mut self) {
        let values: Vec<_> =
            self.daemons.daemon_sets.values().map(|set| set.value.clone()).collect();
        self.view.snapshot_mut().daemons = values;
    }
}

/// Returns the controlling DaemonSet of a pod (namespace, uid) and the pod's age.
fn controlling_daemon_set(pod: &WirePod) -> Option<((String, String), Age)> {
    let uid = ingest::controlling_daemon_set_uid(pod)?;
    let (seconds, name) = ingest::newest_first_key(pod);
    let namespace = text(pod.metadata.namespace.as_ref());
    Some(((namespace.to_owned(), uid.to_owned()), (seconds, name.to_owned())))
}
