//! Tests of node reboots: drain, provider calls, timeouts and failures.

use karpenter_cluster::wire::Pod;
use karpenter_core::termination::eviction::QueueEntry;
use karpenter_operator::cloud::CloudError;
use serde_json::{Value, json};

use super::*;
use crate::node::eviction;
use crate::node::testing::{budget, claim, condition, node, pod, with};
use crate::testing::Bench;

const START: &str = "2026-01-01T00:00:00Z";

struct Fixture {
    bench: Bench,
    evictions: Evictions,
    controller: Controller,
}

/// Creates a node with a requested reboot and this bound of its drain.
async fn fixture(bound: Option<&str>) -> Fixture {
    let bench = Bench::new().await;
    bench.create_node_and_claim(node("a"), claim_with_reboot_request(bound)).await;
    let evictions = Evictions::new(&bench.context);
    let controller = controller(&bench.context, &evictions);
    Fixture { bench, evictions, controller }
}

fn claim_with_reboot_request(bound: Option<&str>) -> Value {
    let requested = with(
        condition("Rebooting", "True", START),
        [("/reason", json!("RebootRequested")), ("/message", json!("rebooting for A/b"))],
    );
    let claim = with(claim("a"), [("/status/conditions/-", requested)]);
    match bound {
        None => claim,
        Some(bound) => {
            let annotations = json!({REBOOT_TERMINATION_GRACE_PERIOD: bound});
            with(claim, [("/metadata/annotations", annotations)])
        }
    }
}

/// Creates a fixture whose reboot the cloud has accepted.
async fn fixture_with_issued_reboot(bound: Option<&str>) -> Fixture {
    let given = Box::pin(fixture(bound)).await;
    let cold = Box::pin(given.reconcile_after(6)).await;
    assert_eq!(cold.unwrap(), Outcome::RequeueAfter(POLL_INTERVAL), "the order is taken");
    given
}

impl Fixture {
    async fn reconcile(&self) -> ReconcileResult {
        self.bench.reconcile(&self.controller, "a").await
    }

    async fn reconcile_after(&self, seconds: u64) -> ReconcileResult {
        self.bench.pass(Duration::from_secs(seconds)).await;
        self.reconcile().await
    }

    async fn has_rebooting_taint(&self) -> bool {
        let node = self.bench.node("a").await;
        node.spec.unwrap().taints.unwrap_or_default().iter().any(is_rebooting_taint)
    }

    /// The node has booted, and is ready or not.
    async fn boot(&self, id: &str, ready: &str) {
        let ready = condition("Ready", ready, START);
        self.bench
            .patch_status(json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
                "status": {"nodeInfo": {"bootID": id}, "conditions": [ready]},
            }))
            .await;
    }

    /// Status, reason and message of a condition of the claim.
    async fn condition(&self, condition_type: &str) -> [String; 3] {
        let claim = self.bench.claim("a").await;
        let found = condition_set::find(claim.conditions(), condition_type).expect("is there");
        [&found.status, &found.reason, &found.message].map(Clone::clone)
    }

    async fn is_deleting(&self) -> bool {
        self.bench.claim("a").await.metadata.deletion_timestamp.is_some()
    }

    fn reboots(&self) -> Vec<String> {
        self.bench.cloud.calls().reboot.into_iter().map(|(_, id)| id).collect()
    }

    fn counted(&self, result: &str) -> [usize; 2] {
        ["karpenter_nodes_reboots_total", "karpenter_nodes_reboot_duration_seconds_count"]
            .map(|name| self.bench.metric(name, &[("result", result)]))
    }

    fn cached(&self, pod: &str) -> Arc<Pod> {
        self.bench.context.cache.pods.get("default", pod).expect("is cached")
    }

    /// Restarts the process.
    fn restart(&mut self) {
        self.evictions = Evictions::new(&self.bench.context);
        self.controller = controller(&self.bench.context, &self.evictions);
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_node_is_tainted_and_rebooted_after_five_seconds() {
    let given = fixture(Some("1m")).await;
    let Outcome::RequeueAfter(wait) = given.reconcile().await.unwrap() else { panic!("it waits") };
    assert!(wait <= Duration::from_secs(5), "45/RB-1: {wait:?}");
    assert!(given.has_rebooting_taint().await, "45/RB-1");
    assert!(given.reboots().is_empty(), "45/RB-1");
    given.reconcile_after(6).await.unwrap();
    let uid = given.bench.claim("a").await.metadata.uid.unwrap();
    let id = format!("{uid}-1767225600000000000-boot-1");
    assert_eq!(given.reboots(), [id], "45/RB-1, 45/RB-4");

    let issued = ["True", "RebootIssued", "rebooting for A/b"].map(str::to_owned);
    assert_eq!(given.condition(REBOOTING).await, issued, "45/RB-3");
    let initialized = ["Unknown", "Rebooting", "node is rebooting"].map(str::to_owned);
    assert_eq!(given.condition(INITIALIZED).await, initialized, "45/RB-3");
    let claim = given.bench.claim("a").await;
    assert_eq!(annotation(&claim, REBOOT_PRE_BOOT_ID), Some("boot-1"), "45/RB-3");
    let node = given.bench.node("a").await;
    assert!(!node.metadata.labels.unwrap().contains_key(labels::INITIALIZED), "45/RB-3");
    assert!(given.has_rebooting_taint().await, "45/RB-3");
}

#[tokio::test(start_paused = true)]
async fn a_zero_drain_bound_skips_the_drain() {
    let given = fixture(Some("0s")).await;
    given.bench.create(pod("web", "a")).await;
    given.reconcile().await.unwrap();
    assert_eq!(given.reboots().len(), 1, "45/RB-2");
    assert!(given.evictions.is_empty(), "45/RB-2");
    assert_eq!(given.cached("web").metadata.deletion_timestamp, None, "45/RB-2");
}

#[tokio::test(start_paused = true)]
async fn a_reboot_rejected_by_the_cloud_replaces_the_node() {
    type MakeError = fn() -> CloudError;
    let cases: [(MakeError, &str); 3] = [
        (|| CloudError::NodeRebootNotImplemented, "reboot not implemented by the cloud provider"),
        (
            || CloudError::NodeRebootFailed("forbidden".into()),
            "reboot rejected by the cloud provider: forbidden",
        ),
        (
            || CloudError::not_found("gone"),
            "reboot rejected by the cloud provider: nodeclaim not found, gone",
        ),
    ];
    for (error, message) in cases {
        let given = fixture(Some("0s")).await;
        given.bench.cloud.fail_next_reboot(error());
        assert_eq!(given.reconcile().await.unwrap(), Outcome::Done, "45/RB-5: {message}");
        assert!(!given.has_rebooting_taint().await, "45/RB-5: {message}");
        assert!(given.is_deleting().await, "45/RB-5: {message}");
        assert_eq!(given.counted("provider_error"), [1; 2], "45/RB-5: {message}");
        assert_eq!(given.bench.event_texts(), [format!("RebootFailed: {message}")], "45/RB-5");
        assert_eq!(given.condition(REBOOTING).await[0], "True", "it stays on the claim");
    }
}

#[tokio::test(start_paused = true)]
async fn other_cloud_errors_are_retried_for_five_minutes() {
    let given = fixture(Some("0s")).await;
    given.bench.cloud.fail_next_reboot(CloudError::other("throttled"));
    let error = given.reconcile().await.unwrap_err();
    assert_eq!(error.to_string(), "issuing reboot, throttled", "45/RB-6");
    assert_eq!(given.condition(REBOOTING).await[1], "RebootRequested", "45/RB-6");
    given.reconcile_after(6 * 60).await.unwrap();
    assert!(given.is_deleting().await, "45/RB-6");
    assert_eq!(given.counted("provider_error"), [1; 2], "45/RB-6");
    let text = "RebootFailed: reboot was not issued within the issuance timeout";
    assert_eq!(given.bench.event_texts(), [text], "45/RB-6");
}

#[tokio::test(start_paused = true)]
async fn a_reboot_continues_after_a_process_restart() {
    for (case, boot, calls) in [("45/RB-7 changed", "boot-2", 0), ("45/RB-7 same", "boot-1", 1)] {
        let mut given = fixture(Some("0s")).await;
        given.bench.cloud.fail_next_reboot(CloudError::other("throttled"));
        given.reconcile().await.unwrap_err();
        given.restart();
        given.boot(boot, "False").await;
        given.reconcile_after(6 * 60).await.unwrap();
        assert_eq!(given.reboots().len(), calls, "{case}");
        assert_eq!(given.condition(REBOOTING).await[1], "RebootIssued", "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_not_evicted_in_time_stay_during_the_reboot() {
    let given = fixture(Some("1m")).await;
    given.bench.create(pod("web", "a")).await;
    given.bench.create(budget("one", "web")).await;
    let held = json!({"karpenter.sh/do-not-disrupt": "true"});
    given.bench.create(with(pod("held", "a"), [("/metadata/annotations", held)])).await;
    let queue = eviction::controller(&given.bench.context, &given.evictions);
    given.bench.run([queue]);
    given.reconcile().await.unwrap();
    given.reconcile_after(45).await.unwrap();
    assert!(given.reboots().is_empty(), "45/RB-8 at 45 s");
    assert_eq!(given.evictions.len(), 2, "45/RB-8 at 45 s");
    given.reconcile_after(30).await.unwrap();
    assert_eq!(given.reboots().len(), 1, "45/RB-8 at 75 s");
    given.bench.pass(Duration::from_secs(15)).await;
    for name in ["web", "held"] {
        assert_eq!(given.cached(name).metadata.deletion_timestamp, None, "45/RB-8: {name}");
    }
    assert!(given.evictions.is_empty(), "45/RB-8");
}

#[tokio::test(start_paused = true)]
async fn without_a_drain_bound_the_reboot_waits_for_every_pod() {
    let given = fixture(None).await;
    given.bench.create(pod("web", "a")).await;
    given.reconcile().await.unwrap();
    assert_eq!(
        given.reconcile_after(24 * 3600).await.unwrap(),
        Outcome::RequeueAfter(POLL_INTERVAL),
        "45/RB-9"
    );
    assert!(given.reboots().is_empty(), "45/RB-9");
    assert!(given.evictions.has(&given.cached("web")), "45/RB-9");
    given.bench.remove_pod("web").await;
    given.reconcile().await.unwrap();
    assert_eq!(given.reboots().len(), 1, "45/RB-9");
}

#[tokio::test(start_paused = true)]
async fn an_invalid_reboot_request_fails_and_keeps_the_node() {
    for bound in ["5min", "-5m"] {
        let given = fixture(Some(bound)).await;
        assert_eq!(given.reconcile().await.unwrap(), Outcome::Done, "45/RB-10: {bound}");
        let [status, reason, message] = given.condition(REBOOTING).await;
        assert_eq!([status, reason], ["False", "RebootFailed"], "45/RB-10: {bound}");
        assert!(message.starts_with("invalid reboot request: "), "45/RB-10: {message}");
        assert!(!given.is_deleting().await, "45/RB-10: {bound}");
        assert!(given.reboots().is_empty(), "45/RB-10: {bound}");
        assert_eq!(given.counted("invalid_request"), [1; 2], "45/RB-10: {bound}");
        assert_eq!(given.bench.event_texts(), [format!("RebootFailed: {message}")], "45/RB-10");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reboot_waits_for_a_missing_node_until_the_timeout() {
    let gone = async |given: &Fixture| {
        let finalizers = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "a", "finalizers": null},
        });
        given.bench.patch(finalizers).await;
        given.bench.delete_node("a").await;
    };
    let requested = fixture(Some("1m")).await;
    gone(&requested).await;
    assert_eq!(
        requested.reconcile().await.unwrap(),
        Outcome::RequeueAfter(POLL_INTERVAL),
        "45/RB-11 requested"
    );
    requested.reconcile_after(6 * 60).await.unwrap();
    assert!(requested.is_deleting().await, "45/RB-11 requested");
    assert_eq!(requested.counted("provider_error"), [1; 2], "45/RB-11 requested");

    let issued = fixture_with_issued_reboot(Some("1m")).await;
    gone(&issued).await;
    assert_eq!(
        issued.reconcile().await.unwrap(),
        Outcome::RequeueAfter(POLL_INTERVAL),
        "45/RB-11 issued"
    );
    issued.reconcile_after(21 * 60).await.unwrap();
    assert!(issued.is_deleting().await, "45/RB-11 issued");
    assert_eq!(issued.counted("recovery_timeout"), [1; 2], "45/RB-11 issued");
}

#[tokio::test(start_paused = true)]
async fn a_ready_node_with_a_new_boot_id_has_rebooted() {
    let given = fixture_with_issued_reboot(Some("1m")).await;
    given.boot("boot-2", "False").await;
    assert_eq!(given.reconcile().await.unwrap(), Outcome::RequeueAfter(POLL_INTERVAL), "45/RB-12");
    assert!(!given.has_rebooting_taint().await, "45/RB-12");
    given.reconcile().await.unwrap();
    let text = "RebootObserved: New boot observed (bootID changed); awaiting node readiness";
    assert_eq!(given.bench.event_texts(), [text], "45/RB-12: once");
    assert_eq!(given.condition(REBOOTING).await[0], "True", "45/RB-12");

    given.boot("boot-2", "True").await;
    assert_eq!(given.reconcile().await.unwrap(), Outcome::Done, "45/RB-13");
    let succeeded = ["False", "RebootSucceeded", "node rebooted and rejoined the cluster"];
    assert_eq!(given.condition(REBOOTING).await, succeeded.map(str::to_owned), "45/RB-13");
    assert_eq!(given.counted("succeeded"), [1; 2], "45/RB-13");
    let recovery = "karpenter_nodes_reboot_recovery_duration_seconds";
    let registry = given.bench.context.metrics.registry();
    assert_eq!(registry.value(recovery, &[]), Some(1.0), "45/RB-13");
    let claim = given.bench.claim("a").await;
    assert_eq!(annotation(&claim, REBOOT_PRE_BOOT_ID), None, "45/RB-13");

    // A second time, with the same boot to start from and with other ids.
    let first = given.reboots();
    given.bench.pass(Duration::from_hours(1)).await;
    let conditions = claim_with_reboot_request(None)["status"]["conditions"].clone();
    let conditions: Vec<_> = conditions
        .as_array()
        .expect("a list")
        .iter()
        .map(|condition| {
            let is_requested = condition["type"] == "Rebooting";
            let since = if is_requested { "2026-01-01T01:00:00Z" } else { START };
            with(condition.clone(), [("/lastTransitionTime", json!(since))])
        })
        .collect();
    given
        .bench
        .patch_status(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "a"},
            "status": {"conditions": conditions},
        }))
        .await;
    given.reconcile_after(6).await.unwrap();
    let [_, second] = given.reboots().try_into().expect("45/RB-14: two calls");
    assert_ne!(first[0], second, "45/RB-14");
    assert!(second.ends_with("-boot-2"), "45/RB-14: {second}");
}

#[tokio::test(start_paused = true)]
async fn a_successful_reboot_is_counted_once_despite_a_stale_cache() {
    let given = fixture_with_issued_reboot(Some("1m")).await;
    given.boot("boot-2", "True").await;
    // The cache of the second one has not seen what the first one wrote.
    let (late, faults) = given.bench.with_faults();
    faults.fail("PATCH", "/nodeclaims/a", 409);
    let late = controller(&late, &given.evictions);
    assert_eq!(given.bench.reconcile(&late, "a").await.unwrap(), Outcome::Requeue, "45/RB-13");
    assert_eq!(given.counted("succeeded"), [0; 2], "45/RB-13");
    given.reconcile().await.unwrap();
    assert_eq!(given.counted("succeeded"), [1; 2], "45/RB-13");
}

#[tokio::test(start_paused = true)]
async fn an_unrecovered_node_is_replaced_with_the_same_drain_bound() {
    #[rustfmt::skip]
    let cases = [
        // bound       stamp before                     stamp after
        (Some("5m"),   None,                            Some("2026-01-01T00:26:06Z")),
        (Some("5m"),   Some("2026-01-01T00:10:00Z"),    Some("2026-01-01T00:10:00Z")),
        (None,         None,                            None),
    ];
    for (bound, before, after) in cases {
        let given = fixture_with_issued_reboot(bound).await;
        if let Some(stamp) = before {
            let annotations = json!({NODECLAIM_TERMINATION_TIMESTAMP: stamp});
            let manifest = json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": {"name": "a", "annotations": annotations},
            });
            given.bench.patch(manifest).await;
        }
        given.reconcile_after(21 * 60).await.unwrap();
        assert!(given.is_deleting().await, "45/RB-15: {bound:?}");
        let claim = given.bench.claim("a").await;
        let stamp = annotation(&claim, NODECLAIM_TERMINATION_TIMESTAMP);
        assert_eq!(stamp, after, "45/RB-15: {bound:?}");
        let text = "RebootFailed: node did not recover within the observation window";
        assert_eq!(given.bench.event_texts(), [text], "45/RB-15: {bound:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_claim_deletion_is_retried_and_emits_one_event() {
    let mut given = fixture_with_issued_reboot(None).await;
    let (context, faults) = given.bench.with_faults();
    faults.fail("DELETE", "/nodeclaims/a", 500);
    let good = std::mem::replace(&mut given.controller, controller(&context, &given.evictions));
    let error = given.reconcile_after(21 * 60).await.unwrap_err();
    assert_eq!(error.to_string(), "made to fail with 500", "45/RB-16");
    assert!(!given.is_deleting().await, "45/RB-16");
    assert_eq!(given.condition(REBOOTING).await[0], "True", "45/RB-16");
    assert!(given.bench.event_texts().is_empty(), "45/RB-16");
    assert_eq!(given.counted("recovery_timeout"), [0; 2], "45/RB-16");
    given.controller = good;
    given.reconcile().await.unwrap();
    assert!(given.is_deleting().await, "45/RB-16");
    assert_eq!(given.counted("recovery_timeout"), [1; 2], "45/RB-16");
}

#[tokio::test(start_paused = true)]
async fn deleted_and_unmanaged_claims_are_not_rebooted() {
    let given = fixture(Some("0s")).await;
    given.bench.delete_claim("a").await;
    assert_eq!(given.reconcile().await.unwrap(), Outcome::Done, "45/RB-17");
    assert!(!given.has_rebooting_taint().await, "45/RB-17");
    assert!(given.reboots().is_empty(), "45/RB-17");

    let bench = Bench::new().await;
    let foreign =
        with(claim_with_reboot_request(Some("0s")), [("/spec/nodeClassRef/kind", json!("Other"))]);
    bench.create_node_and_claim(node("a"), foreign).await;
    let controller = controller(&bench.context, &Evictions::new(&bench.context));
    assert_eq!(bench.reconcile(&controller, "a").await.unwrap(), Outcome::Done, "45 §17 #6");
    assert!(bench.cloud.calls().reboot.is_empty(), "45 §17 #6");
}

#[tokio::test(start_paused = true)]
async fn a_reboot_does_not_weaken_a_forced_eviction() {
    let given = fixture(Some("1m")).await;
    given.bench.create(pod("web", "a")).await;
    let deadline = given.bench.context.clock.now();
    given.evictions.add(
        &given.cached("web"),
        QueueEntry::ForceDelete(Some(deadline)),
        Duration::ZERO,
    );
    given.reconcile().await.unwrap();
    let queue = eviction::controller(&given.bench.context, &given.evictions);
    given.bench.reconcile_pod(&queue, "web").await.unwrap();
    let web = given.bench.pod("web").await.unwrap();
    assert!(web.metadata.deletion_timestamp.is_some(), "45/EV-3");
}
