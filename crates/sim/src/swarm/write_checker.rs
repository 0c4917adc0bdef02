//! Checks each deletion by the product when it happens: is there a reason for it?
//!
//! | the product | must not |
//! |---|---|
//! | deletes a NodeClaim | of a ready node, unless for a command or expiration |
//! | starts a command, deletes its nodes | against the rules of [`commands`](super::commands) |
//! | deletes a pod, instead of evicting it | unless the node's deadline is in its grace period |
//! | deletes an instance | before its NodeClaim is deleted, or while evictable pods run on it |

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
use super::log_subscriber::{self, LogLine};
use crate::cloud::{FaultyCloud, provider_id};
use crate::world::World;
use crate::writes::Write;

/// Tolerance for times in objects, which are whole seconds, and for the delay between read and
/// write.
const SLACK: SignedDuration = SignedDuration::from_secs(2);

/// Checks each write and instance deletion of the product; keeps the violations.
/// Clones share one state.
#[derive(Clone)]
pub(super) struct WriteChecker {
    client: Client,
    clock: Arc<dyn Clock>,
    /// Weak, since the cloud owns the write checker through its hook.
    cloud: Weak<FaultyCloud>,
    commands: Arc<Mutex<Commands>>,
    /// The number of commands that have started.
    started_commands: watch::Sender<usize>,
    /// The time of the last price change.
    prices_changed_at: Arc<Mutex<Option<Timestamp>>>,
    found: Arc<Mutex<Vec<(Timestamp, String)>>>,
    /// The violations so far; each is reported once.
    reported: Arc<Mutex<BTreeSet<String>>>,
}

impl WriteChecker {
    /// Creates a checker and hooks it into the world's writes and cloud.
    pub(super) fn attach(world: &World) -> Self {
        let checker = Self {
            client: world.client(),
            clock: world.clock.clone(),
            cloud: Arc::downgrade(&world.faulty_cloud),
            commands: Arc::default(),
            started_commands: watch::Sender::new(0),
            prices_changed_at: Arc::default(),
            found: Arc::default(),
            reported: Arc::default(),
        };
        let (writes, ends) = (checker.clone(), checker.clone());
        world.writes.set_hook(Arc::new(move |write| {
            let checker = writes.clone();
            Box::pin(async move { checker.check_write(&write).await })
        }));
        world.faulty_cloud.set_deletion_hook(Arc::new(move |claim| {
            let checker = ends.clone();
            Box::pin(async move { checker.check_instance_deletion(&claim).await })
        }));
        checker
    }

    /// Records the commands in the log until the guard is dropped.
    pub(super) fn subscribe_to_log(&self) -> DefaultGuard {
        let checker = self.clone();
        log_subscriber::subscribe(move |line: &LogLine| {
            if lock(&checker.commands).record_log_line(line, checker.clock.now()) {
                checker.started_commands.send_modify(|count| *count += 1);
            }
        })
    }

    /// Returns the number of started commands, as a channel that reports changes.
    pub(super) fn started_commands(&self) -> watch::Receiver<usize> {
        self.started_commands.subscribe()
    }

    /// Returns how many nodes the commands after the first `first` ones remove.
    pub(super) fn removals_since(&self, first: usize) -> usize {
        lock(&self.commands).removals_since(first)
    }

    /// The last command.
    pub(super) fn last_command(&self) -> Option<Command> {
        lock(&self.commands).all.last().cloned()
    }

    /// Skips the check of started commands, since the product's process was killed.
    pub(super) fn skip_unchecked_commands(&self) {
        lock(&self.commands).skip_unchecked();
    }

    /// Records that prices change now.
    pub(super) fn record_price_change(&self) {
        *lock(&self.prices_changed_at) = Some(self.clock.now());
    }

    /// Returns the violations since the last call.
    pub(super) fn take_violations(&self) -> Vec<(Timestamp, String)> {
        std::mem::take(&mut *lock(&self.found))
    }

    fn report(&self, text: String) {
        if lock(&self.reported).insert(text.clone()) {
            lock(&self.found).push((self.clock.now(), text));
        }
    }

    async fn check_write(&self, write: &Write) {
        // The first effect of a command is a write, so the command starts now.
        let fresh = lock(&self.commands).take_unchecked();
        if !fresh.is_empty() {
            self.check_started_commands(&fresh).await;
        }
        if write.method != http::Method::DELETE {
            return;
        }
        let parts: Vec<&str> = write.path.split('/').filter(|part| !part.is_empty()).collect();
        match parts[..] {
            ["apis", "karpenter.sh", "v1", "nodeclaims", name] => {
                self.check_claim_deletion(name).await;
            }
            ["api", "v1", "namespaces", namespace, "pods", name] => {
                self.check_pod_deletion(namespace, name, write.uid.as_deref()).await;
            }
            _ => {}
        }
    }

    async fn check_started_commands(&self, begun: &[Command]) {
        let (pools, claims): (Api<NodePool>, Api<NodeClaim>) =
            (Api::all(self.client.clone()), Api::all(self.client.clone()));
        let Ok(pools) = pools.list(&ListParams::default()).await else { return };
        let Ok(claims) = claims.list(&ListParams::default()).await else { return };
        for text in
            commands::budget_violations(begun, &pools.items, &claims.items, self.clock.now())
        {
            self.report(text);
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

    /// Checks the deletion of a command's source: replacements are ready and cost less.
    async fn check_source_deletion(&self, name: &str) {
        let Some(command) = lock(&self.commands).active_command_for(name).cloned() else { return };
        let claims: Api<NodeClaim> = Api::all(self.client.clone());
        let Ok(claims) = claims.list(&ListParams::default()).await else { return };
        for late in commands::unready_replacements(&command, &claims.items) {
            self.report(format!(
                "NodeClaim {name} was deleted for {} before its replacement {} was ready",
                command.reason,
                late.name_any()
            ));
        }
        let names: Vec<&String> = command.replacements.iter().flatten().collect();
        let is_its = |claim: &&NodeClaim| names.contains(&&claim.name_any());
        let replacements: Vec<&NodeClaim> = claims.items.iter().filter(is_its).collect();
        if replacements.len() < names.len()
            || !commands::must_reduce_cost(&command, *lock(&self.prices_changed_at))
        {
            return;
        }
        let (Some(before), Some(after)) = (command.cost, self.cost(&replacements).await) else {
            return;
        };
        if after >= before {
            self.report(format!(
                "the command of NodeClaim {name} makes ${after:.4} of ${before:.4} an hour, for {}",
                command.reason
            ));
        }
    }

    async fn check_claim_deletion(&self, name: &str) {
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
            self.check_source_deletion(name).await;
        }
        if !has_reason && !is_expired {
            self.report(format!(
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

    async fn check_pod_deletion(&self, namespace: &str, name: &str, uid: Option<&str>) {
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
            self.report(format!("pod {namespace}/{name} was deleted by the product, not evicted"));
        }
    }

    async fn check_instance_deletion(&self, seen: &NodeClaim) {
        let name = seen.name_any();
        let claims: Api<NodeClaim> = Api::all(self.client.clone());
        let Ok(claim) = claims.get_opt(&name).await else { return };
        let claim = claim.filter(|claim| claim.uid() == seen.uid());
        let Some(claim) = claim else { return };
        if claim.metadata.deletion_timestamp.is_none() {
            self.report(format!("the instance of NodeClaim {name} was ended, but the claim stays"));
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
            self.report(format!(
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

/// Returns whether the pod should have left its node before.
/// It runs, is of no DaemonSet, and its deletion was not requested or its grace period is not over.
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
