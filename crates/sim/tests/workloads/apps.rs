//! Tests of Deployments, ReplicaSets and DaemonSets in a whole world.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, EvictParams, ListParams};
use serde_json::json;

use super::actor::{Actor, deployment, image, names, node, template};

#[tokio::test(start_paused = true)]
async fn a_deployment_runs_its_pods_and_reports_completion() {
    let actor = Actor::with_nodes(2).await;
    actor.apply(&deployment(6, "web:1")).await;
    actor.advance(20).await;
    assert_eq!(actor.running().await.len(), 6);
    let web: Deployment = actor.get("web").await;
    let status = web.status.clone().unwrap();
    assert_eq!(status.observed_generation, web.metadata.generation);
    let counts = (
        status.replicas,
        status.updated_replicas,
        status.ready_replicas,
        status.available_replicas,
    );
    assert_eq!(counts, (Some(6), Some(6), Some(6), Some(6)));
    assert_eq!(status.unavailable_replicas, None);
    let conditions: Vec<_> = status
        .conditions
        .unwrap()
        .into_iter()
        .map(|condition| (condition.type_, condition.status, condition.reason.unwrap()))
        .collect();
    let expected = [
        ("Available", "True", "MinimumReplicasAvailable"),
        ("Progressing", "True", "NewReplicaSetAvailable"),
    ];
    assert_eq!(conditions, expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())));
    assert_eq!(web.annotations()["deployment.kubernetes.io/revision"], "1");
}

#[tokio::test(start_paused = true)]
async fn a_rollout_keeps_availability_and_ends_with_the_new_image() {
    let actor = Actor::with_nodes(2).await;
    actor.apply(&deployment(8, "web:1")).await;
    actor.advance(20).await;
    actor.apply(&deployment(8, "web:2")).await;
    // A quarter may be missing and a quarter too many: 2 of 8.
    for _ in 0..120 {
        actor.advance(1).await;
        assert!(actor.running().await.len() >= 6, "too few");
        let active = actor.pods().await.into_iter();
        let active = active.filter(|pod| pod.metadata.deletion_timestamp.is_none()).count();
        assert!(active <= 10, "too many: {active}");
    }
    let pods = actor.pods().await;
    assert_eq!(pods.iter().map(image).collect::<Vec<_>>(), ["web:2"; 8]);
    let sets = actor.api::<ReplicaSet>().list(&ListParams::default()).await.unwrap();
    let mut sizes: Vec<_> = sets.iter().map(|set| set.spec.as_ref().unwrap().replicas).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [Some(0), Some(8)]);
    let web: Deployment = actor.get("web").await;
    assert_eq!(web.annotations()["deployment.kubernetes.io/revision"], "2");
}

#[tokio::test(start_paused = true)]
async fn recreate_ends_all_old_pods_before_the_first_new_one() {
    let actor = Actor::with_nodes(1).await;
    let recreate = |image| {
        let mut manifest = deployment(3, image);
        manifest["spec"]["strategy"] = json!({"type": "Recreate"});
        manifest
    };
    actor.apply(&recreate("web:1")).await;
    actor.advance(20).await;
    actor.apply(&recreate("web:2")).await;
    for _ in 0..300 {
        actor.world.clock.sleep(std::time::Duration::from_millis(100)).await;
        let pods = actor.pods().await;
        let old = pods.iter().filter(|pod| image(pod) == "web:1").count();
        assert!(old == 0 || old == pods.len(), "both at a time");
    }
    assert_eq!(actor.running().await.iter().map(image).collect::<Vec<_>>(), ["web:2"; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_paused_deployment_waits_until_it_is_resumed() {
    let actor = Actor::with_nodes(1).await;
    actor.apply(&deployment(3, "web:1")).await;
    actor.advance(20).await;
    actor.patch::<Deployment>("web", json!({"spec": {"paused": true}})).await;
    actor.apply(&deployment(3, "web:2")).await;
    actor.advance(60).await;
    assert_eq!(actor.running().await.iter().map(image).collect::<Vec<_>>(), ["web:1"; 3]);
    actor.patch::<Deployment>("web", json!({"spec": {"paused": null}})).await;
    actor.advance(60).await;
    assert_eq!(actor.running().await.iter().map(image).collect::<Vec<_>>(), ["web:2"; 3]);
}

#[tokio::test(start_paused = true)]
async fn deleted_and_evicted_pods_are_replaced() {
    let actor = Actor::with_nodes(1).await;
    actor.apply(&deployment(3, "web:1")).await;
    actor.advance(20).await;
    let before = names(&actor.running().await);
    actor
        .api::<k8s_openapi::api::core::v1::Pod>()
        .delete(&before[0], &DeleteParams::default())
        .await
        .unwrap();
    actor
        .api::<k8s_openapi::api::core::v1::Pod>()
        .evict(&before[1], &EvictParams::default())
        .await
        .unwrap();
    actor.advance(20).await;
    let after = names(&actor.running().await);
    assert_eq!(after.len(), 3);
    assert!(
        after.contains(&before[2]) && !after.contains(&before[0]) && !after.contains(&before[1])
    );
}

#[tokio::test(start_paused = true)]
async fn scaling_and_deleting_a_deployment_ends_its_pods() {
    let actor = Actor::with_nodes(1).await;
    actor.apply(&deployment(5, "web:1")).await;
    actor.advance(20).await;
    actor.play("name: s\nsteps: [{at: 0s, scale: {name: web, replicas: 2}}]").await;
    actor.advance(20).await;
    assert_eq!(actor.pods().await.len(), 2);
    actor.delete(&deployment(5, "web:1")).await;
    actor.advance(20).await;
    assert_eq!(names(&actor.pods().await), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_adopts_and_releases_pods_by_their_labels() {
    let actor = Actor::with_nodes(1).await;
    let mut free = template("web:0");
    free["apiVersion"] = "v1".into();
    free["kind"] = "Pod".into();
    free["metadata"]["name"] = "free".into();
    actor.apply(&free).await;
    let mut set = deployment(2, "web:1");
    set["kind"] = "ReplicaSet".into();
    actor.apply(&set).await;
    actor.advance(20).await;
    let pods = actor.running().await;
    assert_eq!(pods.len(), 2);
    let adopted = pods.iter().find(|pod| pod.name_any() == "free").unwrap();
    assert_eq!(adopted.owner_references()[0].name, "web");
    actor
        .patch::<k8s_openapi::api::core::v1::Pod>(
            "free",
            json!({"metadata": {"labels": {"app": "x"}}}),
        )
        .await;
    actor.advance(20).await;
    let pods = actor.running().await;
    assert_eq!(pods.len(), 3, "another one takes its place");
    let released = pods.iter().find(|pod| pod.name_any() == "free").unwrap();
    assert_eq!(released.owner_references(), []);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_follows_the_nodes() {
    let actor = Actor::with_nodes(2).await;
    let mut set = deployment(0, "agent:1");
    set["kind"] = "DaemonSet".into();
    set["spec"].as_object_mut().unwrap().remove("replicas");
    actor.apply(&set).await;
    actor.advance(20).await;
    let nodes = |pods: Vec<k8s_openapi::api::core::v1::Pod>| {
        let mut nodes: Vec<_> = pods.iter().map(|pod| node(pod).to_owned()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    };
    assert_eq!((actor.running().await.len(), nodes(actor.running().await).len()), (2, 2));
    actor.launch("more", 1).await;
    actor.advance(120).await;
    assert_eq!(nodes(actor.running().await).len(), 3);
    let status = actor.get::<DaemonSet>("web").await.status.unwrap();
    assert_eq!((status.desired_number_scheduled, status.number_available), (3, Some(3)));
    set["spec"]["template"] = template("agent:2");
    actor.apply(&set).await;
    actor.advance(60).await;
    assert_eq!(actor.running().await.iter().map(image).collect::<Vec<_>>(), ["agent:2"; 3]);
}
