//! Tests of the ranking of nodes and of the deletion costs of their pods.

use karpenter_operator::options::Gate;
use serde_json::{Value, json};

use super::*;
use crate::disruptor::testing::{cluster, condition, node, options_with_gates, running_with_cpu};
use crate::testing::Bench;
use crate::testing::fixtures::{POOL, merged, node_claim, node_pool, pod};

struct Fixture {
    bench: Bench,
    ranking: Controller,
    queue: Controller,
    /// What makes a pod one of a ReplicaSet.
    of_set: Value,
}

impl Fixture {
    async fn new(pool: Value) -> Self {
        // In a box, as its future is large.
        Box::pin(Self::make(pool)).await
    }

    async fn make(pool: Value) -> Self {
        let options = options_with_gates(&[Gate::PodDeletionCostManagement, Gate::StaticCapacity]);
        let bench = cluster(options, &pool).await;
        let of_set = create_workload(&bench, "apps/v1", "ReplicaSet").await;
        let [ranking, queue] =
            all(&bench.context).try_into().unwrap_or_else(|_| panic!("both of them"));
        Self { bench, ranking, queue, of_set }
    }

    /// A node with a pod of a ReplicaSet that is called as the node is.
    async fn node(&self, name: &str, claim_changes: &Value) {
        node(&self.bench, name, "large", claim_changes).await;
        self.pod(name, name, &json!({})).await;
    }

    async fn pod(&self, name: &str, node: &str, changes: &Value) {
        let own = merged(running_with_cpu("100m"), &self.of_set);
        self.bench.create(pod(name, Some(node), &merged(own, changes))).await;
    }

    async fn cycle(&self) {
        let outcome = self.bench.reconcile(&self.ranking, "").await.expect("a cycle");
        assert_eq!(outcome, Outcome::RequeueAfter(REQUEUE_INTERVAL));
        for pod in self.bench.context.cache.pods.all() {
            self.write(&pod.name_any()).await;
        }
    }

    async fn write(&self, name: &str) {
        let key = ObjectKey::new("default", name);
        self.queue.reconcile(&key).await.expect("is written");
        self.bench.settle().await;
    }

    async fn cost(&self, name: &str) -> Option<String> {
        let pod: Pod = self.bench.get("default", name).await.expect("the pod is there");
        pod.annotations().get(POD_DELETION_COST).cloned()
    }

    async fn costs<const N: usize>(&self, names: [&str; N]) -> [Option<i32>; N] {
        let mut costs = [None; N];
        for (cost, name) in costs.iter_mut().zip(names) {
            *cost = self.cost(name).await.map(|text| text.parse().expect("a number"));
        }
        costs
    }

    async fn set(&self, claim: &str, type_: &str) {
        let claim = self.bench.claim(claim).await;
        let mut conditions: Vec<Value> = claim
            .status
            .as_ref()
            .unwrap()
            .conditions
            .iter()
            .flatten()
            .map(|known| serde_json::to_value(known).unwrap())
            .collect();
        conditions.push(condition(&self.bench, type_, "True"));
        let status = json!({"status": {"conditions": conditions}});
        self.bench.patch_status(node_claim(&claim.name_any(), &status)).await;
    }

    async fn taint(&self, name: &str) {
        let taints = json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]);
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "spec": {"taints": taints}});
        self.bench.patch(node).await;
    }

    fn writes(&self, result: &str) -> usize {
        let name = "karpenter_pod_deletion_cost_pod_annotation_writes_total";
        self.bench.metric(name, &[("result", result)])
    }

    fn pending(&self) -> usize {
        let name = "karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes";
        self.bench.metric(name, &[("nodepool", POOL)])
    }
}

/// Creates a workload and returns the changes that make a pod one of it.
async fn create_workload(bench: &Bench, api_version: &str, kind: &str) -> Value {
    let labels = json!({"app": "web"});
    let template = json!({
        "metadata": {"labels": labels},
        "spec": {
            "containers": [{"name": "main", "image": "none"}],
            "restartPolicy": if kind == "Job" { "Never" } else { "Always" },
        },
    });
    let name = kind.to_lowercase();
    let mut spec = json!({"template": template});
    if kind != "Job" {
        spec["selector"] = json!({"matchLabels": labels});
    }
    if kind == "StatefulSet" {
        spec["serviceName"] = json!("web");
    }
    let workload = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": "default"}, "spec": spec,
    });
    let uid = bench.create(workload).await.uid();
    json!({"metadata": {"ownerReferences": [{
        "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true,
    }]}})
}

/// Returns a patch of an existing pod with these changes.
fn pod_patch(name: &str, changes: &Value) -> Value {
    let base = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
    });
    merged(base, changes)
}

fn with_annotation(key: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}

#[tokio::test(start_paused = true)]
async fn pods_of_the_node_that_saves_most_have_the_lowest_cost() {
    let fixture = Fixture::new(json!({})).await;
    for name in ["a", "b", "c"] {
        fixture.node(name, &json!({})).await;
    }
    // The more pods, the less is saved for each.
    for (pod, node) in [("a2", "a"), ("a3", "a"), ("c2", "c")] {
        fixture.pod(pod, node, &json!({})).await;
    }
    fixture.cycle().await;
    let costs = fixture.costs(["b", "c", "c2", "a", "a2", "a3"]).await;
    assert_eq!(costs, [-3, -2, -2, -1, -1, -1].map(Some), "45/PDC-1");
    assert_eq!((fixture.pending(), fixture.writes("updated")), (3, 6), "45/PDC-1");
}

#[tokio::test(start_paused = true)]
async fn leaving_nodes_rank_first_and_drifted_nodes_second() {
    let fixture = Fixture::new(json!({})).await;
    for name in ["a", "b", "c", "leaving", "held"] {
        fixture.node(name, &json!({})).await;
    }
    fixture.set("c", "Drifted").await;
    fixture.taint("leaving").await;
    fixture.taint("held").await;
    fixture.pod("held2", "held", &with_annotation("karpenter.sh/do-not-disrupt", "true")).await;
    fixture.cycle().await;
    assert_eq!(fixture.costs(["c", "a", "b"]).await, [-3, -2, -1].map(Some), "45/PDC-2");
    let leaving = fixture.costs(["leaving", "held", "held2"]).await;
    assert_eq!(leaving, [i32::MIN; 3].map(Some), "45/PDC-3");
}

#[tokio::test(start_paused = true)]
async fn unmanaged_nodes_are_not_ranked() {
    let fixture = Fixture::new(json!({})).await;
    fixture.bench.join("stranger", "other:///1", &json!({"spec": {"taints": []}})).await;
    fixture.taint("stranger").await;
    fixture.pod("p", "stranger", &json!({})).await;
    fixture.cycle().await;
    assert_eq!(fixture.costs(["p"]).await, [None], "45/PDC-4");
}

#[tokio::test(start_paused = true)]
async fn pods_of_blocked_nodes_lose_their_deletion_cost() {
    let fixture = Fixture::new(json!({})).await;
    let set = create_workload(&fixture.bench, "apps/v1", "StatefulSet").await;
    let mut owner = fixture.of_set.clone();
    owner["metadata"]["ownerReferences"][0]["controller"] = json!(false);
    let pods = [
        (
            "held",
            merged(running_with_cpu("1"), &with_annotation("karpenter.sh/do-not-disrupt", "true")),
        ),
        (
            "guarded",
            merged(running_with_cpu("1"), &json!({"metadata": {"labels": {"app": "guarded"}}})),
        ),
        ("stateful", merged(running_with_cpu("1"), &set)),
        ("bare", running_with_cpu("1")),
        ("owned", merged(running_with_cpu("1"), &owner)),
    ];
    let guard = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "guard", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "guarded"}}},
    });
    fixture.bench.create(guard).await;
    for (name, other) in &pods {
        fixture.node(name, &json!({})).await;
        let other = if *name == "held" || *name == "guarded" {
            merged(other.clone(), &fixture.of_set)
        } else {
            other.clone()
        };
        fixture.bench.create(pod(&format!("{name}-pod"), Some(name), &other)).await;
    }
    node(&fixture.bench, "priceless", "gone", &json!({})).await;
    let other = json!({"other": "stays", POD_DELETION_COST: "100"});
    let user = json!({"metadata": {"annotations": other}});
    fixture.pod("priceless", "priceless", &user).await;
    fixture.node("plain", &json!({})).await;
    fixture.cycle().await;
    let names = ["held", "guarded", "stateful", "bare", "owned", "priceless"];
    assert_eq!(fixture.costs(names).await, [None; 6], "45/PDC-5");
    assert_eq!(fixture.costs(["plain"]).await, [Some(-1)], "45/PDC-5");
    let pod: Pod = fixture.bench.get("default", "priceless").await.unwrap();
    assert_eq!(pod.annotations().get("other").map(String::as_str), Some("stays"), "45/PDC-11");
}

#[tokio::test(start_paused = true)]
async fn daemon_and_job_pods_do_not_exclude_a_node_from_ranking() {
    let fixture = Fixture::new(json!({})).await;
    for (name, api_version, kind) in [("a", "batch/v1", "Job"), ("b", "apps/v1", "DaemonSet")] {
        fixture.node(name, &json!({})).await;
        let of_kind = create_workload(&fixture.bench, api_version, kind).await;
        let other = merged(running_with_cpu("100m"), &of_kind);
        fixture.bench.create(pod(&format!("{name}-pod"), Some(name), &other)).await;
    }
    fixture.node("c", &json!({})).await;
    let space =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}});
    if fixture.bench.get::<k8s_openapi::api::core::v1::Namespace>("", "kube-system").await.is_none()
    {
        fixture.bench.create(space).await;
    }
    let system =
        merged(running_with_cpu("100m"), &json!({"metadata": {"namespace": "kube-system"}}));
    fixture.bench.create(pod("proxy", Some("c"), &system)).await;
    fixture.cycle().await;
    let costs = fixture.costs(["a", "b", "c"]).await;
    assert!(costs.iter().all(Option::is_some), "45/PDC-6: {costs:?}");
    assert_eq!(fixture.costs(["a-pod", "b-pod"]).await, [None, None], "45/PDC-6");
}

#[tokio::test(start_paused = true)]
async fn pools_without_consolidation_are_ranked_for_drift_alone() {
    let never = json!({"disruption": {"consolidateAfter": "Never"}});
    let fixture = Fixture::new(never).await;
    fixture.node("a", &json!({})).await;
    fixture.node("b", &json!({})).await;
    fixture.set("b", "Drifted").await;
    fixture.cycle().await;
    assert_eq!(fixture.costs(["a", "b"]).await, [None, Some(-1)], "45/PDC-7");
    let fixture = Fixture::new(json!({"replicas": 2})).await;
    fixture.node("a", &json!({})).await;
    fixture.node("b", &json!({})).await;
    fixture.set("b", "Drifted").await;
    fixture.cycle().await;
    assert_eq!(fixture.costs(["a", "b"]).await, [Some(-2), Some(-1)], "45/PDC-7: static");
}

#[tokio::test(start_paused = true)]
async fn budgets_limit_the_ranked_nodes() {
    for (budget, expected) in [("0", [None, None]), ("1", [Some(-1), None])] {
        let fixture = Fixture::new(json!({"disruption": {"budgets": [{"nodes": budget}]}})).await;
        for name in ["a", "b"] {
            fixture.node(name, &json!({})).await;
            fixture.set(name, "Drifted").await;
        }
        fixture.cycle().await;
        assert_eq!(fixture.costs(["a", "b"]).await, expected, "45/PDC-8: {budget}");
    }
}

#[tokio::test(start_paused = true)]
async fn unchanged_costs_are_not_written_and_unchanged_clusters_not_ranked() {
    let fixture = Fixture::new(json!({})).await;
    fixture.node("a", &json!({})).await;
    fixture.pod("user", "a", &with_annotation(POD_DELETION_COST, "100")).await;
    fixture.cycle().await;
    assert_eq!(fixture.costs(["a", "user"]).await, [Some(-1), Some(-1)], "45/PDC-11");
    assert_eq!(fixture.writes("updated"), 2);
    fixture.bench.patch(pod_patch("user", &with_annotation(POD_DELETION_COST, "100"))).await;
    fixture.cycle().await;
    assert_eq!(fixture.costs(["user"]).await, [Some(100)], "45/PDC-12: nothing has changed");
    fixture.bench.context.mirror.mark_unconsolidated(fixture.bench.context.clock.now());
    fixture.bench.pass(Duration::from_secs(1)).await;
    fixture.cycle().await;
    assert_eq!(fixture.costs(["user"]).await, [Some(-1)], "45/PDC-12");
    let now = fixture.bench.context.clock.now();
    fixture.bench.context.mirror.mark_unconsolidated(now);
    fixture.cycle().await;
    assert_eq!((fixture.pending(), fixture.writes("updated")), (0, 3), "45/PDC-10");
}

#[tokio::test(start_paused = true)]
async fn failed_writes_are_retried_and_conflicting_writes_are_dropped() {
    let fixture = Fixture::new(json!({})).await;
    let (context, faults) = fixture.bench.with_faults();
    fixture.node("a", &json!({})).await;
    let wire = fixture.bench.context.cache.pods.get("default", "a").unwrap();
    let writes = Writes::new(&context);
    let queue = writes::controller(&context, &writes);
    let key = ObjectKey::new("default", "a");
    let reconcile = async || queue.reconcile(&key).await;
    writes.add(&wire, Some(-1));
    faults.fail("PATCH", "/pods/a", 429);
    reconcile().await.expect_err("45/PDC-13: 429");
    reconcile().await.expect("45/PDC-13: again");
    fixture.bench.settle().await;
    assert_eq!(fixture.costs(["a"]).await, [Some(-1)], "45/PDC-13");
    for (code, result) in [(409, "skipped_conflict"), (404, "skipped_notfound")] {
        writes.add(&wire, Some(-7));
        faults.fail("PATCH", "/pods/a", code);
        reconcile().await.expect("45/PDC-13");
        reconcile().await.expect("45/PDC-13: it is dropped");
        assert_eq!(fixture.writes(result), 1, "45/PDC-13: {code}");
    }
    let mut other = wire.as_ref().clone();
    other.metadata.uid = Some("another".to_owned());
    writes.add(&other, Some(-9));
    reconcile().await.expect("45/PDC-13");
    assert_eq!(fixture.costs(["a"]).await, [Some(-1)], "45/PDC-13: another of that name");
    assert_eq!((fixture.writes("error"), fixture.writes("updated")), (1, 1), "45/PDC-13");
}

#[tokio::test(start_paused = true)]
async fn nodes_with_terminating_pods_rank_first() {
    let fixture = Fixture::new(json!({})).await;
    fixture.node("a", &json!({})).await;
    fixture.node("b", &json!({})).await;
    let finalizer = json!({"metadata": {"finalizers": ["example.com/wait"]}});
    fixture.bench.patch(pod_patch("b", &finalizer)).await;
    fixture.bench.delete(pod_patch("b", &json!({}))).await;
    fixture.cycle().await;
    assert_eq!(fixture.costs(["b", "a"]).await, [Some(-2), Some(-1)], "45/PDC-14");
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_there_is_no_controller() {
    let bench = Bench::new().await;
    bench.create(node_pool(POOL)).await;
    assert!(all(&bench.context).is_empty());
}
