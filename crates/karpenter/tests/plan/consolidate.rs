//! `karpenter plan --consolidate`.

use super::*;
use serde_json::{Value, json};

#[track_caller]
fn told(args: &[&str]) -> Value {
    let all: Vec<_> = ["--consolidate", "-o", "json"].iter().chain(args).copied().collect();
    let ran = plan(&scenarios(), &all, "");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
    ran.json()
}

#[test]
fn nodes_that_go_and_nodes_that_stay_are_told() {
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
fn upstreams_search_finds_what_upstream_finds_first() {
    let told = told(&["-f", "consolidate.yaml", "--consolidation-search", "upstream"]);
    let commands = told["commands"].as_array().unwrap();
    assert_eq!(commands.len(), 1, "{told}");
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
fn what_blocks_a_node_is_named() {
    let told = told(&["-f", "consolidate.yaml"]);
    let kept = |node: &str| {
        let mut all = told["kept"].as_array().unwrap().iter();
        all.find(|kept| kept["node"] == node).cloned().unwrap_or_default()
    };
    assert_eq!(
        kept("node-1")["blockedBy"],
        json!(["Pod shop/web-1", "PodDisruptionBudget shop/web"])
    );
    assert_eq!(kept("node-2")["blockedBy"], json!(["Pod batch/report"]));
    let text = "Disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation";
    assert_eq!(kept("node-7")["text"], text);
}

#[test]
fn the_saving_of_a_pass_is_that_of_its_commands() {
    let told = told(&["-f", "consolidate.yaml"]);
    let commands = told["commands"].as_array().unwrap().iter();
    let sum: f64 = commands.map(|command| command["savings"].as_f64().unwrap()).sum();
    let total = told["totalSavings"].as_f64().unwrap();
    assert!(sum > 0.0 && (sum - total).abs() < 1e-9, "{sum} {total}");
    assert!((told["monthlySavings"].as_f64().unwrap() - 730.0 * total).abs() < 1e-6);
    assert!(told["totalPrice"].as_f64().unwrap() > total);
}

#[test]
fn json_and_yaml_say_the_same() {
    let mut json = told(&["-f", "consolidate.yaml"]);
    let yaml = plan(&scenarios(), &["--consolidate", "-f", "consolidate.yaml", "-o", "yaml"], "");
    let mut yaml: Value = serde_saphyr::from_str(&yaml.stdout).unwrap();
    for field in ["seconds", "setupSeconds"] {
        assert!(json[field].take().is_number());
        yaml[field].take();
    }
    round(&mut json);
    round(&mut yaml);
    assert_eq!(json, yaml);
}

/// The two readers differ in the last digit of some numbers.
fn round(value: &mut Value) {
    match value {
        Value::Number(number) => *value = format!("{:.9}", number.as_f64().unwrap()).into(),
        Value::Array(items) => items.iter_mut().for_each(round),
        Value::Object(fields) => fields.values_mut().for_each(round),
        _ => {}
    }
}

#[test]
fn a_budget_holds_at_the_time_that_is_asked_about() {
    let text = std::fs::read_to_string(scenarios().join("consolidate.yaml")).unwrap();
    let text = text.replace(
        "budgets: [{nodes: 50%}]",
        "budgets: [{nodes: '0', schedule: '0 9 * * mon-fri', duration: 8h}]",
    );
    let going = |now: &str| {
        let args = ["--consolidate", "-o", "json", "-f", "-", "--now", now];
        let ran = plan(&scenarios(), &args, &text);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        let told = ran.json();
        (told["commands"].as_array().unwrap().len(), told["kept"].as_array().unwrap().len())
    };
    assert_eq!(going("2026-08-20T12:00:00Z"), (0, 7)); // a Thursday
    assert!(going("2026-08-22T12:00:00Z").0 > 0); // a Saturday
}

#[test]
fn a_cluster_without_nodes_has_nothing_to_remove() {
    let ran = plan(&scenarios(), &["--consolidate", "-f", "-"], format!("{POOL}---\n{POD}"));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    insta::assert_snapshot!(ran.stdout, @r"
    0 of 0 nodes would go; they cost $0.0000 an hour, $0.00 a month
    ");
}

#[test]
fn what_could_not_be_read_is_told_and_counts() {
    let folder = folder(&[("bad.yaml", "a: [\n")]);
    let bad = folder.path().join("bad.yaml");
    let args = ["--consolidate", "-f", "consolidate.yaml", "-f", bad.to_str().unwrap()];
    let ran = plan(&scenarios(), &args, "");
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("bad.yaml"), "{}", ran.stderr);
    assert!(ran.stdout.contains("would go"), "{}", ran.stdout);
}

#[test]
fn a_search_without_consolidation_is_wrong_usage() {
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
