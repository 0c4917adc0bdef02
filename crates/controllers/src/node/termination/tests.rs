//! Tests of Node termination: drain, volumes, instance and finalizer.

use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::*;
use crate::node::eviction;
use crate::node::testing::{budget, claim, condition, node, pod, with};
use crate::testing::Bench;

struct Fixture {
    bench: Bench,
    evictions: Evictions,
    controller: Controller,
}

/// Creates a bench without nodes, with the controller.
async fn fixture() -> Fixture {
    let bench = Bench::new().await;
    let evictions = Evictions::new(&bench.context);
    let controller = controller(&bench.context, &evictions);
    Fixture { bench, evictions, controller }
}

impl Fixture {
    async fn reconcile(&self) -> ReconcileResult {
        self.bench.reconcile(&self.controller, "a").await
    }

    async fn pass(&self, seconds: u64) {
        self.bench.pass(Duration::from_secs(seconds)).await;
    }

    /// Status and reason of a condition of the claim.
    async fn condition(&self, condition_type: &str) -> (String, String) {
        let claim = self.bench.claim("a").await;
        let condition = condition_set::find(claim.conditions(), condition_type);
        let condition = condition.expect("the condition is there");
        (condition.status.clone(), condition.reason.clone())
    }

    /// Creates a deleted Node that is drained for long enough.
    async fn create_drained_node(&self, claim: Value) {
        self.bench.create_node_and_claim(node("a"), claim).await;
        self.bench.delete_node("a").await;
        assert_eq!(self.reconcile().await.unwrap(), after(1));
        self.pass(5).await;
    }
}

fn after(seconds: u64) -> Outcome {
    Outcome::RequeueAfter(Duration::from_secs(seconds))
}

fn status_and_reason(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

/// Returns the claim with a termination deadline.
fn claim_with_deadline(deadline: &str) -> Value {
    let annotations = json!({annotations::NODECLAIM_TERMINATION_TIMESTAMP: deadline});
    with(claim("a"), [("/metadata/annotations", annotations)])
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_is_drained_before_its_instance_is_terminated() {
    let given = fixture().await;
    given.bench.create_node("a").await;
    given.bench.delete_node("a").await;
    assert_eq!(given.reconcile().await.unwrap(), after(1), "40/TM-01");
    assert_eq!(
        given.condition(DRAINED).await,
        status_and_reason("Unknown", "Draining"),
        "40/TM-01"
    );
    let claim = given.bench.claim("a").await;
    assert!(claim.metadata.deletion_timestamp.is_some(), "40/TM-05");
    let tainted = given.bench.node("a").await;
    assert_eq!(label(&tainted, labels::EXCLUDE_BALANCERS), "karpenter", "40/TM-07");
    let taints = tainted.spec.unwrap().taints.unwrap();
    assert!(taints.contains(&taints::disrupted()), "40/TM-07: {taints:?}");

    given.pass(3).await;
    assert_eq!(given.reconcile().await.unwrap(), after(1), "40/TM-30");
    assert!(given.bench.cloud.calls().delete.is_empty(), "40/TM-30");
    given.pass(2).await;
    assert_eq!(given.reconcile().await.unwrap(), after(5), "40/TM-01");
    assert_eq!(given.condition(DRAINED).await, status_and_reason("True", "Drained"), "40/TM-01");
    assert_eq!(
        given.condition(VOLUMES_DETACHED).await,
        status_and_reason("True", "VolumesDetached")
    );
    let terminating = given.condition(INSTANCE_TERMINATING).await;
    assert_eq!(terminating, status_and_reason("True", "InstanceTerminating"), "40/TM-01");
    assert_eq!(given.bench.cloud.calls().delete.len(), 1, "40/TM-01");

    given.pass(5).await;
    assert_eq!(given.reconcile().await.unwrap(), Outcome::Done, "40/TM-01");
    assert_eq!(given.bench.find_node("a").await, None, "40/TM-01");
    let of_pool = ("nodepool", "pool");
    #[rustfmt::skip]
    let metrics: [(&str, &[(&str, &str)]); 4] = [
        ("karpenter_nodes_drained_total", &[of_pool]),
        ("karpenter_nodes_terminated_total", &[of_pool, ("zone", "zone-1")]),
        ("karpenter_nodes_termination_duration_seconds_count", &[of_pool]),
        ("karpenter_nodes_lifetime_duration_seconds_count", &[of_pool]),
    ];
    for (name, labels) in metrics {
        assert_eq!(given.bench.metric(name, labels), 1, "{name}");
    }
    for name in ["termination_duration_seconds", "lifetime_duration_seconds"] {
        let took = given.bench.metric(&format!("karpenter_nodes_{name}_sum"), &[of_pool]);
        assert!((9..=11).contains(&took), "40/Q17 {name}: {took}, by the clock that was injected");
    }
    assert_eq!(given.reconcile().await.unwrap(), Outcome::Done, "nothing more is done");
}

/// Upstream means to wait a second after it has written the claim.
#[tokio::test(start_paused = true)]
async fn writing_the_claim_conditions_does_not_delay_termination() {
    let given = fixture().await;
    given.create_drained_node(claim("a")).await;
    given.bench.cloud.lose_instance("fake:///a");
    let (context, faults) = given.bench.with_faults();
    let (ending, key) = (controller(&context, &given.evictions), ObjectKey::new("", "a"));
    let drained = || given.bench.metric("karpenter_nodes_drained_total", &[("nodepool", "pool")]);
    faults.fail("PATCH", "/nodeclaims/a/status", 409);
    assert_eq!(ending.reconcile(&key).await.unwrap(), Outcome::Requeue);
    assert_eq!(drained(), 0, "40/Q1: it was not written");
    let before = given.bench.context.clock.now();
    assert_eq!(ending.reconcile(&key).await.unwrap(), Outcome::Done);
    assert_eq!(given.bench.context.clock.now(), before, "40/Q1");
    assert_eq!(given.bench.find_node("a").await, None, "40/Q1");
    assert_eq!(given.condition(DRAINED).await, status_and_reason("True", "Drained"), "40/Q1");
    assert_eq!(drained(), 1, "40/Q1");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_on_removing_the_finalizer_is_retried() {
    let given = fixture().await;
    given.create_drained_node(claim("a")).await;
    given.bench.cloud.lose_instance("fake:///a");
    let (context, faults) = given.bench.with_faults();
    let (ending, key) = (controller(&context, &given.evictions), ObjectKey::new("", "a"));
    faults.fail("PATCH", "/nodes/a", 409);
    assert_eq!(ending.reconcile(&key).await.unwrap(), Outcome::Requeue);
    assert_eq!(ending.reconcile(&key).await.unwrap(), Outcome::Done);
    assert_eq!(given.bench.find_node("a").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_node_without_exactly_one_claim_is_drained_and_released() {
    for (case, claims) in [("40/TM-02", 0), ("40/TM-03", 2)] {
        let given = fixture().await;
        given.bench.create(node("a")).await;
        for number in 0..claims {
            let name = format!("claim-{number}");
            given.bench.create(with(claim("a"), [("/metadata/name", json!(name))])).await;
        }
        given.bench.delete_node("a").await;
        assert_eq!(given.reconcile().await.unwrap(), Outcome::Done, "{case}");
        assert_eq!(given.bench.find_node("a").await, None, "{case}");
        assert!(given.bench.cloud.calls().delete.is_empty(), "{case}");
        for number in 0..claims {
            let claim = given.bench.claim(&format!("claim-{number}")).await;
            assert_eq!(claim.metadata.deletion_timestamp, None, "{case}");
        }
        let drained = given.bench.metric("karpenter_nodes_drained_total", &[("nodepool", "pool")]);
        assert_eq!(drained, 0, "{case}: nobody could tell whether it was counted");
    }
}

#[tokio::test(start_paused = true)]
async fn unmanaged_nodes_are_not_terminated() {
    let given = fixture().await;
    let foreign = with(node("a"), [("/metadata/labels", json!({"karpenter.sh/nodepool": "pool"}))]);
    given.bench.create_node_and_claim(foreign, claim("a")).await;
    given.bench.delete_node("a").await;
    assert_eq!(given.reconcile().await.unwrap(), Outcome::Done, "40/TM-04");
    let kept = given.bench.node("a").await;
    assert!(kept.metadata.finalizers.is_some(), "40/TM-04");
    assert_eq!(label(&kept, labels::EXCLUDE_BALANCERS), "", "40/TM-04");
}

#[tokio::test(start_paused = true)]
async fn a_not_ready_node_without_instance_skips_the_drain() {
    let not_ready = with(
        node("a"),
        [("/status/conditions", json!([condition("Ready", "Unknown", "2026-01-01T00:00:00Z")]))],
    );
    for (case, node, goes) in [("40/TM-19", not_ready, true), ("40/TM-20", node("a"), false)] {
        let given = fixture().await;
        given.bench.create_node_and_claim(node, claim("a")).await;
        given.bench.create(pod("web", "a")).await;
        given.bench.cloud.lose_instance("fake:///a");
        given.bench.delete_node("a").await;
        let outcome = if goes { Outcome::Done } else { after(1) };
        assert_eq!(given.reconcile().await.unwrap(), outcome, "{case}");
        assert_eq!(given.bench.find_node("a").await.is_none(), goes, "{case}");
        assert_eq!(given.evictions.is_empty(), goes, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_on_an_instance_that_is_shutting_down_is_drained() {
    let given = fixture().await;
    let not_ready = with(node("a"), [("/status/conditions", json!([]))]);
    given.bench.create_node_and_claim(not_ready, claim("a")).await;
    given.bench.create(pod("web", "a")).await;
    let mut instance = given.bench.context.cloud.get("fake:///a").await.unwrap();
    let now = given.bench.context.clock.now();
    instance.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
    given.bench.cloud.put_instance(instance);
    given.bench.delete_node("a").await;
    assert_eq!(given.reconcile().await.unwrap(), after(1), "55 §11: Get finds it");
    assert!(given.bench.find_node("a").await.is_some(), "its pods are not drained yet");
    assert!(!given.evictions.is_empty(), "its pods are evicted");
    given.bench.cloud.lose_instance("fake:///a");
    assert_eq!(given.reconcile().await.unwrap(), Outcome::Done, "40/TM-19: it is terminated");
    assert!(given.bench.find_node("a").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_cloud_error_keeps_the_node() {
    let given = fixture().await;
    let not_ready = with(node("a"), [("/status/conditions", json!([]))]);
    given.bench.create_node_and_claim(not_ready, claim("a")).await;
    given.bench.delete_node("a").await;
    given.bench.cloud.fail_next_get(karpenter_operator::cloud::CloudError::other("no network"));
    let error = given.reconcile().await.unwrap_err();
    assert_eq!(error.to_string(), "getting nodeclaim, no network", "40/TM-21");
    assert!(given.bench.find_node("a").await.is_some(), "40/TM-21");
}

#[tokio::test(start_paused = true)]
async fn pods_are_evicted_before_the_instance_is_terminated() {
    let given = fixture().await;
    given.bench.create_node("a").await;
    given.bench.create(pod("web", "a")).await;
    let critical = with(
        pod("dns", "a"),
        [
            ("/spec/priorityClassName", json!("system-node-critical")),
            ("/spec/priority", json!(2_000_001_000)),
        ],
    );
    given.bench.create(critical).await;
    given.bench.delete_node("a").await;
    given.pass(10).await;
    assert_eq!(given.reconcile().await.unwrap(), after(1), "40/TM-15");
    let events = given.bench.event_texts();
    let text = "FailedDraining: Failed to drain node, 2 pods are waiting to be evicted";
    assert_eq!(events, [text], "40/TM-15");
    let has = |name: &str| {
        let pod = given.bench.context.cache.pods.get("default", name).unwrap();
        given.evictions.has(&pod)
    };
    assert_eq!([has("web"), has("dns")], [true, false], "40/TM-15");
    given.bench.remove_pod("web").await;
    assert_eq!(given.reconcile().await.unwrap(), after(1), "40/TM-15");
    assert!(has("dns"), "40/TM-15");
    given.bench.remove_pod("dns").await;
    given.pass(5).await;
    assert_eq!(given.reconcile().await.unwrap(), after(5), "40/TM-15");
}

#[tokio::test(start_paused = true)]
async fn pods_missing_from_the_cache_block_instance_termination() {
    let given = fixture().await;
    given.create_drained_node(claim("a")).await;
    let (context, faults) = given.bench.with_faults();
    let (ending, key) = (controller(&context, &given.evictions), ObjectKey::new("", "a"));
    faults.fail("GET", "/pods", 500);
    let error = ending.reconcile(&key).await.unwrap_err().to_string();
    assert!(error.starts_with("listing pods, "), "{error}");
    assert!(given.bench.cloud.calls().delete.is_empty(), "nobody knows what runs there");

    given.bench.tasks.stop().await;
    given.bench.create(pod("late", "a")).await;
    let cache = &given.bench.context.cache;
    assert!(cache.pods.is_empty(), "it is not told");
    assert_eq!(given.reconcile().await.unwrap(), after(1));
    assert!(given.bench.cloud.calls().delete.is_empty());
    assert_eq!(given.condition(DRAINED).await, status_and_reason("Unknown", "Draining"));
    assert_eq!(given.reconcile().await.unwrap(), after(1));
    let late = cache.pods.get("default", "late").expect("it is known now");
    assert!(given.evictions.has(&late));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_deletes_pods_that_cannot_be_evicted() {
    let given = fixture().await;
    given.bench.create_node_and_claim(node("a"), claim_with_deadline("2026-01-01T00:05:00Z")).await;
    let held = with(
        pod("web", "a"),
        [
            ("/metadata/annotations", json!({"karpenter.sh/do-not-disrupt": "true"})),
            ("/spec/terminationGracePeriodSeconds", json!(60)),
        ],
    );
    given.bench.create(held).await;
    given.bench.create(budget("one", "web")).await;
    given.bench.delete_node("a").await;
    let controllers = [
        eviction::controller(&given.bench.context, &given.evictions),
        controller(&given.bench.context, &given.evictions),
    ];
    given.bench.run(controllers);
    given.pass(90).await;
    let web = given.bench.pod("web").await.unwrap();
    assert_eq!(web.metadata.deletion_timestamp, None, "40/TM-23 at 90 s");
    let events = given.bench.event_texts();
    let text = "TerminationGracePeriodExpiring: All pods will be deleted by 2026-01-01T00:05:00Z";
    assert!(events.iter().any(|event| event == text), "{events:?}");
    given.pass(175).await;
    let web = given.bench.pod("web").await.unwrap();
    let grace = web.metadata.deletion_grace_period_seconds.unwrap();
    assert!((50..60).contains(&grace), "40/TM-23 at 265 s: {grace}");
}

#[tokio::test(start_paused = true)]
async fn many_nodes_terminate_concurrently() {
    let given = fixture().await;
    let names: Vec<_> = (0..20).map(|number| format!("node-{number}")).collect();
    for name in &names {
        given.bench.create_node(name).await;
        given.bench.delete_node(name).await;
    }
    let evictions = eviction::controller(&given.bench.context, &given.evictions);
    given.bench.run([evictions, controller(&given.bench.context, &given.evictions)]);
    given.pass(60).await;
    assert!(given.bench.context.cache.nodes.is_empty(), "40/TM-06");
    let labels = [("nodepool", "pool"), ("zone", "zone-1")];
    let gone = given.bench.metric("karpenter_nodes_terminated_total", &labels);
    assert_eq!(gone, 20, "40/TM-06");
    let drained = given.bench.metric("karpenter_nodes_drained_total", &labels[..1]);
    assert_eq!(drained, 20, "40/TM-06");
    assert_eq!(given.bench.cloud.calls().delete.len(), 40, "twice each: to end, and gone");
}

/// An attached volume, its claim, and a pod that has it.
async fn attach(given: &Fixture, pod: Value) {
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    given.bench.create(with(pod, [("/spec/volumes", volumes)])).await;
    given
        .bench
        .create(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {
                "volumeName": "pv-data", "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }))
        .await;
    given
        .bench
        .create(json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
            "metadata": {"name": "attachment"},
            "spec": {
                "attacher": "ebs.csi.aws.com", "nodeName": "a",
                "source": {"persistentVolumeName": "pv-data"},
            },
        }))
        .await;
}

#[tokio::test(start_paused = true)]
async fn attached_volumes_of_evicted_pods_block_termination() {
    let given = fixture().await;
    attach(&given, pod("db", "a")).await;
    given.bench.remove_pod("db").await;
    given.create_drained_node(claim("a")).await;
    given.bench.event_texts();
    assert_eq!(given.reconcile().await.unwrap(), after(1), "40/TM-31");
    let text =
        "AwaitingVolumeDetachment: Awaiting deletion of bound volumeattachments (attachment)";
    assert_eq!(given.bench.event_texts(), [text], "40/TM-31");
    let awaiting = status_and_reason("Unknown", "AwaitingVolumeDetachment");
    assert_eq!(given.condition(VOLUMES_DETACHED).await, awaiting, "40/TM-31");
    let drained = given.bench.metric("karpenter_nodes_drained_total", &[("nodepool", "pool")]);
    assert_eq!(drained, 1, "once");
    let api: Api<k8s_openapi::api::storage::v1::VolumeAttachment> =
        Api::all(given.bench.context.client.clone());
    api.delete("attachment", &DeleteParams::default()).await.unwrap();
    given.pass(1).await;
    assert_eq!(given.reconcile().await.unwrap(), after(5), "40/TM-31");
}

#[tokio::test(start_paused = true)]
async fn volumes_of_undrainable_pods_do_not_block_termination() {
    let given = fixture().await;
    let tolerations = json!([{"operator": "Exists"}]);
    attach(&given, with(pod("db", "a"), [("/spec/tolerations", tolerations)])).await;
    given.create_drained_node(claim("a")).await;
    assert_eq!(given.reconcile().await.unwrap(), after(5), "40/TM-32");
}

#[tokio::test(start_paused = true)]
async fn the_deadline_ends_the_wait_for_volumes() {
    let given = fixture().await;
    attach(&given, pod("db", "a")).await;
    given.bench.remove_pod("db").await;
    given.create_drained_node(claim_with_deadline("2025-12-31T00:00:00Z")).await;
    assert_eq!(given.reconcile().await.unwrap(), after(5), "40/TM-33");
    let given_up = status_and_reason("False", "TerminationGracePeriodElapsed");
    assert_eq!(given.condition(VOLUMES_DETACHED).await, given_up, "40/TM-33");
}

#[tokio::test(start_paused = true)]
async fn an_invalid_deadline_annotation_is_an_error() {
    let given = fixture().await;
    given.bench.create_node_and_claim(node("a"), claim_with_deadline("tomorrow")).await;
    given.bench.delete_node("a").await;
    let error = given.reconcile().await.unwrap_err().to_string();
    assert!(error.starts_with("parsing annotation, "), "40/TM-45: {error}");
    let annotation = "(annotation=karpenter.sh/nodeclaim-termination-timestamp)";
    assert!(error.ends_with(annotation), "40/TM-45: {error}");
    let taints = given.bench.node("a").await.spec.and_then(|spec| spec.taints).unwrap_or_default();
    let is_tainted = taints.iter().any(|taint| taint.key == "karpenter.sh/disrupted");
    assert!(is_tainted, "no pods come meanwhile");
}

#[test]
fn the_taint_replaces_one_of_the_same_key_and_another_effect() {
    let taint = |effect: &str, value: &str| Taint {
        effect: effect.to_owned(),
        value: Some(value.to_owned()),
        ..taints::disrupted()
    };
    let other = Taint { key: "other".to_owned(), ..taints::disrupted() };
    let cases = [
        ("none", vec![other.clone()], vec![other.clone(), taints::disrupted()]),
        ("40/TM-44", vec![taint("NoExecute", "")], vec![taints::disrupted()]),
        ("its value is left", vec![taint("NoSchedule", "x")], vec![taint("NoSchedule", "x")]),
    ];
    for (case, mut taints, expected) in cases {
        set_taint(&mut taints, &taints::disrupted());
        assert_eq!(taints, expected, "{case}");
    }
}
