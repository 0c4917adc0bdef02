//! Looks at each deletion of the product when it happens, and asks whether something calls for it.
//!
//! | the product | must not |
//! |---|---|
//! | deletes a NodeClaim | unless it never became a node, its node is not ready or going, or its time is up |
//! | deletes a pod, instead of evicting it | unless the node has to be gone before the pod could end by itself |
//! | ends an instance | before its NodeClaim is going, nor while pods run on its node that should have left |

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::annotations::NODECLAIM_TERMINATION_TIMESTAMP;
use karpenter_api::condition_set::{HasConditions as _, is_true};
use karpenter_api::conditions::{DISRUPTION_REASON, REGISTERED};
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_operator::clock::Clock;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use crate::cloud::provider_id;
use crate::world::World;
use crate::writes::Write;

/// Times in objects are whole seconds, and what is read and what is done are not one moment.
const SLACK: SignedDuration = SignedDuration::from_secs(2);

/// What was wrong, and when. Clones are the same.
#[derive(Clone)]
pub(super) struct Witness {
    client: Client,
    clock: Arc<dyn Clock>,
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
        if write.method != http::Method::DELETE {
            return;
        }
        let parts: Vec<&str> = write.path.split('/').filter(|part| !part.is_empty()).collect();
        match parts[..] {
            ["apis", "karpenter.sh", "v1", "nodeclaims", name] => self.see_claim_go(name).await,
            ["api", "v1", "namespaces", namespace, "pods", name] => {
                self.see_pod_go(namespace, name).await;
            }
            _ => {}
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
        if !has_reason && !self.is_expired(&claim) {
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

    async fn see_pod_go(&self, namespace: &str, name: &str) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let Ok(Some(pod)) = pods.get_opt(name).await else { return };
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
