use std::time::Duration;

use serde_json::json;

use super::*;
use crate::testing::Bench;
use crate::testing::fixtures::node_claim;

const LABEL: &str = "karpenter.test.sh/testnodeclass";

#[tokio::test(start_paused = true)]
async fn nodes_of_our_claims_get_the_label_and_others_do_not() {
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
