//! Tests of the metrics and events of status conditions.

use karpenter_operator::options::{FeatureGates, Options};
use serde_json::{Value, json};

use super::*;
use crate::testing::Bench;
use crate::testing::fixtures::{merged, node_claim, node_class, node_pool};

fn controller_named(context: &Context, name: &str) -> Controller {
    let found = controllers(context).into_iter().find(|controller| controller.name() == name);
    found.expect("the controller runs")
}

fn launched(status: &str, reason: &str, since: &str) -> Value {
    let condition = json!({"type": "Launched", "status": status, "reason": reason, "message": "",
        "observedGeneration": 1, "lastTransitionTime": since});
    json!({"status": {"conditions": [condition]}})
}

#[tokio::test(start_paused = true)]
async fn a_condition_transition_is_counted_and_emits_an_event() {
    let bench = Bench::new().await;
    let controller = controller_named(&bench.context, "operatorpkg.nodeclaim.status");
    bench.create(node_claim("a", &launched("Unknown", "Wait", "2026-01-01T00:00:00Z"))).await;
    bench.reconcile(&controller, "a").await.unwrap();
    assert!(bench.events().is_empty());
    let done = launched("True", "Launched", "2026-01-01T00:00:30Z");
    bench.patch_status(node_claim("a", &done)).await;
    bench.reconcile(&controller, "a").await.unwrap();
    let id = "40/OB-15";
    let events: Vec<_> = bench.events().into_iter().filter(|(r, _)| r == "Launched").collect();
    let message =
        "Status condition transitioned, Type: Launched, Status: Unknown -> True, Reason: Launched";
    assert_eq!(events, [("Launched".to_owned(), message.to_owned())], "{id}");
    let labels = [("type", "Launched"), ("karpenter_sh_nodepool", "general")];
    let transitions = "operator_nodeclaim_status_condition_transitions_total";
    assert!((bench.number(transitions, &labels) - 1.0).abs() < f64::EPSILON, "{id}");
    let labels = [("type", "Launched"), ("status", "Unknown"), ("to_status", "True")];
    let sum = "operator_nodeclaim_status_condition_transition_seconds_sum";
    assert!((bench.number(sum, &labels) - 30.0).abs() < f64::EPSILON, "45/OB-2");
}

#[tokio::test(start_paused = true)]
async fn unset_conditions_of_a_pool_count_as_unknown() {
    let bench = Bench::new().await;
    bench.create(node_pool("general")).await;
    let controller = controller_named(&bench.context, "operatorpkg.nodepool.status");
    bench.reconcile(&controller, "general").await.unwrap();
    let labels = [("type", "Ready"), ("status", "Unknown")];
    let count = "operator_nodepool_status_condition_count";
    assert!((bench.number(count, &labels) - 1.0).abs() < f64::EPSILON);
}

#[tokio::test(start_paused = true)]
async fn conditions_of_a_node_class_are_metrics_and_events() {
    let bench = Bench::new().await;
    let controller = controller_named(&bench.context, "operatorpkg.testnodeclass.status");
    bench.create(node_class()).await;
    bench.reconcile(&controller, "default").await.unwrap();
    for condition in ["Ready", "Resolved"] {
        for count in
            ["operator_testnodeclass_status_condition_count", "operator_status_condition_count"]
        {
            let labels = [("name", "default"), ("type", condition), ("status", "Unknown")];
            assert_eq!(bench.metric(count, &labels), 1, "40/OB-15: {count} of {condition}");
        }
    }
    let conditions = ["Ready", "Resolved"].map(|condition| {
        json!({"type": condition, "status": "True", "reason": condition, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:30Z"})
    });
    let ready = json!({"status": {"conditions": conditions}});
    bench.patch_status(merged(node_class(), &ready)).await;
    bench.reconcile(&controller, "default").await.unwrap();
    let message =
        "Status condition transitioned, Type: Ready, Status: Unknown -> True, Reason: Ready";
    let events: Vec<_> = bench.events().into_iter().filter(|(r, _)| r == "Ready").collect();
    assert_eq!(events, [("Ready".to_owned(), message.to_owned())], "40/OB-15");
    bench.delete(node_class()).await;
    bench.reconcile(&controller, "default").await.unwrap();
    let text = bench.context.metrics.registry().text();
    assert!(!text.contains("operator_testnodeclass_status_condition_count{"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn nodes_show_only_conditions_that_they_have() {
    let bench = Bench::new().await;
    let conditions = json!([{"type": "DiskPressure", "status": "False"}]);
    bench.join("a", "fake:///a", &json!({"status": {"conditions": conditions}})).await;
    let controller = controller_named(&bench.context, "operatorpkg.node.status");
    bench.reconcile(&controller, "a").await.unwrap();
    let count = "operator_node_status_condition_count";
    let text = bench.context.metrics.registry().text();
    let shown: Vec<_> = text.lines().filter(|line| line.starts_with(count)).collect();
    assert_eq!(shown.len(), 1, "40/OB-17: {shown:?}");
    assert!(shown[0].contains("type=\"DiskPressure\""), "40/OB-17: {shown:?}");
    assert!(!text.contains("operator_status_condition_count{"), "nodes have no old names");
}

#[tokio::test(start_paused = true)]
async fn condition_ages_grow_without_events_until_deletion() {
    let bench = Bench::new().await;
    let since = bench.context.clock.now().to_string();
    bench.create(node_claim("a", &launched("True", "Launched", &since))).await;
    let controller = controller_named(&bench.context, "operatorpkg.nodeclaim.status");
    bench.run([controller]);
    bench.pass(Duration::from_secs(61)).await;
    let labels = [("type", "Launched"), ("status", "True")];
    for metric in [
        "operator_nodeclaim_status_condition_current_status_seconds",
        "operator_status_condition_current_status_seconds",
    ] {
        let age = bench.number(metric, &labels);
        assert!((50.0..62.0).contains(&age), "{metric}: {age}");
    }
    bench.context.cache.node_claims.apply_deletion(&ObjectKey::new("", "a"));
    bench.settle().await;
    let registry = bench.context.metrics.registry();
    assert_eq!(registry.series_count("operator_nodeclaim_status_condition_count"), 0);
    assert_eq!(registry.series_count("operator_status_condition_count"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_object_recreated_under_the_same_name_is_finalized_first() {
    let bench = Bench::new().await;
    let controller = controller_named(&bench.context, "operatorpkg.nodeclaim.status");
    let finalizers = json!({"metadata": {"finalizers": ["karpenter.sh/termination"]}});
    bench.create(node_claim("a", &finalizers)).await;
    bench.reconcile(&controller, "a").await.unwrap();
    let mut other = NodeClaim::clone(&bench.context.cache.node_claims.get("", "a").unwrap());
    other.metadata.uid = Some("other".to_owned());
    other.metadata.resource_version = Some("1000000".to_owned());
    bench.context.cache.node_claims.apply_deletion(&ObjectKey::new("", "a"));
    bench.context.cache.node_claims.apply_write_result(other);
    bench.reconcile(&controller, "a").await.unwrap();
    let finalized = ("Finalized".to_owned(), "Finalized karpenter.sh/termination".to_owned());
    assert!(bench.events().contains(&finalized));
}

#[tokio::test(start_paused = true)]
async fn buffer_conditions_are_shown_with_the_feature_gate() {
    let feature_gates = FeatureGates::default().with_gate(Gate::CapacityBuffer, true);
    let bench = Bench::with_options(Options { feature_gates, ..Options::default() }).await;
    let condition = json!({"type": "ReadyForProvisioning", "status": "True", "reason": "Resolved",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    bench
        .create(json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1",
            "kind": "CapacityBuffer",
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"podTemplateRef": {"name": "t"}, "replicas": 1},
            "status": {"conditions": [condition]},
        }))
        .await;
    let controller = controller_named(&bench.context, "operatorpkg.capacitybuffer.status");
    controller.reconcile(&ObjectKey::new("default", "b")).await.unwrap();
    let labels = [("namespace", "default"), ("name", "b"), ("type", "ReadyForProvisioning")];
    let count = "operator_capacitybuffer_status_condition_count";
    assert!((bench.number(count, &labels) - 1.0).abs() < f64::EPSILON);
}
