//! Tests that kill the product's process at one moment after the other. The next process starts
//! with empty memory, and finishes what the first had begun, once.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_sim::check::{self, Checker, WorldSnapshot};
use karpenter_sim::world::World;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::{apply, list_all, pool, selector, web_apart};

async fn world() -> World {
    let world = super::world(1);
    world.begin().await.unwrap();
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": selector()},
    });
    for object in [pool(&json!({"consolidateAfter": "Never"})), budget, web_apart(4)] {
        apply(&world, &object).await;
    }
    world
}

/// How often the process is killed later than before.
const STEP: Duration = Duration::from_millis(1300);

/// Asserts that the world is at rest, with one node for each pod.
async fn assert_at_rest(world: &World, moment: Duration) {
    let snapshot = WorldSnapshot::gather(world).await.unwrap();
    let wrong: Vec<String> =
        check::violations_at_rest(&snapshot).iter().map(ToString::to_string).collect();
    assert_eq!(wrong, [""; 0], "killed after {moment:?}");
    assert_eq!(snapshot.pods.len(), 4, "killed after {moment:?}");
    let claims: Vec<_> = snapshot.claims.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(claims.len(), 4, "killed after {moment:?}: {claims:?}");
    assert_eq!(snapshot.instances.len(), 4, "killed after {moment:?}");
}

#[tokio::test(start_paused = true)]
async fn a_killed_process_launches_no_instance_twice() {
    for number in 0..12 {
        let (world, moment) = (world().await, STEP * number);
        world.clock.sleep(moment).await;
        world.restart_product(Duration::from_millis(500)).await;
        world.clock.sleep(Duration::from_mins(3)).await;
        assert_at_rest(&world, moment).await;
        world.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_continues_after_the_process_is_killed() {
    for number in 0..12 {
        let (world, moment) = (world().await, STEP * number);
        world.clock.sleep(Duration::from_mins(2)).await;
        let claims: Api<NodeClaim> = Api::all(world.client());
        let old = list_all::<NodeClaim>(&world).await;
        for claim in &old {
            claims.delete(&claim.name_any(), &DeleteParams::default()).await.unwrap();
        }
        let mut checker = Checker::default();
        world.clock.sleep(moment).await;
        world.restart_product(Duration::from_millis(500)).await;
        for _ in 0..120 {
            world.clock.sleep(Duration::from_secs(2)).await;
            checker.check(&WorldSnapshot::gather(&world).await.unwrap());
        }
        let wrong: Vec<_> = checker.violations().map(ToString::to_string).collect();
        assert_eq!(wrong, [""; 0], "killed after {moment:?}");
        let new = list_all::<NodeClaim>(&world).await;
        let kept = new.iter().filter(|claim| old.iter().any(|old| old.uid() == claim.uid()));
        assert_eq!(kept.count(), 0, "killed after {moment:?}");
        assert_at_rest(&world, moment).await;
        assert_eq!(list_all::<Pod>(&world).await.len(), 4);
        world.end().await;
    }
}
