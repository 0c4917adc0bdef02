//! The product's process is killed at one moment after the other, and started again with nothing in
//! its memory: what it had begun is finished, once.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_operator::clock::ScaledClock;
use karpenter_sim::check::{self, Checker, Facts};
use karpenter_sim::objects;
use karpenter_sim::scenario::FIXED_START;
use karpenter_sim::world::World;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

fn objects() -> [Value; 3] {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let selector = json!({"matchLabels": {"app": "web"}});
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": selector});
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {
            "disruption": {"consolidateAfter": "Never"},
            "template": {"spec": {
                "nodeClassRef": class, "expireAfter": "Never",
                "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
            }},
        },
    });
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": selector},
    });
    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 4, "selector": selector,
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "affinity": {"podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [term],
                    }},
                    "containers": [{
                        "name": "web", "image": "web", "resources": {"requests": {"cpu": "1"}},
                    }],
                },
            },
        },
    });
    [pool, budget, web]
}

async fn world() -> World {
    let world = World::new(Arc::new(ScaledClock::starting_at(FIXED_START)), 1);
    world.begin().await.unwrap();
    for object in objects() {
        objects::apply(&world.client(), &object).await.unwrap();
    }
    world
}

/// How often the process is killed later than before.
const STEP: Duration = Duration::from_millis(1300);

/// All is well, and there are as many nodes as pods.
async fn assert_is_well(world: &World, moment: Duration) {
    let facts = Facts::gather(world).await.unwrap();
    let wrong: Vec<String> = check::at_rest(&facts).iter().map(ToString::to_string).collect();
    assert_eq!(wrong, [""; 0], "killed after {moment:?}");
    assert_eq!(facts.pods.len(), 4, "killed after {moment:?}");
    let claims: Vec<_> = facts.claims.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(claims.len(), 4, "killed after {moment:?}: {claims:?}");
    assert_eq!(facts.instances.len(), 4, "killed after {moment:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_launched_twice_whenever_the_process_is_killed() {
    for number in 0..12 {
        let (world, moment) = (world().await, STEP * number);
        world.clock.sleep(moment).await;
        world.restart_product(Duration::from_millis(500)).await;
        world.clock.sleep(Duration::from_mins(3)).await;
        assert_is_well(&world, moment).await;
        world.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_goes_on_whenever_the_process_is_killed() {
    for number in 0..12 {
        let (world, moment) = (world().await, STEP * number);
        world.clock.sleep(Duration::from_mins(2)).await;
        let claims: Api<NodeClaim> = Api::all(world.client());
        let old = claims.list(&ListParams::default()).await.unwrap().items;
        for claim in &old {
            claims.delete(&claim.name_any(), &DeleteParams::default()).await.unwrap();
        }
        let mut checker = Checker::default();
        world.clock.sleep(moment).await;
        world.restart_product(Duration::from_millis(500)).await;
        for _ in 0..120 {
            world.clock.sleep(Duration::from_secs(2)).await;
            checker.look(&Facts::gather(&world).await.unwrap());
        }
        let wrong: Vec<_> = checker.violations().map(ToString::to_string).collect();
        assert_eq!(wrong, [""; 0], "killed after {moment:?}");
        let new = claims.list(&ListParams::default()).await.unwrap().items;
        let kept = new.iter().filter(|claim| old.iter().any(|old| old.uid() == claim.uid()));
        assert_eq!(kept.count(), 0, "killed after {moment:?}");
        assert_is_well(&world, moment).await;
        let pods: Api<Pod> = Api::all(world.client());
        assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 4);
        world.end().await;
    }
}
