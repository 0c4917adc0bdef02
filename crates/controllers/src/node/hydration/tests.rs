//! Tests of Node hydration: the label of the node class and the finalizer.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::testing::Bench;
use crate::testing::fixtures::node_claim;

const LABEL: &str = "karpenter.test.sh/testnodeclass";

#[tokio::test(start_paused = true)]
async fn only_nodes_of_managed_claims_get_the_node_class_label() {
    let bench = Bench::new().await;
    bench.run([controller(&bench.context)]);
    let foreign = json!({
        "spec": {"nodeClassRef": {"kind": "OtherClass"}},
        "status": {"providerID": "theirs"},
    });
    bench.create(node_claim("foreign", &foreign)).await;
    for id in ["ours", "theirs", "nobodys"] {
        bench.join(id, id, &json!({})).await;
    }
    // The claim comes to its node's provider id later than the node.
    bench.create(node_claim("a", &json!({"status": {"providerID": "ours"}}))).await;
    bench.pass(Duration::from_secs(1)).await;
    assert_eq!(objects::label(&bench.node("ours").await, LABEL), "default", "40/LC-52");
    assert_eq!(objects::label(&bench.node("theirs").await, LABEL), "", "40/LC-02");
    assert_eq!(objects::label(&bench.node("nobodys").await, LABEL), "");
}

#[tokio::test(start_paused = true)]
async fn a_removed_finalizer_is_restored() {
    let bench = Bench::new().await;
    bench.run([controller(&bench.context)]);
    let registered = json!({"metadata": {"labels": {"karpenter.sh/registered": "true"},
        "finalizers": ["example.com/theirs"]}});
    for id in ["ours", "nobodys"] {
        bench.join(id, id, &registered).await;
    }
    bench.join("early", "early", &json!({})).await;
    for name in ["ours", "early"] {
        bench.create(node_claim(name, &json!({"status": {"providerID": name}}))).await;
    }
    bench.pass(Duration::from_secs(1)).await;
    let both = ["example.com/theirs", "karpenter.sh/termination"];
    assert_eq!(bench.node("ours").await.finalizers(), both);
    assert_eq!(bench.node("nobodys").await.finalizers(), ["example.com/theirs"]);
    assert!(bench.node("early").await.finalizers().is_empty(), "left to its registration");
}
