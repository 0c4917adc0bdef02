//! A corrupted plan is dropped before anything is written, and the rest of it is carried out.
//!
//! Every test runs at both levels, so that it covers a release build too.

use std::time::Duration;

use karpenter_core::id::{NodeId, PodId};
use karpenter_core::plan::PlannedNodeClaim;
use karpenter_core::requirement::Requirement;
use karpenter_core::snapshot::Snapshot;
use karpenter_core::testing::TypeBuilder;
use karpenter_operator::options::Options;
use serde_json::{Value, json};

use super::*;
use crate::disruptor::testing::{create_pool, node, types};
use crate::testing::Bench;
use crate::testing::fixtures::{POOL, pod};
use crate::testing::logs::ErrorLog;

const LEVELS: [Level; 2] = [Level::Essential, Level::Complete];
const METRIC: &str = "karpenter_rs_plan_violations_total";
const LOG: &str = "this is a bug";

fn node_id(snapshot: &Snapshot, name: &str) -> NodeId {
    NodeId::new(snapshot.nodes.iter().position(|node| node.name == name).expect("a node"))
}

fn pod_id(snapshot: &Snapshot, name: &str) -> PodId {
    PodId::new(snapshot.pods.iter().position(|pod| pod.name == name).expect("a pod"))
}

/// A pod that waits for three CPUs in a NodePool.
fn pending(name: &str, pool: &str) -> Value {
    let container = json!({"name": "main", "image": "none",
        "resources": {"requests": {"cpu": "3"}}});
    let changes = json!({
        "spec": {"containers": [container], "nodeSelector": {"karpenter.sh/nodepool": pool}},
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
        ]},
    });
    pod(name, None, &changes)
}

/// A node that takes no pods by itself: it has a taint.
async fn tainted_node(bench: &Bench, name: &str) {
    node(bench, name, "large", &json!({})).await;
    let taints = json!([{"key": "team", "value": "a", "effect": "NoSchedule"}]);
    bench
        .patch(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "spec": {"taints": taints}}))
        .await;
}

/// Returns the plan's NodeClaim for the pod `bad`.
fn bad_claim<'p>(request: &Request<'_>, plan: &'p mut Plan) -> &'p mut PlannedNodeClaim {
    let bad = pod_id(request.snapshot, "bad");
    plan.claims.iter_mut().find(|claim| claim.pods.contains(&bad)).expect("a claim of the pod")
}

/// Moves the pod `bad` from its NodeClaim to a node.
fn move_to_node(request: &Request<'_>, plan: &mut Plan, node: &str) {
    let bad = pod_id(request.snapshot, "bad");
    plan.claims.retain(|claim| !claim.pods.contains(&bad));
    plan.existing_nodes.push((node_id(request.snapshot, node), vec![bad]));
}

type Corrupt = fn(&Request<'_>, &mut Plan);

/// Each breaks the rule that it is named after.
const CORRUPTIONS: [(&str, Corrupt); 6] = [
    ("resources", |request, plan| {
        let small = request.catalog.pools[POOL].iter().position(|one| one.name == "small");
        let small = u32::try_from(small.unwrap()).unwrap();
        bad_claim(request, plan).instance_types = [small].into();
    }),
    ("one_place_per_pod", |request, plan| {
        let again = bad_claim(request, plan).clone();
        plan.claims.push(again);
    }),
    ("taints", |request, plan| move_to_node(request, plan, "tainted")),
    ("node_affinity", |request, plan| {
        let claim = bad_claim(request, plan);
        let pool = Requirement::in_values("karpenter.sh/nodepool", ["other"]);
        let kept = claim.requirements.iter().filter(|one| one.key() != pool.key()).cloned();
        claim.requirements = Arc::new(kept.chain([pool.clone()]).collect());
    }),
    ("node_stays", |request, plan| move_to_node(request, plan, "deleting")),
    ("known_ids", |request, plan| {
        bad_claim(request, plan).instance_types = [9999].into();
    }),
];

/// A cluster where `bad` and `good` get a NodeClaim each.
async fn cluster(level: Level) -> Bench {
    let mut bench = Bench::with_options(Options::default()).await;
    bench.context.plan_check.level = level;
    bench.cloud.set_types(types().map(TypeBuilder::build));
    create_pool(&bench, POOL, &json!({})).await;
    create_pool(&bench, "other", &json!({})).await;
    tainted_node(&bench, "tainted").await;
    node(&bench, "deleting", "large", &json!({})).await;
    bench
        .delete(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "deleting"}}))
        .await;
    bench
}

/// Returns the NodePools of the NodeClaims that the provisioner created.
fn created_pools(bench: &Bench) -> Vec<String> {
    let claims = bench.context.cache.node_claims.all();
    let created = claims.iter().filter(|claim| claim.metadata.generate_name.is_some());
    created
        .map(|claim| claim.metadata.labels.as_ref().unwrap()["karpenter.sh/nodepool"].clone())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn only_the_valid_part_of_a_plan_is_carried_out() {
    for level in LEVELS {
        for (rule, corrupt) in CORRUPTIONS {
            let case = format!("{rule} at {level:?}");
            let bench = cluster(level).await;
            bench.context.plan_check.corruption.lock().unwrap().plan = Some(Box::new(corrupt));
            let log = ErrorLog::start();
            bench.run(crate::provisioner::all(&bench.context));
            bench.create(pending("bad", POOL)).await;
            bench.create(pending("good", "other")).await;
            bench.pass(Duration::from_secs(3)).await;

            assert_eq!(created_pools(&bench), ["other"], "{case}: the valid NodeClaim is created");
            let labels = [("controller", "provisioner"), ("rule", rule)];
            assert!(bench.metric(METRIC, &labels) > 0, "{case}: the violation is counted");
            let events = bench.published.take();
            let of = |pod: &str, reason: &str| -> Vec<String> {
                let events = events.iter().filter(|event| {
                    event.object.name.as_deref() == Some(pod) && event.reason == reason
                });
                events.map(|event| event.message.clone()).collect()
            };
            let [failed] = &of("bad", "FailedScheduling")[..] else { panic!("{case}: {events:?}") };
            assert!(failed.contains("planned placement violates a rule"), "{case}: {failed}");
            assert_eq!(of("bad", "Nominated"), Vec::<String>::new(), "{case}: no nomination");
            assert_eq!(of("good", "Nominated").len(), 1, "{case}: the other pod is nominated");
            let [line] = &log.lines_with("dropping invalid part of plan")[..] else {
                panic!("{case}: one log line")
            };
            assert!(line.contains(LOG) && line.contains("default/bad"), "{case}: {line}");
            assert!(!line.contains("default/good"), "{case}: {line}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_valid_plan_reports_nothing() {
    for level in LEVELS {
        let bench = cluster(level).await;
        let log = ErrorLog::start();
        bench.run(crate::provisioner::all(&bench.context));
        bench.create(pending("bad", POOL)).await;
        bench.create(pending("good", "other")).await;
        bench.pass(Duration::from_secs(3)).await;
        assert_eq!(created_pools(&bench).len(), 2, "{level:?}");
        assert_eq!(bench.metric(METRIC, &[]), 0, "{level:?}");
        assert_eq!(log.lines_with(LOG), Vec::<String>::new(), "{level:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_line_has_at_most_16_kib() {
    let bench = Bench::new().await;
    let log = ErrorLog::start();
    let names = |kind: &str| -> Vec<String> {
        (0..10_000).map(|n| format!("{kind}-{n}-{}", "x\"".repeat(100))).collect()
    };
    let violations = names("default/pod").into_iter().map(|pod| Violation::PlacedTwice { pod });
    let dropped = DroppedObjects { pods: names("p"), nodes: names("n"), node_pools: names("pool") };
    let violations: Vec<_> = violations.collect();
    report_violations(&bench.context, "provisioner", &violations, &dropped);
    let [line] = &log.lines_with(LOG)[..] else { panic!("one log line") };
    assert!(line.len() <= 15 << 10, "room is left for the fields of the reconcile: {}", line.len());
    for part in ["count=10000", "default/pod-0-", "p-0-", "n-0-", "pool-0-", "other(s)"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let counted = bench.metric(METRIC, &[("rule", "one_place_per_pod")]);
    assert_eq!(counted, 10_000);
}

#[test]
fn lists_are_cut_at_their_limit() {
    let texts =
        |count: usize, length: usize| (0..count).map(move |n| format!("{n}{}", "y".repeat(length)));
    assert_eq!(limited_list(texts(3, 0), 1024), ["0", "1", "2"]);
    let cut = limited_list(texts(1000, 10), 1024);
    assert!(serde_json::to_string(&cut).unwrap().len() <= 1024);
    assert_eq!(cut.last().unwrap(), &format!("and {} other(s)", 1000 - (cut.len() - 1)));
    let long = limited_list(["ü".repeat(5000)].into_iter(), 1024);
    assert!(long[0].ends_with("...") && long[0].len() <= ENTRY_BYTES_MAX);
}
