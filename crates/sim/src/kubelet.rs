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
use karpenter_operator::chance::Chance;
use karpenter_operator::clock::Clock;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;

pub use self::state::Pace;
use self::state::{NodeStep, PodStep};
use karpenter_operator::watch::{Informer, ObjectKey, Wake};

/// On a Node: its kubelet says nothing any more.
pub const SILENT: &str = "sim.karpenter.sh/silent";
/// On a pod: how long it runs before it has succeeded, such as `90s`.
pub const RUN_FOR: &str = "sim.karpenter.sh/run-for";
/// On a pod: how long it takes to end when it is asked to, such as `20s`.
pub const STOP_AFTER: &str = "sim.karpenter.sh/stop-after";

/// What a kubelet that is asked too early or refused waits before it tries again.
const RETRY: Duration = Duration::from_secs(1);

/// The kubelets, for ever, at this pace.
pub async fn run(pace: Pace, client: Client, clock: Arc<dyn Clock>, chance: Chance) -> Infallible {
    let wake = Wake::default();
    let pods: Informer<Pod> =
        Informer::new(Api::all(client.clone()), &clock, &wake).fields("spec.nodeName!=");
    let nodes: Informer<Node> = Informer::new(Api::all(client.clone()), &clock, &wake);
    let feeds = Box::pin(future::join(pods.feed(), nodes.feed()));
    let kubelets = Kubelets {
        client,
        clock: clock.clone(),
        chance,
        pace,
        pods: &pods,
        nodes: &nodes,
        due: Due::default(),
        addresses: AtomicU32::new(0),
        machines: status::machines(),
        leased: Mutex::default(),
    };
    let work = Box::pin(kubelets.work(&wake));
    match future::select(feeds, work).await {
        Either::Left(((never, _), _)) | Either::Right((never, _)) => never,
    }
}

/// What is to be looked at, and when. One entry for an object and a purpose.
#[derive(Debug, Default)]
struct Due {
    times: BTreeSet<(Timestamp, Job)>,
    jobs: BTreeMap<Job, Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Job {
    Node(String),
    Lease(String),
    Pod(ObjectKey),
}

impl Due {
    /// An earlier time for the same job wins.
    fn at(&mut self, time: Timestamp, job: Job) {
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

    fn take(&mut self, now: Timestamp) -> Option<Job> {
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
    chance: Chance,
    pace: Pace,
    pods: &'a Informer<Pod>,
    nodes: &'a Informer<Node>,
    due: Due,
    /// Addresses that have been given out.
    addresses: AtomicU32,
    /// What machines have, by instance type.
    machines: BTreeMap<String, Value>,
    /// The nodes whose lease is there, with their uids: to renew it is a small write.
    leased: Mutex<BTreeMap<String, String>>,
}

/// What is to be looked at again, and when.
type Next = Option<(Timestamp, Job)>;

impl Kubelets<'_> {
    async fn work(mut self, wake: &Wake) -> Infallible {
        loop {
            let rung = Box::pin(wake.rung());
            match self.due.next() {
                None => rung.await,
                Some(time) => drop(future::select(rung, self.clock.sleep_until(time)).await),
            }
            self.look();
            loop {
                let now = self.clock.now();
                let taken = (0..self.pace.at_once.max(1)).map_while(|_| self.due.take(now));
                let jobs: Vec<Job> = taken.collect();
                if jobs.is_empty() {
                    break;
                }
                let jobs = jobs.into_iter().map(|job| self.perform(job));
                for (time, job) in future::join_all(jobs).await.into_iter().flatten() {
                    self.due.at(time, job);
                }
            }
        }
    }

    /// What has changed has to be looked at after a while.
    fn look(&mut self) {
        let now = self.clock.now();
        for change in self.nodes.take_changes() {
            let Some(node) = &change.after else { continue };
            let was_ready = change.before.as_ref().is_some_and(|node| status::is_ready(node));
            if state::is_simulated(node) && !status::is_ready(node) && !was_ready {
                let after = self.chance.duration(self.pace.node_ready.clone());
                self.due.at(later(now, after), Job::Node(node.name_any()));
            } else if state::is_simulated(node) && status::is_unknown(node) {
                // Somebody has given it up. A kubelet that lives says so with its next report.
                self.due.at(later(now, self.pace.lease_every), Job::Node(node.name_any()));
            } else if state::is_simulated(node) && change.before.is_none() {
                self.due.at(now, Job::Lease(node.name_any()));
            }
        }
        for change in self.pods.take_changes() {
            let Some(pod) = &change.after else { continue };
            let before = change.before.as_deref();
            if let Some(after) = state::wait(pod, before, &self.pace, &mut self.chance) {
                self.due.at(later(now, after), Job::Pod(change.key.clone()));
            }
        }
    }

    async fn perform(&self, job: Job) -> Next {
        let done = match &job {
            Job::Node(name) => self.ready(name).await,
            Job::Lease(name) => self.renew(name).await,
            Job::Pod(key) => self.step(key).await,
        };
        done.unwrap_or_else(|_| Some((later(self.clock.now(), RETRY), job)))
    }

    async fn ready(&self, name: &str) -> Result<Next, kube::Error> {
        let Some(node) = self.nodes.get("", name) else { return Ok(None) };
        let now = self.clock.now();
        if state::node_step(&node) != NodeStep::BecomeReady {
            return Ok(None);
        }
        let machine = node.labels().get(labels::INSTANCE_TYPE);
        let capacity = machine.and_then(|machine| self.machines.get(machine));
        let patch = Patch::Merge(status::node_ready(&node, capacity, self.address(), now));
        let nodes: Api<Node> = Api::all(self.client.clone());
        gone_is_fine(nodes.patch_status(name, &PatchParams::default(), &patch).await)?;
        Ok(Some((now, Job::Lease(name.to_owned()))))
    }

    async fn renew(&self, name: &str) -> Result<Next, kube::Error> {
        let Some(node) = self.nodes.get("", name) else {
            self.leased().remove(name);
            return Ok(None);
        };
        if state::is_silent(&node) {
            return Ok(None);
        }
        let now = self.clock.now();
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-node-lease");
        let uid = node.metadata.uid.clone().unwrap_or_default();
        let has_lease = self.leased().get(name) == Some(&uid);
        if !(has_lease && self.renewed(&leases, name, now).await?) {
            let lease = Patch::Apply(status::lease(&node, self.pace.lease_every, now));
            leases.patch(name, &PatchParams::apply("kubelet").force(), &lease).await?;
            self.leased().insert(name.to_owned(), uid);
        }
        Ok(Some((later(now, self.pace.lease_every), Job::Lease(name.to_owned()))))
    }

    /// Renews a lease. False if it is gone.
    async fn renewed(
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

    fn leased(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        // Nothing panics while it is held.
        self.leased.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn step(&self, key: &ObjectKey) -> Result<Next, kube::Error> {
        let Some(pod) = self.pods.get(&key.namespace, &key.name) else { return Ok(None) };
        let node_name =
            pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
        let Some(node) = self.nodes.get("", node_name) else { return Ok(None) };
        let now = self.clock.now();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        match state::pod_step(&pod, &node, now) {
            PodStep::Nothing => {}
            PodStep::Wait(after) => return Ok(Some((later(now, after), Job::Pod(key.clone())))),
            PodStep::Start => {
                let patch = Patch::Merge(status::pod_running(&pod, &node, self.address(), now));
                gone_is_fine(pods.patch_status(&key.name, &PatchParams::default(), &patch).await)?;
            }
            PodStep::Succeed => {
                let patch = Patch::Merge(status::pod_succeeded(&pod, now));
                gone_is_fine(pods.patch_status(&key.name, &PatchParams::default(), &patch).await)?;
            }
            PodStep::End => {
                let preconditions =
                    Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
                let params = DeleteParams::default().grace_period(0).preconditions(preconditions);
                other_is_fine(pods.delete(&key.name, &params).await)?;
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

/// An object that is gone needs nothing any more.
fn gone_is_fine<T>(result: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match result {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error),
    }
}

/// Nor does one that is another one by now, if the call was for the first one alone.
fn other_is_fine<T>(result: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        result => gone_is_fine(result),
    }
}
