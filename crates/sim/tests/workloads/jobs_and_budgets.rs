//! Tests of Jobs and PodDisruptionBudgets in a whole world.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt as _;
use kube::api::EvictParams;
use serde_json::{Value, json};

use super::actor::{Actor, deployment, names, template};

fn job(more: &Value) -> Value {
    let mut template = template("work:1");
    template["metadata"]["annotations"] = json!({"sim.karpenter.sh/run-for": "30s"});
    template["spec"]["restartPolicy"] = "Never".into();
    let mut manifest = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"},
        "spec": {"template": template, "parallelism": 2, "completions": 4},
    });
    manifest["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    manifest
}

#[tokio::test(start_paused = true)]
async fn a_job_completes_and_is_deleted_after_its_ttl() {
    let actor = Actor::with_nodes(1).await;
    actor.apply(&job(&json!({"ttlSecondsAfterFinished": 100}))).await;
    actor.advance(20).await;
    assert_eq!(actor.running().await.len(), 2);
    actor.advance(70).await;
    let work: Job = actor.get("work").await;
    let status = work.status.unwrap();
    assert_eq!((status.succeeded, status.failed, status.active), (Some(4), None, None));
    let last = status.conditions.unwrap().pop().unwrap();
    assert_eq!((last.type_.as_str(), last.status.as_str()), ("Complete", "True"));
    assert!(status.completion_time.is_some());
    assert!(actor.pods().await.iter().all(|pod| pod.finalizers().is_empty()), "all are counted");
    actor.advance(120).await;
    assert!(actor.api::<Job>().get_opt("work").await.unwrap().is_none());
    assert_eq!(names(&actor.pods().await), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_indexed_job_has_one_success_per_index() {
    let actor = Actor::with_nodes(1).await;
    actor.apply(&job(&json!({"completionMode": "Indexed"}))).await;
    actor.advance(100).await;
    let status = actor.get::<Job>("work").await.status.unwrap();
    assert_eq!(status.completed_indexes.as_deref(), Some("0-3"));
    assert_eq!(status.succeeded, Some(4));
}

#[tokio::test(start_paused = true)]
async fn a_job_replaces_a_pod_that_is_evicted() {
    let actor = Actor::with_nodes(1).await;
    actor.apply(&job(&json!({"completions": 2}))).await;
    actor.advance(10).await;
    let victim = actor.running().await[0].name_any();
    actor.api::<Pod>().evict(&victim, &EvictParams::default()).await.unwrap();
    actor.advance(100).await;
    let status = actor.get::<Job>("work").await.status.unwrap();
    assert_eq!((status.succeeded, status.failed), (Some(2), Some(1)));
    assert!(!names(&actor.pods().await).contains(&victim), "it is gone");
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_job_are_deleted() {
    let actor = Actor::with_nodes(1).await;
    actor.apply(&job(&json!({}))).await;
    actor.advance(10).await;
    actor.delete(&job(&json!({}))).await;
    actor.advance(20).await;
    assert_eq!(names(&actor.pods().await), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_budget_allows_evictions_as_replacements_become_ready() {
    let actor = Actor::with_nodes(1).await;
    actor.apply(&deployment(4, "web:1")).await;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"maxUnavailable": "25%", "selector": {"matchLabels": {"app": "web"}}},
    });
    actor.apply(&budget).await;
    actor.advance(20).await;
    let status = actor.get::<PodDisruptionBudget>("web").await.status.unwrap();
    let counts = (
        status.expected_pods,
        status.desired_healthy,
        status.current_healthy,
        status.disruptions_allowed,
    );
    assert_eq!(counts, (Some(4), Some(3), Some(4), Some(1)));
    assert_eq!(status.conditions.unwrap()[0].reason, "SufficientPods");
    let pods = names(&actor.running().await);
    let api = actor.api::<Pod>();
    api.evict(&pods[0], &EvictParams::default()).await.unwrap();
    let refused = api.evict(&pods[1], &EvictParams::default()).await.unwrap_err();
    assert!(refused.to_string().contains("disruption budget"), "{refused}");
    actor.advance(20).await;
    api.evict(&pods[1], &EvictParams::default()).await.unwrap();
}
