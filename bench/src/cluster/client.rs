//! Creates, scales and counts the objects of the cluster benchmark.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use karpenter_api::kwok_nodeclass::KwokNodeClass;
use karpenter_api::labels;
use karpenter_api::nodepool::NodePool;
use karpenter_core::catalog::Offering;
use karpenter_kwok::catalog;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What the pods of each app want: millicores and mebibytes.
const APPS: [(&str, u32, u32); 6] = [
    ("web", 500, 512),
    ("cart", 1_000, 1_024),
    ("search", 250, 2_048),
    ("stock", 2_000, 4_096),
    ("mail", 750, 1_024),
    ("log", 100, 256),
];

/// The app whose pods spread over zones.
const SPREAD_APP: &str = "cart";

/// The node label that only the NodePool without capacity has.
const UNSATISFIABLE_LABEL: &str = "bench/nowhere";

pub(super) struct ClusterClient {
    client: Client,
}

impl ClusterClient {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Creates the node class, the working NodePool and one with zero limits.
    pub(super) async fn create_base_objects(&self) -> Result<()> {
        self.create::<KwokNodeClass>(json!({"metadata": {"name": "default"}, "spec": {}})).await?;
        self.create::<NodePool>(node_pool("default", &json!({}), None)).await?;
        let labels = json!({UNSATISFIABLE_LABEL: "true"});
        self.create::<NodePool>(node_pool("nowhere", &labels, Some("0"))).await?;
        // The API server rejects pods until the controller manager has created it.
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), "default");
        while accounts.get_opt("default").await?.is_none() {
            karpenter_e2e::wait::pause().await;
        }
        Ok(())
    }

    /// Replaces `spec.disruption` of the working NodePool.
    pub(super) async fn set_disruption(&self, disruption: Value) -> Result<()> {
        let pools: Api<NodePool> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({"spec": {"disruption": disruption}}));
        pools.patch("default", &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Creates Deployments with `pods` replicas in total.
    pub(super) async fn create_deployments(&self, pods: usize) -> Result<()> {
        for (index, (name, cpu, memory)) in APPS.into_iter().enumerate() {
            let replicas = app_replicas(pods, index);
            let mut spec = json!({"containers": [{"name": "app", "image": "app", "resources": {
                "requests": {"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")},
            }}]});
            if name == SPREAD_APP {
                spec["topologySpreadConstraints"] = json!([{
                    "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": name}},
                }]);
            }
            self.create::<Deployment>(deployment(name, replicas, &spec)).await?;
        }
        Ok(())
    }

    /// Scales these Deployments to `pods` replicas in total.
    pub(super) async fn scale_deployments(&self, pods: usize) -> Result<()> {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), "default");
        for (index, (name, ..)) in APPS.into_iter().enumerate() {
            let patch = Patch::Merge(json!({"spec": {"replicas": app_replicas(pods, index)}}));
            api.patch(name, &PatchParams::default(), &patch).await?;
        }
        Ok(())
    }

    /// Creates a Deployment whose pods each need their own node.
    pub(super) async fn create_one_pod_per_node_deployment(&self, pods: usize) -> Result<()> {
        let spec = json!({
            "containers": [{"name": "app", "image": "app", "resources": {
                "requests": {"cpu": "10m", "memory": "16Mi"},
            }}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app": "agent"}},
            }]}},
        });
        self.create::<Deployment>(deployment("agent", pods, &spec)).await.map(drop)
    }

    /// Creates a pod that selects only the NodePool without capacity.
    pub(super) async fn create_unschedulable_pod(&self, index: usize) -> Result<()> {
        let pod = json!({
            "metadata": {"name": format!("stranded-{index:05}"), "labels": {"app": "stranded"}},
            "spec": {
                "nodeSelector": {UNSATISFIABLE_LABEL: "true"},
                "containers": [{"name": "app", "image": "app", "resources": {
                    "requests": {"cpu": "1", "memory": "1Gi"},
                }}],
            },
        });
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        Ok(())
    }

    /// Returns the ready and the existing replicas of all Deployments.
    pub(super) async fn count_ready_pods(&self) -> Result<(usize, usize)> {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), "default");
        let statuses = api.list(&ListParams::default()).await?.items;
        let mut sums = (0, 0);
        for status in statuses.into_iter().filter_map(|deployment| deployment.status) {
            sums.0 += usize::try_from(status.ready_replicas.unwrap_or(0))?;
            sums.1 += usize::try_from(status.replicas.unwrap_or(0))?;
        }
        Ok(sums)
    }

    /// Returns the number of nodes.
    pub(super) async fn count_nodes(&self) -> Result<usize> {
        let api: Api<Node> = Api::all(self.client.clone());
        Ok(api.list_metadata(&ListParams::default()).await?.items.len())
    }

    /// Returns the price of all nodes, in dollars per hour.
    pub(super) async fn hourly_price(&self) -> Result<f64> {
        let api: Api<Node> = Api::all(self.client.clone());
        let nodes = api.list_metadata(&ListParams::default()).await?.items;
        let types: BTreeMap<String, _> =
            catalog::built_in().into_iter().map(|one| (one.name.clone(), one)).collect();
        let price = |node: &PartialObjectMeta<Node>| {
            let label = |key: &str| node.labels().get(key).map_or("", String::as_str);
            let own = types.get(label(labels::INSTANCE_TYPE))?;
            let is = |offering: &&Offering, key: &str| {
                offering
                    .requirements
                    .get(key)
                    .is_some_and(|requirement| requirement.has(label(key)))
            };
            let sold = |offering: &&Offering| {
                is(offering, labels::ZONE) && is(offering, labels::CAPACITY_TYPE)
            };
            own.offerings.iter().find(sold).map(|offering| offering.price)
        };
        Ok(nodes.iter().filter_map(price).sum())
    }

    async fn create<K>(&self, object: Value) -> Result<K>
    where
        K: Resource + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
        K::DynamicType: Default,
    {
        let mut object = object;
        let dynamic = K::DynamicType::default();
        object["apiVersion"] = K::api_version(&dynamic).into_owned().into();
        object["kind"] = K::kind(&dynamic).into_owned().into();
        let request = kube::core::Request::new(match object.pointer("/metadata/namespace") {
            Some(_) => K::url_path(&dynamic, Some("default")),
            None => K::url_path(&dynamic, None),
        });
        let request = request.create(&PostParams::default(), object.to_string().into_bytes())?;
        Ok(self.client.request(request).await?)
    }
}

/// Returns the replicas of one app: equal shares, the rest to the last.
fn app_replicas(pods: usize, index: usize) -> usize {
    let each = pods / APPS.len();
    if index + 1 == APPS.len() { pods - each * index } else { each }
}

fn node_pool(name: &str, labels: &Value, cpu: Option<&str>) -> Value {
    let mut pool = json!({"metadata": {"name": name}, "spec": {
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"},
        "template": {"metadata": {"labels": labels}, "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "expireAfter": "Never",
            "requirements": [
                {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "karpenter.kwok.sh/instance-cpu", "operator": "Lt", "values": ["33"]},
            ],
        }},
    }});
    if let Some(cpu) = cpu {
        pool["spec"]["limits"] = json!({"cpu": cpu});
    }
    pool
}

fn deployment(name: &str, replicas: usize, spec: &Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "default"}, "spec": {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
    }})
}
