//! The cloud: launches by creating Nodes, and finds them again (spec 40 §10.4, spec 45
//! §16). What it launches is decided in `node`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use karpenter_api::condition_set::{self, HasConditions as _};
use karpenter_api::conditions::{LAUNCHED, READY};
use karpenter_api::kwok_nodeclass::KwokNodeClass;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_core::catalog::{InstanceType, InstanceTypes};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use crate::catalog;
use crate::node::{self, PROVIDER_ID_PREFIX};
use karpenter_operator::clock::Clock;
use karpenter_operator::cloud::{
    BoxError, CloudError, CloudFuture, CloudProvider, CloudResult, DriftReason, ProviderLabels,
};
use karpenter_operator::harness::tasks::Tasks;
use karpenter_operator::rng::SeededRng;

#[cfg(test)]
mod tests;

/// The most attempts to create a Node, as in client-go's default backoff.
const MAX_CREATE_ATTEMPTS: u32 = 4;
const FIRST_BACKOFF: Duration = Duration::from_millis(10);
const BACKOFF_FACTOR: u32 = 5;
const BACKOFF_JITTER: f64 = 0.1;

/// The age up to which a claim without a launch condition is known to be new.
const NEW_NODE_CLAIM_AGE: SignedDuration = SignedDuration::from_secs(10);

/// A cloud provider whose instances are Node objects.
pub struct KwokCloud {
    client: Client,
    clock: Arc<dyn Clock>,
    rng: SeededRng,
    tasks: Tasks,
    types: InstanceTypes,
    provider_labels: ProviderLabels,
    pending_nodes: PendingNodes,
    /// When this process started. Earlier launches are known only from the cluster.
    started_at: Timestamp,
}

/// Announced Nodes that are still to be created, by name. Terminating one cancels its creation.
#[derive(Clone, Debug, Default)]
struct PendingNodes(Arc<Mutex<BTreeMap<String, NodeClaim>>>);

impl KwokCloud {
    /// Returns a cloud with these types. It creates Nodes with the client, in tasks of their own.
    pub fn new(
        client: Client,
        clock: Arc<dyn Clock>,
        rng: &SeededRng,
        tasks: Tasks,
        types: impl IntoIterator<Item = Arc<InstanceType>>,
    ) -> Self {
        let types: InstanceTypes = types.into_iter().collect();
        Self {
            client,
            started_at: clock.now(),
            clock,
            rng: rng.fork("kwok"),
            tasks,
            provider_labels: catalog::provider_labels(&types),
            types,
            pending_nodes: PendingNodes::default(),
        }
    }

    async fn launch(&self, node_claim: &NodeClaim) -> CloudResult<NodeClaim> {
        // Derived from the claim alone, and not from the seed of the process: if a process is
        // killed before it could write its launch, the next one launches the same again.
        let uid = node_claim.metadata.uid.as_deref().unwrap_or_default();
        let mut rng = SeededRng::new(0).fork(&format!("{}/{uid}", node_claim.name_any()));
        let name = node::node_name(node_claim, &mut rng);
        if let Some(launched) = self.find_earlier_launch(node_claim, &name).await? {
            return Ok(launched);
        }
        let choice =
            node::select_offering(node_claim, &self.types, &self.provider_labels, &mut rng)
                .map_err(|error| error.context("translating nodeclaim to node"))?;
        let node = node::build_node(node_claim, choice, &name);
        let delay = self.registration_delay(node_claim).await?;
        let launched = node::to_node_claim(&node);
        let jitter = self.rng.fork(&name);
        self.pending_nodes.state().insert(name, launched.clone());
        self.tasks.spawn(
            "kwok.registration",
            NodeRegistration {
                nodes: Api::all(self.client.clone()),
                clock: Arc::clone(&self.clock),
                rng: jitter,
                pending_nodes: self.pending_nodes.clone(),
            }
            .run(node, delay),
        );
        Ok(launched)
    }

    /// Returns the result of an earlier launch of the claim, by this or an earlier process.
    async fn find_earlier_launch(
        &self,
        node_claim: &NodeClaim,
        name: &str,
    ) -> CloudResult<Option<NodeClaim>> {
        if let Some(launched) = self.pending_nodes.state().get(name) {
            return Ok(Some(launched.clone()));
        }
        // Most launches are the first of a new claim, and need not ask.
        let created = node_claim.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let is_tried = condition_set::find(node_claim.conditions(), LAUNCHED).is_some();
        let is_new = |created: Timestamp| {
            created > self.started_at
                && self.clock.now().duration_since(created) < NEW_NODE_CLAIM_AGE
        };
        if !is_tried && created.is_some_and(is_new) {
            return Ok(None);
        }
        let node = Api::<Node>::all(self.client.clone()).get_opt(name).await;
        let node = node.map_err(|error| api_error(error).context("finding node"))?;
        let node = node.filter(|node| node.metadata.deletion_timestamp.is_none());
        Ok(node.as_ref().map(node::to_node_claim))
    }

    /// How long the node of a ready node class takes to appear.
    async fn registration_delay(&self, node_claim: &NodeClaim) -> CloudResult<Duration> {
        let doing = "resolving node class from nodeclaim";
        let name = &node_claim.spec.node_class_ref.name;
        if !is_valid_name(name) {
            let error = CloudError::other(format!("no node class can have the name {name:?}"));
            return Err(CloudError::insufficient_capacity(error.context(doing)));
        }
        let class = Api::<KwokNodeClass>::all(self.client.clone()).get(name).await;
        let class = class.map_err(|error| {
            let is_not_found = is_not_found(&error);
            let error = api_error(error).context(doing);
            if is_not_found { CloudError::insufficient_capacity(error) } else { error }
        })?;
        let conditions = class.status.and_then(|status| status.conditions).unwrap_or_default();
        if let Some(ready) = condition_set::find(&conditions, READY)
            && ready.status == "False"
        {
            return Err(CloudError::node_class_not_ready(ready.message.clone()));
        }
        let delay = class.spec.node_registration_delay.map(|delay| delay.value()).transpose();
        let delay = delay.map_err(|error| CloudError::other(error).context(doing))?;
        Ok(delay.and_then(|delay| Duration::try_from(delay).ok()).unwrap_or_default())
    }

    async fn terminate(&self, node_claim: &NodeClaim) -> CloudResult<()> {
        let provider_id = node_claim.status.as_ref().and_then(|s| s.provider_id.as_deref());
        if let Some(name) = provider_id.and_then(|id| id.strip_prefix(PROVIDER_ID_PREFIX)) {
            self.pending_nodes.state().remove(name);
        }
        // The end of the claim is the end of the instance: its finalizer removes the Node.
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: node_claim.metadata.uid.clone(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let claims = Api::<NodeClaim>::all(self.client.clone());
        match claims.delete(&node_claim.name_any(), &params).await {
            Ok(_) => Err(CloudError::not_found("instance terminated")),
            // A conflict means that the claim is gone, and another one has its name.
            Err(error) if is_not_found(&error) || is_conflict(&error) => {
                Err(CloudError::not_found(api_error(error)).context("deleting node"))
            }
            Err(error) => Err(api_error(error).context("deleting node")),
        }
    }

    async fn get_instance(&self, provider_id: &str) -> CloudResult<NodeClaim> {
        let Some(name) = provider_id.strip_prefix(PROVIDER_ID_PREFIX).filter(|n| is_valid_name(n))
        else {
            return Err(CloudError::not_found(format!("no instance of KWOK (id={provider_id})")));
        };
        let doing = "finding node";
        match Api::<Node>::all(self.client.clone()).get(name).await {
            Ok(node) if node.metadata.deletion_timestamp.is_some() => {
                Err(CloudError::not_found("nodeclaim not found"))
            }
            Ok(node) => Ok(node::to_node_claim(&node)),
            Err(error) if is_not_found(&error) => {
                Err(CloudError::not_found(api_error(error)).context(doing))
            }
            Err(error) => Err(api_error(error).context(doing)),
        }
    }

    async fn list_instances(&self) -> CloudResult<Vec<NodeClaim>> {
        let nodes = Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await;
        let nodes = nodes.map_err(|error| api_error(error).context("listing nodes"))?;
        let is_ours = |node: &&Node| {
            let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
            id.is_some_and(|id| id.starts_with(PROVIDER_ID_PREFIX))
        };
        Ok(nodes.items.iter().filter(is_ours).map(node::to_node_claim).collect())
    }

    /// Simulates a reboot: gives the Node the boot id of this restart, which proves that it
    /// happened.
    async fn reboot_node(&self, node_claim: &NodeClaim, operation_id: &str) -> CloudResult<()> {
        let node_name = node_claim.status.as_ref().and_then(|status| status.node_name.as_deref());
        let Some(node_name) = node_name.filter(|name| !name.is_empty()) else {
            return Err(CloudError::other(format!(
                "rebooting nodeclaim, node is not registered (NodeClaim={})",
                node_claim.name_any()
            )));
        };
        let boot_id = format!("kwok-{operation_id}");
        let patch = Patch::Merge(json!({"status": {"nodeInfo": {"bootID": boot_id}}}));
        let nodes = Api::<Node>::all(self.client.clone());
        match nodes.patch_status(node_name, &PatchParams::default(), &patch).await {
            Ok(_) => Ok(()),
            Err(error) => Err(api_error(error).context("rebooting node")),
        }
    }
}

impl CloudProvider for KwokCloud {
    fn create<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, NodeClaim> {
        Box::pin(self.launch(node_claim))
    }

    /// Answers that the instance is gone the first time already.
    fn delete<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, ()> {
        Box::pin(self.terminate(node_claim))
    }

    /// No instance shuts down here: a Node with a deletion time is not found.
    fn get<'a>(&'a self, provider_id: &'a str) -> CloudFuture<'a, NodeClaim> {
        Box::pin(self.get_instance(provider_id))
    }

    fn list(&self) -> CloudFuture<'_, Vec<NodeClaim>> {
        Box::pin(self.list_instances())
    }

    fn instance_types<'a>(&'a self, _: &'a NodePool) -> CloudFuture<'a, InstanceTypes> {
        Box::pin(async { Ok(Arc::clone(&self.types)) })
    }

    /// Nothing about these instances can drift.
    fn is_drifted<'a>(&'a self, _: &'a NodeClaim) -> CloudFuture<'a, Option<DriftReason>> {
        Box::pin(async { Ok(None) })
    }

    fn reboot<'a>(
        &'a self,
        node_claim: &'a NodeClaim,
        operation_id: &'a str,
    ) -> CloudFuture<'a, ()> {
        Box::pin(self.reboot_node(node_claim, operation_id))
    }

    fn name(&self) -> &'static str {
        "kwok"
    }

    fn provider_labels(&self) -> ProviderLabels {
        self.provider_labels.clone()
    }
}

impl fmt::Debug for KwokCloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let starting: Vec<String> = self.pending_nodes.state().keys().cloned().collect();
        f.debug_struct("KwokCloud")
            .field("types", &self.types.len())
            .field("starting", &starting)
            .finish_non_exhaustive()
    }
}

/// The task that creates a Node after its delay.
struct NodeRegistration {
    nodes: Api<Node>,
    clock: Arc<dyn Clock>,
    rng: SeededRng,
    pending_nodes: PendingNodes,
}

impl NodeRegistration {
    /// Creates the Node after the delay. If creation fails, the Node never appears, as in real
    /// clouds; the controllers time out.
    async fn run(mut self, node: Node, delay: Duration) {
        let name = node.name_any();
        self.clock.sleep(delay).await;
        let mut backoff = FIRST_BACKOFF;
        for attempt in 1..=MAX_CREATE_ATTEMPTS {
            if !self.pending_nodes.state().contains_key(&name) {
                return;
            }
            match self.nodes.create(&PostParams::default(), &node).await {
                Ok(_) => break,
                Err(error) if is_already_exists(&error) => break,
                Err(error) if attempt == MAX_CREATE_ATTEMPTS => {
                    tracing::error!(node = name, %error, "failed creating node from nodeclaim");
                }
                Err(_) => {
                    self.clock.sleep(self.rng.jitter(backoff, BACKOFF_JITTER)).await;
                    backoff *= BACKOFF_FACTOR;
                }
            }
        }
        self.pending_nodes.state().remove(&name);
    }
}

impl PendingNodes {
    fn state(&self) -> MutexGuard<'_, BTreeMap<String, NodeClaim>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an object can have this name, as far as a URL path is concerned.
fn is_valid_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && name.bytes().all(is_allowed)
}

/// Returns the API server's message, without the wrapping of the client.
fn api_error(error: kube::Error) -> CloudError {
    let error: BoxError = match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.into(),
        error => error.into(),
    };
    CloudError::other(error)
}

fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found())
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict())
}

fn is_already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_already_exists())
}
