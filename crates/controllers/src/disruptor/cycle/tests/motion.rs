//! Looking at a cluster that changes meanwhile, with a search of our own.

use super::rested::used;
use super::*;

/// Time goes by, and then whatever is to be done is done.
async fn later(fixture: &Fixture, seconds: u32) {
    fixture.bench.pass(seconds * SECOND).await;
    fixture.passes().await;
}

#[tokio::test(start_paused = true)]
async fn an_empty_node_whose_command_rests_takes_no_pods() {
    let fixture = Fixture::new(json!({})).await;
    fixture.empty("e").await;
    fixture.passes().await;
    used(&fixture, "a", "1").await;
    fixture.passes().await;
    later(&fixture, 15).await;
    let commands = ["Empty: delete: [e]", "Underutilized: replace: [a] -> [1 replacement]"];
    assert_eq!(fixture.commands(), commands);
}

#[tokio::test(start_paused = true)]
async fn a_command_that_needs_no_replacement_any_more_begins_without() {
    for (search, expected) in [
        (ConsolidationSearch::Best, &["Underutilized: delete: [a]"][..]),
        (ConsolidationSearch::Upstream, &[]),
    ] {
        let options = Options { consolidation_search: search, ..Options::default() };
        let fixture = Fixture::with(options, json!({})).await;
        used(&fixture, "a", "1").await;
        fixture.passes().await;
        // There is room for the pod on another node now.
        used(&fixture, "b", "15").await;
        later(&fixture, 15).await;
        assert_eq!(fixture.commands(), expected, "{search:?}");
        let nominated = fixture.bench.context.mirror.nominated(fixture.bench.context.clock.now());
        let is_kept = nominated.contains_key("fake:///b");
        assert_eq!(is_kept, !expected.is_empty(), "where the pod goes: {search:?}");
        assert!(fixture.replacements().is_empty(), "{search:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn when_a_command_is_dropped_it_looks_again_at_once() {
    let fixture = Fixture::new(json!({})).await;
    used(&fixture, "a", "500m").await;
    used(&fixture, "b", "500m").await;
    fixture.passes().await;
    let held = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    fixture.bench.create(pod("held", Some("a"), &merged(asking("100m"), &held))).await;
    later(&fixture, 15).await;
    assert!(fixture.commands().is_empty());
    later(&fixture, 15).await;
    assert_eq!(fixture.commands(), ["Underutilized: delete: [b]"]);
}

#[tokio::test(start_paused = true)]
async fn while_pods_begin_to_move_it_does_not_look() {
    let fixture = Fixture::new(json!({})).await;
    used(&fixture, "a", "1").await;
    fixture.rest().await;
    assert_eq!(fixture.commands().len(), 1);
    used(&fixture, "b", "15500m").await;
    used(&fixture, "c", "1").await;
    fixture.passes().await;
    later(&fixture, 9).await;
    later(&fixture, 1).await;
    later(&fixture, 14).await;
    assert_eq!(fixture.commands().len(), 1, "it was found too early");
    later(&fixture, 1).await;
    assert_eq!(fixture.commands().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_about_to_be_consolidatable_are_waited_for() {
    let after = json!({"disruption": {"consolidateAfter": "10s"}});
    let fixture = Fixture::new(after).await;
    used(&fixture, "a", "500m").await;
    used(&fixture, "b", "500m").await;
    fixture.set_conditions("a", &[("Consolidatable", "False")]).await;
    let Outcome::After(wait) = fixture.passes().await else { panic!("it waits") };
    assert!(wait > 9 * SECOND && wait <= 10 * SECOND, "{wait:?}");
    fixture.bench.pass(8 * SECOND).await;
    let Outcome::After(wait) = fixture.passes().await else { panic!("it waits") };
    assert!(wait > SECOND && wait <= 2 * SECOND, "{wait:?}");
    fixture.bench.pass(2 * SECOND).await;
    fixture.set_conditions("a", &[("Consolidatable", "True")]).await;
    fixture.passes().await;
    later(&fixture, 15).await;
    let together = ["Underutilized: replace: [a, b] -> [1 replacement]"];
    assert_eq!(fixture.commands(), together);
}

#[tokio::test(start_paused = true)]
async fn who_never_becomes_consolidatable_is_waited_for_twenty_seconds() {
    let after = json!({"disruption": {"consolidateAfter": "10s"}});
    let fixture = Fixture::new(after).await;
    used(&fixture, "a", "15500m").await;
    used(&fixture, "b", "500m").await;
    fixture.set_conditions("a", &[("Consolidatable", "False")]).await;
    fixture.passes().await;
    for _ in 0..19 {
        later(&fixture, 1).await;
    }
    // It is found now, and not before.
    later(&fixture, 1).await;
    later(&fixture, 14).await;
    assert!(fixture.commands().is_empty());
    later(&fixture, 1).await;
    assert_eq!(fixture.commands(), ["Underutilized: delete: [b]"]);
}
