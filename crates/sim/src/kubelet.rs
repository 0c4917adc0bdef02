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
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{self, Either};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_operator::chance::Chance;
use karpenter_operator::clock::Clock;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};

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

/// How often a kubelet says that it is alive.
const LEASE_EVERY: Duration = Duration::from_secs(10);

/// The kubelets, for ever.
pub async fn run(client: Client, clock: Arc<dyn Clock>, chance: Chance) -> Infallible {
    let wake = Wake::default();
    let pods: Informer<Pod> =
        Informer::new(Api::all(client.clone()), &clock, &wake).fields("spec.nodeName!=");
    let nodes: Informer<Node> = Informer::new(Api::all(client.clone()), &clock, &wake);
    let feeds = Box::pin(future::join(pods.feed(), nodes.feed()));
    let kubelets = Kubelets {
        client,
        clock: clock.clone(),
        chance,
        pods: &pods,
        nodes: &nodes,
        due: Due::default(),
        addresses: 0,
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
    pods: &'a Informer<Pod>,
    nodes: &'a Informer<Node>,
    due: Due,
    /// Addresses that have been given out.
    addresses: u32,
}

impl Kubelets<'_> {
    async fn work(mut self, wake: &Wake) -> Infallible {
        loop {
            let rung = Box::pin(wake.rung());
            match self.due.next() {
                None => rung.await,
                Some(time) => drop(future::select(rung, self.clock.sleep_until(time)).await),
            }
            self.look();
            while let Some(job) = self.due.take(self.clock.now()) {
                self.perform(job).await;
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
                let after = self.chance.duration(state::NODE_READY);
                self.due.at(later(now, after), Job::Node(node.name_any()));
            } else if state::is_simulated(node) && status::is_unknown(node) {
                // Somebody has given it up. A kubelet that lives says so with its next report.
                self.due.at(later(now, LEASE_EVERY), Job::Node(node.name_any()));
            } else if state::is_simulated(node) && change.before.is_none() {
                self.due.at(now, Job::Lease(node.name_any()));
            }
        }
        for change in self.pods.take_changes() {
            let Some(pod) = &change.after else { continue };
            if let Some(after) = state::wait(pod, change.before.as_deref(), &mut self.chance) {
                self.due.at(later(now, after), Job::Pod(change.key.clone()));
            }
        }
    }

    async fn perform(&mut self, job: Job) {
        let done = match &job {
            Job::Node(name) => self.ready(name).await,
            Job::Lease(name) => self.renew(name).await,
            Job::Pod(key) => self.step(key).await,
        };
        if done.is_err() {
            self.due.at(later(self.clock.now(), RETRY), job);
        }
    }

    async fn ready(&mut self, name: &str) -> Result<(), kube::Error> {
        let Some(node) = self.nodes.get("", name) else { return Ok(()) };
        let now = self.clock.now();
        if state::node_step(&node) != NodeStep::BecomeReady {
            return Ok(());
        }
        self.addresses += 1;
        let patch = Patch::Merge(status::node_ready(&node, self.addresses, now));
        let nodes: Api<Node> = Api::all(self.client.clone());
        gone_is_fine(nodes.patch_status(name, &PatchParams::default(), &patch).await)?;
        self.due.at(now, Job::Lease(name.to_owned()));
        Ok(())
    }

    async fn renew(&mut self, name: &str) -> Result<(), kube::Error> {
        let Some(node) = self.nodes.get("", name) else { return Ok(()) };
        if state::is_silent(&node) {
            return Ok(());
        }
        let now = self.clock.now();
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-node-lease");
        let lease = Patch::Apply(status::lease(&node, now));
        leases.patch(name, &PatchParams::apply("kubelet").force(), &lease).await?;
        self.due.at(later(now, LEASE_EVERY), Job::Lease(name.to_owned()));
        Ok(())
    }

    async fn step(&mut self, key: &ObjectKey) -> Result<(), kube::Error> {
        let Some(pod) = self.pods.get(&key.namespace, &key.name) else { return Ok(()) };
        let node_name =
            pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
        let Some(node) = self.nodes.get("", node_name) else { return Ok(()) };
        let now = self.clock.now();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        match state::pod_step(&pod, &node, now) {
            PodStep::Nothing => {}
            PodStep::Wait(after) => self.due.at(later(now, after), Job::Pod(key.clone())),
            PodStep::Start => {
                self.addresses += 1;
                let patch = Patch::Merge(status::pod_running(&pod, &node, self.addresses, now));
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
        Ok(())
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
