//! Tests of the command checks: budgets, replacements, costs and log lines.

use serde_json::json;

use super::*;

const NOW: &str = "2026-01-05T12:30:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn command(reason: Reason, sources: &[&str], replacements: &[&str]) -> Command {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Command {
        id: "1".to_owned(),
        reason,
        at: now(),
        sources: owned(sources),
        replacements: Some(owned(replacements)),
        cost: None,
        has_failed: false,
    }
}

/// A claim of the pool `a` with these conditions.
fn claim(name: &str, conditions: &[&str]) -> NodeClaim {
    let condition = |kind: &&str| {
        json!({
            "type": kind, "status": "True", "reason": kind, "message": "",
            "lastTransitionTime": NOW,
        })
    };
    let claim = json!({
        "metadata": {"name": name, "labels": {labels::NODEPOOL: "a"}},
        "spec": {"requirements": [], "nodeClassRef": {"group": "", "kind": "", "name": ""}},
        "status": {"conditions": conditions.iter().map(condition).collect::<Vec<_>>()},
    });
    serde_json::from_value(claim).unwrap()
}

fn pool(budgets: &Value) -> NodePool {
    let mut pool = NodePool::default();
    pool.metadata.name = Some("a".to_owned());
    pool.spec.disruption = serde_json::from_value(json!({"budgets": budgets})).unwrap();
    pool
}

#[test]
fn a_command_may_not_take_more_nodes_than_a_budget_allows() {
    let plain = &[INITIALIZED][..];
    let claims = [
        claim("a", plain),
        claim("b", plain),
        claim("going", &[INITIALIZED, DISRUPTION_REASON]),
        claim("ended", &[INITIALIZED, DISRUPTION_REASON, INSTANCE_TERMINATING]),
        claim("new", &[]),
    ];
    let one = || vec![command(Reason::Underutilized, &["a"], &[])];
    let both = || vec![command(Reason::Underutilized, &["a", "b"], &[])];
    let noon =
        |duration: &str| json!([{"nodes": "0", "schedule": "0 12 * * *", "duration": duration}]);
    let now_on = json!([{"nodes": "0", "schedule": "29 12 * * *", "duration": "1h"}]);
    for (case, budgets, begun, expected) in [
        ("with the one that goes already", json!([{"nodes": "2"}]), one(), None),
        ("one more", json!([{"nodes": "2"}]), both(), Some((3, 2))),
        ("of nodes that are there", json!([{"nodes": "66%"}]), one(), None),
        ("rounded up", json!([{"nodes": "67%"}]), both(), None),
        ("the tightest", json!([{"nodes": "3"}, {"nodes": "1"}]), one(), Some((2, 1))),
        ("of another reason", json!([{"nodes": "0", "reasons": ["Empty"]}]), both(), None),
        ("in its hour", noon("1h"), one(), Some((2, 0))),
        ("after its hour", noon("20m"), both(), None),
        ("it has just begun", now_on, both(), None),
        ("without any", json!([]), both(), None),
        ("without a word", Value::Null, one(), Some((2, 1))),
    ] {
        let found = budget_violations(&begun, &[pool(&budgets)], &claims, now());
        let expected: Vec<String> = expected
            .iter()
            .map(|(going, allowed)| format!(
                "{going} of 3 nodes of NodePool a are disrupted at once, of {allowed} for Underutilized"
            ))
            .collect();
        assert_eq!(found, expected, "{case}");
    }
}

#[test]
fn a_budget_for_one_reason_ignores_later_commands_for_others() {
    let claims = ["a", "b", "c"].map(|name| claim(name, &[INITIALIZED]));
    let few = json!([{"nodes": "1", "reasons": ["Empty"]}]);
    let empty = command(Reason::Empty, &["a"], &[]);
    let others = command(Reason::Underutilized, &["b", "c"], &[]);
    let found = |begun: &[Command]| budget_violations(begun, &[pool(&few)], &claims, now());
    assert_eq!(found(&[empty.clone(), others.clone()]), [""; 0]);
    let text = "3 of 3 nodes of NodePool a are disrupted at once, of 1 for Empty";
    assert_eq!(found(&[others, empty]), [text]);
}

#[test]
fn existing_replacements_that_are_not_ready_are_reported() {
    let claims = [claim("ready", &[INITIALIZED]), claim("late", &[]), claim("other", &[])];
    let command = command(Reason::Drifted, &["x"], &["ready", "late", "gone"]);
    let late: Vec<String> = unready_replacements(&command, &claims)
        .into_iter()
        .map(kube::ResourceExt::name_any)
        .collect();
    assert_eq!(late, ["late"]);
}

#[test]
fn only_consolidation_at_stable_prices_must_reduce_cost() {
    let before = |minutes| Some(now() - SignedDuration::from_mins(minutes));
    for (reason, changed, expected) in [
        (Reason::Underutilized, None, true),
        (Reason::Empty, before(3), true),
        (Reason::Underutilized, before(2), false),
        (Reason::Underutilized, before(-5), false),
        (Reason::Drifted, None, false),
    ] {
        let command = command(reason, &["x"], &[]);
        assert_eq!(must_reduce_cost(&command, changed), expected, "{reason} {changed:?}");
    }
}

#[test]
fn log_lines_record_a_command_from_start_to_end() {
    let mut commands = Commands::default();
    let text = "Underutilized/7f: replace: nodepools=[a]: [n] -> [1 replacement] (savings: $0.10)";
    let nodes = "\u{1e}json:[{\"Node\":{\"name\":\"n\"},\"NodeClaim\":{\"name\":\"c\"}}]";
    let mut record = |message: &str, fields: &[(&'static str, &str)]| {
        commands.record_log_line(&LogLine::new(message, fields), now())
    };
    assert!(record("disrupting node(s)", &[("command", text), ("disrupted-nodes", nodes)]));
    let names = ("replacement-nodeclaims", "\u{1e}json:[\"r\"]");
    assert!(!record("command is under way", &[("command", text), names]));
    let known = commands.active_command_for("c").cloned();
    let expected =
        Command { id: "7f".to_owned(), ..command(Reason::Underutilized, &["c"], &["r"]) };
    assert_eq!(known, Some(expected.clone()));
    assert_eq!(commands.take_unchecked(), [expected]);
    assert!(commands.take_unchecked().is_empty());
    assert_eq!(commands.removals_since(0), 1);
    let failed = "failed terminating nodes while executing a disruption command";
    commands.record_log_line(&LogLine::new(failed, &[("command", text)]), now());
    assert_eq!(commands.active_command_for("c"), None);
    // The same id again, from a process that was started again; it does not get under way.
    let other = "Drifted/7f: delete: nodepools=[a]: [m] (savings: $0.10)";
    assert!(
        commands.record_log_line(&LogLine::new("disrupting node(s)", &[("command", other)]), now())
    );
    let fresh = commands.take_unchecked();
    assert_eq!(fresh.iter().map(|command| command.reason).collect::<Vec<_>>(), [Reason::Drifted]);
    assert_eq!(commands.removals_since(0), 1);
}
