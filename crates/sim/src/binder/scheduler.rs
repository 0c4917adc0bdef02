//! World and queue together: changes in, decisions out. It neither waits nor talks to anybody.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod as WirePod, PodSpec, PodStatus};

use super::ask::Pod;
use super::place::{Placement, place};
use super::queue::Queue;
use super::unfit::{Blockers, Unfit};
use super::world::{Pending, World};
use karpenter_operator::watch::ObjectKey;

/// The name by which pods ask for this scheduler.
pub const SCHEDULER_NAME: &str = "default-scheduler";

/// What became of a pod.
#[derive(Debug)]
pub struct Decision {
    /// The pod.
    pub pod: Arc<Pod>,
    /// Its node, on which it counts from now on, or why it has none.
    pub outcome: Result<Placement, Unfit>,
}

/// A scheduler between two calls of the API.
#[derive(Debug, Default)]
pub struct Scheduler {
    world: World,
    queue: Queue,
    pending: BTreeMap<ObjectKey, Pending>,
    /// Pods whose binding has been decided and not been seen yet.
    assumed: BTreeMap<ObjectKey, Arc<Pod>>,
    /// What may have been removed since pods were last tried.
    helps: Blockers,
}

impl Scheduler {
    /// The cluster, to tell it what has changed; see [`Self::help`].
    pub fn world(&mut self) -> &mut World {
        &mut self.world
    }

    /// Pods with these blockers are worth another try.
    pub fn help(&mut self, by: Blockers) {
        self.helps |= by;
    }

    /// A pod came, has changed or is gone.
    pub fn set_pod(&mut self, key: &ObjectKey, wire: Option<&WirePod>, now: Timestamp) {
        let Some(wire) = wire.filter(|wire| !is_over(wire.status.as_ref())) else {
            self.assumed.remove(key);
            self.stop(key);
            self.helps |= self.world.remove_pod(key);
            return;
        };
        let pod = Pod::read(wire);
        if pod.node.is_some() {
            self.assumed.remove(key);
            self.stop(key);
            self.helps |= self.world.set_pod(pod);
            return;
        }
        if self.assumed.get(key).is_some_and(|assumed| assumed.uid == pod.uid) {
            // Seen as it was before it was bound.
            return;
        }
        self.assumed.remove(key);
        self.helps |= self.world.remove_pod(key);
        if is_ours(wire.spec.as_ref()) && !pod.is_terminating {
            self.wait(pod, now);
        } else {
            self.stop(key);
        }
    }

    /// The next decision, if a pod is due.
    pub fn next(&mut self, now: Timestamp) -> Option<Decision> {
        let helps = std::mem::take(&mut self.helps);
        if helps != Blockers::NONE {
            self.queue.helped(helps, now);
        }
        let key = self.queue.first(now)?;
        let Some(pending) = self.pending.get(&key) else {
            self.queue.remove(&key);
            return None;
        };
        let pod = Arc::clone(&pending.pod);
        let outcome = place(pending, &self.world);
        match &outcome {
            Ok(placement) => {
                self.world.start = placement.next_start;
                self.stop(&key);
                let bound = Pod { node: Some(placement.node.clone()), ..Pod::clone(&pod) };
                self.helps |= self.world.set_pod(bound);
                self.assumed.insert(key, Arc::clone(&pod));
            }
            Err(unfit) => self.queue.refused(&key, unfit.blockers(), now),
        }
        Some(Decision { pod, outcome })
    }

    /// A placement could not be carried out: the pod is tried again after a while.
    pub fn forget(&mut self, key: &ObjectKey, now: Timestamp) {
        let Some(pod) = self.assumed.remove(key) else { return };
        self.helps |= self.world.remove_pod(key);
        self.wait(Pod::clone(&pod), now);
        self.queue.failed(key, now);
    }

    /// When the next pod is due if nothing changes.
    pub fn next_time(&self) -> Option<Timestamp> {
        self.queue.next_time()
    }

    fn wait(&mut self, pod: Pod, now: Timestamp) {
        let known = self.pending.get(&pod.key);
        if known.is_some_and(|known| is_same(&known.pod, &pod)) {
            return;
        }
        if known.is_some_and(|known| known.pod.uid != pod.uid) {
            self.queue.remove(&pod.key);
        }
        let (key, priority, created) = (pod.key.clone(), pod.priority, pod.created);
        let pending = self.world.prepare(pod);
        if let Some(known) = self.pending.insert(key.clone(), pending) {
            self.world.release(&known);
        }
        self.queue.add(&key, priority, created, now);
    }

    fn stop(&mut self, key: &ObjectKey) {
        self.queue.remove(key);
        if let Some(pending) = self.pending.remove(key) {
            self.world.release(&pending);
        }
    }
}

fn is_same(known: &Pod, pod: &Pod) -> bool {
    known.uid == pod.uid
        && known.labels == pod.labels
        && known.ask == pod.ask
        && known.priority == pod.priority
}

fn is_over(status: Option<&PodStatus>) -> bool {
    let phase = status.and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn is_ours(spec: Option<&PodSpec>) -> bool {
    spec.is_some_and(|spec| {
        matches!(spec.scheduler_name.as_deref(), None | Some("" | SCHEDULER_NAME))
            && spec.scheduling_gates.as_ref().is_none_or(Vec::is_empty)
    })
}
