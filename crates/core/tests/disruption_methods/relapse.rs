//! Workloads whose pods found no room after a consolidation.

use karpenter_core::disruption::relapse::annotation;
use karpenter_core::testing::PodBuilder;

use super::*;

const WEB: &str = "default/ReplicaSet/web";

fn web(name: &str) -> PodBuilder {
    pod(name).controller("apps", "ReplicaSet", "web")
}

fn deep() -> Settings {
    Settings { search: Search::Deep, ..Settings::default() }
}

/// A node whose pod would fit on a cheaper one, with that annotation since so many minutes.
fn annotated(text: &str, minutes: i64) -> World {
    let node = of("n", 16).standing(|standing| {
        standing.returned = Some(text.to_owned());
        standing.created = Some(now() - SignedDuration::from_mins(minutes));
    });
    world().node(node).pod(web("p").cpu("3").on("n"))
}

/// Until when the node is left alone, as it is told.
fn spared(world: &World, settings: &Settings) -> Option<String> {
    let pass = run(world, settings);
    let said = "Pods of ReplicaSet default/web found no room after the last consolidation, which is \
                tried again by ";
    let kept = pass.kept.iter().find(|kept| kept.node == "n");
    let until = kept.and_then(|kept| kept.text.strip_prefix(said));
    assert_eq!(until.is_some(), pass.commands.is_empty(), "{kept:?}");
    if let (Some(_), Some(kept)) = (until, kept) {
        assert_eq!(kept.blocked_by, ["ReplicaSet default/web"]);
        assert_eq!(texts(&pass, NoticeKind::Unconsolidatable), [kept.text.as_str()]);
        assert_eq!(pass.settled, [], "it comes back by itself");
    }
    until.map(str::to_owned)
}

#[test]
fn they_are_left_alone_for_a_while_and_each_time_for_longer() {
    let times = [("1", 10), ("2", 20), ("3", 40), ("8", 1280), ("9", 1440), ("4294967295", 1440)];
    for (count, minutes) in times {
        let text = format!("{WEB}={count}");
        for settings in [Settings::default(), deep()] {
            let until = Some((now() + SignedDuration::from_mins(1)).to_string());
            assert_eq!(spared(&annotated(&text, minutes - 1), &settings), until, "{count}");
            assert_eq!(spared(&annotated(&text, minutes), &settings), None, "{count}");
        }
        assert_eq!(spared(&annotated(&text, 0), &upstream()), None, "as upstream searches");
    }
}

#[test]
fn what_cannot_be_read_means_nothing() {
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
        let found = spared(&annotated(text, 0), &Settings::default());
        assert_eq!(found.is_some(), is_spared, "{text:?}");
    }
}

#[test]
fn who_keeps_coming_back_waits_until_pods_come_or_go_or_for_a_day() {
    let bare = annotated("", 0);
    let grown = annotated("", 0).pod(web("q").cpu("1").on("n"));
    let daemon = pod("d").owner(Owner::DaemonSet).controller("apps", "DaemonSet", "d");
    let on_node = annotated("", 0).pod(daemon.on("n"));
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
        let text = annotation(&then.snapshot, [(WEB.to_owned(), count)]);
        let found = spared(&annotated(&text, minutes), &Settings::default());
        assert_eq!(found.is_some(), expected, "{case}");
    }
}

#[test]
fn an_annotation_names_the_most_frequent_ones() {
    let many = (1..100).map(|count| (format!("default/ReplicaSet/r{count}"), count));
    let text = annotation(&World::empty().snapshot, many);
    assert!(text.starts_with("default/ReplicaSet/r99=99,default/ReplicaSet/r98=98,"), "{text}");
    assert_eq!(text.split(',').count(), 9, "{text}");
}

#[test]
fn only_consolidation_leaves_them_alone() {
    let text = format!("{WEB}=1");
    let mut drifted = annotated(&text, 0);
    drifted.snapshot.nodes[0].standing.drifted_at = Some(now());
    let pass = run(&drifted, &Settings::default());
    assert_eq!(said(&pass), [(Method::Drift, Decision::Replace, vec!["n"])]);
    let mut empty = annotated(&text, 0);
    empty.snapshot.pods.clear();
    let pass = run(&empty, &Settings::default());
    assert_eq!(said(&pass), [(Method::Emptiness, Decision::Delete, vec!["n"])]);
}
