//! Tests of the disruption loop: passes, budgets, gauges and events.

use k8s_openapi::api::core::v1::Node;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_operator::options::{Gate, Options};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::*;
use crate::disruptor::queue;
use crate::disruptor::testing::{
    cluster, condition, create_pool, node, options_with_gates, running_pod, running_with_cpu,
};
use crate::testing::Bench;
use crate::testing::fixtures::{POOL, has, merged, node_claim, node_pool, pod};

mod changing_cluster;
mod drift;
mod failed_consolidation;
mod orphaned_marks;
mod pending_commands;
mod plan_violations;
mod repair;

const SECOND: Duration = Duration::from_secs(1);
const REQUEUE_NOW: Outcome = Outcome::RequeueAfter(Duration::ZERO);

/// A cluster with the disruption loop and its queue. Tests reconcile both explicitly.
struct Fixture {
    bench: Bench,
    command_queue: CommandQueue,
    disruptor: Controller,
    queue: Controller,
}

impl Fixture {
    /// Creates a cluster with a pool with these changes. Its budgets allow everything.
    async fn new(pool: Value) -> Self {
        Self::with(Options::default(), pool).await
    }

    async fn with(options: Options, pool: Value) -> Self {
        Self::of(Box::pin(cluster(options, &pool)).await)
    }

    fn of(bench: Bench) -> Self {
        let command_queue = CommandQueue::new(&bench.context);
        let disruptor = controller(&bench.context, &command_queue);
        let queue = queue::controller(&bench.context, &command_queue);
        Self { bench, command_queue, disruptor, queue }
    }

    /// Returns the same cluster after a restart, which loses commands and deletion marks.
    fn restarted(self) -> Self {
        let context = &self.bench.context;
        let (provider_ids, now) = (self.command_queue.provider_ids(), context.clock.now());
        context.mirror.unmark_for_deletion(provider_ids.iter().map(String::as_str), now);
        Self::of(self.bench)
    }

    /// Runs one pass.
    async fn pass(&self) -> Outcome {
        let outcome = self.disruptor.reconcile(&ObjectKey::default()).await.expect("a pass");
        self.bench.settle().await;
        outcome
    }

    /// Runs passes until there is nothing to do.
    async fn pass_until_idle(&self) -> Outcome {
        for _ in 0..100 {
            match self.pass().await {
                REQUEUE_NOW => {}
                outcome => return outcome,
            }
        }
        panic!("it finds no end");
    }

    /// Lets the validation delay elapse, and starts the valid commands.
    async fn pass_validation_delay(&self) {
        self.pass_until_idle().await;
        self.bench.pass(15 * SECOND).await;
        self.pass_until_idle().await;
    }

    /// Reconciles every started command once.
    async fn reconcile_commands(&self) {
        for active in self.command_queue.commands() {
            self.queue.reconcile(&ObjectKey::new("", &active.id)).await.expect("a look");
        }
        self.bench.settle().await;
    }

    /// Returns the descriptions of the started commands.
    fn commands(&self) -> Vec<String> {
        let commands = self.command_queue.commands().into_iter();
        let descriptions = commands.map(|active| {
            let text = active.command.describe("");
            let end = text.find(" (savings").unwrap_or(text.len());
            text[..end].replace(": nodepools=[general]", "").replacen("/:", ":", 1)
        });
        let mut descriptions: Vec<_> = descriptions.collect();
        descriptions.sort();
        descriptions
    }

    /// Creates an empty node.
    async fn create_empty_node(&self, name: &str) {
        node(&self.bench, name, "large", &json!({})).await;
    }

    /// Creates a drifted node.
    async fn create_drifted_node(&self, name: &str) {
        node(&self.bench, name, "large", &json!({})).await;
        self.set_conditions(name, &[("Drifted", "True"), ("Consolidatable", "False")]).await;
    }

    /// Changes conditions of a claim that has all of a node that runs.
    async fn set_conditions(&self, name: &str, changes: &[(&str, &str)]) {
        let mut conditions = self.bench.claim(name).await.status.unwrap().conditions.unwrap();
        conditions.retain(|known| changes.iter().all(|(type_, _)| *type_ != known.type_));
        let mut conditions: Vec<Value> =
            conditions.iter().map(|known| serde_json::to_value(known).unwrap()).collect();
        let new = changes.iter().map(|(type_, status)| condition(&self.bench, type_, status));
        conditions.extend(new);
        let status = json!({"status": {"conditions": conditions}});
        self.bench.patch_status(node_claim(name, &status)).await;
    }

    /// Changes the spec of the pool.
    async fn patch_pool(&self, spec: Value) {
        let mut pool = node_pool(POOL);
        pool["spec"] = spec;
        self.bench.patch(pool).await;
    }

    /// Claims that are not nodes of the test: replacements.
    fn replacements(&self) -> Vec<std::sync::Arc<NodeClaim>> {
        let mut claims = self.bench.context.cache.node_claims.all();
        claims.retain(|claim| claim.name_any().starts_with("general-"));
        claims
    }

    /// Makes a replacement a node that is ready for pods.
    async fn initialize(&self, claim: &str) {
        let conditions = [condition(&self.bench, "Initialized", "True")];
        let status = json!({"providerID": format!("fake:///{claim}"), "conditions": conditions});
        self.bench.patch_status(node_claim(claim, &json!({"status": status}))).await;
    }

    async fn is_tainted(&self, name: &str) -> bool {
        let node: Node = self.bench.node(name).await;
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        taints.iter().any(|taint| taint.key == "karpenter.sh/disrupted")
    }

    async fn is_deleted(&self, name: &str) -> bool {
        let claim: Option<NodeClaim> = self.bench.get("", name).await;
        claim.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some())
    }

    fn count(&self, metric: &str, labels: &[(&str, &str)]) -> usize {
        self.bench.metric(&format!("karpenter_{metric}"), labels)
    }
}

#[tokio::test(start_paused = true)]
async fn a_pass_with_a_command_is_followed_by_another_at_once() {
    let fixture = Fixture::new(json!({})).await;
    assert_eq!(fixture.pass().await, Outcome::RequeueAfter(POLL), "30/LOOP-8");
    fixture.create_drifted_node("a").await;
    assert_eq!(fixture.pass().await, REQUEUE_NOW, "30/LOOP-7");
    assert_eq!(fixture.commands(), ["Drifted: delete: [a]"]);
    assert_eq!(fixture.pass().await, Outcome::RequeueAfter(POLL), "30/LOOP-8");
}

#[tokio::test(start_paused = true)]
async fn only_the_upstream_search_waits_for_unlaunched_claims() {
    let upstream =
        Options { consolidation_search: ConsolidationSearch::Upstream, ..Options::default() };
    for (options, waits) in [(upstream, true), (Options::default(), false)] {
        let fixture = Fixture::with(options, json!({})).await;
        fixture.pass().await;
        fixture.create_drifted_node("a").await;
        fixture.bench.create(node_claim("unlaunched", &json!({}))).await;
        let outcome = fixture.pass().await;
        if waits {
            assert_eq!(outcome, Outcome::RequeueAfter(SECOND), "30/LOOP-1, 30/LOOP-11");
            assert!(fixture.commands().is_empty(), "30/LOOP-1");
            fixture.initialize("unlaunched").await;
            assert_eq!(fixture.pass().await, REQUEUE_NOW, "30/LOOP-11");
        }
        assert_eq!(fixture.commands(), ["Drifted: delete: [a]"]);
    }
}

#[tokio::test(start_paused = true)]
async fn no_command_starts_before_the_mirror_has_synced_once() {
    let fixture = Fixture::new(json!({})).await;
    fixture.bench.create(node_claim("unlaunched", &json!({}))).await;
    fixture.create_drifted_node("a").await;
    assert_eq!(fixture.pass().await, Outcome::RequeueAfter(SECOND), "30/LOOP-1");
    assert!(fixture.commands().is_empty(), "30/LOOP-1");
}

#[tokio::test(start_paused = true)]
async fn a_drifted_empty_node_is_deleted_as_empty() {
    for (case, after, expected) in [
        ("30/LOOP-5", "0s", "Empty: delete: [a]"),
        ("30/LOOP-5: disabled, 30/DRF-2", "Never", "Drifted: delete: [a]"),
    ] {
        let fixture = Fixture::new(json!({"disruption": {"consolidateAfter": after}})).await;
        fixture.create_empty_node("a").await;
        fixture.set_conditions("a", &[("Drifted", "True")]).await;
        fixture.pass_validation_delay().await;
        assert_eq!(fixture.commands(), [expected], "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn pending_commands_count_against_the_budget() {
    let fixture = Fixture::new(json!({"disruption": {"budgets": [{"nodes": "1"}]}})).await;
    fixture.create_empty_node("a").await;
    node(&fixture.bench, "b", "large", &json!({})).await;
    running_pod(&fixture.bench, "p", "b", "1").await;
    fixture.pass_until_idle().await;
    assert_eq!(fixture.command_queue.commands().len(), 0, "it rests");
    fixture.bench.pass(15 * SECOND).await;
    fixture.pass_until_idle().await;
    assert_eq!(fixture.commands(), ["Empty: delete: [a]"], "30/LOOP-6");
}

#[tokio::test(start_paused = true)]
async fn an_invalid_budget_blocks_only_its_own_pool() {
    let wrong = json!([{"nodes": "5", "schedule": "0 0 * * tue-mon", "duration": "1h"}]);
    let fixture = Fixture::new(json!({"disruption": {"budgets": wrong}})).await;
    create_pool(&fixture.bench, "other", &json!({})).await;
    fixture.create_drifted_node("a").await;
    let other = json!({"metadata": {"labels": {"karpenter.sh/nodepool": "other"}}});
    node(&fixture.bench, "b", "large", &other).await;
    fixture.set_conditions("b", &[("Drifted", "True"), ("Consolidatable", "False")]).await;
    fixture.pass_until_idle().await;
    let commands = fixture.command_queue.commands();
    let nodes: Vec<_> = commands
        .iter()
        .flat_map(|active| &active.command.candidates)
        .map(|one| &*one.name)
        .collect();
    assert_eq!(nodes, ["b"], "30/LOOP-9");
    let allowed = |pool| {
        let labels = [("nodepool", pool), ("reason", "drifted")];
        fixture.count("nodepools_allowed_disruptions", &labels)
    };
    assert_eq!((allowed(POOL), allowed("other")), (0, 1), "30/LOOP-9");
    let text = "invalid disruption budgets in nodepool general, ";
    let errors = events::budget_errors(&Observation::collect(&fixture.bench.context).await);
    assert!(errors.starts_with(text), "30/LOOP-9: {errors}");
    let range = "beginning of range (2) beyond end of range (1)";
    assert!(errors.contains(range), "30/LOOP-9: {errors}");
}

#[tokio::test(start_paused = true)]
async fn gauges_show_allowed_disruptions_and_eligible_nodes() {
    let fixture = Fixture::new(json!({"disruption": {"budgets": [{"nodes": "30%"}]}})).await;
    for index in 0..10 {
        let name = format!("n{index}");
        node(&fixture.bench, &name, "large", &json!({})).await;
        running_pod(&fixture.bench, &format!("p{index}"), &name, "15").await;
    }
    let annotation = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    let held = merged(running_with_cpu("100m"), &annotation);
    fixture.bench.create(pod("held", Some("n0"), &held)).await;
    fixture.pass().await;
    let drifted = [("nodepool", POOL), ("reason", "drifted")];
    assert_eq!(fixture.count("nodepools_allowed_disruptions", &drifted), 3, "30/IF-5, 45/OB-1");
    assert_eq!(fixture.count("nodepools_nodes_consuming_budgets", &drifted), 0, "30/IF-5");
    let eligible =
        || fixture.count("voluntary_disruption_eligible_nodes", &[("reason", "underutilized")]);
    assert_eq!(eligible(), 9, "30/IF-4");
    fixture.bench.delete(pod("held", Some("n0"), &json!({}))).await;
    fixture.pass().await;
    assert_eq!(eligible(), 10, "30/IF-4");
}

#[tokio::test(start_paused = true)]
async fn a_pool_with_a_zero_budget_gets_an_event_and_is_evaluated_again() {
    let fixture = Fixture::new(json!({"disruption": {"budgets": [{"nodes": "0"}]}})).await;
    fixture.create_empty_node("a").await;
    fixture.pass_validation_delay().await;
    assert!(fixture.commands().is_empty(), "30/BUD-16");
    let text = "No allowed disruptions for disruption reason Empty due to blocking budget";
    let events = fixture.bench.events();
    assert!(events.iter().any(|(_, message)| message == text), "30/BUD-16: {events:?}");
    // Nothing but the budget changes, which changes nothing that could be consolidated.
    fixture.patch_pool(json!({"disruption": {"budgets": [{"nodes": "100%"}]}})).await;
    fixture.pass_validation_delay().await;
    assert_eq!(fixture.commands(), ["Empty: delete: [a]"], "30/BUD-16, 30/MEMO-2");
}

#[tokio::test(start_paused = true)]
async fn blocked_nodes_get_a_disruption_blocked_event() {
    let fixture = Fixture::new(json!({})).await;
    node(&fixture.bench, "a", "large", &json!({})).await;
    let held = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    fixture.bench.create(pod("held", Some("a"), &held)).await;
    fixture.pass().await;
    let events: Vec<_> = fixture.bench.published.take();
    let about: Vec<_> = events
        .iter()
        .filter(|event| event.reason == "DisruptionBlocked")
        .map(|event| (event.object.kind.as_deref().unwrap_or_default(), &*event.message))
        .collect();
    let text = "Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=default/held)";
    assert_eq!(about, [("Node", text), ("NodeClaim", text)]);
}

#[tokio::test(start_paused = true)]
async fn an_unconsolidatable_node_gets_one_event_with_the_reason() {
    let fixture = Fixture::new(json!({"disruption": {"consolidateAfter": "Never"}})).await;
    node(&fixture.bench, "a", "large", &json!({})).await;
    running_pod(&fixture.bench, "p", "a", "1").await;
    fixture.pass().await;
    let texts = || -> Vec<String> {
        let events = fixture.bench.events().into_iter();
        events.filter(|event| event.0 == "Unconsolidatable").map(|event| event.1).collect()
    };
    let disabled = "NodePool \"general\" has consolidation disabled";
    assert_eq!(texts(), [disabled, disabled], "on Node and NodeClaim");
    let policy = json!({"consolidateAfter": "0s", "consolidationPolicy": "WhenEmpty"});
    fixture.patch_pool(json!({"disruption": policy})).await;
    fixture.bench.pass(5 * 60 * SECOND).await;
    fixture.pass().await;
    assert_eq!(texts(), [""; 0], "30/IF-9");
    fixture.bench.pass(15 * 60 * SECOND).await;
    fixture.pass().await;
    let policy = "NodePool \"general\" has consolidation policy WhenEmpty, but node is not empty";
    assert_eq!(texts(), [policy, policy], "30/IF-9");
}

#[tokio::test(start_paused = true)]
async fn nodes_with_an_unknown_instance_type_are_not_consolidated() {
    let fixture = Fixture::new(json!({})).await;
    node(&fixture.bench, "a", "gone", &json!({})).await;
    running_pod(&fixture.bench, "p", "a", "1").await;
    fixture.pass_validation_delay().await;
    assert!(fixture.commands().is_empty());
    let text = "Instance Type \"gone\" not found";
    assert!(fixture.bench.events().iter().any(|(_, message)| message == text));
    fixture.set_conditions("a", &[("Drifted", "True")]).await;
    fixture.pass_until_idle().await;
    assert_eq!(fixture.commands(), ["Drifted: replace: [a] -> [1 replacement]"], "30/CAND-15");
}

#[tokio::test(start_paused = true)]
async fn nodes_with_buffer_pods_are_not_deleted_as_empty() {
    let fixture = Fixture::with(options_with_gates(&[Gate::CapacityBuffer]), json!({})).await;
    fixture.create_empty_node("a").await;
    fixture.create_empty_node("b").await;
    let held = [("fake:///a".to_owned(), 1)].into_iter().collect();
    fixture.bench.context.mirror.set_buffer_pods(held);
    fixture.pass_validation_delay().await;
    assert_eq!(fixture.commands(), ["Empty: delete: [b]"], "30/EMP-7");
    let text = "Node \"a\" has buffer pods";
    assert!(fixture.bench.events().iter().any(|(_, message)| message == text), "30/EMP-7");
    fixture.bench.context.mirror.set_buffer_pods(BTreeMap::new());
    fixture.pass_validation_delay().await;
    assert_eq!(fixture.commands(), ["Empty: delete: [a]", "Empty: delete: [b]"], "30/EMP-7");
}

#[tokio::test(start_paused = true)]
async fn invalid_do_not_disrupt_annotations_get_an_event() {
    let fixture = Fixture::new(json!({})).await;
    node(&fixture.bench, "a", "large", &json!({})).await;
    let wrong = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "soon"}}});
    fixture.bench.create(pod("p", Some("a"), &wrong)).await;
    fixture.pass().await;
    let reasons: Vec<_> = fixture.bench.events().into_iter().map(|(reason, _)| reason).collect();
    assert!(reasons.contains(&"InvalidDoNotDisruptAnnotation".to_owned()), "30/CAND-19");
}
