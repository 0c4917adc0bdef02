//! Tests of drift commands, which start without a validation delay.

use karpenter_api::labels::INSTANCE_TYPE;
use karpenter_api::requirement::Requirement;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_drifted_node_is_deleted_when_its_replacement_is_initialized() {
    let fixture = Fixture::new(json!({})).await;
    fixture.create_drifted_node("a").await;
    running_pod(&fixture.bench, "p", "a", "1").await;
    fixture.pass_until_idle().await;
    assert_eq!(fixture.commands(), ["Drifted: replace: [a] -> [1 replacement]"], "30/DRF-1");
    let [replacement] = &fixture.replacements()[..] else { panic!("one replacement") };
    fixture.reconcile_commands().await;
    assert!(!fixture.is_deleted("a").await, "30/DRF-1");
    fixture.initialize(&replacement.name_any()).await;
    fixture.reconcile_commands().await;
    assert!(fixture.is_deleted("a").await, "30/DRF-1");
    assert!(fixture.commands().is_empty());
}

#[tokio::test(start_paused = true)]
async fn drift_disrupts_nodes_up_to_the_budget() {
    let disruption = json!({"budgets": [{"nodes": "30%"}], "consolidateAfter": "Never"});
    let fixture = Fixture::new(json!({"disruption": disruption})).await;
    for index in 0..10 {
        let name = format!("n{index}");
        fixture.create_drifted_node(&name).await;
        running_pod(&fixture.bench, &format!("p{index}"), &name, "1").await;
    }
    for begun in [1, 2, 3] {
        assert_eq!(fixture.pass().await, REQUEUE_NOW, "30/Q-14");
        assert_eq!(fixture.commands().len(), begun, "30/Q-14, 30/DRF-7");
    }
    assert_eq!(fixture.pass().await, Outcome::RequeueAfter(POLL), "30/Q-14");
    assert_eq!(fixture.commands().len(), 3, "30/Q-14, 30/DRF-7");
}

/// An unlaunched replacement is not a node yet. It counts against the limits with the most that it
/// may become, and its pods are placed on it.
#[tokio::test(start_paused = true)]
async fn unlaunched_replacements_count_against_the_limits() {
    let fixture = Fixture::new(json!({"limits": {"cpu": "20"}})).await;
    for (name, pod) in [("a", "p"), ("b", "q")] {
        node(&fixture.bench, name, "small", &json!({})).await;
        fixture.set_conditions(name, &[("Drifted", "True"), ("Consolidatable", "False")]).await;
        running_pod(&fixture.bench, pod, name, "2").await;
    }
    fixture.pass_until_idle().await;
    let one_each = ["a", "b"].map(|node| format!("Drifted: replace: [{node}] -> [1 replacement]"));
    assert_eq!(fixture.commands(), one_each, "no launch is waited for");
    let mut types: Vec<_> = fixture.replacements().iter().map(|claim| types_of(claim)).collect();
    types.sort();
    assert_eq!(types, [vec!["large", "small"], vec!["small"]]);
}

fn types_of(claim: &NodeClaim) -> Vec<String> {
    let of_types = |one: &&Requirement| one.key == INSTANCE_TYPE;
    let found = claim.spec.requirements.iter().find(of_types).expect("it names its types");
    found.values.clone().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_pool_backs_off_after_a_failed_replacement() {
    let fixture = Fixture::new(json!({})).await;
    fixture.create_drifted_node("a").await;
    running_pod(&fixture.bench, "p", "a", "1").await;
    fixture.pass_until_idle().await;
    let replacement = fixture.replacements().remove(0).name_any();
    fixture.bench.delete(node_claim(&replacement, &json!({}))).await;
    fixture.reconcile_commands().await;
    assert!(fixture.commands().is_empty() && !fixture.is_tainted("a").await, "30/DRF-8");
    fixture.pass_until_idle().await;
    assert!(fixture.commands().is_empty(), "30 §13 #15");
    fixture.bench.pass(60 * SECOND).await;
    fixture.pass_until_idle().await;
    assert_eq!(fixture.commands(), ["Drifted: replace: [a] -> [1 replacement]"], "30/DRF-8");
}

/// Its own node counts while its replacement is created: the pool is over its limit.
#[tokio::test(start_paused = true)]
async fn a_pool_at_its_limit_backs_off_and_other_pools_continue() {
    let fixture = Fixture::new(json!({"limits": {"cpu": "15"}})).await;
    fixture.create_drifted_node("a").await;
    running_pod(&fixture.bench, "p", "a", "1").await;
    fixture.pass().await;
    assert_eq!(fixture.command_queue.backed_off(fixture.bench.context.clock.now()).len(), 1);
    assert!(!fixture.is_tainted("a").await, "30 §13 #15: taken back");
    create_pool(&fixture.bench, "other", &json!({})).await;
    let other = json!({"metadata": {"labels": {"karpenter.sh/nodepool": "other"}}});
    node(&fixture.bench, "b", "large", &other).await;
    fixture.set_conditions("b", &[("Drifted", "True"), ("Consolidatable", "False")]).await;
    running_pod(&fixture.bench, "q", "b", "1").await;
    fixture.pass_until_idle().await;
    let begun = || {
        let commands = fixture.command_queue.commands();
        let candidates = commands.iter().flat_map(|active| &active.command.candidates);
        candidates.map(|one| one.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(begun(), ["b"], "30 §13 #15");
    fixture.patch_pool(json!({"limits": {"cpu": "1000"}})).await;
    fixture.pass_until_idle().await;
    assert_eq!(begun(), ["b"], "30 §13 #15: it waits");
    fixture.bench.pass(60 * SECOND).await;
    fixture.pass_until_idle().await;
    let mut names = begun();
    names.sort();
    assert_eq!(names, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn deleting_a_pool_rolls_its_command_back() {
    let fixture = Fixture::new(json!({})).await;
    fixture.create_drifted_node("a").await;
    running_pod(&fixture.bench, "p", "a", "1").await;
    fixture.pass_until_idle().await;
    assert_eq!(fixture.commands().len(), 1);
    fixture.bench.delete(node_pool(POOL)).await;
    // Its NodeClaims are deleted with it.
    if let Some(replacement) = fixture.replacements().first() {
        fixture.bench.delete(node_claim(&replacement.name_any(), &json!({}))).await;
    }
    fixture.reconcile_commands().await;
    assert!(fixture.commands().is_empty());
    assert!(!fixture.is_tainted("a").await, "30/INV-9");
    assert_eq!(
        fixture.pass_until_idle().await,
        Outcome::RequeueAfter(POLL),
        "nothing more is tried"
    );
}

#[tokio::test(start_paused = true)]
async fn a_static_pool_replaces_its_nodes_as_budget_and_limit_allow() {
    let options = options_with_gates(&[Gate::StaticCapacity]);
    for (case, limit, budget, begun) in [
        ("30/SDR-1", json!({}), "2", 2),
        ("30/SDR-2", json!({"limits": {"nodes": "5"}}), "100%", 0),
        ("30/SDR-3: 7", json!({"limits": {"nodes": "7"}}), "100%", 2),
        ("30/SDR-3: 6", json!({"limits": {"nodes": "6"}}), "100%", 1),
        ("30/SDR-4", json!({}), "100%", 5),
    ] {
        let disruption = json!({"budgets": [{"nodes": budget}]});
        let spec = merged(json!({"replicas": 5, "disruption": disruption}), &limit);
        let fixture = Fixture::with(options.clone(), spec).await;
        for index in 0..5 {
            fixture.create_drifted_node(&format!("n{index}")).await;
        }
        fixture.pass().await;
        assert_eq!(fixture.commands().len(), begun, "{case}");
        assert_eq!(fixture.replacements().len(), begun, "{case}");
        let counts = fixture.bench.context.mirror.node_counts(POOL);
        let going = counts.deleting + counts.pending_disruption;
        assert_eq!((counts.active, going), (5, begun), "{case}");
        let text = "static NodePool is at its node limit and cannot stage a replacement";
        let has_event = fixture.bench.events().iter().any(|(_, message)| message == text);
        assert_eq!(has_event, begun == 0, "{case}");
        fixture.pass_until_idle().await;
        assert_eq!(fixture.commands().len(), begun, "{case}: no more");
    }
}

#[tokio::test(start_paused = true)]
async fn new_pods_use_an_in_flight_replacement() {
    let fixture = Fixture::new(json!({})).await;
    let context = &fixture.bench.context;
    fixture.create_drifted_node("a").await;
    running_pod(&fixture.bench, "p", "a", "500m").await;
    fixture.pass_until_idle().await;
    assert_eq!(fixture.replacements().len(), 1);
    let mut controllers = crate::provisioner::all(context);
    let is_lifecycle = |one: &Controller| one.name() == "nodeclaim.lifecycle";
    controllers.extend(crate::nodeclaim::all(context).into_iter().filter(is_lifecycle));
    fixture.bench.run(controllers);
    fixture.bench.pass(30 * SECOND).await;
    let waiting = json!({"status": {"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
    }]}});
    fixture.bench.create(pod("late", None, &merged(running_with_cpu("500m"), &waiting))).await;
    fixture.bench.pass(60 * SECOND).await;
    let claims = fixture.replacements();
    assert!(has(&claims[0], "Launched", "True"), "30/Q-11");
    assert_eq!(claims.len(), 1, "30/Q-11");
}
