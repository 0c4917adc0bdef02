//! Tests of failed consolidations: the pods of the removed nodes needed a new node again.

use karpenter_core::disruption::failed_consolidation::annotation_value;
use karpenter_core::testing::PodBuilder;

use super::*;

const WEB: &str = "default/ReplicaSet/web";

fn web(name: &str) -> PodBuilder {
    pod(name).controller("apps", "ReplicaSet", "web")
}

fn deep() -> Settings {
    Settings { search: SearchMode::Deep, ..Settings::default() }
}

/// Returns a world with a node that has this annotation for failed consolidations.
///
/// The pod would fit on a cheaper node. The NodeClaim is this many minutes old.
fn world_with_annotation(text: &str, minutes: i64) -> World {
    let node = node_of_size("n", 16).disruption_state(|state| {
        state.failed_consolidations = Some(text.to_owned());
        state.node_claim_created_at = Some(now() - SignedDuration::from_mins(minutes));
    });
    world().node(node).pod(web("p").cpu("3").on_node("n"))
}

/// Returns the retry time in the message on the retained node.
fn retry_time(world: &World, settings: &Settings) -> Option<String> {
    let pass = run(world, settings);
    let prefix = "Pods of ReplicaSet default/web found no room after the last consolidation, which is \
                tried again by ";
    let kept = pass.retained_nodes.iter().find(|kept| kept.node == "n");
    let until = kept.and_then(|kept| kept.text.strip_prefix(prefix));
    assert_eq!(until.is_some(), pass.commands.is_empty(), "{kept:?}");
    if let (Some(_), Some(kept)) = (until, kept) {
        assert_eq!(kept.blocked_by, ["ReplicaSet default/web"]);
        assert_eq!(notice_texts(&pass, NodeEventKind::Unconsolidatable), [kept.text.as_str()]);
        assert_eq!(pass.settled, [], "it comes back by itself");
    }
    until.map(str::to_owned)
}

#[test]
fn the_backoff_grows_with_each_failed_consolidation() {
    let times = [("1", 10), ("2", 20), ("3", 40), ("8", 1280), ("9", 1440), ("4294967295", 1440)];
    for (count, minutes) in times {
        let text = format!("{WEB}={count}");
        for settings in [Settings::default(), deep()] {
            let until = Some((now() + SignedDuration::from_mins(1)).to_string());
            assert_eq!(
                retry_time(&world_with_annotation(&text, minutes - 1), &settings),
                until,
                "{count}"
            );
            assert_eq!(
                retry_time(&world_with_annotation(&text, minutes), &settings),
                None,
                "{count}"
            );
        }
        assert_eq!(
            retry_time(&world_with_annotation(&text, 0), &upstream()),
            None,
            "as upstream searches"
        );
    }
}

#[test]
fn an_unparsable_annotation_is_ignored() {
    #[rustfmt::skip]
    let cases = [
        ("", false), (",", false), ("=", false), ("=1", false), ("/=1", false), ("//=1", false),
        ("web=1", false), ("default/web=1", false), ("default/ReplicaSet/web/more=1", false),
        ("default/ReplicaSet/web", false), ("default/ReplicaSet/web=", false),
        ("default/ReplicaSet/web=0", false), ("default/ReplicaSet/web=-1", false),
        ("default/ReplicaSet/web=4294967296", false), ("default/ReplicaSet/web=1=1", false),
        ("default/ReplicaSet/other=1", false), ("default/StatefulSet/web=1", false),
        ("other/ReplicaSet/web=1", false), ("pods=0123", false), ("ü/ö/ä=é", false),
        ("?, default/ReplicaSet/web = 1 ,pods=", true),
    ];
    for (text, is_spared) in cases {
        let found = retry_time(&world_with_annotation(text, 0), &Settings::default());
        assert_eq!(found.is_some(), is_spared, "{text:?}");
    }
}

#[test]
fn after_three_failures_the_workload_backs_off_for_a_day() {
    let bare = world_with_annotation("", 0);
    let grown = world_with_annotation("", 0).pod(web("q").cpu("1").on_node("n"));
    let daemon = pod("d").owner(OwnerKind::DaemonSet).controller("apps", "DaemonSet", "d");
    let on_node = world_with_annotation("", 0).pod(daemon.on_node("n"));
    #[rustfmt::skip]
    let cases = [
        ("twice",            2, &bare,    21,   false),
        ("three times",      3, &bare,    41,   true),
        ("for a day",        3, &bare,    1439, true),
        ("after a day",      3, &bare,    1440, false),
        ("a pod less",       3, &grown,   41,   false),
        ("a pod less, soon", 3, &grown,   39,   true),
        ("pods of nodes",    3, &on_node, 41,   true),
    ];
    for (case, count, then, minutes, expected) in cases {
        let text = annotation_value(&then.snapshot, [(WEB.to_owned(), count)]);
        let found = retry_time(&world_with_annotation(&text, minutes), &Settings::default());
        assert_eq!(found.is_some(), expected, "{case}");
    }
}

#[test]
fn the_annotation_lists_the_workloads_with_the_most_failures() {
    let many = (1..100).map(|count| (format!("default/ReplicaSet/r{count}"), count));
    let text = annotation_value(&World::empty().snapshot, many);
    assert!(text.starts_with("default/ReplicaSet/r99=99,default/ReplicaSet/r98=98,"), "{text}");
    assert_eq!(text.split(',').count(), 9, "{text}");
}

#[test]
fn drift_and_emptiness_ignore_failed_consolidations() {
    let text = format!("{WEB}=1");
    let mut drifted = world_with_annotation(&text, 0);
    drifted.snapshot.nodes[0].disruption_state.drifted_at = Some(now());
    let pass = run(&drifted, &Settings::default());
    assert_eq!(command_summaries(&pass), [(Method::Drift, Decision::Replace, vec!["n"])]);
    let mut empty = world_with_annotation(&text, 0);
    empty.snapshot.pods.clear();
    let pass = run(&empty, &Settings::default());
    assert_eq!(command_summaries(&pass), [(Method::Emptiness, Decision::Delete, vec!["n"])]);
}
