//! Tests of the finalization of NodeClaims.

use std::time::Duration;

use karpenter_operator::cloud::CloudError;
use karpenter_operator::harness::Outcome;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::*;
use crate::testing::fixtures::{has, node_claim};

const POLL: Outcome = Outcome::RequeueAfter(Duration::from_secs(5));

async fn delete<K>(bench: &Bench, name: &str)
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>,
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::all(bench.context.client.clone());
    api.delete(name, &DeleteParams::default()).await.expect("is deleted");
    bench.settle().await;
}

/// A claim with a node that has registered.
async fn registered(bench: &Bench, lifecycle: &Controller, changes: &Value) -> NodeClaim {
    let claim = bench.launched(lifecycle, node_claim("a", changes)).await;
    bench.join("n", objects::provider_id(&claim), &json!({})).await;
    bench.reconcile(lifecycle, "a").await.expect("registers");
    bench.claim("a").await
}

#[tokio::test(start_paused = true)]
async fn the_finalizer_stays_until_the_instance_is_gone() {
    let (bench, lifecycle) = bench().await;
    let claim = bench.launched(&lifecycle, node_claim("a", &json!({}))).await;
    delete::<NodeClaim>(&bench, "a").await;
    bench.cloud.fail_next_delete(CloudError::other("no answer"));
    let error = bench.reconcile(&lifecycle, "a").await.unwrap_err();
    assert_eq!(error.to_string(), "no answer", "40/TM-35");
    assert_eq!(bench.claim("a").await.finalizers(), [TERMINATION], "40/TM-35");
    assert_eq!(bench.reconcile(&lifecycle, "a").await.unwrap(), POLL, "40/TM-34");
    // It takes its time.
    bench.cloud.put_instance(claim.clone());
    bench.pass(Duration::from_secs(5)).await;
    assert_eq!(bench.reconcile(&lifecycle, "a").await.unwrap(), POLL, "40/TM-34");
    let ending = bench.claim("a").await;
    assert_eq!(ending.finalizers(), [TERMINATION], "40/TM-34");
    assert!(has(&ending, "InstanceTerminating", "True"));
    bench.pass(Duration::from_secs(5)).await;
    assert_eq!(bench.reconcile(&lifecycle, "a").await.unwrap(), Outcome::Done);
    assert!(bench.get::<NodeClaim>("", "a").await.is_none());
    let pool = [("nodepool", "general")];
    let zone = objects::label(&claim, "topology.kubernetes.io/zone");
    let labels = [("nodepool", "general"), ("zone", zone)];
    assert_eq!(bench.metric("karpenter_nodeclaims_terminated_total", &labels), 1);
    for metric in ["termination_duration_seconds", "instance_termination_duration_seconds"] {
        let name = format!("karpenter_nodeclaims_{metric}");
        assert_eq!(bench.metric(&format!("{name}_count"), &pool), 1, "{name}");
        let took = bench.metric(&format!("{name}_sum"), &pool);
        assert!((9..=11).contains(&took), "40/Q17 {name}: {took}");
    }
    assert_eq!(bench.reconcile(&lifecycle, "a").await.unwrap(), Outcome::Done, "it is gone");
}

#[tokio::test(start_paused = true)]
async fn an_unlaunched_claim_is_removed_at_once() {
    let (bench, lifecycle) = bench().await;
    bench.cloud.allow_creates(0);
    bench.create(node_claim("a", &json!({}))).await;
    assert!(bench.reconcile(&lifecycle, "a").await.is_err());
    delete::<NodeClaim>(&bench, "a").await;
    assert_eq!(bench.reconcile(&lifecycle, "a").await.unwrap(), Outcome::Done);
    assert!(bench.get::<NodeClaim>("", "a").await.is_none(), "40/TM-36");
    assert!(bench.cloud.calls().delete.is_empty(), "40/TM-36");
}

#[tokio::test(start_paused = true)]
async fn an_instance_missing_from_the_claim_status_is_terminated() {
    let bench = Bench::new().await;
    let (context, faults) = bench.with_faults();
    let lifecycle = controller(&context);
    bench.create(node_claim("a", &json!({}))).await;
    faults.fail("PATCH", "/nodeclaims/a/status", 500);
    assert!(bench.reconcile(&lifecycle, "a").await.is_err());
    delete::<NodeClaim>(&bench, "a").await;
    assert_eq!(objects::provider_id(&bench.claim("a").await), "");
    assert_eq!(bench.reconcile(&lifecycle, "a").await.unwrap(), POLL);
    let id = objects::provider_id(&bench.claim("a").await).to_owned();
    assert!(!id.is_empty(), "now it is written down");
    assert_eq!(objects::provider_id(&bench.cloud.calls().delete[0]), id);
    assert_eq!(bench.reconcile(&lifecycle, "a").await.unwrap(), Outcome::Done);
    assert!(bench.get::<NodeClaim>("", "a").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn finalization_does_not_delete_unregistered_nodes() {
    let (bench, lifecycle) = bench().await;
    let claim = bench.launched(&lifecycle, node_claim("a", &json!({}))).await;
    bench.join("n", objects::provider_id(&claim), &json!({})).await;
    delete::<NodeClaim>(&bench, "a").await;
    assert_eq!(bench.reconcile(&lifecycle, "a").await.unwrap(), POLL, "40/TM-37");
    assert!(bench.node("n").await.metadata.deletion_timestamp.is_none(), "40/TM-37");
    assert_eq!(bench.cloud.calls().delete.len(), 1, "40/TM-37");
}

#[tokio::test(start_paused = true)]
async fn all_nodes_are_deleted_before_the_instance() {
    let (bench, lifecycle) = bench().await;
    let claim = registered(&bench, &lifecycle, &json!({})).await;
    let kept = json!({"metadata": {"finalizers": ["example.com/keep"]}});
    bench.join("m", objects::provider_id(&claim), &kept).await;
    delete::<NodeClaim>(&bench, "a").await;
    for _ in 0..2 {
        assert_eq!(bench.reconcile(&lifecycle, "a").await.unwrap(), Outcome::Done, "40/TM-38");
        for node in ["m", "n"] {
            assert!(bench.node(node).await.metadata.deletion_timestamp.is_some(), "40/TM-38");
        }
    }
    assert!(bench.cloud.calls().delete.is_empty(), "40/TM-38: nothing ends under a drain");
    for node in ["m", "n"] {
        assert!(bench.cloud.calls().delete.is_empty(), "40/TM-38: {node} is still there");
        let manifest = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": node, "finalizers": null}});
        bench.patch(manifest).await;
        bench.reconcile(&lifecycle, "a").await.unwrap();
    }
    assert_eq!(bench.cloud.calls().delete.len(), 1, "40/TM-38");
}

#[tokio::test(start_paused = true)]
async fn a_cleared_provider_id_is_restored() {
    let (bench, lifecycle) = bench().await;
    let id = objects::provider_id(&registered(&bench, &lifecycle, &json!({})).await).to_owned();
    let clear = json!({"status": {"providerID": "", "nodeName": ""}});
    bench.patch_status(node_claim("a", &clear)).await;
    assert_eq!(objects::provider_id(&bench.claim("a").await), "");
    bench.reconcile(&lifecycle, "a").await.unwrap();
    assert_eq!(objects::provider_id(&bench.claim("a").await), id, "its node knows it");
    // A deletion removes node and instance all the same.
    bench.patch_status(node_claim("a", &clear)).await;
    delete::<NodeClaim>(&bench, "a").await;
    bench.reconcile(&lifecycle, "a").await.unwrap();
    assert!(bench.node("n").await.metadata.deletion_timestamp.is_some());
}

#[tokio::test(start_paused = true)]
async fn the_termination_timestamp_is_annotated_once() {
    let key = "karpenter.sh/nodeclaim-termination-timestamp";
    let preset = json!({
        "metadata": {"annotations": {key: "2030-01-01T00:00:00Z"}},
        "spec": {"terminationGracePeriod": "1h"},
    });
    let garbage = json!({
        "metadata": {"annotations": {key: "tomorrow"}},
        "spec": {"terminationGracePeriod": "1h"},
    });
    #[rustfmt::skip]
    let cases = [
        ("no time",  garbage,                                           Some("2026-01-01T01:02:00Z"), 1),
        ("40/TM-39", json!({"spec": {"terminationGracePeriod": "1h"}}), Some("2026-01-01T01:02:00Z"), 1),
        ("40/TM-40", preset,                                            Some("2030-01-01T00:00:00Z"), 0),
        ("40/TM-41", json!({}),                                         None,                         0),
    ];
    for (case, changes, deadline, events) in cases {
        let (bench, lifecycle) = bench().await;
        registered(&bench, &lifecycle, &changes).await;
        let start = bench.context.clock.now();
        let whole = jiff::Timestamp::from_second(start.as_second()).unwrap();
        let to_minute_two = "2026-01-01T00:02:00Z".parse::<jiff::Timestamp>().unwrap();
        assert!(whole < to_minute_two);
        bench.context.clock.sleep_until(to_minute_two).await;
        delete::<NodeClaim>(&bench, "a").await;
        for _ in 0..2 {
            bench.reconcile(&lifecycle, "a").await.unwrap();
        }
        let claim = bench.claim("a").await;
        assert_eq!(claim.annotations().get(key).map(String::as_str), deadline, "{case}");
        let expected: Vec<_> = deadline
            .filter(|_| events == 1)
            .map(|time| {
                let text = format!("All pods will be deleted by {time}");
                ("TerminationGracePeriodExpiring".to_owned(), text)
            })
            .into_iter()
            .collect();
        assert_eq!(bench.events(), expected, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_terminating_claim_keeps_its_ready_condition() {
    let (bench, lifecycle) = bench().await;
    registered(&bench, &lifecycle, &json!({})).await;
    bench.reconcile(&lifecycle, "a").await.unwrap();
    assert!(has(&bench.claim("a").await, "Ready", "True"));
    delete::<NodeClaim>(&bench, "a").await;
    bench.reconcile(&lifecycle, "a").await.unwrap();
    let manifest = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n", "finalizers": null}});
    bench.patch(manifest).await;
    assert_eq!(bench.reconcile(&lifecycle, "a").await.unwrap(), POLL);
    let claim = bench.claim("a").await;
    assert!(has(&claim, "Ready", "True"), "40/TM-42");
    assert!(has(&claim, "InstanceTerminating", "True"), "40/TM-42");
    let generation = claim.metadata.generation;
    let all = claim.conditions().iter().all(|c| c.observed_generation == generation);
    assert!(all, "40/TM-42: {generation:?} {:?}", claim.conditions());
}

#[tokio::test(start_paused = true)]
async fn conflicts_are_retried_and_the_termination_is_counted_once() {
    let bench = Bench::new().await;
    let (context, faults) = bench.with_faults();
    let lifecycle = controller(&context);
    bench.launched(&lifecycle, node_claim("a", &json!({}))).await;
    delete::<NodeClaim>(&bench, "a").await;
    faults.fail("PATCH", "/nodeclaims/a/status", 409);
    assert_eq!(bench.reconcile(&lifecycle, "a").await.unwrap(), Outcome::Requeue);
    faults.fail("PATCH", "/nodeclaims/a", 409);
    assert_eq!(bench.reconcile(&lifecycle, "a").await.unwrap(), Outcome::Requeue);
    faults.fail("PATCH", "/nodeclaims/a", 500);
    let error = bench.reconcile(&lifecycle, "a").await.unwrap_err();
    let text = "removing termination finalizer, made to fail with 500";
    assert_eq!(error.to_string(), text);
    assert_eq!(bench.reconcile(&lifecycle, "a").await.unwrap(), Outcome::Done);
    assert!(bench.get::<NodeClaim>("", "a").await.is_none());
    assert_eq!(bench.metric("karpenter_nodeclaims_terminated_total", &[]), 1);
    let name = "karpenter_nodeclaims_instance_termination_duration_seconds_count";
    assert_eq!(bench.metric(name, &[]), 1);
}
