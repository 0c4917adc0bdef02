//! The loop: what is watched goes into the scheduler, what it decides goes to the API.
//!
//! One pod at a time, and all that is known by then is taken in before each. A call that fails is
//! not repeated at once: the pod is tried again after its backoff.

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

use super::ask::Pod;
use super::place::Placement;
use super::scheduler::{Decision, Scheduler};
use super::storage::ClaimStep;
use super::unfit::{Blockers, Unfit};
use super::write::Writer;
use crate::volumes::Provisioner;
use karpenter_operator::watch::{Change, Informer, ObjectKey, Wake};

/// Schedules pods until it is dropped.
pub async fn run(client: Client, clock: Arc<dyn Clock>) -> Infallible {
    let binder = Binder::new(client, clock);
    let known = &binder.known;
    let cluster = Box::pin(join4(
        known.pods.feed(),
        known.nodes.feed(),
        known.namespaces.feed(),
        known.csi_nodes.feed(),
    ));
    let volumes = Box::pin(join3(known.claims.feed(), known.volumes.feed(), known.classes.feed()));
    // The feeds are polled first, so that a decision sees what there is to see.
    join(join(cluster, volumes), Box::pin(binder.work())).await.1
}

/// What the binder watches.
#[derive(Debug)]
struct Known {
    pods: Informer<WirePod>,
    nodes: Informer<Node>,
    namespaces: Informer<Namespace>,
    csi_nodes: Informer<CSINode>,
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
    classes: Informer<StorageClass>,
}

struct Binder {
    known: Known,
    wake: Wake,
    clock: Arc<dyn Clock>,
    writer: Writer,
    provisioner: Provisioner,
}

impl Binder {
    fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        let wake = Wake::default();
        macro_rules! all {
            () => {
                Informer::new(Api::all(client.clone()), &clock, &wake)
            };
        }
        let known = Known {
            pods: all!(),
            nodes: all!(),
            namespaces: all!(),
            csi_nodes: all!(),
            claims: all!(),
            volumes: all!(),
            classes: all!(),
        };
        Self {
            known,
            wake,
            writer: Writer::new(client.clone(), Arc::clone(&clock)),
            provisioner: Provisioner::new(client),
            clock,
        }
    }

    async fn work(&self) -> Infallible {
        let mut scheduler = Scheduler::default();
        while !self.known.is_synced() {
            self.wake.rung().await;
        }
        loop {
            let now = self.clock.now();
            self.known.tell(&mut scheduler, now);
            match scheduler.next(now) {
                Some(Decision { pod, outcome: Ok(placement) }) => {
                    self.bind(&mut scheduler, &pod, &placement).await;
                }
                Some(Decision { pod, outcome: Err(unfit) }) => self.refuse(&pod, &unfit).await,
                None => self.wait(scheduler.next_time()).await,
            }
        }
    }

    /// Waits for a change, or for the time.
    async fn wait(&self, time: Option<Timestamp>) {
        let Some(time) = time else { return self.wake.rung().await };
        tokio::select! {
            // A change is worth a look even if the time has come too.
            biased;
            () = self.wake.rung() => {}
            () = self.clock.sleep_until(time) => {}
        }
    }

    async fn bind(&self, scheduler: &mut Scheduler, pod: &Pod, placement: &Placement) {
        let done = match self.prepare_claims(scheduler, placement).await {
            Ok(()) => self.writer.bind(pod, &placement.node).await,
            Err(error) => Err(error),
        };
        // Whatever it is: a pod that is gone or bound by others is told by its watch.
        if done.is_err() {
            scheduler.forget(&pod.key, self.clock.now());
        }
    }

    /// Binds or provisions what has waited for the pod. The scheduler is told at once, since the
    /// next pod may want the same volume.
    async fn prepare_claims(
        &self,
        scheduler: &mut Scheduler,
        placement: &Placement,
    ) -> Result<(), kube::Error> {
        for step in &placement.claims {
            let (claim, volume) = match step {
                ClaimStep::Bind { claim, volume } => {
                    Box::pin(self.provisioner.bind(claim, volume)).await?
                }
                ClaimStep::Provision { claim } => {
                    let node = self.known.nodes.get("", &placement.node);
                    let node = node.as_deref();
                    Box::pin(self.provisioner.provision(claim, node, &placement.node)).await?
                }
            };
            let world = scheduler.world();
            world.set_claim(&ObjectKey::of(&claim), Some(&claim));
            world.set_volume(&ObjectKey::of(&volume).name, Some(&volume));
        }
        Ok(())
    }

    async fn refuse(&self, pod: &Pod, unfit: &Unfit) {
        let ObjectKey { namespace, name } = &pod.key;
        if let Some(wire) = self.known.pods.get(namespace, name) {
            // If it cannot be written now, it will be when the pod is tried again.
            let _ = self.writer.refuse(&wire, &unfit.to_string()).await;
        }
    }
}

impl Known {
    fn is_synced(&self) -> bool {
        self.pods.is_synced()
            && self.nodes.is_synced()
            && self.namespaces.is_synced()
            && self.csi_nodes.is_synced()
            && self.claims.is_synced()
            && self.volumes.is_synced()
            && self.classes.is_synced()
    }

    /// Tells the scheduler what has changed; pods last, since they refer to all others.
    fn tell(&self, scheduler: &mut Scheduler, now: Timestamp) {
        let world = scheduler.world();
        let mut helps = Blockers::NONE;
        for Change { key, after, .. } in self.namespaces.take_changes() {
            helps |= world.set_namespace(&key.name, after.as_deref());
        }
        for Change { key, after, .. } in self.nodes.take_changes() {
            helps |= match after {
                Some(node) => world.set_node(&node),
                None => world.remove_node(&key.name),
            };
        }
        for Change { key, after, .. } in self.csi_nodes.take_changes() {
            helps |= world.set_csi_node(&key.name, after.as_deref());
        }
        for Change { key, after, .. } in self.classes.take_changes() {
            helps |= world.set_storage_class(&key.name, after.as_deref());
        }
        for Change { key, after, .. } in self.volumes.take_changes() {
            helps |= world.set_volume(&key.name, after.as_deref());
        }
        for Change { key, after, .. } in self.claims.take_changes() {
            helps |= world.set_claim(&key, after.as_deref());
        }
        scheduler.help(helps);
        for Change { key, after, .. } in self.pods.take_changes() {
            scheduler.set_pod(&key, after.as_deref(), now);
        }
    }
}
