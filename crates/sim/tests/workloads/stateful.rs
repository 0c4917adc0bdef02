//! Tests of StatefulSets in a whole world.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::actor::{Actor, image, names, template};

fn set(replicas: u32, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas, "serviceName": "db",
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(image),
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "storageClassName": "disk",
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_starts_in_order_and_rolls_from_the_last_pod() {
    let actor = Actor::with_nodes(1).await;
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disk"},
        "provisioner": "disk.example.com", "volumeBindingMode": "WaitForFirstConsumer",
    });
    actor.apply(&class).await;
    actor.apply(&set(3, "db:1")).await;
    for _ in 0..300 {
        actor.world.clock.sleep(std::time::Duration::from_millis(100)).await;
        let (all, ready) = (actor.pods().await.len(), actor.running().await.len());
        assert!(all <= ready + 1, "the next one waits for the last one");
    }
    assert_eq!(names(&actor.running().await), ["db-0", "db-1", "db-2"]);
    let claims = actor.api::<PersistentVolumeClaim>().list(&ListParams::default()).await.unwrap();
    let claims: Vec<_> =
        claims.items.into_iter().map(|claim| claim.metadata.name.unwrap()).collect();
    assert_eq!(claims, ["data-db-0", "data-db-1", "data-db-2"]);

    let mut next = set(3, "db:2");
    next["spec"]["updateStrategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}});
    actor.apply(&next).await;
    actor.advance(30).await;
    let images: Vec<_> = actor.running().await.iter().map(|pod| image(pod).to_owned()).collect();
    assert_eq!(images, ["db:1", "db:1", "db:2"]);
    actor.apply(&set(3, "db:2")).await;
    actor
        .patch::<StatefulSet>(
            "db",
            json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}),
        )
        .await;
    actor.advance(60).await;
    let images: Vec<_> = actor.running().await.iter().map(|pod| image(pod).to_owned()).collect();
    assert_eq!(images, ["db:2"; 3]);
    let status = actor.get::<StatefulSet>("db").await.status.unwrap();
    assert_eq!(status.current_revision, status.update_revision);
    assert_eq!((status.ready_replicas, status.updated_replicas), (Some(3), Some(3)));

    actor.patch::<StatefulSet>("db", json!({"spec": {"replicas": 1}})).await;
    actor.advance(30).await;
    assert_eq!(names(&actor.pods().await), ["db-0"]);
}
