//! The kubelets of all simulated nodes: nodes become ready, pods start, finish and end, each after
//! a while that chance decides.
//!
//! ```text
//! Node seen ── a while ──▶ Ready, Lease ── every 10 s ──▶ Lease renewed
//! pod bound ── a while ──▶ Running ── `run-for` ──▶ Succeeded
//! pod deleted ── a while, at most its grace period ──▶ gone
//! ```
//!
//! What each change calls for is decided in `state`, without a clock or an API; this file waits
//! and writes. It animates nodes that are marked for it, as those of the KWOK provider are, so
//! it also works on a real control plane.

mod state;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{self, Either};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::labels;
use karpenter_operator::clock::Clock;
use karpenter_operator::rng::SeededRng;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;

pub use self::state::Pace;
use self::state::{NodeStep, PodStep};
use karpenter_operator::watch::{Informer, Notifier, ObjectKey};

/// On a Node: its kubelet says nothing any more.
pub const SILENT: &str = "sim.karpenter.sh/silent";
/// On a pod: how long it runs before it has succeeded, such as `90s`.
pub const RUN_FOR: &str = "sim.karpenter.sh/run-for";
/// On a pod: how long it takes to terminate, such as `20s`.
pub const STOP_AFTER: &str = "sim.karpenter.sh/stop-after";

/// How long a kubelet waits before it retries a failed write.
const RETRY: Duration = Duration::from_secs(1);

/// The kubelets, for ever, at this pace.
pub async fn run(pace: Pace, client: Client, clock: Arc<dyn Clock>, rng: SeededRng) -> Infallible {
    let wake = Notifier::default();
    let pods: Informer<Pod> = Informer::new(Api::all(client.clone()), &clock, &wake)
        .with_field_selector("spec.nodeName!=");
    let nodes: Informer<Node> = Informer::new(Api::all(client.clone()), &clock, &wake);
    let feeds = Box::pin(future::join(pods.run(), nodes.run()));
    let kubelets = Kubelets {
        client,
        clock: clock.clone(),
        rng,
        pace,
        pods: &pods,
        nodes: &nodes,
        queue: WorkQueue::default(),
        addresses: AtomicU32::new(0),
        capacities: status::capacities_by_instance_type(),
        node_leases: Mutex::default(),
    };
    let work = Box::pin(kubelets.work(&wake));
    match future::select(feeds, work).await {
        Either::Left(((never, _), _)) | Either::Right((never, _)) => never,
    }
}

/// The nodes, leases and pods to sync, and when; one entry each.
#[derive(Debug, Default)]
struct WorkQueue {
    times: BTreeSet<(Timestamp, WorkItem)>,
    jobs: BTreeMap<WorkItem, Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum WorkItem {
    Node(String),
    Lease(String),
    Pod(ObjectKey),
}

impl WorkQueue {
    /// An earlier time for the same job wins.
    fn at(&mut self, time: Timestamp, job: WorkItem) {
        if let Some(old) = self.jobs.get(&job).copied() {
            if old <= time {
                return;
            }
            self.times.remove(&(old, job.clone()));
        }
        self.jobs.insert(job.clone(), time);
        self.times.insert((time, job));
    }

    fn next(&self) -> Option<Timestamp> {
        self.times.first().map(|(time, _)| *time)
    }

    fn take(&mut self, now: Timestamp) -> Option<WorkItem> {
        let (time, _) = self.times.first()?;
        if *time > now {
            return None;
        }
        let (_, job) = self.times.pop_first()?;
        self.jobs.remove(&job);
        Some(job)
    }
}

struct Kubelets<'a> {
    client: Client,
    clock: Arc<dyn Clock>,
    rng: SeededRng,
    pace: Pace,
    pods: &'a Informer<Pod>,
    nodes: &'a Informer<Node>,
    queue: WorkQueue,
    /// Addresses that have been given out.
    addresses: AtomicU32,
    /// The capacity of each instance type.
    capacities: BTreeMap<String, Value>,
    /// The uids of nodes whose lease exists, by name.
    /// Renewing an existing lease is a small write.
    node_leases: Mutex<BTreeMap<String, String>>,
}

/// The item to sync again and when, if any.
type Requeue = Option<(Timestamp, WorkItem)>;

impl Kubelets<'_> {
    async fn work(mut self, wake: &Notifier) -> Infallible {
        loop {
            let rung = Box::pin(wake.notified());
            match self.queue.next() {
                None => rung.await,
                Some(time) => drop(future::select(rung, self.clock.sleep_until(time)).await),
            }
            self.queue_changes();
            loop {
                let now = self.clock.now();
                let taken = (0..self.pace.concurrency.max(1)).map_while(|_| self.queue.take(now));
                let jobs: Vec<WorkItem> = taken.collect();
                if jobs.is_empty() {
                    break;
                }
                let jobs = jobs.into_iter().map(|job| self.sync(job));
                for (time, job) in future::join_all(jobs).await.into_iter().flatten() {
                    self.queue.at(time, job);
                }
            }
        }
    }

    /// Adds changed nodes and pods to the queue, each with a random delay.
    fn queue_changes(&mut self) {
        let now = self.clock.now();
        for change in self.nodes.take_changes() {
            let Some(node) = &change.after else { continue };
            let was_ready = change.before.as_ref().is_some_and(|node| status::is_ready(node));
            if state::is_simulated(node) && !status::is_ready(node) && !was_ready {
                let after = self.rng.duration(self.pace.node_ready.clone());
                self.queue.at(later(now, after), WorkItem::Node(node.name_any()));
            } else if state::is_simulated(node) && status::is_unknown(node) {
                // The node lifecycle controller has given it up. A kubelet that lives reports
                // again.
                self.queue.at(later(now, self.pace.lease_every), WorkItem::Node(node.name_any()));
            } else if state::is_simulated(node) && change.before.is_none() {
                self.queue.at(now, WorkItem::Lease(node.name_any()));
            }
        }
        for change in self.pods.take_changes() {
            let Some(pod) = &change.after else { continue };
            let before = change.before.as_deref();
            if let Some(after) = state::sync_delay(pod, before, &self.pace, &mut self.rng) {
                self.queue.at(later(now, after), WorkItem::Pod(change.key.clone()));
            }
        }
    }

    async fn sync(&self, job: WorkItem) -> Requeue {
        let done = match &job {
            WorkItem::Node(name) => self.sync_node(name).await,
            WorkItem::Lease(name) => self.sync_lease(name).await,
            WorkItem::Pod(key) => self.sync_pod(key).await,
        };
        done.unwrap_or_else(|_| Some((later(self.clock.now(), RETRY), job)))
    }

    async fn sync_node(&self, name: &str) -> Result<Requeue, kube::Error> {
        let Some(node) = self.nodes.get("", name) else { return Ok(None) };
        let now = self.clock.now();
        if state::node_step(&node) != NodeStep::BecomeReady {
            return Ok(None);
        }
        let instance_type = node.labels().get(labels::INSTANCE_TYPE);
        let capacity = instance_type.and_then(|instance_type| self.capacities.get(instance_type));
        let patch = Patch::Merge(status::node_ready(&node, capacity, self.address(), now));
        let nodes: Api<Node> = Api::all(self.client.clone());
        ignore_not_found(nodes.patch_status(name, &PatchParams::default(), &patch).await)?;
        Ok(Some((now, WorkItem::Lease(name.to_owned()))))
    }

    async fn sync_lease(&self, name: &str) -> Result<Requeue, kube::Error> {
        let Some(node) = self.nodes.get("", name) else {
            self.lock_node_leases().remove(name);
            return Ok(None);
        };
        if state::is_silent(&node) {
            return Ok(None);
        }
        let now = self.clock.now();
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-node-lease");
        let uid = node.metadata.uid.clone().unwrap_or_default();
        let has_lease = self.lock_node_leases().get(name) == Some(&uid);
        if !(has_lease && self.renew_lease(&leases, name, now).await?) {
            let lease = Patch::Apply(status::lease(&node, self.pace.lease_every, now));
            leases.patch(name, &PatchParams::apply("kubelet").force(), &lease).await?;
            self.lock_node_leases().insert(name.to_owned(), uid);
        }
        Ok(Some((later(now, self.pace.lease_every), WorkItem::Lease(name.to_owned()))))
    }

    /// Renews a lease; returns false if it is gone.
    async fn renew_lease(
        &self,
        leases: &Api<Lease>,
        name: &str,
        now: Timestamp,
    ) -> Result<bool, kube::Error> {
        let renewal = Patch::Merge(status::renewal(now));
        match leases.patch(name, &PatchParams::default(), &renewal).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn lock_node_leases(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        // Nothing panics while it is held.
        self.node_leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn sync_pod(&self, key: &ObjectKey) -> Result<Requeue, kube::Error> {
        let Some(pod) = self.pods.get(&key.namespace, &key.name) else { return Ok(None) };
        let node_name =
            pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
        let Some(node) = self.nodes.get("", node_name) else { return Ok(None) };
        let now = self.clock.now();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        match state::pod_step(&pod, &node, now) {
            PodStep::Nothing => {}
            PodStep::Wait(after) => {
                return Ok(Some((later(now, after), WorkItem::Pod(key.clone()))));
            }
            PodStep::Start => {
                let patch = Patch::Merge(status::pod_running(&pod, &node, self.address(), now));
                ignore_not_found(
                    pods.patch_status(&key.name, &PatchParams::default(), &patch).await,
                )?;
            }
            PodStep::Succeed => {
                let patch = Patch::Merge(status::pod_succeeded(&pod, now));
                ignore_not_found(
                    pods.patch_status(&key.name, &PatchParams::default(), &patch).await,
                )?;
            }
            PodStep::End => {
                let preconditions =
                    Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
                let params = DeleteParams::default().grace_period(0).preconditions(preconditions);
                ignore_not_found_or_conflict(pods.delete(&key.name, &params).await)?;
            }
        }
        Ok(None)
    }

    fn address(&self) -> u32 {
        self.addresses.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }
}

fn later(now: Timestamp, after: Duration) -> Timestamp {
    now.checked_add(after).unwrap_or(Timestamp::MAX)
}

/// Turns a not-found error into success: a deleted object needs no write.
fn ignore_not_found<T>(result: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match result {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error),
    }
}

/// Turns not-found and conflict errors into success.
/// A conflict means that a call for one uid met another object of that name.
fn ignore_not_found_or_conflict<T>(result: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        result => ignore_not_found(result),
    }
}
