//! Tests of warnings about unknown fields and PodDisruptionBudgets without a status.

use super::consolidate::cluster_with_changes;
use super::*;
use serde_json::{Value, json};

/// Returns the remarks about a text, as a table and as JSON. None of them is an error.
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
fn unknown_fields_are_reported() {
    let pool = POOL.replace("spec:\n  template:", "spec:\n  wieght: 5\n  template:");
    let (table, marked) = remarks(&[], &format!("{pool}---\n{POD}"));
    insta::assert_snapshot!(table, @r"
    1 object
      NodePool pool: spec.wieght: its API has no such field, it counts for nothing (stdin:5)
        -> correct or drop it: kubectl explain nodepool.spec
    ");
    assert_eq!(marked[0]["field"], "spec.wieght");
    assert_eq!((&marked[0]["broken"], &marked[0]["leftOut"]), (&json!(false), &json!(false)));

    let more = ["consolidateafter: 5m, budgets: [{nodes: '1', reason: [Empty]}]", "free: form"];
    let more = format!("  disruption: {{{}}}\n  metadata: {{{}}}\n", more[0], more[1]);
    let (_, marked) = remarks(&[], &format!("{POOL}{more}---\n{POD}"));
    assert_eq!(
        marked[0]["problem"],
        "its API has no such fields, they count for nothing: \
         spec.disruption.budgets[0].reason, spec.disruption.consolidateafter, spec.metadata"
    );
    assert_eq!(marked.len(), 1, "{marked:?}");
}

#[test]
fn unknown_fields_of_every_karpenter_kind_are_reported() {
    let classes = "\
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default, anything: goes}
spec: {x: 1}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: a}
spec: {role: r, amiSelectorTerms: [{alias: al2023@latest}], subnetSelectorTerm: []}
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: o}
spec: {requirements: [], prize: '1'}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: m}
spec: {x: 1}
";
    let (_, marked) = remarks(&[], &format!("{POOL}---\n{POD}---\n{classes}"));
    let message = |at: usize| (marked[at]["object"].as_str(), marked[at]["field"].as_str());
    assert_eq!(message(0), (Some("KWOKNodeClass default"), Some("spec.x")));
    assert_eq!(message(1), (Some("EC2NodeClass a"), Some("spec.subnetSelectorTerm")));
    assert_eq!(message(2), (Some("NodeOverlay o"), Some("spec.prize")));
    assert_eq!(marked.len(), 3, "{marked:?}");
}

#[test]
fn a_pdb_without_a_status_is_reported() {
    let status =
        "status: {disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1}\n";
    let one = [(status, ""), ("spec: {maxUnavailable: 0,", "spec: {maxUnavailable: 1,")];
    let (table, marked) = remarks(&["--consolidate"], &cluster_with_changes(&one));
    insta::assert_snapshot!(table, @r"
    1 object
      PodDisruptionBudget shop/web: status: is not there, so it is taken to allow no disruption (stdin:19)
        -> read it from the cluster (kubectl get pdb -A -o yaml), or plan the cluster itself (without -f)
    ");
    assert_eq!((marked.len(), &marked[0]["broken"]), (1, &json!(false)));

    let more = (1..=4).fold(cluster_with_changes(&one), |text, number| {
        format!(
            "{text}---\napiVersion: policy/v1\nkind: PodDisruptionBudget\n\
             metadata: {{name: b{number}}}\nspec: {{minAvailable: 50%}}\n"
        )
    });
    let (table, marked) = remarks(&["--consolidate"], &more);
    assert_eq!(marked.len(), 5);
    let message = "5 PodDisruptionBudgets: shop/web, default/b1, default/b2, 2 more: status: is not \
                there, so it is taken to allow no disruption (first in stdin:19)\n";
    assert!(table.contains(message), "{table}");

    let never = [(status, "")];
    let count = |args: &[&str], text: &str| remarks(args, text).1.len();
    assert_eq!(
        count(&["--consolidate"], &cluster_with_changes(&never)),
        0,
        "it allows nothing anyway"
    );
    assert_eq!(count(&[], &cluster_with_changes(&one)), 0, "launches do not ask for budgets");
}

#[test]
fn an_ineffective_do_not_disrupt_annotation_is_reported() {
    let text = cluster_with_changes(&[
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
