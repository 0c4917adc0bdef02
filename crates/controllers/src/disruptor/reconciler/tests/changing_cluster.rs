//! Tests of consolidation in a cluster that changes meanwhile, with our own search.

use super::pending_commands::create_used_node;
use super::*;

/// Lets time pass, then runs passes until there is nothing to do.
async fn advance_and_pass(fixture: &Fixture, seconds: u32) {
    fixture.bench.pass(seconds * SECOND).await;
    fixture.pass_until_idle().await;
}

#[tokio::test(start_paused = true)]
async fn consolidation_moves_no_pods_to_an_empty_node_pending_deletion() {
    let fixture = Fixture::new(json!({})).await;
    fixture.create_empty_node("e").await;
    fixture.pass_until_idle().await;
    create_used_node(&fixture, "a", "1").await;
    fixture.pass_until_idle().await;
    advance_and_pass(&fixture, 15).await;
    let commands = ["Empty: delete: [e]", "Underutilized: replace: [a] -> [1 replacement]"];
    assert_eq!(fixture.commands(), commands);
}

#[tokio::test(start_paused = true)]
async fn a_pending_command_drops_a_replacement_it_no_longer_needs() {
    for (search, expected) in [
        (ConsolidationSearch::Best, &["Underutilized: delete: [a]"][..]),
        (ConsolidationSearch::Upstream, &[]),
    ] {
        let options = Options { consolidation_search: search, ..Options::default() };
        let fixture = Fixture::with(options, json!({})).await;
        create_used_node(&fixture, "a", "1").await;
        fixture.pass_until_idle().await;
        // There is room for the pod on another node now.
        create_used_node(&fixture, "b", "15").await;
        advance_and_pass(&fixture, 15).await;
        assert_eq!(fixture.commands(), expected, "{search:?}");
        let nominated = fixture.bench.context.mirror.nominations(fixture.bench.context.clock.now());
        let is_kept = nominated.contains_key("fake:///b");
        assert_eq!(is_kept, !expected.is_empty(), "where the pod goes: {search:?}");
        assert!(fixture.replacements().is_empty(), "{search:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_command_is_followed_by_a_new_evaluation_at_once() {
    let fixture = Fixture::new(json!({})).await;
    create_used_node(&fixture, "a", "500m").await;
    create_used_node(&fixture, "b", "500m").await;
    fixture.pass_until_idle().await;
    let held = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    fixture.bench.create(pod("held", Some("a"), &merged(running_with_cpu("100m"), &held))).await;
    advance_and_pass(&fixture, 15).await;
    assert!(fixture.commands().is_empty());
    advance_and_pass(&fixture, 15).await;
    assert_eq!(fixture.commands(), ["Underutilized: delete: [b]"]);
}

#[tokio::test(start_paused = true)]
async fn consolidation_pauses_after_a_command_starts() {
    let fixture = Fixture::new(json!({})).await;
    create_used_node(&fixture, "a", "1").await;
    fixture.pass_validation_delay().await;
    assert_eq!(fixture.commands().len(), 1);
    create_used_node(&fixture, "b", "15500m").await;
    create_used_node(&fixture, "c", "1").await;
    fixture.pass_until_idle().await;
    advance_and_pass(&fixture, 9).await;
    advance_and_pass(&fixture, 1).await;
    advance_and_pass(&fixture, 14).await;
    assert_eq!(fixture.commands().len(), 1, "it was found too early");
    advance_and_pass(&fixture, 1).await;
    assert_eq!(fixture.commands().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn consolidation_waits_for_nodes_about_to_be_consolidatable() {
    let after = json!({"disruption": {"consolidateAfter": "10s"}});
    let fixture = Fixture::new(after).await;
    create_used_node(&fixture, "a", "500m").await;
    create_used_node(&fixture, "b", "500m").await;
    fixture.set_conditions("a", &[("Consolidatable", "False")]).await;
    let Outcome::RequeueAfter(wait) = fixture.pass_until_idle().await else { panic!("it waits") };
    assert!(wait > 9 * SECOND && wait <= 10 * SECOND, "{wait:?}");
    fixture.bench.pass(8 * SECOND).await;
    let Outcome::RequeueAfter(wait) = fixture.pass_until_idle().await else { panic!("it waits") };
    assert!(wait > SECOND && wait <= 2 * SECOND, "{wait:?}");
    fixture.bench.pass(2 * SECOND).await;
    fixture.set_conditions("a", &[("Consolidatable", "True")]).await;
    fixture.pass_until_idle().await;
    advance_and_pass(&fixture, 15).await;
    let together = ["Underutilized: replace: [a, b] -> [1 replacement]"];
    assert_eq!(fixture.commands(), together);
}

#[tokio::test(start_paused = true)]
async fn consolidation_waits_at_most_twenty_seconds_for_other_nodes() {
    let after = json!({"disruption": {"consolidateAfter": "10s"}});
    let fixture = Fixture::new(after).await;
    create_used_node(&fixture, "a", "15500m").await;
    create_used_node(&fixture, "b", "500m").await;
    fixture.set_conditions("a", &[("Consolidatable", "False")]).await;
    fixture.pass_until_idle().await;
    for _ in 0..19 {
        advance_and_pass(&fixture, 1).await;
    }
    // It is found now, and not before.
    advance_and_pass(&fixture, 1).await;
    advance_and_pass(&fixture, 14).await;
    assert!(fixture.commands().is_empty());
    advance_and_pass(&fixture, 1).await;
    assert_eq!(fixture.commands(), ["Underutilized: delete: [b]"]);
}
