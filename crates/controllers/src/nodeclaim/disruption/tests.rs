//! Tests of the conditions `Drifted` and `Consolidatable` of NodeClaims.

use std::time::Duration;

use karpenter_api::condition_set::find;
use karpenter_operator::cloud::CloudError;
use karpenter_operator::options::{FeatureGates, Gate, Options};
use serde_json::{Value, json};

use super::*;
use crate::testing::Bench;
use crate::testing::fixtures::{condition, has, merged, node_claim, node_pool};

const MINUTE: Duration = Duration::from_mins(1);

async fn bench() -> Bench {
    let feature_gates = FeatureGates::default().with_gate(Gate::StaticCapacity, true);
    Bench::with_options(Options { feature_gates, ..Options::default() }).await
}

async fn create_pool(bench: &Bench, changes: &Value) {
    bench.create(merged(node_pool("general"), changes)).await;
}

async fn patch_pool(bench: &Bench, mut spec: Value) {
    let mut pool = node_pool("general");
    pool["spec"] = spec.take();
    bench.patch(pool).await;
}

fn conditions(bench: &Bench, conditions: &[(&str, &str)]) -> Value {
    let now = bench.context.clock.now().to_string();
    let list = conditions.iter().map(|(type_, status)| {
        json!({
            "type": type_,
            "status": status,
            "reason": type_,
            "message": "",
            "lastTransitionTime": now,
        })
    });
    json!({"status": {"conditions": list.collect::<Vec<_>>()}})
}

/// Creates a claim that is launched and initialized.
async fn create_running_claim(bench: &Bench, name: &str, changes: &Value) {
    let state = conditions(bench, &[("Launched", "True"), ("Initialized", "True")]);
    bench.create(merged(node_claim(name, &state), changes)).await;
}

async fn reconcile(bench: &Bench, name: &str) -> Outcome {
    bench.reconcile(&controller(&bench.context), name).await.unwrap()
}

fn drift_of(claim: &NodeClaim) -> Option<String> {
    find(claim.conditions(), DRIFTED).map(|condition| condition.reason.clone())
}

#[tokio::test(start_paused = true)]
async fn drift_reported_by_the_cloud_sets_the_drifted_condition() {
    let bench = bench().await;
    create_pool(&bench, &json!({})).await;
    create_running_claim(&bench, "ours", &json!({})).await;
    let foreign = json!({"spec": {"nodeClassRef": {"group": "example.com"}}});
    create_running_claim(&bench, "foreign", &foreign).await;
    bench.cloud.set_drift(Some("AMIDrift"));
    assert_eq!(reconcile(&bench, "ours").await, Outcome::RequeueAfter(5 * MINUTE));
    reconcile(&bench, "foreign").await;
    let drifted = condition(&bench.claim("ours").await, DRIFTED);
    assert_eq!(drifted, ("True".into(), "AMIDrift".into(), "AMIDrift".into()), "30/NCD-1");
    assert_eq!(drift_of(&bench.claim("foreign").await), None, "30/NCD-1");
    let since =
        |claim: &NodeClaim| find(claim.conditions(), DRIFTED).unwrap().last_transition_time.0;
    let first = since(&bench.claim("ours").await);
    bench.pass(MINUTE).await;
    bench.cloud.set_drift(Some("SubnetDrift"));
    reconcile(&bench, "ours").await;
    let claim = bench.claim("ours").await;
    assert_eq!((drift_of(&claim).as_deref(), since(&claim)), (Some("SubnetDrift"), first));
    bench.cloud.set_drift(None);
    assert_eq!(reconcile(&bench, "ours").await, Outcome::RequeueAfter(5 * MINUTE));
    assert_eq!(drift_of(&bench.claim("ours").await), None);
}

#[tokio::test(start_paused = true)]
async fn nodepool_drift_takes_precedence_over_cloud_drift() {
    let bench = bench().await;
    create_pool(&bench, &json!({})).await;
    bench.cloud.set_drift(Some("AMIDrift"));
    let requirements = json!([{"key": "team", "operator": "In", "values": ["a"]}]);
    patch_pool(&bench, json!({"template": {"spec": {"requirements": requirements}}})).await;
    create_running_claim(&bench, "asked", &json!({})).await;
    reconcile(&bench, "asked").await;
    let drift = drift_of(&bench.claim("asked").await);
    assert_eq!(drift.as_deref(), Some("RequirementsDrifted"), "30/NCD-3");
    let hashes = |hash: &str| {
        json!({"metadata": {"annotations": {
            annotations::NODEPOOL_HASH: hash,
            annotations::NODEPOOL_HASH_VERSION: "v3",
        }}})
    };
    bench.patch(merged(node_pool("general"), &hashes("1"))).await;
    create_running_claim(&bench, "hashed", &hashes("2")).await;
    reconcile(&bench, "hashed").await;
    let drift = drift_of(&bench.claim("hashed").await);
    assert_eq!(drift.as_deref(), Some("NodePoolDrifted"), "30/NCD-2");
}

#[tokio::test(start_paused = true)]
async fn every_field_of_the_nodepool_template_causes_drift() {
    let taint = json!([{"key": "a", "effect": "NoSchedule"}]);
    let changes = [
        json!({"metadata": {"labels": {"team": "a"}}}),
        json!({"metadata": {"annotations": {"team": "a"}}}),
        json!({"spec": {"taints": taint}}),
        json!({"spec": {"startupTaints": taint}}),
        json!({"spec": {"expireAfter": "1h"}}),
        json!({"spec": {"terminationGracePeriod": "1h"}}),
        json!({"spec": {"nodeClassRef": {"name": "other"}}}),
    ];
    let bench = bench().await;
    let is_hash = |controller: &Controller| controller.name() == "nodepool.hash";
    let hash = crate::nodepool::all(&bench.context).into_iter().find(is_hash).unwrap();
    for (index, template) in changes.into_iter().enumerate() {
        create_pool(&bench, &json!({})).await;
        bench.reconcile(&hash, "general").await.unwrap();
        let pool: NodePool = bench.get("", "general").await.unwrap();
        let name = format!("claim-{index}");
        create_running_claim(
            &bench,
            &name,
            &json!({"metadata": {"annotations": pool.annotations()}}),
        )
        .await;
        reconcile(&bench, &name).await;
        assert_eq!(drift_of(&bench.claim(&name).await), None, "30/NCD-9: {template} before");
        // Labels of the template come to claims that are made from then on.
        patch_pool(&bench, json!({"template": template.clone()})).await;
        bench.reconcile(&hash, "general").await.unwrap();
        reconcile(&bench, &name).await;
        let drift = drift_of(&bench.claim(&name).await);
        assert_eq!(drift.as_deref(), Some("NodePoolDrifted"), "30/NCD-9: {template}");
        bench.delete(node_pool("general")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_not_launched_has_not_drifted() {
    let bench = bench().await;
    create_pool(&bench, &json!({})).await;
    bench.cloud.set_drift(Some("AMIDrift"));
    for status in ["Unknown", "False"] {
        let name = format!("claim-{}", status.to_lowercase());
        let state = conditions(&bench, &[("Launched", status), ("Drifted", "True")]);
        bench.create(node_claim(&name, &state)).await;
        assert_eq!(reconcile(&bench, &name).await, Outcome::Done);
        assert_eq!(drift_of(&bench.claim(&name).await), None, "30/NCD-4: {status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_a_nodepool_gets_no_conditions() {
    let bench = bench().await;
    bench.cloud.set_drift(Some("AMIDrift"));
    create_running_claim(&bench, "orphan", &json!({})).await;
    assert_eq!(reconcile(&bench, "orphan").await, Outcome::Done);
    let claim = bench.claim("orphan").await;
    assert_eq!(drift_of(&claim), None, "30/NCD-5");
    assert!(!has(&claim, CONSOLIDATABLE, "True"), "30/NCD-5");
}

#[tokio::test(start_paused = true)]
async fn instance_type_drift_is_checked_after_an_hour_and_cached() {
    let bench = bench().await;
    create_pool(&bench, &json!({})).await;
    let types = json!({"metadata": {"labels": {
        "node.kubernetes.io/instance-type": "default-instance-type",
        "topology.kubernetes.io/zone": "test-zone-1",
        "karpenter.sh/capacity-type": "spot",
    }}});
    create_running_claim(&bench, "old", &types).await;
    let looker = controller(&bench.context);
    let drift = async || {
        bench.reconcile(&looker, "old").await.unwrap();
        drift_of(&bench.claim("old").await)
    };
    bench.pass(61 * MINUTE).await;
    assert_eq!(drift().await, None, "the type is there");
    bench.cloud.set_types([]);
    bench.pass(29 * MINUTE).await;
    assert_eq!(drift().await, None, "it was found a while ago");
    bench.pass(2 * MINUTE).await;
    assert_eq!(drift().await.as_deref(), Some("InstanceTypeNotFound"), "30/NCD-11");
}

#[tokio::test(start_paused = true)]
async fn drifted_and_consolidatable_are_set_in_one_reconcile() {
    let bench = bench().await;
    create_pool(&bench, &json!({"spec": {"disruption": {"consolidateAfter": "1m"}}})).await;
    create_running_claim(&bench, "a", &json!({})).await;
    bench.cloud.set_drift(Some("AMIDrift"));
    bench.pass(MINUTE).await;
    reconcile(&bench, "a").await;
    let claim = bench.claim("a").await;
    assert!(has(&claim, DRIFTED, "True") && has(&claim, CONSOLIDATABLE, "True"), "30/NCD-13");
    let set = condition(&claim, CONSOLIDATABLE);
    assert_eq!(set, ("True".into(), "Consolidatable".into(), String::new()));
    bench.cloud.set_drift(None);
    patch_pool(&bench, json!({"disruption": {"consolidateAfter": "Never"}})).await;
    reconcile(&bench, "a").await;
    let claim = bench.claim("a").await;
    let left = [DRIFTED, CONSOLIDATABLE].map(|type_| find(claim.conditions(), type_).is_some());
    assert_eq!(left, [false, false], "30/NCD-13");
}

#[tokio::test(start_paused = true)]
async fn claims_of_static_pools_are_never_consolidatable() {
    let bench = bench().await;
    create_pool(&bench, &json!({"spec": {"replicas": 1}})).await;
    create_running_claim(&bench, "a", &json!({})).await;
    reconcile(&bench, "a").await;
    assert!(!has(&bench.claim("a").await, CONSOLIDATABLE, "True"), "30/NCD-14");
    bench.cloud.set_drift(Some("AMIDrift"));
    reconcile(&bench, "a").await;
    let claim = bench.claim("a").await;
    assert_eq!(find(claim.conditions(), CONSOLIDATABLE), None, "40/LC-53");
    assert_eq!(drift_of(&claim).as_deref(), Some("AMIDrift"), "40/LC-53");
}

#[tokio::test(start_paused = true)]
async fn incomparable_hashes_are_not_drift() {
    let notes = |hash: Option<&str>, version: Option<&str>| {
        let mut notes = serde_json::Map::new();
        notes.extend(hash.map(|hash| (annotations::NODEPOOL_HASH.to_owned(), json!(hash))));
        let version = version.map(|v| (annotations::NODEPOOL_HASH_VERSION.to_owned(), json!(v)));
        notes.extend(version);
        json!({"metadata": {"annotations": notes}})
    };
    let bench = bench().await;
    create_pool(&bench, &notes(Some("1"), Some("v3"))).await;
    #[rustfmt::skip]
    let cases = [
        ("other-version", notes(Some("2"), Some("v2")), None),
        ("no-hash",       notes(None, Some("v3")),      None),
        ("no-version",    notes(Some("2"), None),       None),
        ("comparable",    notes(Some("2"), Some("v3")), Some("NodePoolDrifted")),
    ];
    for (name, changes, expected) in cases {
        create_running_claim(&bench, name, &changes).await;
        reconcile(&bench, name).await;
        assert_eq!(drift_of(&bench.claim(name).await).as_deref(), expected, "40/LC-54: {name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_event_restarts_consolidate_after() {
    let bench = bench().await;
    create_pool(&bench, &json!({"spec": {"disruption": {"consolidateAfter": "1m"}}})).await;
    create_running_claim(&bench, "a", &json!({})).await;
    bench.run([controller(&bench.context)]);
    let is_set = async || has(&bench.claim("a").await, CONSOLIDATABLE, "True");
    bench.pass(Duration::from_secs(30)).await;
    assert!(!is_set().await, "30/CA-2");
    bench.pass(Duration::from_secs(31)).await;
    assert!(is_set().await, "30/CA-2");
    let now = bench.context.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    bench.patch_status(node_claim("a", &json!({"status": {"lastPodEventTime": now}}))).await;
    bench.pass(Duration::from_secs(1)).await;
    assert!(!is_set().await, "30/CA-1");
    bench.pass(MINUTE).await;
    assert!(is_set().await, "30/CA-1");
}

#[tokio::test(start_paused = true)]
async fn a_cloud_error_keeps_the_drifted_condition() {
    let bench = bench().await;
    create_pool(&bench, &json!({})).await;
    create_running_claim(&bench, "a", &json!({})).await;
    bench.cloud.set_drift(Some("AMIDrift"));
    reconcile(&bench, "a").await;
    bench.pass(61 * MINUTE).await;
    bench.cloud.fail_pool("general", || CloudError::other("away"));
    let error = bench.reconcile(&controller(&bench.context), "a").await.unwrap_err();
    let text = error.to_string();
    let start = "getting drift, checking instance type drift, ";
    assert!(text.starts_with(start) && text.ends_with("(NodeClaim=a)"), "{text}");
    assert!(has(&bench.claim("a").await, DRIFTED, "True"));
}
