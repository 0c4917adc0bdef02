//! Tests of marks without a command, which a pass removes.

use super::*;

/// Taints a node and sets the disruption reason, as a command would have.
async fn create_orphaned_marks(fixture: &Fixture, name: &str) {
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]},
    });
    fixture.bench.patch(node).await;
    fixture.set_conditions(name, &[("DisruptionReason", "True")]).await;
}

async fn is_marked(fixture: &Fixture, name: &str) -> [bool; 2] {
    let claim = fixture.bench.claim(name).await;
    [fixture.is_tainted(name).await, has(&claim, "DisruptionReason", "True")]
}

/// Creates a node that no method disrupts.
async fn create_unconsolidatable_node(fixture: &Fixture, name: &str) {
    fixture.create_empty_node(name).await;
    fixture.set_conditions(name, &[("Consolidatable", "False")]).await;
}

#[tokio::test(start_paused = true)]
async fn marks_without_a_command_are_removed() {
    let fixture = Fixture::new(json!({})).await;
    create_unconsolidatable_node(&fixture, "a").await;
    create_orphaned_marks(&fixture, "a").await;
    assert_eq!(is_marked(&fixture, "a").await, [true, true]);
    fixture.pass().await;
    assert_eq!(is_marked(&fixture, "a").await, [false, false], "30/LOOP-2");
}

#[tokio::test(start_paused = true)]
async fn marks_of_uninitialized_nodes_are_removed() {
    let fixture = Fixture::new(json!({})).await;
    create_unconsolidatable_node(&fixture, "a").await;
    create_orphaned_marks(&fixture, "a").await;
    fixture.set_conditions("a", &[("Initialized", "Unknown")]).await;
    fixture.pass().await;
    assert_eq!(is_marked(&fixture, "a").await, [false, false], "45 §17 #12");
}

#[tokio::test(start_paused = true)]
async fn deleting_and_rebooting_nodes_keep_their_marks() {
    let fixture = Fixture::new(json!({})).await;
    for name in ["deleted", "marked", "rebooting"] {
        create_unconsolidatable_node(&fixture, name).await;
        create_orphaned_marks(&fixture, name).await;
    }
    let finalizers = json!({"metadata": {"finalizers": ["karpenter.sh/termination"]}});
    let deleted = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "deleted"}});
    fixture.bench.patch(merged(deleted.clone(), &finalizers)).await;
    fixture.bench.delete(deleted).await;
    let (context, now) = (&fixture.bench.context, fixture.bench.context.clock.now());
    context.mirror.mark_for_deletion(["fake:///marked"], now, Timestamp::MAX);
    fixture.set_conditions("rebooting", &[("Rebooting", "True")]).await;
    fixture.pass().await;
    assert!(fixture.is_tainted("deleted").await, "30/LOOP-3");
    assert_eq!(is_marked(&fixture, "marked").await, [true, true], "30/LOOP-4");
    assert_eq!(is_marked(&fixture, "rebooting").await, [true, true], "45/RM-19");
}

#[tokio::test(start_paused = true)]
async fn nodes_of_a_command_keep_their_marks() {
    let fixture = Fixture::new(json!({})).await;
    fixture.create_drifted_node("a").await;
    running_pod(&fixture.bench, "p", "a", "1").await;
    fixture.pass_until_idle().await;
    assert_eq!(is_marked(&fixture, "a").await, [true, true]);
    fixture.pass().await;
    assert_eq!(is_marked(&fixture, "a").await, [true, true], "30/LOOP-4");
}

#[tokio::test(start_paused = true)]
async fn a_restart_rolls_commands_back_and_keeps_their_replacements() {
    let fixture = Fixture::new(json!({})).await;
    fixture.create_drifted_node("a").await;
    running_pod(&fixture.bench, "p", "a", "1").await;
    fixture.pass_until_idle().await;
    let replacements = fixture.replacements().len();
    assert_eq!((replacements, is_marked(&fixture, "a").await), (1, [true, true]));
    fixture.set_conditions("a", &[("Drifted", "False")]).await;
    let fixture = fixture.restarted();
    fixture.pass_until_idle().await;
    assert_eq!(is_marked(&fixture, "a").await, [false, false], "30/Q-15");
    assert_eq!(fixture.replacements().len(), 1, "30/Q-15");
    assert!(!fixture.is_deleted("a").await, "30/Q-15");
}
