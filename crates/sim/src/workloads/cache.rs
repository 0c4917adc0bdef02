//! Caches the objects of the workload controllers, and queues the objects that a change affects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join3, join4};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet,
};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use karpenter_cluster::ingest::conversion;
use karpenter_core::selector::Selector;
use karpenter_operator::clock::Clock;
use kube::{Api, Client, Resource};

use super::eviction::no_execute_taints;
use super::index::{Index, labels};
use super::job::is_tracked;
use super::pods::{controller_of, is_terminating, node_name};
use super::queue::{Item, Queue, later};
use karpenter_operator::watch::{Change, Informer, Notifier, ObjectKey};

/// How long a node must be gone before its pods are.
const QUARANTINE: Duration = Duration::from_secs(40);

/// Where the leases of nodes are.
const NODE_LEASES: &str = "kube-node-lease";

/// The informers of the kinds that the controllers watch.
#[derive(Debug)]
pub(super) struct Informers {
    pub(super) pods: Informer<Pod>,
    pub(super) nodes: Informer<Node>,
    pub(super) deployments: Informer<Deployment>,
    pub(super) replica_sets: Informer<ReplicaSet>,
    pub(super) daemon_sets: Informer<DaemonSet>,
    pub(super) stateful_sets: Informer<StatefulSet>,
    pub(super) revisions: Informer<ControllerRevision>,
    pub(super) jobs: Informer<Job>,
    pub(super) budgets: Informer<PodDisruptionBudget>,
    /// The signs of life of kubelets.
    pub(super) leases: Informer<Lease>,
}

impl Informers {
    pub(super) fn new(client: &Client, clock: &Arc<dyn Clock>, wake: &Notifier) -> Self {
        macro_rules! all {
            () => {
                Informer::new(Api::all(client.clone()), clock, wake)
            };
        }
        Self {
            pods: all!(),
            nodes: all!(),
            deployments: all!(),
            replica_sets: all!(),
            daemon_sets: all!(),
            stateful_sets: all!(),
            revisions: all!(),
            jobs: all!(),
            budgets: all!(),
            leases: Informer::new(Api::namespaced(client.clone(), NODE_LEASES), clock, wake),
        }
    }

    pub(super) async fn feed(&self) {
        let core = join3(self.pods.run(), self.nodes.run(), self.leases.run());
        let apps = join3(self.deployments.run(), self.replica_sets.run(), self.daemon_sets.run());
        let more = join4(
            self.stateful_sets.run(),
            self.revisions.run(),
            self.jobs.run(),
            self.budgets.run(),
        );
        // Boxed, as the three of them are large.
        join3(Box::pin(core), Box::pin(apps), Box::pin(more)).await;
    }

    pub(super) fn is_synced(&self) -> bool {
        self.pods.is_synced()
            && self.nodes.is_synced()
            && self.deployments.is_synced()
            && self.replica_sets.is_synced()
            && self.daemon_sets.is_synced()
            && self.stateful_sets.is_synced()
            && self.revisions.is_synced()
            && self.jobs.is_synced()
            && self.budgets.is_synced()
            && self.leases.is_synced()
    }
}

/// The objects that the controllers know, as of the last applied changes.
#[derive(Debug, Default)]
pub(super) struct ObjectCache {
    pub(super) pods: Index<Pod>,
    pub(super) nodes: Index<Node>,
    pub(super) deployments: Index<Deployment>,
    pub(super) replica_sets: Index<ReplicaSet>,
    pub(super) daemon_sets: Index<DaemonSet>,
    pub(super) stateful_sets: Index<StatefulSet>,
    pub(super) revisions: Index<ControllerRevision>,
    pub(super) jobs: Index<Job>,
    pub(super) budgets: Index<PodDisruptionBudget>,
    /// Pods by the node that they are bound to.
    pub(super) by_node: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// Uids of pods with an accepted deletion that the watch has not shown.
    accepted_deletions: BTreeSet<String>,
    /// The start of the toleration period of pods on tainted nodes, by uid.
    pub(super) evicting_since: BTreeMap<String, Timestamp>,
}

impl ObjectCache {
    /// Applies the changes of all informers, and queues the affected objects.
    pub(super) fn apply_changes(
        &mut self,
        informers: &Informers,
        queue: &mut Queue,
        now: Timestamp,
    ) {
        self.apply_app_changes(informers, queue, now);
        // They are read when a node's time is up, and call for nothing before.
        drop(informers.leases.take_changes());
        for change in informers.nodes.take_changes() {
            self.nodes.apply(&change);
            self.handle_node_change(&change, queue, now);
        }
        for change in informers.pods.take_changes() {
            self.pods.apply(&change);
            self.handle_pod_change(&change, queue, now);
        }
    }

    fn apply_app_changes(&mut self, informers: &Informers, queue: &mut Queue, now: Timestamp) {
        for change in informers.deployments.take_changes() {
            self.deployments.apply(&change);
            enqueue_object(queue, &change, Item::Deployment, now);
        }
        for change in informers.replica_sets.take_changes() {
            self.replica_sets.apply(&change);
            enqueue_object(queue, &change, Item::ReplicaSet, now);
            for set in change.before.iter().chain(&change.after) {
                match controller_of(&set.metadata) {
                    Some(owner) => enqueue_owner(queue, &change.key.namespace, owner, now),
                    None => self.enqueue_adopting_deployments(
                        queue,
                        &change.key.namespace,
                        set.as_ref(),
                        now,
                    ),
                }
            }
        }
        for change in informers.daemon_sets.take_changes() {
            self.daemon_sets.apply(&change);
            enqueue_object(queue, &change, Item::DaemonSet, now);
        }
        for change in informers.stateful_sets.take_changes() {
            self.stateful_sets.apply(&change);
            enqueue_object(queue, &change, Item::StatefulSet, now);
        }
        for change in informers.revisions.take_changes() {
            self.revisions.apply(&change);
        }
        for change in informers.jobs.take_changes() {
            self.jobs.apply(&change);
            enqueue_object(queue, &change, Item::Job, now);
            let gone = change.before.as_ref().filter(|_| change.after.is_none());
            let uid = gone.and_then(|job| job.metadata.uid.as_deref()).unwrap_or_default();
            for pod in self.pods.of_owner(uid).filter(|pod| is_tracked(pod)) {
                queue.add(Item::UncountedPod(ObjectKey::of(pod.as_ref())), now);
            }
        }
        for change in informers.budgets.take_changes() {
            self.budgets.apply(&change);
            enqueue_object(queue, &change, Item::Budget, now);
        }
    }

    /// Queues the Deployments that may adopt a ReplicaSet.
    fn enqueue_adopting_deployments(
        &self,
        queue: &mut Queue,
        namespace: &str,
        set: &ReplicaSet,
        now: Timestamp,
    ) {
        for deployment in self.deployments.in_namespace(namespace) {
            let selector = deployment.spec.as_ref().map(|spec| &spec.selector);
            if selector_of(selector).matches(labels(set)) {
                queue.add(Item::Deployment(ObjectKey::of(deployment.as_ref())), now);
            }
        }
    }

    fn handle_node_change(&self, change: &Change<Node>, queue: &mut Queue, now: Timestamp) {
        let fitting = |node: Option<&Node>| {
            node.map(|node| {
                let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone());
                (node.metadata.labels.clone(), taints)
            })
        };
        if fitting(change.before.as_deref()) != fitting(change.after.as_deref()) {
            for set in self.daemon_sets.all() {
                queue.add(Item::DaemonSet(ObjectKey::of(set.as_ref())), now);
            }
        }
        let name = &change.key.name;
        match &change.after {
            Some(_) => queue.add(Item::Node(name.clone()), now),
            None => queue.forget(&Item::Node(name.clone())),
        }
        let evicts = |node: &Option<Arc<Node>>| {
            node.as_ref().is_some_and(|node| no_execute_taints(node).next().is_some())
        };
        let must_leave = evicts(&change.before) || evicts(&change.after);
        for pod in self.by_node.get(name).into_iter().flatten() {
            if change.after.is_none() {
                queue.at(Item::OrphanedPod(pod.clone()), later(now, QUARANTINE));
            } else if must_leave {
                queue.add(Item::Eviction(pod.clone()), now);
            }
        }
    }

    /// Queues checks of a newly bound pod: is it evicted, is its node gone?
    /// Drops these checks for a deleted pod.
    fn handle_binding_change(&mut self, change: &Change<Pod>, queue: &mut Queue, now: Timestamp) {
        let bound =
            |pod: &Option<Arc<Pod>>| pod.as_ref().and_then(|pod| node_name(pod).map(str::to_owned));
        let node = bound(&change.after);
        if change.after.is_none() {
            queue.forget(&Item::Eviction(change.key.clone()));
            queue.forget(&Item::OrphanedPod(change.key.clone()));
            if let Some(uid) = change.before.as_ref().and_then(|pod| pod.metadata.uid.as_ref()) {
                self.evicting_since.remove(uid);
            }
        }
        if node == bound(&change.before) {
            return;
        }
        let Some(node) = node else { return };
        match self.nodes.get(&ObjectKey::new("", &node)) {
            None => queue.at(Item::OrphanedPod(change.key.clone()), later(now, QUARANTINE)),
            Some(node) if no_execute_taints(node).next().is_some() => {
                queue.add(Item::Eviction(change.key.clone()), now);
            }
            Some(_) => {}
        }
    }

    fn handle_pod_change(&mut self, change: &Change<Pod>, queue: &mut Queue, now: Timestamp) {
        let ObjectKey { namespace, .. } = &change.key;
        if let Some(before) = &change.before {
            self.clear_observed_deletion(before, change.after.as_deref());
            if let Some(node) = node_name(before)
                && let Some(pods) = self.by_node.get_mut(node)
            {
                pods.remove(&change.key);
                if pods.is_empty() {
                    self.by_node.remove(node);
                }
            }
        }
        if let Some(after) = &change.after
            && let Some(node) = node_name(after)
        {
            self.by_node.entry(node.to_owned()).or_default().insert(change.key.clone());
        }
        self.handle_binding_change(change, queue, now);
        self.enqueue_budgets_and_job(change, queue, now);
        for pod in change.before.iter().chain(&change.after) {
            match controller_of(&pod.metadata) {
                Some(owner) => {
                    enqueue_owner(queue, namespace, owner, now);
                    if change.after.is_none() && owner.kind == "ReplicaSet" {
                        self.enqueue_recreating_deployment(queue, namespace, owner, now);
                    }
                }
                None => self.enqueue_adopters(queue, namespace, pod, now),
            }
        }
    }

    /// Queues the budgets of a pod, and the pod if its Job is gone.
    fn enqueue_budgets_and_job(&self, change: &Change<Pod>, queue: &mut Queue, now: Timestamp) {
        for budget in self.budgets.in_namespace(&change.key.namespace) {
            let selector =
                selector_of(budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()));
            let mut sides = change.before.iter().chain(&change.after);
            if sides.any(|pod| selector.matches(labels(pod.as_ref()))) {
                queue.add(Item::Budget(ObjectKey::of(budget.as_ref())), now);
            }
        }
        let untracked = Item::UncountedPod(change.key.clone());
        let Some(pod) = &change.after else { return queue.forget(&untracked) };
        let owner = controller_of(&pod.metadata).filter(|owner| owner.kind == "Job");
        if let Some(owner) = owner.filter(|_| is_tracked(pod)) {
            let job = self.jobs.get(&ObjectKey::new(&change.key.namespace, &owner.name));
            if job.is_none_or(|job| job.metadata.uid.as_ref() != Some(&owner.uid)) {
                queue.add(untracked, now);
            }
        }
    }

    /// Queues the Deployment of a ReplicaSet that has lost a pod.
    /// A Deployment that recreates its pods waits for the last old one to end.
    fn enqueue_recreating_deployment(
        &self,
        queue: &mut Queue,
        namespace: &str,
        owner: &OwnerReference,
        now: Timestamp,
    ) {
        let set = self.replica_sets.get(&ObjectKey::new(namespace, &owner.name));
        if let Some(owner) = set.and_then(|set| controller_of(&set.metadata)) {
            enqueue_owner(queue, namespace, owner, now);
        }
    }

    /// Queues the controllers that may adopt a pod without a controller.
    fn enqueue_adopters(&self, queue: &mut Queue, namespace: &str, pod: &Pod, now: Timestamp) {
        if is_terminating(pod) {
            return;
        }
        for set in self.replica_sets.in_namespace(namespace) {
            let selector = set.spec.as_ref().map(|spec| &spec.selector);
            if selector_of(selector).matches(labels(pod)) {
                queue.add(Item::ReplicaSet(ObjectKey::of(set.as_ref())), now);
            }
        }
        for set in self.stateful_sets.in_namespace(namespace) {
            let selector = set.spec.as_ref().map(|spec| &spec.selector);
            if selector_of(selector).matches(labels(pod)) {
                queue.add(Item::StatefulSet(ObjectKey::of(set.as_ref())), now);
            }
        }
        for set in self.daemon_sets.in_namespace(namespace) {
            let selector = set.spec.as_ref().map(|spec| &spec.selector);
            if selector_of(selector).matches(labels(pod)) {
                queue.add(Item::DaemonSet(ObjectKey::of(set.as_ref())), now);
            }
        }
    }

    /// Records that the API has accepted the deletion of the pod.
    pub(super) fn record_accepted_deletion(&mut self, pod: &Pod) {
        self.accepted_deletions.extend(pod.metadata.uid.clone());
    }

    pub(super) fn is_deletion_accepted(&self, pod: &Pod) -> bool {
        is_terminating(pod)
            || pod.metadata.uid.as_ref().is_some_and(|uid| self.accepted_deletions.contains(uid))
    }

    fn clear_observed_deletion(&mut self, before: &Pod, after: Option<&Pod>) {
        let Some(uid) = &before.metadata.uid else { return };
        let is_seen = after
            .is_none_or(|after| is_terminating(after) || after.metadata.uid.as_ref() != Some(uid));
        if is_seen {
            self.accepted_deletions.remove(uid);
        }
    }
}

pub(super) fn selector_of(wire: Option<&LabelSelector>) -> Selector {
    conversion::selector(wire)
}

fn enqueue_object<K: Resource>(
    queue: &mut Queue,
    change: &Change<K>,
    item: fn(ObjectKey) -> Item,
    now: Timestamp,
) {
    let item = item(change.key.clone());
    match change.after {
        Some(_) => queue.add(item, now),
        None => queue.forget(&item),
    }
}

fn enqueue_owner(queue: &mut Queue, namespace: &str, owner: &OwnerReference, now: Timestamp) {
    let key = ObjectKey::new(namespace, &owner.name);
    let item = match owner.kind.as_str() {
        "Deployment" => Item::Deployment(key),
        "ReplicaSet" => Item::ReplicaSet(key),
        "StatefulSet" => Item::StatefulSet(key),
        "DaemonSet" => Item::DaemonSet(key),
        "Job" => Item::Job(key),
        _ => return,
    };
    queue.add(item, now);
}
