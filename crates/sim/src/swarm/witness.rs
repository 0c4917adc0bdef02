//! Looks at each deletion of the product when it happens, and asks whether something calls for it.
//!
//! | the product | must not |
//! |---|---|
//! | deletes a NodeClaim | unless it never became a node, its node is not ready or going, or its time is up |
//! | begins a command, deletes its nodes | against what [`commands`](super::commands) says |
//! | deletes a pod, instead of evicting it | unless the node has to be gone before the pod could end by itself |
//! | ends an instance | before its NodeClaim is going, nor while pods run on its node that should have left |

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::annotations::NODECLAIM_TERMINATION_TIMESTAMP;
use karpenter_api::condition_set::{HasConditions as _, is_true};
use karpenter_api::conditions::{DISRUPTION_REASON, REGISTERED};
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_operator::clock::Clock;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::watch;
use tracing::dispatcher::DefaultGuard;

use super::commands::{self, Command, Commands};
use super::listener::{self, Line};
use crate::cloud::{Troubled, provider_id};
use crate::world::World;
use crate::writes::Write;

/// Times in objects are whole seconds, and what is read and what is done are not one moment.
const SLACK: SignedDuration = SignedDuration::from_secs(2);

/// What was wrong, and when. Clones are the same.
#[derive(Clone)]
pub(super) struct Witness {
    client: Client,
    clock: Arc<dyn Clock>,
    /// Not to keep the world: it has the witness.
    cloud: Weak<Troubled>,
    commands: Arc<Mutex<Commands>>,
    /// How many commands have begun.
    begun: watch::Sender<usize>,
    /// When prices last changed.
    repriced: Arc<Mutex<Option<Timestamp>>>,
    found: Arc<Mutex<Vec<(Timestamp, String)>>>,
    /// Each is told once.
    told: Arc<Mutex<BTreeSet<String>>>,
}

impl Witness {
    /// Looks on from now on.
    pub(super) fn begin(world: &World) -> Self {
        let witness = Self {
            client: world.client(),
            clock: world.clock.clone(),
            cloud: Arc::downgrade(&world.instances),
            commands: Arc::default(),
            begun: watch::Sender::new(0),
            repriced: Arc::default(),
            found: Arc::default(),
            told: Arc::default(),
        };
        let (writes, ends) = (witness.clone(), witness.clone());
        world.writes.show_to(Arc::new(move |write| {
            let witness = writes.clone();
            Box::pin(async move { witness.see_write(&write).await })
        }));
        world.instances.show_to(Arc::new(move |claim| {
            let witness = ends.clone();
            Box::pin(async move { witness.see_end(&claim).await })
        }));
        witness
    }

    /// Hears of commands as long as the guard lives.
    pub(super) fn listen(&self) -> DefaultGuard {
        let witness = self.clone();
        listener::listen(move |line: &Line| {
            if lock(&witness.commands).hear(line, witness.clock.now()) {
                witness.begun.send_modify(|count| *count += 1);
            }
        })
    }

    /// How many commands have begun, and when another does.
    pub(super) fn begun(&self) -> watch::Receiver<usize> {
        self.begun.subscribe()
    }

    /// How many nodes were to go because of commands after the first so many.
    pub(super) fn removals_since(&self, first: usize) -> usize {
        lock(&self.commands).removals_since(first)
    }

    /// The last command.
    pub(super) fn last_command(&self) -> Option<Command> {
        lock(&self.commands).all.last().cloned()
    }

    /// The product's process is gone.
    pub(super) fn see_death(&self) {
        lock(&self.commands).forget_fresh();
    }

    /// Prices have changed.
    pub(super) fn see_prices(&self) {
        *lock(&self.repriced) = Some(self.clock.now());
    }

    /// What was found since the last call.
    pub(super) fn take(&self) -> Vec<(Timestamp, String)> {
        std::mem::take(&mut *lock(&self.found))
    }

    fn tell(&self, text: String) {
        if lock(&self.told).insert(text.clone()) {
            lock(&self.found).push((self.clock.now(), text));
        }
    }

    async fn see_write(&self, write: &Write) {
        // The first that comes of a command is a write, so this is the moment of its begin.
        let fresh = lock(&self.commands).take_fresh();
        if !fresh.is_empty() {
            self.see_begin(&fresh).await;
        }
        if write.method != http::Method::DELETE {
            return;
        }
        let parts: Vec<&str> = write.path.split('/').filter(|part| !part.is_empty()).collect();
        match parts[..] {
            ["apis", "karpenter.sh", "v1", "nodeclaims", name] => self.see_claim_go(name).await,
            ["api", "v1", "namespaces", namespace, "pods", name] => {
                self.see_pod_go(namespace, name, write.uid.as_deref()).await;
            }
            _ => {}
        }
    }

    async fn see_begin(&self, begun: &[Command]) {
        let (pools, claims): (Api<NodePool>, Api<NodeClaim>) =
            (Api::all(self.client.clone()), Api::all(self.client.clone()));
        let Ok(pools) = pools.list(&ListParams::default()).await else { return };
        let Ok(claims) = claims.list(&ListParams::default()).await else { return };
        for text in commands::overspent(begun, &pools.items, &claims.items, self.clock.now()) {
            self.tell(text);
        }
        for command in begun {
            let is_its = |claim: &&NodeClaim| command.sources.contains(&claim.name_any());
            let sources: Vec<&NodeClaim> = claims.items.iter().filter(is_its).collect();
            let cost = self.cost(&sources).await.filter(|_| sources.len() == command.sources.len());
            if let Some(known) = lock(&self.commands).get_mut(&command.id) {
                known.cost = cost;
            }
        }
    }

    /// What instances cost together per hour; none if that is not known.
    async fn cost(&self, claims: &[&NodeClaim]) -> Option<f64> {
        let (mut sum, cloud) = (0.0, self.cloud.upgrade()?);
        for claim in claims {
            sum += cloud.price(claim).await?;
        }
        Some(sum)
    }

    /// A node goes because of a command.
    async fn see_source_go(&self, name: &str) {
        let Some(command) = lock(&self.commands).of(name).cloned() else { return };
        let claims: Api<NodeClaim> = Api::all(self.client.clone());
        let Ok(claims) = claims.list(&ListParams::default()).await else { return };
        for late in commands::not_ready(&command, &claims.items) {
            self.tell(format!(
                "NodeClaim {name} was deleted for {} before its replacement {} was ready",
                command.reason,
                late.name_any()
            ));
        }
        let names: Vec<&String> = command.replacements.iter().flatten().collect();
        let is_its = |claim: &&NodeClaim| names.contains(&&claim.name_any());
        let replacements: Vec<&NodeClaim> = claims.items.iter().filter(is_its).collect();
        if replacements.len() < names.len()
            || !commands::has_to_save(&command, *lock(&self.repriced))
        {
            return;
        }
        let (Some(before), Some(after)) = (command.cost, self.cost(&replacements).await) else {
            return;
        };
        if after >= before {
            self.tell(format!(
                "the command of NodeClaim {name} makes ${after:.4} of ${before:.4} an hour, for {}",
                command.reason
            ));
        }
    }

    async fn see_claim_go(&self, name: &str) {
        let claims: Api<NodeClaim> = Api::all(self.client.clone());
        let Ok(Some(claim)) = claims.get_opt(name).await else { return };
        let is_going = claim.metadata.deletion_timestamp.is_some();
        if is_going || !is_true(claim.conditions(), REGISTERED) {
            return;
        }
        let Some(node) = self.node_of(&claim).await else { return };
        if node.metadata.deletion_timestamp.is_some() || !is_ready(&node) {
            return;
        }
        let has_reason = is_true(claim.conditions(), DISRUPTION_REASON);
        let is_expired = self.is_expired(&claim);
        if has_reason && !is_expired {
            self.see_source_go(name).await;
        }
        if !has_reason && !is_expired {
            self.tell(format!(
                "NodeClaim {name} was deleted by the product, although its node {} is ready",
                node.name_any()
            ));
        }
    }

    fn is_expired(&self, claim: &NodeClaim) -> bool {
        let after = claim.spec.expire_after.as_ref().and_then(|after| after.value().ok().flatten());
        let created = claim.metadata.creation_timestamp.as_ref().map(|time| time.0);
        match (after, created) {
            (Some(after), Some(created)) => {
                self.clock.now().duration_since(created) + SLACK >= after
            }
            _ => false,
        }
    }

    async fn see_pod_go(&self, namespace: &str, name: &str, uid: Option<&str>) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let Ok(Some(pod)) = pods.get_opt(name).await else { return };
        // Another pod of that name, to which nothing happens.
        if uid.is_some() && uid != pod.metadata.uid.as_deref() {
            return;
        }
        let spec = pod.spec.clone().unwrap_or_default();
        let claim = self.claim_of_node(spec.node_name.as_deref().unwrap_or_default()).await;
        let grace = spec.termination_grace_period_seconds.unwrap_or(30);
        let is_due = claim.as_ref().and_then(deadline).is_some_and(|deadline| {
            let latest = deadline - SignedDuration::from_secs(grace) - SLACK;
            self.clock.now() >= latest
        });
        if !is_due {
            self.tell(format!("pod {namespace}/{name} was deleted by the product, not evicted"));
        }
    }

    async fn see_end(&self, seen: &NodeClaim) {
        let name = seen.name_any();
        let claims: Api<NodeClaim> = Api::all(self.client.clone());
        let Ok(claim) = claims.get_opt(&name).await else { return };
        let claim = claim.filter(|claim| claim.uid() == seen.uid());
        let Some(claim) = claim else { return };
        if claim.metadata.deletion_timestamp.is_none() {
            self.tell(format!("the instance of NodeClaim {name} was ended, but the claim stays"));
        }
        let now = self.clock.now();
        if deadline(&claim).is_some_and(|deadline| now + SLACK >= deadline) {
            return;
        }
        let Some(node) = self.node_of(&claim).await.filter(is_ready) else { return };
        let pods: Api<Pod> = Api::all(self.client.clone());
        let on_node = ListParams::default().fields(&format!("spec.nodeName={}", node.name_any()));
        let Ok(pods) = pods.list(&on_node).await else { return };
        for pod in pods.items.iter().filter(|pod| is_left_behind(pod, now)) {
            self.tell(format!(
                "the instance of NodeClaim {name} was ended with pod {} on it",
                pod.name_any()
            ));
        }
    }

    async fn node_of(&self, claim: &NodeClaim) -> Option<Node> {
        let id = provider_id(claim)?;
        let nodes: Api<Node> = Api::all(self.client.clone());
        let nodes = nodes.list(&ListParams::default()).await.ok()?.items;
        nodes.into_iter().find(|node| {
            node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()) == Some(id)
        })
    }

    async fn claim_of_node(&self, node: &str) -> Option<NodeClaim> {
        let claims: Api<NodeClaim> = Api::all(self.client.clone());
        let claims = claims.list(&ListParams::default()).await.ok()?.items;
        claims.into_iter().find(|claim| {
            claim.status.as_ref().and_then(|status| status.node_name.as_deref()) == Some(node)
        })
    }
}

/// By when the claim has to be gone.
fn deadline(claim: &NodeClaim) -> Option<Timestamp> {
    claim.annotations().get(NODECLAIM_TERMINATION_TIMESTAMP)?.parse().ok()
}

/// Whether the pod should have left before: it runs, is of no DaemonSet, and nobody has asked it to
/// end, or it has not had its time yet.
fn is_left_behind(pod: &Pod, now: Timestamp) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let is_daemon = pod.owner_references().iter().any(|owner| owner.kind == "DaemonSet");
    // The deletion time is the end of its grace period.
    let is_stuck = pod.metadata.deletion_timestamp.as_ref().is_some_and(|time| now > time.0);
    !matches!(phase, "Succeeded" | "Failed") && !is_daemon && !is_stuck
}

pub(super) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
