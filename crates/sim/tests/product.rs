//! Worlds with the product in them: pods come, nodes come; pods go, nodes go.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_operator::clock::ScaledClock;
use karpenter_sim::objects;
use karpenter_sim::world::World;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

async fn world(seed: u64) -> World {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let clock = Arc::new(ScaledClock::starting_at(start));
    let world = World::new(clock, seed);
    world.begin().await.unwrap();
    world
}

async fn apply(world: &World, manifest: Value) {
    objects::apply(&world.client(), &manifest).await.unwrap();
}

fn pool(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
        }}},
    })
}

fn deployment(name: &str, replicas: u32, cpu: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": cpu}}}]},
            },
        },
    })
}

async fn all<K>(world: &World) -> Vec<K>
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
    let world = world(1).await;
    apply(&world, pool("default")).await;
    apply(&world, deployment("web", 10, "1")).await;
    world.clock.sleep(Duration::from_mins(2)).await;
    let pods: Vec<Pod> = all(&world).await;
    assert_eq!(pods.len(), 10);
    let waiting: Vec<_> =
        pods.iter().filter(|pod| !is_running(pod)).map(ResourceExt::name_any).collect();
    let claims: Vec<NodeClaim> = all(&world).await;
    assert!(waiting.is_empty(), "{waiting:?} {claims:#?}");
    assert!(!claims.is_empty());
    for claim in &claims {
        let conditions = claim.status.as_ref().unwrap().conditions.as_ref().unwrap();
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
        assert_eq!(ready.status, "True", "{conditions:?}");
    }
    assert_eq!(all::<Node>(&world).await.len(), claims.len());
    world.end().await;
}
