//! What is taken back at the start of a pass.

use super::*;

/// Taints a node and names the reason, as a command would have.
async fn leave_over(fixture: &Fixture, name: &str) {
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

/// A node that nothing is done about.
async fn quiet(fixture: &Fixture, name: &str) {
    fixture.empty(name).await;
    fixture.set_conditions(name, &[("Consolidatable", "False")]).await;
}

#[tokio::test(start_paused = true)]
async fn marks_that_nobody_is_responsible_for_are_taken_back() {
    let fixture = Fixture::new(json!({})).await;
    quiet(&fixture, "a").await;
    leave_over(&fixture, "a").await;
    assert_eq!(is_marked(&fixture, "a").await, [true, true]);
    fixture.pass().await;
    assert_eq!(is_marked(&fixture, "a").await, [false, false], "30/LOOP-2");
}

#[tokio::test(start_paused = true)]
async fn the_mark_of_a_node_that_never_was_ready_is_taken_back() {
    let fixture = Fixture::new(json!({})).await;
    quiet(&fixture, "a").await;
    leave_over(&fixture, "a").await;
    fixture.set_conditions("a", &[("Initialized", "Unknown")]).await;
    fixture.pass().await;
    assert_eq!(is_marked(&fixture, "a").await, [false, false], "45 §17 #12");
}

#[tokio::test(start_paused = true)]
async fn nodes_that_go_keep_their_marks() {
    let fixture = Fixture::new(json!({})).await;
    for name in ["deleted", "marked", "rebooting"] {
        quiet(&fixture, name).await;
        leave_over(&fixture, name).await;
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
    fixture.drifted("a").await;
    running_pod(&fixture.bench, "p", "a", "1").await;
    fixture.passes().await;
    assert_eq!(is_marked(&fixture, "a").await, [true, true]);
    fixture.pass().await;
    assert_eq!(is_marked(&fixture, "a").await, [true, true], "30/LOOP-4");
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_a_command_is_taken_back_and_its_replacement_stays() {
    let fixture = Fixture::new(json!({})).await;
    fixture.drifted("a").await;
    running_pod(&fixture.bench, "p", "a", "1").await;
    fixture.passes().await;
    let replacements = fixture.replacements().len();
    assert_eq!((replacements, is_marked(&fixture, "a").await), (1, [true, true]));
    fixture.set_conditions("a", &[("Drifted", "False")]).await;
    let fixture = fixture.restarted();
    fixture.passes().await;
    assert_eq!(is_marked(&fixture, "a").await, [false, false], "30/Q-15");
    assert_eq!(fixture.replacements().len(), 1, "30/Q-15");
    assert!(!fixture.is_deleted("a").await, "30/Q-15");
}
