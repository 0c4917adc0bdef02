//! Tests of the `capacitybuffer` controller: resolution, conditions and virtual pods.

use karpenter_api::condition_set::find;
use karpenter_operator::options::{FeatureGates, Options};
use serde_json::{Value, json};

use super::*;
use crate::provisioner;
use crate::testing::Bench;
use crate::testing::fixtures::merged;

async fn bench() -> Bench {
    let feature_gates = FeatureGates::default().with_gate(Gate::CapacityBuffer, true);
    Bench::with_options(Options { feature_gates, ..Options::default() }).await
}

fn buffer(spec: &Value) -> Value {
    json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": spec,
    })
}

/// Returns a pod template with this CPU request.
fn pod_template_spec(cpu: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu}});
    let containers = json!([{"name": "main", "image": "none", "resources": resources}]);
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": containers}})
}

fn template(cpu: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "t", "namespace": "default"},
        "template": pod_template_spec(cpu),
    })
}

fn workload(kind: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "serviceName": "w",
            "selector": {"matchLabels": {"app": "a"}},
            "template": pod_template_spec("1"),
        },
    })
}

fn of_template(replicas: i32) -> Value {
    json!({"podTemplateRef": {"name": "t"}, "replicas": replicas})
}

fn of_deployment(rest: &Value) -> Value {
    let reference = json!({"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "w"}});
    merged(reference, rest)
}

async fn reconcile(bench: &Bench) -> ReconcileResult {
    let controller = all(&bench.context).remove(0);
    let outcome = controller.reconcile(&ObjectKey::new("default", "b")).await;
    bench.settle().await;
    outcome
}

async fn stored(bench: &Bench) -> CapacityBuffer {
    bench.get("default", "b").await.expect("the buffer is there")
}

/// Status and reason of a condition, and its message.
async fn condition(bench: &Bench, type_: &str) -> (String, String) {
    let status = stored(bench).await.status.unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let found = find(&conditions, type_).expect("the condition is there");
    (format!("{} {}", found.status, found.reason), found.message.clone())
}

async fn ready(bench: &Bench) -> (String, String) {
    condition(bench, READY_FOR_PROVISIONING).await
}

fn expected_condition(status: &str, message: &str) -> (String, String) {
    (status.to_owned(), message.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_template_is_resolved_again_when_it_changes() {
    let bench = bench().await;
    bench.create(template("1")).await;
    bench.create(buffer(&of_template(2))).await;
    bench.run(all(&bench.context));
    bench.settle().await;
    assert_eq!(
        ready(&bench).await,
        expected_condition("True Resolved", "Pod template resolved successfully")
    );
    let status = stored(&bench).await.status.unwrap();
    assert_eq!(status.replicas, Some(2));
    assert_eq!(status.pod_template_ref.map(|template| template.name).as_deref(), Some("t"));
    let before = status.pod_template_generation;
    bench.patch(template("2")).await;
    bench.settle().await;
    let now = bench.context.cache.pod_templates.get("default", "t").unwrap().metadata.generation;
    let after = stored(&bench).await.status.unwrap().pod_template_generation;
    assert_eq!(after, Some(now.unwrap_or_default()), "40/OV-15 (was {before:?})");
}

/// How many virtual pods the next decision is about.
fn virtual_pods(bench: &Bench) -> usize {
    let snapshot = bench.context.mirror.snapshot(bench.context.clock.now());
    snapshot.pods.iter().filter(|pod| pod.is_virtual).count()
}

#[tokio::test(start_paused = true)]
async fn deleting_the_pod_template_removes_the_virtual_pods() {
    let bench = bench().await;
    bench.create(template("1")).await;
    bench.create(buffer(&of_template(2))).await;
    reconcile(&bench).await.unwrap();
    assert_eq!((ready(&bench).await.0.as_str(), virtual_pods(&bench)), ("True Resolved", 2));
    assert!(bench.context.batcher.wait().await);
    bench.context.cache.pod_templates.apply_deletion(&ObjectKey::new("default", "t"));
    assert_eq!(
        reconcile(&bench).await.unwrap(),
        Outcome::RequeueAfter(REQUEUE_INTERVAL),
        "45/CB-1, 10/CB-11"
    );
    let expected = expected_condition("False PodTemplateNotFound", "podtemplates \"t\" not found");
    assert_eq!(ready(&bench).await, expected, "45/CB-1, 40/OV-14, 10/CB-11");
    assert_eq!(virtual_pods(&bench), 0, "40/OV-14");
    assert!(bench.context.batcher.wait().await, "45/CB-1, 40/OV-14");
}

#[tokio::test(start_paused = true)]
async fn only_unsupported_references_fail_the_reconcile() {
    let of = |group: &str, kind: &str| json!({"scalableRef": {"apiGroup": group, "kind": kind, "name": "w"}, "replicas": 1});
    #[rustfmt::skip]
    let cases = [
        ("missing",  of("apps", "Deployment"),  "False ScalableRefNotFound", "deployments.apps \"w\" not found", true),
        ("no group", of("", "StatefulSet"),     "False ScalableRefNotFound", "statefulsets.apps \"w\" not found", true),
        ("kind",     of("apps", "DaemonSet"),   "False ResolutionFailed",    "unsupported kind \"DaemonSet\"", false),
        ("group",    of("batch", "Deployment"), "False ResolutionFailed",    "unsupported scalableRef API group \"batch\"", false),
        ("neither",  json!({"replicas": 1}),    "False ResolutionFailed",    "Neither podTemplateRef nor scalableRef is set", true),
    ];
    for (case, spec, status, message, is_ok) in cases {
        let bench = bench().await;
        bench.create(buffer(&spec)).await;
        assert_eq!(reconcile(&bench).await.is_ok(), is_ok, "{case}");
        assert_eq!(ready(&bench).await, expected_condition(status, message), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn replicas_follow_the_referenced_workload() {
    let bench = bench().await;
    let sizes = json!({"percentage": 20, "replicas": 5, "limits": {"cpu": "3"}});
    bench.create(buffer(&of_deployment(&sizes))).await;
    bench.run(all(&bench.context));
    bench.create(workload("StatefulSet", 10)).await;
    assert_eq!(ready(&bench).await.0, "False ScalableRefNotFound", "45/CB-3 another kind");
    bench.create(workload("Deployment", 10)).await;
    bench.settle().await;
    assert_eq!(ready(&bench).await.0, "True Resolved", "45/CB-3");
    assert_eq!(stored(&bench).await.status.unwrap().replicas, Some(3), "40/OV-12");
    bench.patch(buffer(&json!({"replicas": null, "limits": null, "percentage": 50}))).await;
    bench.settle().await;
    assert_eq!(stored(&bench).await.status.unwrap().replicas, Some(5));
    bench.patch(workload("Deployment", 20)).await;
    bench.settle().await;
    assert_eq!(stored(&bench).await.status.unwrap().replicas, Some(10), "45/CB-3");
}

#[tokio::test(start_paused = true)]
async fn deleting_a_buffer_triggers_the_provisioner() {
    let bench = bench().await;
    assert_eq!(reconcile(&bench).await.unwrap(), Outcome::Done, "45/CB-2");
    assert!(bench.context.batcher.wait().await, "45/CB-2");
}

#[tokio::test(start_paused = true)]
async fn a_status_conflict_requeues_the_buffer() {
    let bench = bench().await;
    bench.create(template("1")).await;
    bench.create(buffer(&of_template(1))).await;
    let (context, faults) = bench.with_faults();
    faults.fail("PATCH", "/capacitybuffers/b/status", 409);
    let outcome = all(&context).remove(0).reconcile(&ObjectKey::new("default", "b")).await;
    assert_eq!(outcome.unwrap(), Outcome::RequeueAfter(CONFLICT_RETRY_INTERVAL));
}

/// A node with room for so many CPUs.
async fn node(bench: &Bench, cpu: &str) {
    let resources = json!({"cpu": cpu, "memory": "8Gi", "pods": "100"});
    let labels = json!({"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"});
    let changes = json!({
        "metadata": {"labels": labels},
        "spec": {"taints": []},
        "status": {"capacity": resources, "allocatable": resources},
    });
    bench.join("n", "fake:///n", &changes).await;
}

#[tokio::test(start_paused = true)]
async fn the_provisioning_condition_reports_whether_virtual_pods_fit() {
    let bench = bench().await;
    bench.create(crate::testing::fixtures::node_class()).await;
    let mut pool = crate::testing::fixtures::node_pool("general");
    pool["status"] = json!({"nodes": 0, "conditions": [{"type": "Ready", "status": "True",
        "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    bench.create(pool).await;
    node(&bench, "4").await;
    bench.create(template("1")).await;
    bench.create(buffer(&of_template(3))).await;
    bench.run(all(&bench.context));
    bench.run(provisioner::all(&bench.context));
    bench.pass(Duration::from_secs(15)).await;
    let fits = expected_condition(
        "True FitsExistingCapacity",
        "All 3 virtual pods fit on existing capacity",
    );
    assert_eq!(condition(&bench, "Provisioning").await, fits);
    assert_eq!(bench.context.mirror.buffer_pods("fake:///n"), 3);
    bench.patch(buffer(&json!({"replicas": 0}))).await;
    bench.pass(Duration::from_secs(15)).await;
    let empty = expected_condition("False BufferEmpty", "Buffer has zero desired replicas");
    assert_eq!(condition(&bench, "Provisioning").await, empty);
    assert_eq!(bench.context.mirror.buffer_pods("fake:///n"), 0, "45/CB-2");
    bench.patch(buffer(&json!({"replicas": 9}))).await;
    bench.pass(Duration::from_secs(15)).await;
    let (status, message) = condition(&bench, "Provisioning").await;
    assert_eq!(status, "False RequiresNewCapacity", "{message}");
    assert!(!bench.context.cache.node_claims.is_empty(), "room is made");
}
