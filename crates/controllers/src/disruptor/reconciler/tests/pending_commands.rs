//! Tests of consolidation commands in their validation delay.

use karpenter_cluster::assumptions::nomination_window;
use karpenter_core::testing::{TypeBuilder, instance_type};

use super::*;
use crate::disruptor::testing::{ZONE, types};

/// Returns options with the upstream search: one command at a time.
fn upstream() -> Options {
    Options { consolidation_search: ConsolidationSearch::Upstream, ..Options::default() }
}

/// Creates a large node with one pod of this CPU request.
pub(super) async fn create_used_node(fixture: &Fixture, name: &str, cpu: &str) {
    node(&fixture.bench, name, "large", &json!({})).await;
    running_pod(&fixture.bench, &format!("{name}-pod"), name, cpu).await;
}

/// Nominates a node for pods.
fn nominate(fixture: &Fixture, name: &str) {
    let (context, id) = (&fixture.bench.context, format!("fake:///{name}"));
    let window = nomination_window(context.options.batch_max_duration);
    context.mirror.nominate(&id, context.clock.now(), window);
}

fn failed(fixture: &Fixture, kind: &str) -> usize {
    let name = "voluntary_disruption_failed_validations_total";
    fixture.count(name, &[("consolidation_type", kind)])
}

#[tokio::test(start_paused = true)]
async fn empty_nodes_are_deleted_together_after_the_validation_delay() {
    let fixture = Fixture::new(json!({})).await;
    fixture.create_empty_node("a").await;
    fixture.create_empty_node("b").await;
    assert_eq!(fixture.pass().await, REQUEUE_NOW);
    assert_eq!(fixture.pass().await, Outcome::RequeueAfter(POLL));
    assert!(fixture.commands().is_empty() && !fixture.is_tainted("a").await, "30/EMP-1");
    fixture.bench.pass(10 * SECOND).await;
    let Outcome::RequeueAfter(rest) = fixture.pass().await else { panic!("it rests") };
    assert!(rest <= 5 * SECOND, "30/EMP-1: {rest:?}");
    fixture.bench.pass(rest).await;
    fixture.pass().await;
    assert_eq!(fixture.commands(), ["Empty: delete: [a, b]"], "30/EMP-1");
    fixture.reconcile_commands().await;
    assert!(fixture.is_deleted("a").await && fixture.is_deleted("b").await, "30/EMP-1");
}

#[tokio::test(start_paused = true)]
async fn an_oversized_node_is_replaced_by_a_cheaper_one() {
    for options in [upstream(), Options::default()] {
        let fixture = Fixture::with(options, json!({})).await;
        create_used_node(&fixture, "a", "1").await;
        fixture.pass_validation_delay().await;
        let commands = fixture.commands();
        assert_eq!(commands, ["Underutilized: replace: [a] -> [1 replacement]"], "30/CON-4");
        let [claim] = &fixture.replacements()[..] else { panic!("one replacement") };
        let types = claim.spec.requirements.iter().find(|r| r.key.ends_with("instance-type"));
        let types = types.and_then(|requirement| requirement.values.clone());
        assert_eq!(types, Some(vec!["small".to_owned()]), "30/CON-4");
        let text = "Consolidation candidate: replace: [a] -> [1 replacement] (savings: $0.90)";
        let events = fixture.bench.events();
        let about = events.iter().filter(|(_, message)| message == text).count();
        assert_eq!(about, 2, "{events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn several_nodes_are_replaced_by_one() {
    for options in [upstream(), Options::default()] {
        let fixture = Fixture::with(options, json!({})).await;
        for name in ["a", "b", "c"] {
            create_used_node(&fixture, name, "500m").await;
        }
        fixture.pass_validation_delay().await;
        let commands = fixture.commands();
        let text = "Underutilized: replace: [a, b, c] -> [1 replacement]";
        assert_eq!(commands, [text], "30/MUL-1");
        let replacement = fixture.replacements()[0].name_any();
        fixture.initialize(&replacement).await;
        fixture.reconcile_commands().await;
        for name in ["a", "b", "c"] {
            assert!(fixture.is_deleted(name).await, "30/MUL-1: {name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn several_nodes_wait_for_all_of_their_replacements() {
    let deep = Options { consolidation_search: ConsolidationSearch::Deep, ..Options::default() };
    let fixture = Fixture::with(deep, json!({})).await;
    let medium = instance_type("medium").cpu("17").memory("64Gi").no_overhead();
    let types = types().into_iter().chain([medium.on_demand(ZONE, 0.4)]);
    fixture.bench.cloud.set_types(types.map(TypeBuilder::build));
    // Three of these pods fit on a new node, and none on an old one.
    for name in ["a", "b", "c"] {
        create_used_node(&fixture, name, "5500m").await;
        running_pod(&fixture.bench, &format!("{name}-other"), name, "5500m").await;
    }
    fixture.pass_validation_delay().await;
    let text = "Underutilized: replace: [a, b, c] -> [2 replacements]";
    assert_eq!(fixture.commands(), [text], "30/INV-8");
    let [one, other] = &fixture.replacements()[..] else { panic!("two replacements") };
    fixture.initialize(&one.name_any()).await;
    fixture.reconcile_commands().await;
    assert!(!fixture.is_deleted("a").await, "30/INV-8: the other is not ready");
    fixture.initialize(&other.name_any()).await;
    fixture.reconcile_commands().await;
    for name in ["a", "b", "c"] {
        assert!(fixture.is_deleted(name).await, "30/INV-8: {name}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_node_that_gets_a_pod_stays() {
    let fixture = Fixture::with(upstream(), json!({})).await;
    fixture.create_empty_node("a").await;
    fixture.create_empty_node("b").await;
    fixture.pass_until_idle().await;
    running_pod(&fixture.bench, "p", "a", "15").await;
    fixture.bench.pass(15 * SECOND).await;
    fixture.pass_until_idle().await;
    assert_eq!(fixture.commands(), ["Empty: delete: [b]"], "30/VAL-1");
    let alone = Fixture::with(upstream(), json!({})).await;
    alone.create_empty_node("a").await;
    alone.pass_until_idle().await;
    running_pod(&alone.bench, "p", "a", "15").await;
    alone.bench.pass(15 * SECOND).await;
    alone.pass_until_idle().await;
    assert!(alone.commands().is_empty(), "30/VAL-1");
    assert_eq!(failed(&alone, "empty"), 1, "30/VAL-1");
}

#[tokio::test(start_paused = true)]
async fn an_empty_node_that_stays_is_capacity_for_other_candidates() {
    for options in [upstream(), Options::default()] {
        // A pod arrives during the validation delay. It needs no other place.
        let fixture = Fixture::with(options.clone(), json!({})).await;
        create_used_node(&fixture, "b", "3").await;
        fixture.create_empty_node("a").await;
        fixture.pass().await;
        running_pod(&fixture.bench, "p", "a", "13").await;
        fixture.pass_validation_delay().await;
        assert_eq!(fixture.commands(), ["Underutilized: delete: [b]"], "{options:?}");
        // The node must stay. The decision has changed, not the cluster.
        let fixture = Fixture::with(options, json!({})).await;
        create_used_node(&fixture, "b", "3").await;
        fixture.create_empty_node("a").await;
        fixture.pass_until_idle().await;
        let notes = json!({"karpenter.sh/do-not-disrupt": "true"});
        let node = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "a", "annotations": notes}});
        fixture.bench.patch(node).await;
        fixture.bench.pass(15 * SECOND).await;
        fixture.pass_validation_delay().await;
        assert_eq!(fixture.commands(), ["Underutilized: delete: [b]"]);
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_replacements_exceed_pool_limits_by_at_most_one() {
    for (limit, begun) in [(json!({}), 4), (json!({"cpu": "64"}), 1), (json!({"cpu": "66"}), 2)] {
        let fixture = Fixture::new(json!({"limits": limit})).await;
        for name in ["a", "b", "c", "d"] {
            node(&fixture.bench, name, "large", &json!({})).await;
            // One on each node.
            let ports = json!({"spec": {"containers": [{
                "name": "main", "image": "none", "ports": [{"containerPort": 80, "hostPort": 80}],
                "resources": {"requests": {"cpu": "1500m"}},
            }]}});
            let changes = merged(running_with_cpu("1500m"), &ports);
            fixture.bench.create(pod(&format!("{name}-pod"), Some(name), &changes)).await;
        }
        fixture.pass_validation_delay().await;
        assert_eq!(fixture.commands().len(), begun, "64 are there, limit {limit}");
        assert_eq!(fixture.replacements().len(), begun, "limit {limit}");
    }
}

/// Clusters in which each method finds something, with how many nodes of it.
async fn each_method() -> Vec<(&'static str, usize, Fixture)> {
    let mut all = Vec::new();
    let fixture = Fixture::with(upstream(), json!({})).await;
    fixture.create_empty_node("a").await;
    all.push(("empty", 1, fixture));
    let fixture = Fixture::with(upstream(), json!({})).await;
    create_used_node(&fixture, "a", "1").await;
    all.push(("single", 1, fixture));
    let fixture = Fixture::with(upstream(), json!({})).await;
    create_used_node(&fixture, "a", "500m").await;
    create_used_node(&fixture, "b", "500m").await;
    all.push(("multi", 2, fixture));
    all
}

#[tokio::test(start_paused = true)]
async fn a_command_that_the_budget_no_longer_allows_is_dropped() {
    for (kind, count, fixture) in Box::pin(each_method()).await {
        fixture.pass_until_idle().await;
        fixture.patch_pool(json!({"disruption": {"budgets": [{"nodes": "0%"}]}})).await;
        fixture.bench.pass(15 * SECOND).await;
        fixture.pass_until_idle().await;
        assert!(fixture.commands().is_empty(), "30/VAL-2: {kind}");
        assert_eq!(failed(&fixture, kind), count, "30/VAL-2: {kind}");
        assert!(!fixture.is_tainted("a").await, "30/VAL-2: {kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_on_a_nominated_node_is_dropped_and_recomputed() {
    for (kind, count, fixture) in Box::pin(each_method()).await {
        fixture.pass_until_idle().await;
        nominate(&fixture, "a");
        fixture.bench.pass(15 * SECOND).await;
        fixture.pass_until_idle().await;
        assert_eq!(failed(&fixture, kind), count, "30/VAL-3: {kind}");
        fixture.bench.pass(10 * SECOND).await;
        fixture.pass_validation_delay().await;
        let nodes: usize = fixture
            .command_queue
            .commands()
            .iter()
            .map(|active| active.command.candidates.len())
            .sum();
        // Of several nodes the one that was not nominated may go before.
        assert!(nodes > 0, "30/VAL-3, 30/MEMO-3: {kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_has_become_too_small_is_not_launched() {
    let fixture = Fixture::with(upstream(), json!({})).await;
    create_used_node(&fixture, "a", "1").await;
    fixture.pass_until_idle().await;
    running_pod(&fixture.bench, "more", "a", "10").await;
    fixture.bench.pass(15 * SECOND).await;
    fixture.pass_until_idle().await;
    assert!(fixture.commands().is_empty() && fixture.replacements().is_empty(), "30/VAL-4");
    let rejected = "Consolidation rejected: replace: [a] -> [1 replacement], reason: scheduling \
                    (savings: $0.90)";
    let events = fixture.bench.events();
    assert!(events.iter().any(|(_, message)| message == rejected), "30/VAL-4: {events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_do_not_disrupt_pod_invalidates_a_pending_command() {
    let hold = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    for (kind, _, fixture) in Box::pin(each_method()).await.into_iter().skip(1) {
        fixture.pass_until_idle().await;
        fixture
            .bench
            .create(pod("held", Some("a"), &merged(running_with_cpu("100m"), &hold)))
            .await;
        fixture.bench.pass(15 * SECOND).await;
        fixture.pass_until_idle().await;
        assert!(!fixture.is_tainted("a").await, "30/VAL-5: {kind}");
        let events = fixture.bench.events();
        let is_rejected = |(reason, message): &(String, String)| {
            reason == "ConsolidationRejected" && message.contains("reason: churn")
        };
        assert!(events.iter().any(is_rejected), "30/VAL-5, 30 §13 #4: {kind}: {events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn single_node_consolidation_follows_a_dropped_multi_node_command() {
    let fixture = Fixture::with(upstream(), json!({})).await;
    create_used_node(&fixture, "a", "500m").await;
    create_used_node(&fixture, "b", "500m").await;
    fixture.pass_until_idle().await;
    nominate(&fixture, "b");
    fixture.bench.pass(15 * SECOND).await;
    fixture.pass_until_idle().await;
    assert_eq!(failed(&fixture, "multi"), 2, "30/LOOP-10");
    fixture.bench.pass(15 * SECOND).await;
    fixture.pass_until_idle().await;
    let commands = fixture.command_queue.commands();
    let [only] = &commands[..] else { panic!("30/LOOP-10, 30/VAL-6: one command") };
    assert_eq!(only.command.method, Method::SingleNode, "30/LOOP-10, 30/VAL-6");
}

#[tokio::test(start_paused = true)]
async fn consolidation_pauses_after_a_dropped_single_node_command() {
    let fixture = Fixture::with(upstream(), json!({})).await;
    // Together they need what they have.
    create_used_node(&fixture, "a", "1500m").await;
    create_used_node(&fixture, "b", "1500m").await;
    fixture.pass_until_idle().await;
    let held = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    fixture.bench.create(pod("held", Some("a"), &merged(running_with_cpu("100m"), &held))).await;
    fixture.bench.pass(15 * SECOND).await;
    assert_eq!(fixture.pass().await, Outcome::RequeueAfter(POLL), "30/VAL-7");
    let events = fixture.bench.events();
    let rejected = events.iter().filter(|(reason, _)| reason == "ConsolidationRejected").count();
    assert_eq!(rejected, 2, "30/VAL-7: {events:?}");
    assert_eq!(fixture.pass().await, Outcome::RequeueAfter(POLL), "30/VAL-7");
    fixture.bench.pass(POLL).await;
    fixture.pass_validation_delay().await;
    assert_eq!(fixture.commands(), ["Underutilized: delete: [b]"], "30/VAL-7");
}

#[tokio::test(start_paused = true)]
async fn a_method_without_commands_is_skipped_until_the_cluster_changes() {
    let fixture = Fixture::with(upstream(), json!({})).await;
    create_used_node(&fixture, "a", "15").await;
    let evaluations = || {
        let name = "voluntary_disruption_decision_evaluation_duration_seconds_count";
        fixture.count(name, &[("consolidation_type", "single")])
    };
    fixture.pass().await;
    assert_eq!(evaluations(), 1, "30/MEMO-1");
    fixture.pass().await;
    assert_eq!(evaluations(), 1, "30/MEMO-1");
    fixture.bench.pass(5 * 60 * SECOND).await;
    fixture.pass().await;
    assert_eq!(evaluations(), 2, "30/MEMO-1: after a while");
    running_pod(&fixture.bench, "p", "a", "100m").await;
    fixture.pass().await;
    assert_eq!(evaluations(), 3, "30/MEMO-1: after a change");
}

#[tokio::test(start_paused = true)]
async fn deleting_a_node_drops_its_pending_command() {
    let fixture = Fixture::with(upstream(), json!({})).await;
    create_used_node(&fixture, "a", "1").await;
    fixture.pass_until_idle().await;
    fixture.bench.delete(node_claim("a", &json!({}))).await;
    fixture.bench.pass(15 * SECOND).await;
    fixture.pass_until_idle().await;
    assert!(fixture.commands().is_empty() && fixture.replacements().is_empty(), "30 §13 #18");
}

#[tokio::test(start_paused = true)]
async fn destination_nodes_are_nominated_for_the_moved_pods() {
    let fixture = Fixture::new(json!({})).await;
    fixture.create_drifted_node("a").await;
    running_pod(&fixture.bench, "p", "a", "1").await;
    create_used_node(&fixture, "b", "1").await;
    fixture.pass().await;
    assert!(fixture.commands().contains(&"Drifted: delete: [a]".to_owned()), "30/Q-12");
    let (mirror, now) = (&fixture.bench.context.mirror, fixture.bench.context.clock.now());
    assert!(mirror.is_nominated("fake:///b", now), "30/Q-12");
    fixture.bench.pass(15 * SECOND).await;
    fixture.pass_until_idle().await;
    assert_eq!(fixture.commands(), ["Drifted: delete: [a]"], "30/Q-12, 30/INV-10");
}

#[tokio::test(start_paused = true)]
async fn compatible_pending_commands_start_together() {
    let fixture = Fixture::new(json!({})).await;
    // Two of them fit on one small node, and no more.
    for name in ["a", "b", "c", "d"] {
        create_used_node(&fixture, name, "900m").await;
    }
    fixture.pass_validation_delay().await;
    let active_commands = fixture.command_queue.commands();
    let nodes: BTreeSet<_> = active_commands
        .iter()
        .flat_map(|active| &active.command.candidates)
        .map(|one| &*one.name)
        .collect();
    let count: usize = active_commands.iter().map(|active| active.command.candidates.len()).sum();
    assert_eq!(count, nodes.len(), "30/INV-10");
    let saved: f64 = active_commands.iter().map(|active| active.command.savings).sum();
    assert!(saved > 2.5, "of 4 dollars an hour: {saved}");
}
