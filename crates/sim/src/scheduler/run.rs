//! The scheduler's loop: feeds watch events into the state and writes its decisions.
//!
//! The loop handles one pod at a time, and applies all pending changes before each. It does not
//! repeat a failed call at once: the pod is tried again after its backoff.

use std::convert::Infallible;
use std::sync::Arc;

use futures_util::future::{join, join3, join4};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod as WirePod,
};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use karpenter_operator::clock::Clock;
use kube::{Api, Client};

use super::fit_error::{Blockers, FitError};
use super::placement::Placement;
use super::pod_info::PodInfo;
use super::state::{Decision, SchedulerState};
use super::storage::VolumeClaimStep;
use super::write::Writer;
use crate::volumes::VolumeProvisioner;
use karpenter_operator::watch::{Change, Informer, Notifier, ObjectKey};

/// Schedules pods until it is dropped.
pub async fn run(client: Client, clock: Arc<dyn Clock>) -> Infallible {
    let scheduler = Scheduler::new(client, clock);
    let informers = &scheduler.informers;
    let cluster = Box::pin(join4(
        informers.pods.run(),
        informers.nodes.run(),
        informers.namespaces.run(),
        informers.csi_nodes.run(),
    ));
    let volumes =
        Box::pin(join3(informers.claims.run(), informers.volumes.run(), informers.classes.run()));
    // The feeds are polled first, so that a decision sees what there is to see.
    join(join(cluster, volumes), Box::pin(scheduler.work())).await.1
}

/// The informers of the kinds that the scheduler watches.
#[derive(Debug)]
struct Informers {
    pods: Informer<WirePod>,
    nodes: Informer<Node>,
    namespaces: Informer<Namespace>,
    csi_nodes: Informer<CSINode>,
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
    classes: Informer<StorageClass>,
}

struct Scheduler {
    informers: Informers,
    wake: Notifier,
    clock: Arc<dyn Clock>,
    writer: Writer,
    provisioner: VolumeProvisioner,
}

impl Scheduler {
    fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        let wake = Notifier::default();
        macro_rules! all {
            () => {
                Informer::new(Api::all(client.clone()), &clock, &wake)
            };
        }
        let informers = Informers {
            pods: all!(),
            nodes: all!(),
            namespaces: all!(),
            csi_nodes: all!(),
            claims: all!(),
            volumes: all!(),
            classes: all!(),
        };
        Self {
            informers,
            wake,
            writer: Writer::new(client.clone(), Arc::clone(&clock)),
            provisioner: VolumeProvisioner::new(client),
            clock,
        }
    }

    async fn work(&self) -> Infallible {
        let mut scheduler = SchedulerState::default();
        while !self.informers.is_synced() {
            self.wake.notified().await;
        }
        loop {
            let now = self.clock.now();
            self.informers.apply_changes(&mut scheduler, now);
            match scheduler.schedule_next(now) {
                Some(Decision { pod, outcome: Ok(placement) }) => {
                    self.bind(&mut scheduler, &pod, &placement).await;
                }
                Some(Decision { pod, outcome: Err(unfit) }) => {
                    self.report_unschedulable(&pod, &unfit).await;
                }
                None => self.wait(scheduler.next_time()).await,
            }
        }
    }

    /// Waits for a change, or for the time.
    async fn wait(&self, time: Option<Timestamp>) {
        let Some(time) = time else { return self.wake.notified().await };
        tokio::select! {
            // A change is handled even if the time has come too.
            biased;
            () = self.wake.notified() => {}
            () = self.clock.sleep_until(time) => {}
        }
    }

    async fn bind(&self, scheduler: &mut SchedulerState, pod: &PodInfo, placement: &Placement) {
        let done = match self.prepare_claims(scheduler, placement).await {
            Ok(()) => self.writer.bind(pod, &placement.node).await,
            Err(error) => Err(error),
        };
        // Retry after any error: if the pod is gone or bound by others, its watch reports it.
        if done.is_err() {
            scheduler.forget(&pod.key, self.clock.now());
        }
    }

    /// Binds or provisions the claims that have waited for the pod.
    /// The scheduler state is updated at once, since the next pod may want the same volume.
    async fn prepare_claims(
        &self,
        scheduler: &mut SchedulerState,
        placement: &Placement,
    ) -> Result<(), kube::Error> {
        for step in &placement.claims {
            let (claim, volume) = match step {
                VolumeClaimStep::Bind { claim, volume } => {
                    Box::pin(self.provisioner.bind(claim, volume)).await?
                }
                VolumeClaimStep::Provision { claim } => {
                    let node = self.informers.nodes.get("", &placement.node);
                    let node = node.as_deref();
                    Box::pin(self.provisioner.provision(claim, node, &placement.node)).await?
                }
            };
            let cache = scheduler.cache_mut();
            cache.set_claim(&ObjectKey::of(&claim), Some(&claim));
            cache.set_volume(&ObjectKey::of(&volume).name, Some(&volume));
        }
        Ok(())
    }

    async fn report_unschedulable(&self, pod: &PodInfo, unfit: &FitError) {
        let ObjectKey { namespace, name } = &pod.key;
        if let Some(wire) = self.informers.pods.get(namespace, name) {
            // If it cannot be written now, it will be when the pod is tried again.
            let _ = self.writer.report_unschedulable(&wire, &unfit.to_string()).await;
        }
    }
}

impl Informers {
    fn is_synced(&self) -> bool {
        self.pods.is_synced()
            && self.nodes.is_synced()
            && self.namespaces.is_synced()
            && self.csi_nodes.is_synced()
            && self.claims.is_synced()
            && self.volumes.is_synced()
            && self.classes.is_synced()
    }

    /// Applies all pending changes to the scheduler state.
    /// Pods come last, since they refer to all others.
    fn apply_changes(&self, scheduler: &mut SchedulerState, now: Timestamp) {
        let cache = scheduler.cache_mut();
        let mut helps = Blockers::NONE;
        for Change { key, after, .. } in self.namespaces.take_changes() {
            helps |= cache.set_namespace(&key.name, after.as_deref());
        }
        for Change { key, after, .. } in self.nodes.take_changes() {
            helps |= match after {
                Some(node) => cache.set_node(&node),
                None => cache.remove_node(&key.name),
            };
        }
        for Change { key, after, .. } in self.csi_nodes.take_changes() {
            helps |= cache.set_csi_node(&key.name, after.as_deref());
        }
        for Change { key, after, .. } in self.classes.take_changes() {
            helps |= cache.set_storage_class(&key.name, after.as_deref());
        }
        for Change { key, after, .. } in self.volumes.take_changes() {
            helps |= cache.set_volume(&key.name, after.as_deref());
        }
        for Change { key, after, .. } in self.claims.take_changes() {
            helps |= cache.set_claim(&key, after.as_deref());
        }
        scheduler.unblock(helps);
        for Change { key, after, .. } in self.pods.take_changes() {
            scheduler.set_pod(&key, after.as_deref(), now);
        }
    }
}
