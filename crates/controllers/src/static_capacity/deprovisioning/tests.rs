//! Tests of the deprovisioning of static NodePools.

use std::collections::BTreeSet;

use karpenter_operator::options::{FeatureGates, Options};
use serde_json::{Value, json};

use super::*;
use crate::testing::Bench;
use crate::testing::fixtures::{daemon, merged, node_claim, node_pool, pod};

async fn bench(replicas: i64) -> Bench {
    let feature_gates = FeatureGates::default().with_gate(Gate::StaticCapacity, true);
    let bench = Bench::with_options(Options { feature_gates, ..Options::default() }).await;
    let pool = merged(node_pool("general"), &json!({"spec": {"replicas": replicas}}));
    bench.create(pool).await;
    bench
}

/// A claim whose node is there.
async fn running(bench: &Bench, name: &str) {
    let id = format!("fake:///{name}");
    let changes = json!({
        "metadata": {"finalizers": ["karpenter.sh/termination"]},
        "status": {"providerID": id, "nodeName": name},
    });
    bench.create(node_claim(name, &changes)).await;
    let labels = json!({
        "karpenter.sh/nodepool": "general",
        "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true",
    });
    bench.join(name, &id, &json!({"metadata": {"labels": labels}})).await;
}

/// Returns the names of the claims that are not being deleted.
fn remaining_claims(bench: &Bench) -> BTreeSet<String> {
    let claims = bench.context.cache.node_claims.all().into_iter();
    let claims = claims.filter(|claim| claim.metadata.deletion_timestamp.is_none());
    claims.map(|claim| claim.name_any()).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn protected() -> Value {
    json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}})
}

async fn reconcile(bench: &Bench) -> Outcome {
    bench.reconcile(&controller(&bench.context), "general").await.unwrap()
}

async fn resize(bench: &Bench, replicas: i64) {
    let mut pool = node_pool("general");
    pool["spec"] = json!({"replicas": replicas});
    bench.patch(pool).await;
}

#[tokio::test(start_paused = true)]
async fn the_least_disruptive_claims_are_deleted_first() {
    let bench = bench(5).await;
    for name in ["protected", "high", "low", "daemons"] {
        running(&bench, name).await;
    }
    bench.create(node_claim("unlaunched", &json!({}))).await;
    let none = json!({});
    bench.create(pod("p", Some("protected"), &protected())).await;
    bench.create(pod("h1", Some("high"), &none)).await;
    bench.create(pod("h2", Some("high"), &none)).await;
    bench.create(pod("l", Some("low"), &none)).await;
    bench.create(pod("d", Some("daemons"), &daemon())).await;
    assert_eq!(reconcile(&bench).await, Outcome::RequeueAfter(REQUEUE_INTERVAL));
    assert_eq!(remaining_claims(&bench).len(), 5, "nothing is too many");
    for (case, replicas, stay) in [
        ("30/ST-7", 4, set(&["daemons", "high", "low", "protected"])),
        ("40/NP-20, 30/ST-8", 3, set(&["high", "low", "protected"])),
        ("30/ST-8", 2, set(&["high", "protected"])),
        ("30/ST-8", 1, set(&["protected"])),
        ("30/ST-5", 0, set(&[])),
    ] {
        resize(&bench, replicas).await;
        assert_eq!(reconcile(&bench).await, Outcome::RequeueAfter(REQUEUE_INTERVAL), "{case}");
        assert_eq!(remaining_claims(&bench), stay, "{case}: {replicas}");
    }
    let counts = bench.context.mirror.node_counts("general");
    assert_eq!((counts.active, counts.deleting), (0, 4), "30/ST-3");
    assert_eq!(bench.events(), [], "40/Q19");
    assert_eq!(bench.metric("karpenter_nodeclaims_disrupted_total", &[]), 0, "40/Q19");
    let pods = bench.metric("karpenter_pods_disruption_initiated_total", &[]);
    assert_eq!(pods, 0, "40/Q19");
}

#[tokio::test(start_paused = true)]
async fn deleting_claims_do_not_count_as_excess() {
    let bench = bench(1).await;
    let names = ["a", "b", "c", "d"];
    for name in names {
        running(&bench, name).await;
    }
    let now = bench.context.clock.now();
    let ids = ["fake:///a", "fake:///b", "fake:///c"];
    bench.context.mirror.mark_for_deletion(ids, now, Timestamp::MAX);
    reconcile(&bench).await;
    assert_eq!(remaining_claims(&bench), set(&names), "30/ST-4");
}

#[tokio::test(start_paused = true)]
async fn a_failed_deletion_is_retried() {
    let bench = bench(0).await;
    running(&bench, "a").await;
    let (context, faults) = bench.with_faults();
    let failing = controller(&context);
    let key = ObjectKey::new("", "general");
    (0..4).for_each(|_| faults.fail("DELETE", "/nodeclaims/a", 500));
    let error = failing.reconcile(&key).await.expect_err("all attempts fail");
    assert!(error.to_string().starts_with("failed to deprovision nodeclaims"), "30/ST-6");
    assert_eq!(bench.context.mirror.node_counts("general").active, 1, "30/ST-6");
    (0..3).for_each(|_| faults.fail("DELETE", "/nodeclaims/a", 500));
    failing.reconcile(&key).await.expect("the last attempt does not");
    assert_eq!(remaining_claims(&bench), set(&[]));
}

#[tokio::test(start_paused = true)]
async fn unmanaged_pools_are_not_scaled_down() {
    let bench = bench(0).await;
    let mut other = node_pool("other");
    other["spec"]["replicas"] = json!(0);
    other["spec"]["template"]["spec"]["nodeClassRef"]["group"] = json!("example.com");
    bench.create(other).await;
    let outcome = bench.reconcile(&controller(&bench.context), "other").await.unwrap();
    assert_eq!(outcome, Outcome::Done, "30/ST-1, 40/NP-21");
}
