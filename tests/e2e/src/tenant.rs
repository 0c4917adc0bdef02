//! Gives one test its own part of a cluster: a namespace, a node class, a NodePool, and a label
//! that keeps its pods on its nodes.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod, ServiceAccount};
use karpenter_api::kwok_nodeclass::KwokNodeClass;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use kube::api::{DeleteParams, ListParams, ObjectList, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::control_plane::ControlPlane;
use crate::wait;

/// How long one step of a scenario may take on a busy host.
pub const STEP_TIMEOUT: Duration = Duration::from_mins(1);

/// The label that identifies the nodes of a test.
const OWNER_LABEL: &str = "e2e";

/// The part of a cluster that belongs to one test, by its name.
#[derive(Clone)]
pub struct TestTenant {
    pub name: String,
    pub client: Client,
}

impl Debug for TestTenant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestTenant").field("name", &self.name).finish_non_exhaustive()
    }
}

impl TestTenant {
    /// Creates a tenant in the shared cluster, without a NodePool.
    pub async fn in_shared_cluster(name: &str) -> Result<(&'static Cluster, Self)> {
        let cluster = Cluster::shared().await?;
        Ok((cluster, Self::create_in(&cluster.plane, name).await?))
    }

    /// Creates a tenant in a cluster.
    pub async fn create_in(plane: &ControlPlane, name: &str) -> Result<Self> {
        let tenant = Self { name: name.to_owned(), client: plane.client()? };
        let namespace = json!({"metadata": {"name": name}});
        tenant.create::<Namespace>(&tenant.cluster_api(), namespace).await?;
        // Without it the API server rejects pods, and controllers retry ever more slowly.
        let accounts: Api<ServiceAccount> = tenant.namespaced_api();
        wait::until("a service account", STEP_TIMEOUT, async || {
            Ok(accounts.get_opt("default").await?)
        })
        .await?;
        Ok(tenant)
    }

    /// Returns the API of a kind in the tenant's namespace.
    pub fn namespaced_api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Returns the API of a kind in the whole cluster.
    pub fn cluster_api<K>(&self) -> Api<K>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        Api::all(self.client.clone())
    }

    pub async fn create<K>(&self, api: &Api<K>, object: Value) -> Result<K>
    where
        K: Resource + Clone + Debug + Serialize + DeserializeOwned,
    {
        let object = serde_json::from_value(object)?;
        Ok(api.create(&PostParams::default(), &object).await?)
    }

    /// Creates the tenant's node class and NodePool. Merges `template` into the pool's template, as
    /// a merge patch would.
    pub async fn create_pool(&self, template: Value) -> Result<NodePool> {
        self.create_pool_with_class(json!({}), template).await
    }

    /// Creates the node class with this spec, and the NodePool.
    pub async fn create_pool_with_class(&self, class: Value, template: Value) -> Result<NodePool> {
        let name = &self.name;
        let class = json!({"metadata": {"name": name}, "spec": class});
        self.create::<KwokNodeClass>(&self.cluster_api(), class).await?;
        let pool = json!({"metadata": {"name": name}, "spec": {
            // Only nodes that the test disrupts are removed.
            "disruption": {"consolidateAfter": "Never"},
            "template": {
                "metadata": {"labels": {OWNER_LABEL: name}},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": name},
                    "requirements": [
                        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    ],
                    "expireAfter": "Never",
                },
            },
        }});
        let pools: Api<NodePool> = self.cluster_api();
        self.create(&pools, pool).await?;
        let patch = Patch::Merge(json!({"spec": {"template": template}}));
        Ok(pools.patch(name, &PatchParams::default(), &patch).await?)
    }

    /// Creates a Deployment whose pods run only on the tenant's nodes. Adds the fields of `pod` to
    /// the spec of its pods.
    pub async fn create_deployment(
        &self,
        replicas: usize,
        cpu: &str,
        pod: Value,
    ) -> Result<Deployment> {
        let name = &self.name;
        let mut spec = json!({
            "nodeSelector": {OWNER_LABEL: name},
            "containers": [{
                "name": "web", "image": "web", "resources": {"requests": {"cpu": cpu}},
            }],
            "terminationGracePeriodSeconds": 5,
        });
        for (key, value) in pod.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        let deployment = json!({"metadata": {"name": name}, "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        }});
        self.create(&self.namespaced_api::<Deployment>(), deployment).await
    }

    /// Returns a pod anti-affinity for [`Self::create_deployment`]: one pod per node.
    pub fn one_pod_per_node(&self) -> Value {
        json!({"affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app": self.name}},
            }],
        }}})
    }

    /// Lists the tenant's NodeClaims.
    pub async fn list_claims(&self) -> Result<Vec<NodeClaim>> {
        self.list_own(&self.cluster_api()).await
    }

    /// Lists the tenant's nodes.
    pub async fn list_nodes(&self) -> Result<Vec<Node>> {
        self.list_own(&self.cluster_api()).await
    }

    async fn list_own<K>(&self, api: &Api<K>) -> Result<Vec<K>>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        let own = ListParams::default().labels(&format!("{OWNER_LABEL}={}", self.name));
        let found: ObjectList<K> = api.list(&own).await?;
        Ok(found.items)
    }

    /// Lists the tenant's pods.
    pub async fn list_pods(&self) -> Result<Vec<Pod>> {
        Ok(self.namespaced_api::<Pod>().list(&ListParams::default()).await?.items)
    }

    /// Waits until exactly `count` pods exist and run. Returns them.
    pub async fn wait_for_running_pods(&self, count: usize) -> Result<Vec<Pod>> {
        wait::until(&format!("{count} pods of {} run", self.name), STEP_TIMEOUT, async || {
            let pods = self.list_pods().await?;
            let running = pods.iter().filter(|pod| is_running(pod)).count();
            Ok((running == count && pods.len() == count).then_some(pods))
        })
        .await
    }

    /// Waits until a NodeClaim exists. Returns it.
    pub async fn wait_for_claim(&self) -> Result<NodeClaim> {
        wait::until("a NodeClaim", STEP_TIMEOUT, async || Ok(self.list_claims().await?.pop())).await
    }

    /// Waits until these NodeClaims and their Nodes are deleted.
    pub async fn wait_until_deleted(&self, claims: &[NodeClaim], limit: Duration) -> Result<()> {
        let names: BTreeSet<_> = claims.iter().map(kube::ResourceExt::name_any).collect();
        let nodes: BTreeSet<_> = claims.iter().filter_map(claim_node_name).collect();
        wait::until(&format!("{names:?} and their nodes go"), limit, async || {
            let claims = self.list_claims().await?;
            let has_claim = claims.iter().any(|claim| names.contains(&claim.name_any()));
            let has_node = self
                .list_nodes()
                .await?
                .iter()
                .any(|node| nodes.contains(node.name_any().as_str()));
            Ok((!has_claim && !has_node).then_some(()))
        })
        .await
    }

    /// Deletes a NodeClaim.
    pub async fn delete_claim(&self, claim: &NodeClaim) -> Result<()> {
        let claims: Api<NodeClaim> = self.cluster_api();
        claims.delete(&claim.name_any(), &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until a condition of the claim has a status. Returns the claim.
    pub async fn wait_for_condition(
        &self,
        claim: &str,
        kind: &str,
        status: &str,
    ) -> Result<NodeClaim> {
        let description = format!("NodeClaim {claim} is {kind}={status}");
        let claims: Api<NodeClaim> = self.cluster_api();
        wait::until(&description, STEP_TIMEOUT, async || {
            let claim = claims.get(claim).await.with_context(|| description.clone())?;
            Ok((claim_condition(&claim, kind)["status"] == status).then_some(claim))
        })
        .await
    }

    /// Waits for an event about an object, by its name. Returns its message.
    pub async fn wait_for_event(&self, about: &str, reason: &str) -> Result<String> {
        let events: Api<Event> = self.cluster_api();
        let fields = format!("involvedObject.name={about},reason={reason}");
        let params = ListParams::default().fields(&fields);
        wait::until(&format!("an event {reason} about {about}"), STEP_TIMEOUT, async || {
            let found = events.list(&params).await?.items.pop();
            Ok(found.map(|event| event.message.unwrap_or_default()))
        })
        .await
    }
}

/// Returns the condition of a claim as JSON; null if there is none.
pub fn claim_condition(claim: &NodeClaim, kind: &str) -> Value {
    let status = serde_json::to_value(&claim.status).unwrap_or_default();
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

/// Returns the node name of a claim, if it is set.
pub fn claim_node_name(claim: &NodeClaim) -> Option<&str> {
    claim.status.as_ref()?.node_name.as_deref()
}

/// Returns the node name of a pod; empty if it is not bound.
pub fn pod_node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// Whether a pod runs and is to go on running.
pub fn is_running(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
}
