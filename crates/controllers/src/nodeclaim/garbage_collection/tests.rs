//! Tests of the garbage collection of NodeClaims without instance.

use karpenter_operator::cloud::CloudError;
use serde_json::{Value, json};

use super::*;
use crate::testing::Bench;
use crate::testing::fixtures::node_claim;

const DISRUPTED: &str = "karpenter_nodeclaims_disrupted_total";

/// A claim of that provider id that has registered, or has not.
fn claim(name: &str, registered: &str) -> Value {
    let condition = json!({"type": "Registered", "status": registered, "reason": "R",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let changes = json!({
        "metadata": {"finalizers": ["karpenter.sh/termination"]},
        "status": {"providerID": name, "nodeName": name, "conditions": [condition]},
    });
    node_claim(name, &changes)
}

async fn is_deleting(bench: &Bench, name: &str) -> bool {
    bench.claim(name).await.metadata.deletion_timestamp.is_some()
}

#[tokio::test(start_paused = true)]
async fn claims_without_instance_are_deleted_unless_their_node_is_ready() {
    let bench = Bench::new().await;
    let collection = controller(&bench.context);
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    #[rustfmt::skip]
    let cases = [
        // case               name         registered  node                    instance  goes
        ("40/LC-37, 30/GC-1", "not-ready", "True",     Some(not_ready),        false,    true),
        ("40/LC-38, 30/GC-2", "ready",     "True",     Some(json!({})),        false,    false),
        ("40/LC-39, 30/GC-3", "launched",  "Unknown",  None,                   false,    false),
        ("40/LC-40",          "alive",     "True",     None,                   true,     false),
        ("no node, 30/GC-1",  "lost",      "True",     None,                   false,    true),
    ];
    for (_, name, registered, node, instance, _) in &cases {
        bench.create(claim(name, registered)).await;
        if let Some(changes) = node {
            bench.join(name, name, changes).await;
        }
        if *instance {
            bench.cloud.put_instance(bench.claim(name).await);
        }
    }
    let outcome = bench.reconcile(&collection, "").await.unwrap();
    assert_eq!(outcome, Outcome::RequeueAfter(PERIOD));
    for (case, name, .., goes) in &cases {
        assert_eq!(is_deleting(&bench, name).await, *goes, "{case}");
    }
    assert_eq!(bench.metric(DISRUPTED, &[("reason", "garbage_collected")]), 2);
    bench.reconcile(&collection, "").await.unwrap();
    assert_eq!(bench.metric(DISRUPTED, &[]), 2, "counted once");
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_provider_id_is_kept_while_its_node_exists() {
    let bench = Bench::new().await;
    for name in ["a", "b"] {
        bench.create(claim(name, "True")).await;
        bench.patch_status(node_claim(name, &json!({"status": {"providerID": ""}}))).await;
    }
    let uid = bench.claim("a").await.metadata.uid;
    let owner =
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "a", "uid": uid});
    bench.join("a", "a", &json!({"metadata": {"ownerReferences": [owner]}})).await;
    bench.reconcile(&controller(&bench.context), "").await.unwrap();
    assert!(!is_deleting(&bench, "a").await, "its node is there");
    assert!(is_deleting(&bench, "b").await, "nothing of it is");
}

#[tokio::test(start_paused = true)]
async fn a_terminating_instance_counts_as_deleted() {
    let bench = Bench::new().await;
    bench.create(claim("a", "True")).await;
    let mut ending = bench.claim("a").await;
    ending.metadata.deletion_timestamp = ending.metadata.creation_timestamp.clone();
    bench.cloud.put_instance(ending);
    bench.reconcile(&controller(&bench.context), "").await.unwrap();
    assert!(is_deleting(&bench, "a").await);
}

#[tokio::test(start_paused = true)]
async fn one_failed_deletion_does_not_stop_the_garbage_collection() {
    let bench = Bench::new().await;
    let (context, faults) = bench.with_faults();
    let names: Vec<_> = (0..100).map(|n| format!("c{n}")).collect();
    for name in &names {
        bench.create(claim(name, "True")).await;
    }
    faults.fail("DELETE", "/nodeclaims/c7", 500);
    let error = bench.reconcile(&controller(&context), "").await.unwrap_err();
    assert_eq!(error.to_string(), "made to fail with 500");
    for name in &names {
        assert_eq!(is_deleting(&bench, name).await, name != "c7", "40/LC-41: {name}");
    }
    bench.reconcile(&controller(&context), "").await.unwrap();
    assert_eq!(bench.metric(DISRUPTED, &[]), 100, "40/LC-41");
}

#[tokio::test(start_paused = true)]
async fn no_claim_is_deleted_when_listing_instances_fails() {
    let bench = Bench::new().await;
    bench.create(claim("a", "True")).await;
    bench.cloud.fail_next_list(CloudError::other("no answer"));
    assert!(bench.reconcile(&controller(&bench.context), "").await.is_err());
    assert!(!is_deleting(&bench, "a").await);
}
