//! Tests of the legacy node repair.

use karpenter_operator::options::{Options, ParsedCommandLine};
use serde_json::{Value, json};

use super::*;
use crate::node::testing::{claim, condition, node, pod, with};
use crate::testing::Bench;

const START: &str = "2026-01-01T00:00:00Z";

async fn bench() -> Bench {
    let flags = ["--feature-gates=NodeRepair=true", "--legacy-node-repair"].map(str::to_owned);
    let Ok(ParsedCommandLine::Run(options, _)) = Options::parse(&flags, |_| None) else {
        panic!("valid flags");
    };
    Bench::with_options(*options).await
}

/// Returns the Node with a condition that is repaired after half an hour.
fn with_unhealthy_condition(node: Value) -> Value {
    with(node, [("/status/conditions/-", condition("BadNode", "False", START))])
}

/// Returns the Node or NodeClaim without a NodePool.
fn standalone(manifest: Value) -> Value {
    let labels = json!({"karpenter.test.sh/testnodeclass": "default"});
    with(manifest, [("/metadata/labels", labels)])
}

async fn reconcile(bench: &Bench) -> ReconcileResult {
    let controller = controller(&bench.context).expect("the flags ask for it");
    bench.reconcile(&controller, "a").await
}

fn deadline(claim: &NodeClaim) -> Option<&str> {
    let annotations = claim.metadata.annotations.as_ref()?;
    annotations.get(NODECLAIM_TERMINATION_TIMESTAMP).map(String::as_str)
}

fn minutes(minutes: u64) -> Duration {
    Duration::from_mins(minutes)
}

/// Makes a manifest one of a kind.
type Kind = fn(Value) -> Value;

/// All labels but reason and condition.
const LABELS: [(&str, &str); 3] =
    [("nodepool", "pool"), ("capacity_type", "spot"), ("termination_mode", "graceful")];

#[tokio::test(start_paused = true)]
async fn a_node_that_stays_unhealthy_is_replaced_without_a_drain() {
    let bench = bench().await;
    bench.create_node_and_claim(with_unhealthy_condition(node("a")), claim("a")).await;
    bench.create(pod("web", "a")).await;
    bench.pass(minutes(20)).await;
    let Outcome::RequeueAfter(rest) = reconcile(&bench).await.unwrap() else {
        panic!("it is not due")
    };
    assert!(minutes(9) < rest && rest < minutes(10), "40/NR-03: {rest:?}");
    assert_eq!(bench.claim("a").await.metadata.deletion_timestamp, None, "40/NR-03");

    bench.pass(minutes(40)).await;
    assert_eq!(reconcile(&bench).await.unwrap(), Outcome::Done, "40/NR-01");
    let deleted = bench.claim("a").await;
    assert!(deleted.metadata.deletion_timestamp.is_some(), "40/NR-01, 45/LR-4");
    assert_eq!(deadline(&deleted), Some("2026-01-01T01:00:00Z"), "40/NR-05");
    let [pool, capacity, mode] = LABELS;
    let disrupted = [("reason", "unhealthy"), pool, capacity, ("consolidation_policy", ""), mode];
    let value = |name: &str, labels: &[(&str, &str)]| bench.metric(name, labels);
    assert_eq!(value("karpenter_nodeclaims_disrupted_total", &disrupted), 1);
    assert_eq!(value("karpenter_pods_disruption_initiated_total", &disrupted), 1);
    let unhealthy = [("condition", "bad_node"), pool, capacity, ("image_id", "image-1"), mode];
    assert_eq!(value("karpenter_nodeclaims_unhealthy_disrupted_total", &unhealthy), 1);

    reconcile(&bench).await.unwrap();
    let again = value("karpenter_nodeclaims_disrupted_total", &disrupted);
    assert_eq!(again, 1, "40/NR-12: counted once");
}

#[tokio::test(start_paused = true)]
async fn a_future_deadline_is_moved_to_now() {
    #[rustfmt::skip]
    let cases = [
        ("40/NR-06", "2026-01-01T03:00:00Z", "2026-01-01T01:00:00Z", false),
        ("40/NR-07", "2026-01-01T00:57:00Z", "2026-01-01T00:57:00Z", false),
        ("40/NR-12", "2026-01-01T03:00:00Z", "2026-01-01T01:00:00Z", true),
    ];
    for (case, present, expected, is_deleting) in cases {
        let bench = bench().await;
        let annotations = json!({NODECLAIM_TERMINATION_TIMESTAMP: present});
        let stamped = with(claim("a"), [("/metadata/annotations", annotations)]);
        bench.create_node_and_claim(with_unhealthy_condition(node("a")), stamped).await;
        if is_deleting {
            bench.delete_claim("a").await;
        }
        bench.pass(minutes(60)).await;
        reconcile(&bench).await.unwrap();
        assert_eq!(deadline(&bench.claim("a").await), Some(expected), "{case}");
        let metrics = &bench.context.metrics;
        let counted =
            metrics.registry().series_count("karpenter_nodeclaims_unhealthy_disrupted_total");
        assert_eq!(counted, usize::from(!is_deleting), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn do_not_disrupt_does_not_block_legacy_repair() {
    let bench = bench().await;
    let held = json!({"karpenter.sh/do-not-disrupt": "true"});
    let node = with(with_unhealthy_condition(node("a")), [("/metadata/annotations", held.clone())]);
    bench.create_node_and_claim(node, with(claim("a"), [("/metadata/annotations", held)])).await;
    bench.pass(minutes(60)).await;
    reconcile(&bench).await.unwrap();
    assert!(bench.claim("a").await.metadata.deletion_timestamp.is_some(), "40/NR-08");
}

#[tokio::test(start_paused = true)]
async fn many_unhealthy_nodes_are_not_repaired() {
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "pool"},
        "spec": {"template": {"spec": {
            "requirements": [],
            "nodeClassRef": {
                "group": "karpenter.test.sh", "kind": "TestNodeClass", "name": "default",
            },
        }}},
    });
    #[rustfmt::skip]
    let cases: [(&str, Kind, &str, &[&str]); 2] = [
        ("40/NR-09, 40/Q7", |manifest| manifest, "more than 20% nodes are unhealthy in the nodepool",
            &["Node", "NodeClaim", "NodePool"]),
        ("40/NR-10, 40/Q7", standalone, "more then 20% nodes are unhealthy in the cluster",
            &["Node", "NodeClaim"]),
    ];
    for (case, kind, message, about) in cases {
        let bench = bench().await;
        bench.create(pool.clone()).await;
        for (number, name) in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"].iter().enumerate()
        {
            let node = if number < 3 { with_unhealthy_condition(node(name)) } else { node(name) };
            bench.create(kind(node)).await;
        }
        bench.create(kind(claim("a"))).await;
        bench.pass(minutes(60)).await;
        assert_eq!(reconcile(&bench).await.unwrap(), Outcome::RequeueAfter(minutes(5)), "{case}");
        assert_eq!(bench.claim("a").await.metadata.deletion_timestamp, None, "{case}");
        let published = bench.published.take();
        let kinds: Vec<_> =
            published.iter().filter_map(|event| event.object.kind.as_deref()).collect();
        assert_eq!(kinds, about, "{case}");
        for event in published {
            let published = (&*event.reason, event.message.as_str());
            assert_eq!(published, ("NodeRepairBlocked", message), "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn recently_unhealthy_and_terminating_nodes_count_as_unhealthy() {
    let young = condition("BadNode", "False", "2026-01-01T00:59:00Z");
    let young = with(node("b"), [("/status/conditions/-", young)]);
    #[rustfmt::skip]
    let cases = [
        ("40/Q15 young",       young,          false, true),
        ("40/Q15 terminating", with_unhealthy_condition(node("b")), true,  true),
        ("a healthy one",      node("b"),      false, false),
    ];
    for (case, other, terminating, is_blocked) in cases {
        let bench = bench().await;
        bench.create_node_and_claim(with_unhealthy_condition(node("a")), claim("a")).await;
        bench.create_node_and_claim(other, claim("b")).await;
        bench.create(node("c")).await;
        if terminating {
            bench.delete_node("b").await;
            bench.delete_claim("b").await;
        }
        bench.pass(minutes(60)).await;
        reconcile(&bench).await.unwrap();
        let is_kept = bench.claim("a").await.metadata.deletion_timestamp.is_none();
        assert_eq!(is_kept, is_blocked, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_unhealthy_node_of_three_is_repaired() {
    let bench = bench().await;
    bench.create_node_and_claim(with_unhealthy_condition(node("a")), claim("a")).await;
    bench.create(node("b")).await;
    bench.create(node("c")).await;
    bench.pass(minutes(60)).await;
    reconcile(&bench).await.unwrap();
    assert!(bench.claim("a").await.metadata.deletion_timestamp.is_some(), "40/NR-11");
}

#[tokio::test(start_paused = true)]
async fn legacy_repair_needs_gate_flag_and_policies() {
    assert!(controller(&Bench::new().await.context).is_none());
    let mut bench = bench().await;
    assert!(controller(&bench.context).is_some());
    bench.context.repair_policies = [].into();
    assert!(controller(&bench.context).is_none());
}

#[test]
fn heartbeats_do_not_trigger_a_reconcile() {
    let node = |conditions: Value| {
        let manifest = with(node("a"), [("/status/conditions", conditions)]);
        Some(Arc::new(serde_json::from_value::<Node>(manifest).unwrap()))
    };
    let ready = condition("Ready", "True", START);
    let beat = with(ready.clone(), [("/lastHeartbeatTime", json!("2026-01-01T00:10:00Z"))]);
    let later = condition("Ready", "True", "2026-01-01T00:10:00Z");
    let other = condition("BadNode", "True", START);
    #[rustfmt::skip]
    let cases = [
        ("40/NR-13",   json!([beat]),                                   false),
        ("status",     json!([condition("Ready", "False", START)]),     true),
        ("transition", json!([later]),                                  true),
        ("one more",   json!([ready.clone(), other.clone()]),           true),
        ("one is gone", json!([other]),                                 true),
    ];
    for (case, conditions, expected) in cases {
        let key = ObjectKey::new("", "a");
        let (before, after) = (node(json!([ready.clone()])), node(conditions));
        assert_eq!(has_condition_change(&Change { key, before, after }), expected, "{case}");
    }
}
