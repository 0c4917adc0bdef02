//! Tests of worlds with the product in them: nodes follow the pods.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod reboots;
mod restart;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_operator::clock::TokioClock;
use karpenter_sim::objects;
use karpenter_sim::scenario::FIXED_START;
use karpenter_sim::world::World;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

/// A world that has not begun.
fn world(seed: u64) -> World {
    karpenter_sim::kwok::world(Arc::new(TokioClock::starting_at(FIXED_START)), seed)
}

async fn apply(world: &World, manifest: &Value) {
    objects::apply(&world.client(), manifest).await.unwrap();
}

fn pool(disruption: &Value) -> Value {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {
            "disruption": disruption,
            "template": {"spec": {
                "nodeClassRef": class, "expireAfter": "Never",
                "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
            }},
        },
    })
}

fn selector() -> Value {
    json!({"matchLabels": {"app": "web"}})
}

/// A Deployment whose pods request a core each.
fn web(replicas: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": selector(),
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{
                    "name": "web", "image": "web", "resources": {"requests": {"cpu": "1"}},
                }]},
            },
        },
    })
}

/// The same with a node for each pod.
fn web_apart(replicas: usize) -> Value {
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": selector()});
    let mut web = web(replicas);
    web["spec"]["template"]["spec"]["affinity"] =
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    web
}

async fn list_all<K>(world: &World) -> Vec<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    Api::<K>::all(world.client()).list(&ListParams::default()).await.unwrap().items
}

fn is_running(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

#[tokio::test(start_paused = true)]
async fn pending_pods_get_nodes_and_run() {
    let world = world(1);
    world.begin().await.unwrap();
    apply(&world, &pool(&json!({}))).await;
    apply(&world, &web(10)).await;
    world.clock.sleep(Duration::from_mins(2)).await;
    let pods: Vec<Pod> = list_all(&world).await;
    assert_eq!(pods.len(), 10);
    let waiting: Vec<_> =
        pods.iter().filter(|pod| !is_running(pod)).map(ResourceExt::name_any).collect();
    let claims: Vec<NodeClaim> = list_all(&world).await;
    assert!(waiting.is_empty(), "{waiting:?} {claims:#?}");
    assert!(!claims.is_empty());
    for claim in &claims {
        let conditions = claim.status.as_ref().unwrap().conditions.as_ref().unwrap();
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
        assert_eq!(ready.status, "True", "{conditions:?}");
    }
    assert_eq!(list_all::<Node>(&world).await.len(), claims.len());
    world.end().await;
}
