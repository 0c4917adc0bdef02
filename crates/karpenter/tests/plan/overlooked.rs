//! What manifests say or leave unsaid without an effect that anybody would see.

use super::*;
use serde_json::{Value, json};

/// The documentation's cluster with changes of its text.
#[track_caller]
fn changed(changes: &[(&str, &str)]) -> String {
    let text = std::fs::read_to_string(scenarios().join("consolidate.yaml")).unwrap();
    changes.iter().fold(text, |text, (old, new)| {
        assert!(text.contains(old), "{old}");
        text.replace(old, new)
    })
}

/// What there is to look at in a text, as people and as programs read it. Nothing of it is broken.
#[track_caller]
fn remarks(args: &[&str], text: &str) -> (String, Vec<Value>) {
    let run = |format: &str| {
        let all: Vec<_> = ["-f", "-", "-o", format].iter().chain(args).copied().collect();
        let ran = plan(&scenarios(), &all, text);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
        ran
    };
    let table = run("table").stdout;
    let table = table.split_once("TO LOOK AT ").map_or("", |(_, tail)| tail);
    let table = table.split("\n\n").next().unwrap_or_default().to_owned();
    (table, run("json").json()["marked"].as_array().unwrap().clone())
}

#[test]
fn a_budget_without_a_status_is_told() {
    let status =
        "status: {disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1}\n";
    let one = [(status, ""), ("spec: {maxUnavailable: 0,", "spec: {maxUnavailable: 1,")];
    let (table, marked) = remarks(&["--consolidate"], &changed(&one));
    insta::assert_snapshot!(table, @r"
    1 object
      PodDisruptionBudget shop/web: status: is not there, so it is taken to allow no disruption (stdin:19)
        -> read it from the cluster (kubectl get pdb -A -o yaml), or plan the cluster itself (without -f)
    ");
    assert_eq!((marked.len(), &marked[0]["broken"]), (1, &json!(false)));

    let more = (1..=4).fold(changed(&one), |text, number| {
        format!(
            "{text}---\napiVersion: policy/v1\nkind: PodDisruptionBudget\n\
             metadata: {{name: b{number}}}\nspec: {{minAvailable: 50%}}\n"
        )
    });
    let (table, marked) = remarks(&["--consolidate"], &more);
    assert_eq!(marked.len(), 5);
    let said = "5 PodDisruptionBudgets: shop/web, default/b1, default/b2, 2 more: status: is not \
                there, so it is taken to allow no disruption (first in stdin:19)\n";
    assert!(table.contains(said), "{table}");

    let never = [(status, "")];
    let count = |args: &[&str], text: &str| remarks(args, text).1.len();
    assert_eq!(count(&["--consolidate"], &changed(&never)), 0, "it allows nothing anyway");
    assert_eq!(count(&[], &changed(&one)), 0, "launches do not ask for budgets");
}

#[test]
fn an_annotation_that_protects_nothing_is_told() {
    let text = changed(&[
        ("  name: api-1\n", "  name: api-1\n  annotations: {karpenter.sh/do-not-disrupt: 'yes'}\n"),
        ("karpenter.sh/do-not-disrupt: \"true\"", "karpenter.sh/do-not-disrupt: 12h"),
    ]);
    let (table, marked) = remarks(&["--consolidate"], &text);
    let yes = "Pod shop/api-1: annotation karpenter.sh/do-not-disrupt is \"yes\", which protects \
               nothing; write \"true\" or a positive duration such as 1h30m";
    let hours = "Node node-7: annotation karpenter.sh/do-not-disrupt is \"12h\", which protects \
                 nothing; write \"true\"; durations are for pods";
    assert!(table.contains(yes), "{table}");
    assert!(table.contains(hours), "{table}");
    assert_eq!(marked.len(), 2, "{marked:?}");
}
