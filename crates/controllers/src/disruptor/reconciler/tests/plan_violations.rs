//! A command that breaks a rule does not start; the other commands of the pass do.
//!
//! Every test runs at both levels, so that it covers a release build too.

use karpenter_core::disruption::PassContext;
use karpenter_core::id::NodeId;
use karpenter_core::verify::Level;

use super::*;
use crate::testing::logs::ErrorLog;

const LEVELS: [Level; 2] = [Level::Essential, Level::Complete];
const LOG: &str = "dropping invalid part of plan, this is a bug";

/// Returns the command without delay: that of drift.
fn drift_command(commands: &mut [Command]) -> Option<&mut Command> {
    commands.iter_mut().find(|command| command.method == Method::Drift)
}

/// Moves the pods of the drift command to a node.
fn move_pods_to(context: &PassContext<'_>, commands: &mut [Command], name: &str) {
    let Some(command) = drift_command(commands) else { return };
    let node = context.snapshot.nodes.iter().position(|node| node.name == name);
    for (target, _) in &mut command.plan.existing_nodes {
        *target = NodeId::new(node.expect("a node"));
    }
}

type Corrupt = fn(&PassContext<'_>, &mut Vec<Command>);

/// Each breaks the rule that it is named after.
const CORRUPTIONS: [(&str, Corrupt); 7] = [
    ("resources", |context, commands| move_pods_to(context, commands, "full")),
    ("taints", |context, commands| move_pods_to(context, commands, "tainted")),
    ("node_affinity", |context, commands| move_pods_to(context, commands, "unlabelled")),
    ("node_stays", |context, commands| move_pods_to(context, commands, "empty")),
    ("one_place_per_pod", |_, commands| {
        let Some(command) = drift_command(commands) else { return };
        let again = command.plan.existing_nodes.clone();
        command.plan.existing_nodes.extend(again);
    }),
    ("one_place_per_pod", |_, commands| {
        let Some(command) = drift_command(commands) else { return };
        command.plan.existing_nodes.clear();
    }),
    ("known_ids", |_, commands| {
        let Some(command) = drift_command(commands) else { return };
        command.plan.existing_nodes[0].0 = NodeId(9999);
    }),
];

/// A cluster with an empty node, and a drifted one whose pod fits on node `roomy`.
async fn fixture(level: Level) -> Fixture {
    let mut bench = Box::pin(cluster(Options::default(), &json!({}))).await;
    bench.context.plan_check.level = level;
    let fixture = Fixture::of(bench);
    let disk = json!({"metadata": {"labels": {"disk": "ssd"}}});
    for (name, type_, labels) in [
        ("drifted", "large", &disk),
        ("full", "small", &disk),
        ("roomy", "large", &disk),
        ("tainted", "large", &disk),
        ("unlabelled", "large", &json!({})),
    ] {
        node(&fixture.bench, name, type_, labels).await;
        fixture.set_conditions(name, &[("Consolidatable", "False")]).await;
        if name != "drifted" {
            running_pod(&fixture.bench, &format!("pod-of-{name}"), name, "1").await;
        }
    }
    fixture.set_conditions("drifted", &[("Drifted", "True"), ("Consolidatable", "False")]).await;
    let selecting = json!({"spec": {"nodeSelector": {"disk": "ssd"}}});
    let moved = merged(running_with_cpu("3"), &selecting);
    fixture.bench.create(pod("moved", Some("drifted"), &moved)).await;
    let taints = json!([{"key": "team", "value": "a", "effect": "NoSchedule"}]);
    let tainted = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "tainted"},
        "spec": {"taints": taints}});
    fixture.bench.patch(tainted).await;
    fixture.create_empty_node("empty").await;
    fixture
}

fn corrupt(fixture: &Fixture, corrupt: Option<Corrupt>) {
    let check = &fixture.bench.context.plan_check;
    check.corruption.lock().unwrap().commands = corrupt.map(|corrupt| Box::new(corrupt) as _);
}

#[tokio::test(start_paused = true)]
async fn only_valid_commands_start() {
    for level in LEVELS {
        for (rule, corruption) in CORRUPTIONS {
            let case = format!("{rule} at {level:?}");
            let fixture = fixture(level).await;
            let log = ErrorLog::start();
            corrupt(&fixture, Some(corruption));
            fixture.pass_validation_delay().await;
            assert_eq!(fixture.commands(), ["Empty: delete: [empty]"], "{case}");
            assert!(!fixture.is_tainted("drifted").await, "{case}: nothing is written");
            assert!(fixture.replacements().is_empty(), "{case}: nothing is launched");
            let labels = [("controller", "disruption"), ("rule", rule)];
            assert!(fixture.count("rs_plan_violations_total", &labels) > 0, "{case}");
            let lines = log.lines_with(LOG);
            assert!(lines.iter().all(|line| line.contains("drifted")), "{case}: {lines:?}");
            assert!(!lines.is_empty(), "{case}");

            corrupt(&fixture, None);
            fixture.pass_until_idle().await;
            let commands = ["Drifted: delete: [drifted]", "Empty: delete: [empty]"];
            assert_eq!(fixture.commands(), commands, "{case}: the next pass finds it again");
        }
    }
}

/// The command was valid when it was found, and its pods go elsewhere fifteen seconds later.
#[tokio::test(start_paused = true)]
async fn a_command_is_verified_again_after_its_validation_delay() {
    for level in LEVELS {
        let mut bench = Box::pin(cluster(Options::default(), &json!({}))).await;
        bench.context.plan_check.level = level;
        let fixture = Fixture::of(bench);
        for name in ["a", "b"] {
            node(&fixture.bench, name, "large", &json!({})).await;
        }
        running_pod(&fixture.bench, "p", "a", "1").await;
        running_pod(&fixture.bench, "q", "b", "14").await;
        fixture.pass_until_idle().await;
        corrupt(
            &fixture,
            Some(|_, commands| {
                for command in commands {
                    command.plan.existing_nodes.clear();
                }
            }),
        );
        let log = ErrorLog::start();
        fixture.bench.pass(15 * SECOND).await;
        fixture.pass_until_idle().await;
        assert_eq!(fixture.commands(), Vec::<String>::new(), "{level:?}");
        assert!(!log.lines_with(LOG).is_empty(), "{level:?}");
        corrupt(&fixture, None);
        fixture.pass_validation_delay().await;
        assert_eq!(fixture.commands(), ["Underutilized: delete: [a]"], "{level:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn valid_commands_report_nothing() {
    for level in LEVELS {
        let fixture = fixture(level).await;
        let log = ErrorLog::start();
        fixture.pass_validation_delay().await;
        assert_eq!(fixture.commands().len(), 2, "{level:?}");
        assert_eq!(fixture.count("rs_plan_violations_total", &[]), 0, "{level:?}");
        assert_eq!(log.lines_with(LOG), Vec::<String>::new(), "{level:?}");
    }
}
