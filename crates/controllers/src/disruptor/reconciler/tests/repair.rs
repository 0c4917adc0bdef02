//! Tests of node repair (spec 45 §5) by the policy of the fake cloud.
//!
//! It repairs nodes with `BadNode` False for half an hour, without any time for the drain.

use std::time::Duration;

use karpenter_operator::cloud::{RepairAction, RepairPolicy};

use super::*;

const MINUTE: Duration = Duration::from_mins(1);

async fn fixture() -> Fixture {
    Box::pin(fixture_with(json!({}))).await
}

async fn fixture_with(pool: Value) -> Fixture {
    let fixture =
        Fixture::with(options_with_gates(&[Gate::NodeRepair, Gate::StaticCapacity]), pool).await;
    for name in ["a", "b", "c"] {
        fixture.create_empty_node(name).await;
        fixture.set_conditions(name, &[("Consolidatable", "False")]).await;
    }
    fixture
}

/// Creates a fixture whose unhealthy nodes are rebooted, with this bound of the drain.
async fn rebooting_fixture(bound: Option<Duration>) -> Fixture {
    let never = json!({"disruption": {"consolidateAfter": "Never"}});
    let mut fixture = Box::pin(fixture_with(never)).await;
    let policy = |condition: &str, regex: &str, action| RepairPolicy {
        condition_type: condition.to_owned(),
        condition_status: "False".to_owned(),
        reason_regex: regex.to_owned(),
        toleration_duration: 30 * MINUTE,
        termination_grace_period: bound,
        priority: 0,
        action,
    };
    fixture.bench.context.repair_policies = [
        policy("Other", "", RepairAction::ReplaceNode),
        policy("BadNode", ".*", RepairAction::RebootNode),
    ]
    .into();
    Fixture::of(fixture.bench)
}

async fn break_node(fixture: &Fixture, name: &str) {
    let now = fixture.bench.context.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let conditions = json!([
        {"type": "Ready", "status": "True"},
        {"type": "BadNode", "status": "False", "reason": "Smoke", "lastTransitionTime": now},
    ]);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"conditions": conditions}});
    fixture.bench.patch_status(node).await;
}

#[tokio::test(start_paused = true)]
async fn an_unhealthy_node_is_replaced_after_the_toleration_duration() {
    let fixture = fixture().await;
    running_pod(&fixture.bench, "p", "a", "15").await;
    for (filler, node) in [("q", "b"), ("r", "c")] {
        running_pod(&fixture.bench, filler, node, "15").await;
    }
    break_node(&fixture, "a").await;
    fixture.pass_until_idle().await;
    assert!(fixture.commands().is_empty() && fixture.bench.events().is_empty(), "45/RM-3");
    fixture.bench.pass(31 * MINUTE).await;
    fixture.pass_until_idle().await;
    let text = "Unhealthy: replace: [a] -> [1 replacement]";
    assert_eq!(fixture.commands(), [text], "45/RM-1");
    let repaired = || {
        let labels = [("condition", "bad_node"), ("termination_mode", "forceful")];
        fixture.count("nodeclaims_unhealthy_disrupted_total", &labels)
    };
    fixture.reconcile_commands().await;
    assert_eq!((fixture.is_deleted("a").await, repaired()), (false, 0), "45/RM-1");
    fixture.initialize(&fixture.replacements()[0].name_any()).await;
    fixture.reconcile_commands().await;
    assert_eq!((fixture.is_deleted("a").await, repaired()), (true, 1), "45/RM-1");
}

#[tokio::test(start_paused = true)]
async fn an_unhealthy_node_without_pods_is_deleted() {
    let fixture = fixture().await;
    break_node(&fixture, "a").await;
    fixture.bench.pass(31 * MINUTE).await;
    fixture.pass_until_idle().await;
    assert_eq!(fixture.commands(), ["Unhealthy: delete: [a]"], "45/RM-2");
}

#[tokio::test(start_paused = true)]
async fn too_many_unhealthy_nodes_block_repair_with_an_event() {
    let fixture = fixture().await;
    break_node(&fixture, "a").await;
    break_node(&fixture, "b").await;
    fixture.bench.pass(31 * MINUTE).await;
    fixture.pass_until_idle().await;
    assert!(fixture.commands().is_empty(), "45/RM-8");
    let text = "more than 20% of nodes in nodepool \"general\" are unhealthy";
    let events = fixture.bench.published.take();
    let kinds: BTreeSet<_> = events
        .iter()
        .filter(|event| event.reason == "NodeRepairBlocked" && event.message == text)
        .filter_map(|event| event.object.kind.clone())
        .collect();
    let expected = ["Node", "NodeClaim", "NodePool"].map(str::to_owned);
    assert_eq!(kinds, BTreeSet::from(expected), "45/RM-8");
}

#[tokio::test(start_paused = true)]
async fn a_reboot_is_requested_on_the_claim_and_not_queued() {
    let fixture = rebooting_fixture(Some(5 * MINUTE)).await;
    break_node(&fixture, "a").await;
    fixture.bench.pass(31 * MINUTE).await;
    assert_eq!(fixture.pass().await, REQUEUE_NOW, "45/RM-20");
    let claim = fixture.bench.claim("a").await;
    let rebooting = crate::testing::fixtures::condition(&claim, "Rebooting");
    let expected = ("True", "RebootRequested", "rebooting for BadNode/Smoke");
    assert_eq!((&*rebooting.0, &*rebooting.1, &*rebooting.2), expected, "45/RM-20");
    let reason = crate::testing::fixtures::condition(&claim, "DisruptionReason");
    assert_eq!((&*reason.0, &*reason.1), ("True", "Unhealthy"), "45/RM-20");
    let bound = claim.annotations().get("karpenter.sh/reboot-termination-grace-period");
    assert_eq!(bound.map(String::as_str), Some("5m0s"), "45/RM-20");
    assert!(fixture.command_queue.provider_ids().is_empty() && !fixture.is_tainted("a").await);
    let labels = [("decision", "reboot"), ("reason", "unhealthy")];
    let decisions = fixture.count("voluntary_disruption_decisions_total", &labels);
    assert_eq!(decisions, 1, "45/RM-20");
    assert_eq!(fixture.pass().await, Outcome::RequeueAfter(POLL), "45/RM-20: and no more");
    let claim = fixture.bench.claim("a").await;
    assert!(has(&claim, "Rebooting", "True"), "45/RM-19");
    assert!(has(&claim, "DisruptionReason", "True"), "45/RM-19");
}

#[tokio::test(start_paused = true)]
async fn without_a_policy_bound_the_claim_bounds_the_drain_before_a_reboot() {
    for (case, own, expected) in
        [("45/RM-21", Some("7m"), Some("7m0s")), ("45/RM-21: none", None, None)]
    {
        let fixture = rebooting_fixture(None).await;
        let stale = json!({"metadata": {"annotations": {
            "karpenter.sh/reboot-termination-grace-period": "1m0s",
        }}});
        let spec = json!({"spec": {"terminationGracePeriod": own}});
        node(&fixture.bench, "d", "large", &merged(stale, &spec)).await;
        fixture.set_conditions("d", &[("Consolidatable", "False")]).await;
        break_node(&fixture, "d").await;
        fixture.bench.pass(31 * MINUTE).await;
        fixture.pass_until_idle().await;
        let claim = fixture.bench.claim("d").await;
        assert!(has(&claim, "Rebooting", "True"), "{case}");
        let bound = claim.annotations().get("karpenter.sh/reboot-termination-grace-period");
        assert_eq!(bound.map(String::as_str), expected, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_still_unhealthy_after_reboots_is_replaced() {
    let fixture = rebooting_fixture(Some(5 * MINUTE)).await;
    break_node(&fixture, "a").await;
    for _ in 0..2 {
        fixture.bench.pass(31 * MINUTE).await;
        fixture.pass_until_idle().await;
        assert!(has(&fixture.bench.claim("a").await, "Rebooting", "True"), "45/RM-22");
        fixture.set_conditions("a", &[("Rebooting", "False")]).await;
    }
    fixture.bench.pass(31 * MINUTE).await;
    fixture.pass_until_idle().await;
    assert_eq!(fixture.commands(), ["Unhealthy: delete: [a]"], "45/RM-22");
}

#[tokio::test(start_paused = true)]
async fn a_static_pool_replaces_an_unhealthy_node_within_its_node_limit() {
    for (case, limits, expected) in [
        ("45/RM-24", json!({}), vec!["Unhealthy: replace: [a] -> [1 replacement]"]),
        ("45/RM-24: full", json!({"limits": {"nodes": "3"}}), vec![]),
    ] {
        let spec = merged(json!({"replicas": 3}), &limits);
        let fixture = fixture_with(spec).await;
        break_node(&fixture, "a").await;
        fixture.bench.pass(31 * MINUTE).await;
        fixture.pass_until_idle().await;
        assert_eq!(fixture.commands(), expected, "{case}");
    }
}
