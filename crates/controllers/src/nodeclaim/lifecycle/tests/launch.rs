//! Tests of the launch of NodeClaims.

use karpenter_operator::cloud::CloudError;
use karpenter_operator::harness::Outcome;
use serde_json::json;

use super::super::launch::adopt_launch;
use super::*;
use crate::testing::fixtures::{condition, has, node_claim, pod};

#[tokio::test(start_paused = true)]
async fn a_new_claim_gets_a_finalizer_and_an_instance() {
    let (bench, lifecycle) = bench().await;
    let claim = bench.launched(&lifecycle, node_claim("a", &json!({}))).await;
    assert_eq!(claim.finalizers(), [TERMINATION], "40/LC-01");
    assert!(objects::provider_id(&claim).starts_with("fake:///i-"), "40/LC-01");
    assert!(!objects::label(&claim, "node.kubernetes.io/instance-type").is_empty(), "40/LC-01");
    let status = claim.status.as_ref().unwrap();
    assert!(status.capacity.is_some() && status.allocatable.is_some(), "40/LC-01");
    assert_eq!(condition(&claim, "Registered").1, "NodeNotFound");
    assert_eq!(condition(&claim, "Initialized").1, "AwaitingReconciliation", "40/LC-23");
    let again = bench.reconcile(&lifecycle, "a").await.unwrap();
    assert!(matches!(again, Outcome::RequeueAfter(_)), "until the registration timeout: {again:?}");
    let calls = bench.cloud.calls().create;
    assert_eq!(calls.len(), 1, "40/LC-01");
    assert_eq!(calls[0].finalizers(), [TERMINATION], "the finalizer comes first");
}

#[tokio::test(start_paused = true)]
async fn unmanaged_claims_are_not_touched() {
    let (bench, lifecycle) = bench().await;
    let foreign = json!({"spec": {"nodeClassRef": {"kind": "OtherClass"}}});
    let before = bench.create(node_claim("a", &foreign)).await;
    bench.pass(std::time::Duration::from_hours(1)).await;
    for controller in crate::nodeclaim::all(&bench.context).iter().chain([&lifecycle]) {
        assert!(bench.reconcile(controller, "a").await.is_ok(), "40/LC-02");
    }
    let after = bench.claim("a").await;
    assert_eq!(after.resource_version(), before.resource_version(), "40/LC-02");
    assert!(bench.cloud.calls().create.is_empty(), "40/LC-02");
}

#[test]
fn cloud_annotations_override_those_of_the_claim() {
    let claim = |value: &str, id: Option<&str>| -> NodeClaim {
        let changes = json!({
            "metadata": {"labels": {"x": value}, "annotations": {"x": value}},
            "status": {"providerID": id, "lastPodEventTime": "2026-01-01T00:00:00Z"},
        });
        serde_json::from_value(node_claim("a", &changes)).unwrap()
    };
    let mut own = claim("a", None);
    adopt_launch(&mut own, &claim("b", Some("i")));
    assert_eq!((&*own.labels()["x"], &*own.annotations()["x"]), ("a", "b"), "40/LC-03");
    let status = own.status.unwrap();
    assert_eq!(status.provider_id.as_deref(), Some("i"));
    assert!(status.last_pod_event_time.is_some(), "the rest of the status stays");
}

#[tokio::test(start_paused = true)]
async fn claim_labels_override_those_of_the_cloud() {
    let (bench, lifecycle) = bench().await;
    let own = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "mine"}}});
    let claim = bench.launched(&lifecycle, node_claim("a", &own)).await;
    assert_eq!(objects::label(&claim, "topology.kubernetes.io/zone"), "mine", "40/LC-03, 10/KY-6");
}

#[tokio::test(start_paused = true)]
async fn a_launch_is_not_repeated_after_a_failed_status_write() {
    let bench = Bench::new().await;
    let (context, faults) = bench.with_faults();
    let lifecycle = controller(&context);
    bench.create(node_claim("a", &json!({}))).await;
    for code in [500, 409] {
        faults.fail("PATCH", "/nodeclaims/a/status", code);
        let result = bench.reconcile(&lifecycle, "a").await;
        match code {
            409 => assert_eq!(result.unwrap(), Outcome::Requeue, "a conflict is no error"),
            _ => assert!(result.is_err(), "40/LC-04"),
        }
        assert!(!has(&bench.claim("a").await, "Launched", "True"));
    }
    bench.reconcile(&lifecycle, "a").await.unwrap();
    assert!(has(&bench.claim("a").await, "Launched", "True"), "40/LC-04");
    assert_eq!(bench.cloud.calls().create.len(), 1, "40/LC-04");
}

#[tokio::test(start_paused = true)]
async fn a_restart_after_the_launch_creates_the_same_claim_again() {
    let bench = Bench::new().await;
    let (context, faults) = bench.with_faults();
    bench.create(node_claim("a", &json!({}))).await;
    faults.fail("PATCH", "/nodeclaims/a/status", 500);
    assert!(bench.reconcile(&controller(&context), "a").await.is_err());
    // The next process knows nothing. The provider does: name and uid are those of the first call.
    bench.reconcile(&controller(&context), "a").await.unwrap();
    let calls = bench.cloud.calls().create;
    assert_eq!(calls.len(), 2);
    assert_eq!((calls[0].name_any(), calls[0].uid()), (calls[1].name_any(), calls[1].uid()));
    // And once it is written, the cloud is not called again.
    bench.reconcile(&controller(&context), "a").await.unwrap();
    assert_eq!(bench.cloud.calls().create.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_launched_without_the_finalizer() {
    let bench = Bench::new().await;
    let (context, faults) = bench.with_faults();
    let lifecycle = controller(&context);
    bench.create(node_claim("a", &json!({}))).await;
    for (code, end) in [(409, Outcome::Requeue), (404, Outcome::Done)] {
        faults.fail("PATCH", "/nodeclaims/a", code);
        assert_eq!(bench.reconcile(&lifecycle, "a").await.unwrap(), end, "{code}");
    }
    faults.fail("PATCH", "/nodeclaims/a", 500);
    assert!(bench.reconcile(&lifecycle, "a").await.is_err());
    assert!(bench.cloud.calls().create.is_empty());
}

#[tokio::test(start_paused = true)]
async fn insufficient_capacity_deletes_the_claim_and_notifies_its_pods() {
    let (bench, lifecycle) = bench().await;
    for (name, node) in [("waits", None), ("bound", Some("elsewhere"))] {
        bench.create(pod(name, node, &json!({}))).await;
    }
    bench.create(node_claim("a", &json!({}))).await;
    for pod in ["waits", "bound", "virtual"] {
        bench.context.mirror.map_pod_to_claim("default", pod, "a");
    }
    // It counts inside of others, too.
    let error = CloudError::insufficient_capacity("no c5").context("launching").context("asking");
    bench.cloud.fail_next_create(error);
    assert_eq!(bench.reconcile(&lifecycle, "a").await.unwrap(), Outcome::Done, "40/LC-05");
    let claim = bench.claim("a").await;
    assert!(claim.metadata.deletion_timestamp.is_some(), "40/LC-05, 40/LC-09");
    let text = "asking, launching, insufficient capacity, no c5";
    let event = |message: String| ("InsufficientCapacityError".to_owned(), message);
    let expected = [
        event(format!("NodeClaim a event: {text}")),
        event(format!("NodeClaim a nominated for this pod failed to launch: {text}")),
    ];
    assert_eq!(bench.events(), expected, "40/LC-05, 45/LC-1");
    let labels = [("reason", "insufficient_capacity"), ("nodepool", "general")];
    assert_eq!(bench.metric("karpenter_nodeclaims_disrupted_total", &labels), 1, "40/LC-05");
    bench.reconcile(&lifecycle, "a").await.unwrap();
    assert!(bench.get::<NodeClaim>("", "a").await.is_none(), "it goes without an instance");
}

#[tokio::test(start_paused = true)]
async fn a_not_ready_node_class_deletes_the_claim_without_events() {
    let (bench, lifecycle) = bench().await;
    bench.create(node_claim("a", &json!({}))).await;
    bench.cloud.fail_next_create(CloudError::node_class_not_ready("no subnets"));
    assert_eq!(bench.reconcile(&lifecycle, "a").await.unwrap(), Outcome::Done, "40/LC-06");
    assert!(bench.claim("a").await.metadata.deletion_timestamp.is_some(), "40/LC-06");
    assert_eq!(bench.events(), [], "40/LC-06");
    let labels = [("reason", "nodeclass_not_ready"), ("termination_mode", "graceful")];
    assert_eq!(bench.metric("karpenter_nodeclaims_disrupted_total", &labels), 1, "40/LC-06");
}

#[tokio::test(start_paused = true)]
async fn a_failed_launch_of_a_deleted_claim_is_not_counted() {
    let bench = Bench::new().await;
    let (context, faults) = bench.with_faults();
    let lifecycle = controller(&context);
    bench.create(node_claim("a", &json!({}))).await;
    bench.cloud.fail_next_create(CloudError::insufficient_capacity("no c5"));
    faults.fail("DELETE", "/nodeclaims/a", 404);
    assert_eq!(bench.reconcile(&lifecycle, "a").await.unwrap(), Outcome::Done);
    assert_eq!(bench.metric("karpenter_nodeclaims_disrupted_total", &[]), 0);
}

#[tokio::test(start_paused = true)]
async fn other_launch_errors_set_the_condition_and_are_retried() {
    let (bench, lifecycle) = bench().await;
    let explained = || CloudError::Create {
        reason: "NoRole".to_owned(),
        message: "the role is gone".to_owned(),
        source: "x".into(),
    };
    let cases = [
        ("40/LC-07", explained(), "NoRole", "the role is gone".to_owned()),
        ("40/LC-07: inside", explained().context("y"), "NoRole", "the role is gone".to_owned()),
        ("45/LC-2", CloudError::other("x".repeat(1024)), "LaunchFailed", "x".repeat(1024)),
        (
            "40/LC-08, 45/LC-2",
            CloudError::other("x".repeat(1100)),
            "LaunchFailed",
            format!("{}...", "x".repeat(1021)),
        ),
    ];
    bench.create(node_claim("a", &json!({}))).await;
    for (case, error, reason, message) in cases {
        let text = error.to_string();
        bench.cloud.fail_next_create(error);
        let error = bench.reconcile(&lifecycle, "a").await.unwrap_err();
        assert_eq!(error.to_string(), format!("launching nodeclaim, {text}"), "{case}");
        let expected = ("Unknown".to_owned(), reason.to_owned(), message);
        assert_eq!(condition(&bench.claim("a").await, "Launched"), expected, "{case}");
    }
    assert_eq!(bench.events(), []);
    bench.reconcile(&lifecycle, "a").await.unwrap();
    assert!(has(&bench.claim("a").await, "Launched", "True"));
}
