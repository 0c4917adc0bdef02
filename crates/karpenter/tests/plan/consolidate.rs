//! Tests of `karpenter plan --consolidate`.

use super::*;
use serde_json::{Value, json};

/// Returns the documentation's cluster with text replacements; each must match.
#[track_caller]
pub(super) fn cluster_with_changes(changes: &[(&str, &str)]) -> String {
    let text = std::fs::read_to_string(scenarios().join("consolidate.yaml")).unwrap();
    changes.iter().fold(text, |text, (old, new)| {
        assert!(text.contains(old), "{old}");
        text.replace(old, new)
    })
}

/// Returns the table and the JSON of a cluster.
#[track_caller]
fn table_and_json(text: &str) -> (String, Value) {
    let run = |format: &str| {
        let ran = plan(&scenarios(), &["--consolidate", "-f", "-", "-o", format], text);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
        ran
    };
    (run("table").stdout, run("json").json())
}

fn retained_node(report: &Value, list: &str, node: &str) -> Value {
    let mut all = report[list].as_array().unwrap().iter();
    all.find(|kept| kept["node"] == node).cloned().unwrap_or_default()
}

#[track_caller]
fn consolidation_json(args: &[&str]) -> Value {
    let all: Vec<_> = ["--consolidate", "-o", "json"].iter().chain(args).copied().collect();
    let ran = plan(&scenarios(), &all, "");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
    ran.json()
}

#[test]
fn the_table_lists_removed_and_retained_nodes() {
    let ran = plan(&scenarios(), &["--consolidate", "-f", "consolidate.yaml"], "");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    insta::assert_snapshot!(ran.stdout, @r#"
    REMOVE 3 nodes in 3 steps
      STEP  WHY            NODES   PODS  REPLACED BY                                                  SAVES $/HOUR  $/MONTH
         1  empty          node-3     0  -                                                                  0.1086    79.27
         2  underutilized  node-4     1  -                                                                  0.2687   196.17
         3  underutilized  node-5     1  general: c-4x-amd64-linux or 2 more, on-demand, test-zone-d        0.1086    79.27

    STAY 4 nodes
      node-7: Disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation
      node-1: Pdb prevents pod evictions
        blocked by PodDisruptionBudget shop/web, Pod shop/web-1
      node-2: Pod has "karpenter.sh/do-not-disrupt" annotation
        blocked by Pod batch/report
      node-6: Can't replace with a cheaper node
        because of Pod shop/db-0

    3 of 7 nodes would go, 1 would come; they cost $1.4718 an hour, $1074.41 a month; this saves $0.4859 an hour, $354.71 a month (33%)
    "#);
}

#[test]
fn the_upstream_search_finds_the_first_command_of_upstream() {
    let report =
        consolidation_json(&["-f", "consolidate.yaml", "--consolidation-search", "upstream"]);
    let commands = report["commands"].as_array().unwrap();
    assert_eq!(commands.len(), 1, "{report}");
    // As upstream's released core (v1.15.0) answers.
    for (field, value) in [
        ("method", json!("empty")),
        ("decision", json!("delete")),
        ("candidates", json!(["node-3"])),
        ("replacements", json!([])),
        ("pods", json!([])),
    ] {
        assert_eq!(commands[0][field], value, "{field}");
    }
    assert!((commands[0]["savings"].as_f64().unwrap() - 0.108_589_934_592).abs() < 1e-9);
}

#[test]
fn the_blocking_objects_of_a_node_are_listed() {
    let report = consolidation_json(&["-f", "consolidate.yaml"]);
    let kept = |node: &str| retained_node(&report, "kept", node);
    assert_eq!(
        kept("node-1")["blockedBy"],
        json!(["Pod shop/web-1", "PodDisruptionBudget shop/web"])
    );
    assert_eq!(kept("node-2")["blockedBy"], json!(["Pod batch/report"]));
    let text = "Disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation";
    assert_eq!(kept("node-7")["text"], text);
}

#[test]
fn total_savings_are_the_sum_of_the_savings_of_the_commands() {
    let report = consolidation_json(&["-f", "consolidate.yaml"]);
    let commands = report["commands"].as_array().unwrap().iter();
    let sum: f64 = commands.map(|command| command["savings"].as_f64().unwrap()).sum();
    let total = report["totalSavings"].as_f64().unwrap();
    assert!(sum > 0.0 && (sum - total).abs() < 1e-9, "{sum} {total}");
    assert!((report["monthlySavings"].as_f64().unwrap() - 730.0 * total).abs() < 1e-6);
    assert!(report["totalPrice"].as_f64().unwrap() > total);
}

#[test]
fn consolidation_json_and_yaml_are_equal() {
    let mut json = consolidation_json(&["-f", "consolidate.yaml"]);
    let yaml = plan(&scenarios(), &["--consolidate", "-f", "consolidate.yaml", "-o", "yaml"], "");
    let mut yaml: Value = serde_saphyr::from_str(&yaml.stdout).unwrap();
    for field in ["seconds", "setupSeconds"] {
        assert!(json[field].take().is_number());
        yaml[field].take();
    }
    round_numbers(&mut json);
    round_numbers(&mut yaml);
    assert_eq!(json, yaml);
}

/// Rounds numbers: those of the two readers differ in the last digit.
fn round_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => *value = format!("{:.9}", number.as_f64().unwrap()).into(),
        Value::Array(items) => items.iter_mut().for_each(round_numbers),
        Value::Object(fields) => fields.values_mut().for_each(round_numbers),
        _ => {}
    }
}

#[test]
fn a_budget_schedule_is_evaluated_at_the_given_time() {
    let text = std::fs::read_to_string(scenarios().join("consolidate.yaml")).unwrap();
    let text = text.replace(
        "budgets: [{nodes: 50%}]",
        "budgets: [{nodes: '0', schedule: '0 9 * * mon-fri', duration: 8h}]",
    );
    let going = |now: &str| {
        let args = ["--consolidate", "-o", "json", "-f", "-", "--now", now];
        let ran = plan(&scenarios(), &args, &text);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        let report = ran.json();
        (report["commands"].as_array().unwrap().len(), report["kept"].as_array().unwrap().len())
    };
    assert_eq!(going("2026-08-20T12:00:00Z"), (0, 7)); // a Thursday
    assert!(going("2026-08-22T12:00:00Z").0 > 0); // a Saturday
}

const DRIFTED_CONDITION: &str = "  - {type: Drifted, status: \"True\", reason: NodePoolDrifted, \
                       lastTransitionTime: \"2026-08-02T00:00:00Z\"}\n";

/// Makes nodes drifted.
#[track_caller]
fn with_drift(nodes: &[&str]) -> String {
    nodes.iter().fold(cluster_with_changes(&[]), |text, node| {
        let (head, tail) = text.split_once(&format!("nodeName: {node}\n")).unwrap();
        let tail =
            tail.replacen("  conditions:\n", &format!("  conditions:\n{DRIFTED_CONDITION}"), 1);
        format!("{head}nodeName: {node}\n{tail}")
    })
}

#[test]
fn a_drifted_node_is_listed_as_replaced_by_drift() {
    let (table, report) = table_and_json(&with_drift(&["node-3", "node-6", "node-7"]));
    let message = "Node has drifted: drift replaces it, not consolidation";
    let expected = format!("\nREPLACED BY DRIFT 1 node\n  node-6: {message}\n\nSTAY 3 nodes\n");
    assert!(table.contains(&expected), "{table}");
    assert_eq!(retained_node(&report, "kept", "node-6"), json!(null));
    let drifted = retained_node(&report, "drifted", "node-6");
    assert_eq!((&drifted["reason"], &drifted["text"]), (&json!("Drifted"), &json!(message)));
    // What keeps it from consolidation keeps it from drift as well.
    assert!(table.contains("  node-7 (drifted): Disruption is blocked"), "{table}");
    assert_eq!(retained_node(&report, "kept", "node-7")["drifted"], true);
    // It is empty, and the empty method comes before drift. Underutilized nodes come after.
    assert_eq!(report["commands"][0]["drifted"], json!(["node-3"]));
    assert!(!table.contains("may replace"), "{table}");
    let line = "\n  drift of 1 node comes before underutilized nodes, and counts against the same \
                budgets\n";
    assert!(table.contains(line), "{table}");
}

#[test]
fn unreadable_pods_and_budgets_block_their_node() {
    let node_4 = |changes: &[(&str, &str)]| {
        let ran = plan(
            &scenarios(),
            &["--consolidate", "-f", "-", "-o", "json"],
            cluster_with_changes(changes),
        );
        assert_eq!(ran.code, 1, "{ran:?}");
        retained_node(&ran.json(), "kept", "node-4")
    };
    let request = "nodeName: node-4\n  containers: [{name: c, resources: {requests: {cpu: ";
    let affinity = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
                    {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Near}]}]}}}";
    let new = [format!("{request}\"3,5\"}}}}}}] #"), format!("{affinity}\n  {request}")];
    for new in &new {
        let kept = node_4(&[(request, new)]);
        let message = "Pod could not be read whole, and stays where it is (Pod=shop/api-1)";
        assert_eq!(
            (&kept["text"], &kept["blockedBy"]),
            (&json!(message), &json!(["Pod shop/api-1"]))
        );
    }
    let broken = "selector: {matchExpressions: [{key: app, operator: Near}]}";
    for change in
        [("policy/v1\n", "policy/v1beta1\n"), ("selector: {matchLabels: {app: web}}", broken)]
    {
        let kept = node_4(&[change]);
        let message = "Pdb prevents pod evictions (PodDisruptionBudget=[shop/web])";
        assert_eq!(kept["text"], json!(message), "{change:?}");
    }
}

#[test]
fn a_drifted_node_is_retained_if_its_pods_fit_nowhere_else() {
    let text = with_drift(&["node-6"]);
    let text = text.replace(
        "nodeSelector: {topology.kubernetes.io/zone: test-zone-c}",
        "nodeSelector: {disk: ssd}",
    );
    let (table, report) = table_and_json(&text);
    assert!(!table.contains("REPLACED BY DRIFT"), "{table}");
    assert_eq!(report["drifted"], json!([]));
    let stays = retained_node(&report, "kept", "node-6");
    assert_eq!(
        (&stays["reason"], &stays["blockedBy"], &stays["drifted"]),
        (&json!("Blocked"), &json!(["Pod shop/db-0"]), &json!(true))
    );
    let message = "node-6 (drifted): Not all pods would schedule, shop/db-0 => ";
    assert!(table.contains(message), "{table}");
}

#[test]
fn a_node_without_a_known_price_is_left_out_of_the_sums() {
    let known = table_and_json(&cluster_with_changes(&[])).1;
    let (head, tail) = text_with_unknown_instance_type();
    let (table, report) = table_and_json(&format!("{head}{tail}"));
    assert_eq!(report["unpriced"], json!(["node-3"]));
    let command = &report["commands"][0];
    assert_eq!(
        (&command["candidates"], &command["unpriced"]),
        (&json!(["node-3"]), &json!(["node-3"]))
    );
    assert!(command["savings"].as_f64().unwrap().abs() < 1e-9, "nobody knows");
    assert!(known["totalPrice"].as_f64() > report["totalPrice"].as_f64());
    for part in [
        "empty          node-3     0  -                                                                 unknown  unknown\n",
        "this saves at least $0.3773 an hour, ",
        "; node-3 has no known price and is not in the sums\n",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
}

/// Returns the cluster's text with an unknown instance type of node-3.
fn text_with_unknown_instance_type() -> (String, String) {
    let text = cluster_with_changes(&[]);
    let (head, tail) = text.split_once("name: general-3\n").unwrap();
    let (own, rest) = tail.split_once("name: general-4\n").unwrap();
    let own = own.replace("instance-type: c-4x-amd64-linux", "instance-type: gone");
    (format!("{head}name: general-3\n"), format!("{own}name: general-4\n{rest}"))
}

#[test]
fn pods_without_a_controller_are_listed() {
    let owner = "  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: api, uid: api, \
                 controller: true}]\n";
    let (table, report) = table_and_json(&cluster_with_changes(&[(owner, "")]));
    let line = "\n  2 pods have no controller and will not come back: shop/api-1, shop/api-2\n";
    assert!(table.contains(line), "{table}");
    let lost = |at: usize| report["commands"][at]["podsWithoutController"].clone();
    assert_eq!(
        [lost(0), lost(1), lost(2)],
        [json!([]), json!(["shop/api-1"]), json!(["shop/api-2"])]
    );
}

#[test]
fn the_destination_nodes_of_the_pods_are_listed() {
    let report = consolidation_json(&["-f", "consolidate.yaml"]);
    let existing = |at: usize| report["commands"][at]["existing"].clone();
    let placed = json!([{"node": "node-1", "pods": ["shop/api-1"]}]);
    assert_eq!([existing(0), existing(1), existing(2)], [json!([]), placed, json!([])]);
    assert_eq!(report["commands"][2]["replacements"][0]["pods"], json!(["shop/api-2"]));
}

#[test]
fn a_node_blocked_by_a_budget_shows_the_allowed_disruptions() {
    let (table, report) = table_and_json(&cluster_with_changes(&[(
        "nodes: 50%",
        "nodes: '1', reasons: [Underutilized]",
    )]));
    let message = "Disruption budgets of NodePool \"general\" allow no more disruptions: \
                {nodes: 1, reasons: [Underutilized]} allows 1 of 7 nodes at a time, \
                0 are disrupted or not ready already, 1 goes first";
    assert_eq!(retained_node(&report, "kept", "node-5")["text"], message, "{table}");
    assert!(table.contains(message), "{table}");
}

#[test]
fn an_unparsable_disruption_cost_is_reported() {
    let (table, report) = table_and_json(&cluster_with_changes(&[(
        "  name: api-1\n",
        "  name: api-1\n  annotations: {karpenter.sh/disruption-cost: much}\n",
    )]));
    let message =
        "annotation karpenter.sh/disruption-cost is no 32-bit integer: \"much\"; it counts as 0";
    assert_eq!(report["marked"][0]["problem"], message);
    assert!(table.contains(&format!("  Pod shop/api-1: {message}\n")), "{table}");
}

#[test]
fn a_cluster_without_nodes_has_no_commands() {
    let ran = plan(&scenarios(), &["--consolidate", "-f", "-"], format!("{POOL}---\n{POD}"));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    insta::assert_snapshot!(ran.stdout, @r"
    0 of 0 nodes would go; they cost $0.0000 an hour, $0.00 a month
    ");
}

#[test]
fn unreadable_files_are_reported_and_set_the_exit_code() {
    let folder = folder(&[("bad.yaml", "a: [\n")]);
    let bad = folder.path().join("bad.yaml");
    let args = ["--consolidate", "-f", "consolidate.yaml", "-f", bad.to_str().unwrap()];
    let ran = plan(&scenarios(), &args, "");
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("bad.yaml"), "{}", ran.stderr);
    assert!(ran.stdout.contains("would go"), "{}", ran.stdout);
}

#[test]
fn missing_node_pools_and_node_claims_of_nodes_are_reported() {
    let pool = "kind: NodePool\nmetadata: {name: general}";
    let text = cluster_with_changes(&[(pool, "kind: NodePool\nmetadata: {name: other}")]);
    let (table, report) = table_and_json(&text);
    assert_eq!(report["commands"], json!([]));
    let message =
        "NodePool general: is not in the input, or could not be read, so its 7 nodes stay";
    assert!(table.contains(message), "{table}");
    let (table, report) = table_and_json(&cluster_with_changes(&[(
        "  providerID: kwok://node-4\n  capacity",
        "  capacity",
    )]));
    assert_eq!(retained_node(&report, "commands", "node-4"), json!(null));
    let message = "Node node-4: no NodeClaim that could be read has its providerID, so it stays";
    assert!(table.contains(message), "{table}");
}

/// Unreadable content might forbid that they move.
#[test]
fn unreadable_annotations_and_budgets_block_disruption() {
    let pod = (
        "  name: api-1\n  namespace: shop\n",
        "  name: api-1\n  namespace: shop\n  annotations: {a: 5}\n",
    );
    let budget = (
        "metadata: {name: web, namespace: shop}\nspec: {maxUnavailable: 0,",
        "metadata: {name: all, namespace: shop}\nspec: {maxUnavailable: {},",
    );
    for (change, node) in [(pod, "node-4"), (budget, "node-4"), (budget, "node-5")] {
        let ran = plan(
            &scenarios(),
            &["--consolidate", "-f", "-", "-o", "json"],
            cluster_with_changes(&[change]),
        );
        assert_eq!(ran.code, 1, "{ran:?}");
        let report = ran.json();
        assert_eq!(retained_node(&report, "kept", node)["reason"], "Blocked", "{node}: {report}");
    }
}

#[test]
fn a_consolidation_search_without_consolidate_is_a_usage_error() {
    let args = ["-f", "consolidate.yaml", "--consolidation-search", "best"];
    let ran = plan(&scenarios(), &args, "");
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    insta::assert_snapshot!(ran.stderr, @r"
    error: --consolidation-search says nothing about pending pods
       fix: add --consolidate, or leave it out
      more: karpenter plan --help
    ");
    let args = ["-f", "consolidate.yaml", "--consolidate", "--consolidation-search", "worst"];
    let ran = plan(&scenarios(), &args, "");
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    insta::assert_snapshot!(ran.stderr, @r#"
    error: --consolidation-search must be best, deep or upstream
     found: "worst"
       fix: write best, deep or upstream
      more: karpenter plan --help
    "#);
}

#[test]
fn an_invalid_node_pool_launches_nothing_but_its_nodes_are_consolidated() {
    let text = cluster_with_changes(&[(
        "metadata: {name: general}\nspec:",
        "metadata: {name: general}\nspec:\n  weight: 101",
    )]);
    let run = |format| plan(&scenarios(), &["--consolidate", "-f", "-", "-o", format], &text);
    let table = run("table");
    assert_eq!(table.code, 1, "the exit code says that something is broken: {table:?}");
    assert!(table.stdout.contains("REMOVE "), "{}", table.stdout);
    let message = "NodePool general: spec.weight: must be 1 to 100, is 101; launches nothing for pods, its nodes \
                are looked at (stdin:7)\n    -> write it as its API has it: kubectl explain nodepool.spec.weight\n";
    assert!(table.stdout.contains(message), "{}", table.stdout);
    let marked = &run("json").json()["marked"][0];
    assert_eq!((&marked["leftOut"], &marked["broken"]), (&json!(false), &json!(true)));
}

#[test]
fn retained_nodes_show_the_problem_of_their_node_pool() {
    let broken = |old: &str, new: &str, why: &str| {
        let text = cluster_with_changes(&[(old, new)]);
        let ran = plan(&scenarios(), &["--consolidate", "-f", "-", "-o", "json"], &text);
        let report = ran.json();
        let text = retained_node(&report, "kept", "node-6")["text"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(text.contains(why), "{text:?} in {report}");
        assert!(!text.contains("filtered out all"), "{text:?}");
    };
    broken(
        "metadata: {name: general}\nspec:",
        "metadata: {name: general}\nspec:\n  weight: 101",
        "shop/db-0 => no NodePool can launch a node: NodePool general: spec.weight: must be 1 to \
         100, is 101",
    );
    broken(
        "{key: kubernetes.io/arch, operator: In, values: [amd64]}",
        "{key: kubernetes.io/arch, operator: In, values: [m68k]}",
        "no NodePool can launch a node: NodePool general: no instance type has kubernetes.io/arch \
         m68k",
    );
    // Another pool keeps the rest going.
    let text = cluster_with_changes(&[(
        "kind: NodePool\nmetadata: {name: general}\nspec:\n  template:\n    spec:\n      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}",
        "kind: NodePool\nmetadata: {name: general}\nspec:\n  template:\n    spec:\n      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}",
    )]);
    let text = format!("{text}---\n{POOL}");
    let ran = plan(&scenarios(), &["--consolidate", "-f", "-", "-o", "json"], text);
    assert_eq!(
        retained_node(&ran.json(), "kept", "node-6")["text"],
        "NodePool general is left out: EC2NodeClass: the region is not known"
    );
}
