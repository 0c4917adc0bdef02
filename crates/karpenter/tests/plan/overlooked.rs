//! What manifests say or leave unsaid without an effect that anybody would see.

use super::*;
use serde_json::Value;

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
