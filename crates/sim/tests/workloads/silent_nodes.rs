//! Tests of silent, deleted and cordoned nodes in a whole world.

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};

use super::actor::{Actor, deployment, node};

#[tokio::test(start_paused = true)]
async fn pods_of_a_silent_node_move_after_five_minutes() {
    let actor = Actor::with_nodes(2).await;
    actor.apply(&deployment(6, "web:1")).await;
    actor.advance(20).await;
    let silent = node(&actor.running().await[0]).to_owned();
    let claim = if silent.contains("node-1") { "node-1" } else { "node-2" };
    actor.play(&format!("name: s\nsteps: [{{at: 0s, silence: {{claims: [{claim}]}}}}]")).await;
    actor.advance(61).await;
    let nodes: Api<Node> = Api::all(actor.world.client());
    let found = nodes.get(&silent).await.unwrap();
    let taints: Vec<_> =
        found.spec.unwrap().taints.unwrap().into_iter().map(|t| (t.key, t.effect)).collect();
    let key = "node.kubernetes.io/unreachable".to_owned();
    assert_eq!(taints, [(key.clone(), "NoSchedule".to_owned()), (key, "NoExecute".to_owned())]);
    let ready = found.status.unwrap().conditions.unwrap();
    assert!(
        ready.iter().any(|condition| condition.type_ == "Ready" && condition.status == "Unknown")
    );
    let left = |pods: Vec<_>| pods.iter().filter(|pod| node(pod) == silent).count();
    assert_eq!(left(actor.running().await), 0, "they are not ready");
    let staying = |pods: Vec<k8s_openapi::api::core::v1::Pod>| {
        let on = pods.iter().filter(|pod| node(pod) == silent);
        on.filter(|pod| pod.metadata.deletion_timestamp.is_none()).count()
    };
    assert!(staying(actor.pods().await) > 0, "they are tolerated for a while");
    actor.advance(280).await;
    assert!(staying(actor.pods().await) > 0);
    actor.advance(40).await;
    assert_eq!(staying(actor.pods().await), 0);
    let running = actor.running().await;
    assert_eq!(running.len(), 6);
    assert!(running.iter().all(|pod| node(pod) != silent));
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_node_are_garbage_collected() {
    let actor = Actor::with_nodes(2).await;
    actor.apply(&deployment(6, "web:1")).await;
    actor.advance(20).await;
    let gone = node(&actor.running().await[0]).to_owned();
    let nodes: Api<Node> = Api::all(actor.world.client());
    // Without the finalizer it is deleted at once, without a drain. Registered nodes get it back.
    let free = Patch::Merge(serde_json::json!({"metadata": {
        "finalizers": null, "labels": {"karpenter.sh/registered": null},
    }}));
    nodes.patch(&gone, &PatchParams::default(), &free).await.unwrap();
    nodes.delete(&gone, &DeleteParams::default()).await.unwrap();
    actor.advance(35).await;
    assert!(actor.pods().await.iter().any(|pod| node(pod) == gone), "not at once");
    actor.advance(25).await;
    assert!(actor.pods().await.iter().all(|pod| node(pod) != gone));
    assert_eq!(actor.running().await.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_cordoned_node_gets_the_unschedulable_taint() {
    let actor = Actor::with_nodes(1).await;
    let nodes: Api<Node> = Api::all(actor.world.client());
    let name = nodes.list(&kube::api::ListParams::default()).await.unwrap().items[0]
        .metadata
        .name
        .clone()
        .unwrap();
    nodes.cordon(&name).await.unwrap();
    actor.advance(5).await;
    let taints = nodes.get(&name).await.unwrap().spec.unwrap().taints.unwrap_or_default();
    assert_eq!(
        taints.iter().map(|taint| taint.key.as_str()).collect::<Vec<_>>(),
        ["node.kubernetes.io/unschedulable"]
    );
    nodes.uncordon(&name).await.unwrap();
    actor.advance(5).await;
    let taints = nodes.get(&name).await.unwrap().spec.unwrap().taints.unwrap_or_default();
    assert_eq!(taints, []);
}
