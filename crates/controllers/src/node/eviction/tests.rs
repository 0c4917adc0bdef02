//! Tests of the eviction queue: evictions, PodDisruptionBudgets, deadlines and recreated pods.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;

use super::*;
use crate::node::testing::{budget, claim, condition, node, pod, with};
use crate::testing::Bench;

const REQUESTS: &str = "karpenter_pods_eviction_requests_total";
const DRAINED: &str = "karpenter_pods_drained_total";

struct Fixture {
    bench: Bench,
    evictions: Evictions,
    controller: Controller,
}

/// Creates a node and this pod, which is called `web`.
async fn fixture(manifest: serde_json::Value) -> Fixture {
    let bench = Bench::new().await;
    bench.create_node("a").await;
    bench.create(manifest).await;
    let evictions = Evictions::new(&bench.context);
    let controller = controller(&bench.context, &evictions);
    Fixture { bench, evictions, controller }
}

impl Fixture {
    /// Queues the pod for eviction and reconciles it once.
    async fn queue_and_reconcile(&self, entry: QueueEntry) -> ReconcileResult {
        self.evictions.add(&self.cached(), entry, Duration::ZERO);
        self.bench.reconcile_pod(&self.controller, "web").await
    }

    fn cached(&self) -> Arc<Pod> {
        self.bench.context.cache.pods.get("default", "web").expect("is cached")
    }

    fn deadline_in(&self, seconds: i64) -> Timestamp {
        self.bench.context.clock.now() + SignedDuration::from_secs(seconds)
    }

    /// Makes the API server answer the next eviction and deletion with a code.
    fn failing_with(self, code: u16) -> Self {
        let (context, faults) = self.bench.with_faults();
        faults.fail("POST", "/pods/web/eviction", code);
        faults.fail("DELETE", "/pods/web", code);
        Self { controller: controller(&context, &self.evictions), ..self }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_a_pdb_is_evicted() {
    let given = fixture(pod("web", "a")).await;
    let outcome = given.queue_and_reconcile(QueueEntry::ForceDelete(None)).await.unwrap();
    assert_eq!(outcome, Outcome::Done);
    let evicted = given.bench.pod("web").await.unwrap();
    assert!(evicted.metadata.deletion_timestamp.is_some(), "40/TM-10");
    assert_eq!(given.bench.event_texts(), ["Evicted: Evicted pod: Forceful Termination"]);
    assert_eq!(given.bench.metric(REQUESTS, &[("code", "200")]), 1);
    let reason = ("reason", "Forceful Termination");
    assert_eq!(given.bench.metric(DRAINED, &[reason]), 1);
    assert!(given.evictions.is_empty());
}

#[tokio::test(start_paused = true)]
async fn eviction_events_name_the_disruption_reason() {
    let bench = Bench::new().await;
    let reason = with(
        condition("DisruptionReason", "True", "2026-01-01T00:00:00Z"),
        [("/reason", json!("Drifted"))],
    );
    let disrupted = with(claim("a"), [("/status/conditions/-", reason)]);
    bench.create_node_and_claim(node("a"), disrupted).await;
    bench.create(pod("web", "a")).await;
    let evictions = Evictions::new(&bench.context);
    let controller = controller(&bench.context, &evictions);
    let given = Fixture { bench, evictions, controller };
    given.queue_and_reconcile(QueueEntry::ForceDelete(None)).await.unwrap();
    assert_eq!(given.bench.event_texts(), ["Evicted: Evicted pod: Drifted"], "40/TM-43");
    assert_eq!(given.bench.metric(DRAINED, &[("reason", "Drifted")]), 1, "40/TM-43");
}

#[tokio::test(start_paused = true)]
async fn a_pdb_keeps_the_pod_in_the_eviction_queue() {
    let given = fixture(pod("web", "a")).await;
    given.bench.create(budget("one", "web")).await;
    let entry = QueueEntry::Timeout(given.deadline_in(60));
    assert_eq!(given.queue_and_reconcile(entry).await.unwrap(), Outcome::Requeue, "40/TM-13");
    let text =
        "FailedDraining: Failed to drain node, evicting pod violates a PDB (Pod=default/web)";
    assert_eq!(given.bench.event_texts(), [text], "40/TM-13");
    assert_eq!(given.bench.metric(REQUESTS, &[("code", "429")]), 1, "40/TM-13");
    assert!(given.evictions.has(&given.cached()), "40/TM-13");
    assert_eq!(given.cached().metadata.deletion_timestamp, None, "45/EV-1");

    given.bench.pass(Duration::from_secs(61)).await;
    let outcome = given.bench.reconcile_pod(&given.controller, "web").await.unwrap();
    assert_eq!((outcome, given.evictions.len()), (Outcome::Done, 0), "45/EV-2");
    assert_eq!(given.cached().metadata.deletion_timestamp, None, "45/EV-2");
}

#[tokio::test(start_paused = true)]
async fn two_pdbs_keep_the_pod_in_the_eviction_queue() {
    let given = fixture(pod("web", "a")).await;
    given.bench.create(budget("one", "web")).await;
    given.bench.create(budget("two", "web")).await;
    assert_eq!(
        given.queue_and_reconcile(QueueEntry::ForceDelete(None)).await.unwrap(),
        Outcome::Requeue,
        "40/TM-14"
    );
    let text = "FailedDraining: Failed to drain node, eviction does not support multiple PDBs \
                (Pod=default/web)";
    assert_eq!(given.bench.event_texts(), [text], "40/TM-14");
    assert_eq!(given.bench.metric(REQUESTS, &[("code", "500")]), 1, "40/TM-14");
}

#[tokio::test(start_paused = true)]
async fn a_pdb_violation_on_a_deleted_node_emits_no_event() {
    let given = fixture(pod("web", "gone")).await;
    given.bench.create(budget("one", "web")).await;
    assert_eq!(
        given.queue_and_reconcile(QueueEntry::ForceDelete(None)).await.unwrap(),
        Outcome::Done,
        "45/EV-4"
    );
    assert!(given.bench.event_texts().is_empty(), "45/EV-4");
    assert!(given.evictions.is_empty(), "45 §17 #8");
}

/// Upstream keeps the entry of the first one for ever.
#[tokio::test(start_paused = true)]
async fn a_recreated_pod_is_not_evicted_and_no_entry_leaks() {
    let given = fixture(pod("web", "a")).await;
    given.evictions.add(&given.cached(), QueueEntry::ForceDelete(None), Duration::ZERO);
    given.bench.remove_pod("web").await;
    given.bench.create(pod("web", "a")).await;
    given.bench.reconcile_pod(&given.controller, "web").await.unwrap();
    let namesake = given.bench.pod("web").await.unwrap();
    assert_eq!(namesake.metadata.deletion_timestamp, None, "40/TM-16");
    assert!(given.evictions.is_empty(), "40/TM-16, 40/Q6");
    assert!(given.bench.event_texts().is_empty(), "40/TM-16");

    given.evictions.add(&given.cached(), QueueEntry::ForceDelete(None), Duration::ZERO);
    given.bench.remove_pod("web").await;
    given.bench.reconcile_pod(&given.controller, "web").await.unwrap();
    assert!(given.evictions.is_empty(), "40/Q6: none of that name is left");
}

/// Upstream's queue holds 10,000 pods; adding one more blocks, with a lock held, until one leaves.
#[tokio::test(start_paused = true)]
async fn the_eviction_queue_is_unbounded() {
    const PODS: usize = 10_100;
    let given = fixture(pod("web", "a")).await;
    for number in 0..PODS {
        let mut leaving = Pod::clone(&given.cached());
        leaving.metadata.name = Some(format!("web-{number}"));
        given.evictions.add(&leaving, QueueEntry::ForceDelete(None), Duration::ZERO);
    }
    assert_eq!(given.evictions.len(), PODS, "40/Q13");
    // None of them exists, so the first reconcile removes each from the queue.
    given.bench.run([controller(&given.bench.context, &given.evictions)]);
    given.bench.settle().await;
    assert!(given.evictions.is_empty(), "40/Q13");
}

#[tokio::test(start_paused = true)]
async fn deleted_and_recreated_pods_leave_the_eviction_queue() {
    for (case, code, entry_in) in [
        ("40/TM-17", 404, None),
        ("40/TM-17", 409, None),
        ("40/TM-29", 404, Some(10)),
        ("other uid", 409, Some(10)),
    ] {
        let given = fixture(pod("web", "a")).await.failing_with(code);
        let entry = QueueEntry::ForceDelete(entry_in.map(|seconds| given.deadline_in(seconds)));
        assert_eq!(given.queue_and_reconcile(entry).await.unwrap(), Outcome::Done, "{case}");
        assert!(given.evictions.is_empty(), "{case}");
        assert_eq!(given.bench.metric(DRAINED, &[("reason", "")]), 0, "{case}");
        if entry_in.is_none() {
            assert!(given.bench.event_texts().is_empty(), "{case}");
            let code = code.to_string();
            assert_eq!(given.bench.metric(REQUESTS, &[("code", &code)]), 1, "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn other_api_errors_are_retried() {
    let given = fixture(pod("web", "a")).await.failing_with(503);
    let error = given.queue_and_reconcile(QueueEntry::ForceDelete(None)).await.unwrap_err();
    assert_eq!(error.to_string(), "made to fail with 503");
    assert_eq!(given.bench.metric(REQUESTS, &[("code", "503")]), 1);
    assert!(given.evictions.has(&given.cached()));
    let error = given
        .queue_and_reconcile(QueueEntry::ForceDelete(Some(given.deadline_in(5))))
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "force-deleting pod, made to fail with 503");
}

#[tokio::test(start_paused = true)]
async fn a_pod_at_its_deadline_is_deleted_despite_pdb_and_do_not_disrupt() {
    let held = with(
        pod("web", "a"),
        [
            ("/metadata/annotations", json!({"karpenter.sh/do-not-disrupt": "true"})),
            ("/spec/terminationGracePeriodSeconds", json!(300)),
        ],
    );
    #[rustfmt::skip]
    let cases = [
        ("40/TM-22", 291, 290, "2026-01-01 00:04:51 +0000 UTC"),
        ("40/TM-26", -3600, 1, "2025-12-31 23:00:00 +0000 UTC"),
    ];
    for (case, deadline, grace, time) in cases {
        let given = fixture(held.clone()).await;
        given.bench.create(budget("one", "web")).await;
        // The first reconcile finds the pod protected; the deadline comes later.
        assert_eq!(
            given.queue_and_reconcile(QueueEntry::ForceDelete(None)).await.unwrap(),
            Outcome::Requeue,
            "{case}"
        );
        given.bench.event_texts();
        // Deadlines are whole seconds, and some milliseconds have passed.
        let start = Timestamp::from_second(given.deadline_in(0).as_second()).unwrap();
        let at = start + SignedDuration::from_secs(deadline);
        given.queue_and_reconcile(QueueEntry::ForceDelete(Some(at))).await.unwrap();
        let deleted = given.bench.pod("web").await.unwrap();
        assert_eq!(deleted.metadata.deletion_grace_period_seconds, Some(grace), "{case}");
        let text = format!(
            "Disrupted: Deleting the pod to accommodate the terminationTime {time} of the node. \
             The pod was granted {grace} seconds of grace-period of its 300 \
             terminationGracePeriodSeconds. This bypasses the PDB of the pod and the \
             do-not-disrupt annotation."
        );
        assert_eq!(given.bench.event_texts(), [text], "{case}");
        let reason = ("reason", "Forceful Termination");
        assert_eq!(given.bench.metric(DRAINED, &[reason]), 1, "{case}");
        assert!(given.evictions.is_empty(), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn do_not_disrupt_annotations_emit_events() {
    let annotated = |text: &str| {
        let annotations = json!({"karpenter.sh/do-not-disrupt": text});
        let started = json!("2026-01-01T00:00:00Z");
        with(
            pod("web", "a"),
            [("/metadata/annotations", annotations), ("/status/startTime", started)],
        )
    };
    #[rustfmt::skip]
    let cases = [
        ("1h",   Outcome::Requeue, "DoNotDisruptUntil: The karpenter.sh/do-not-disrupt grace period will elapse at 2026-01-01T01:00:00Z"),
        ("1ns",  Outcome::Done,  "DoNotDisruptGracePeriodElapsed: The karpenter.sh/do-not-disrupt grace period has elapsed, pod is now disruptable"),
        ("yes",  Outcome::Done,  "InvalidDoNotDisruptAnnotation: Invalid karpenter.sh/do-not-disrupt annotation: failed to parse \"yes\" as a duration: time: invalid duration \"yes\", ignoring annotation"),
    ];
    for (annotation, outcome, event) in cases {
        let given = fixture(annotated(annotation)).await;
        let got = given.queue_and_reconcile(QueueEntry::ForceDelete(None)).await.unwrap();
        assert_eq!((got, given.bench.event_texts()[0].as_str()), (outcome, event), "{annotation}");
    }
}
