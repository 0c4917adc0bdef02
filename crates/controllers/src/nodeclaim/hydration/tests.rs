//! Tests of NodeClaim hydration: the label of the node class.

use serde_json::json;

use super::*;
use crate::testing::Bench;
use crate::testing::fixtures::node_claim;

#[tokio::test(start_paused = true)]
async fn claims_get_the_label_of_their_node_class() {
    let bench = Bench::new().await;
    let hydration = controller(&bench.context);
    bench.create(node_claim("a", &json!({}))).await;
    assert_eq!(bench.reconcile(&hydration, "a").await.unwrap(), Outcome::Done);
    let claim = bench.claim("a").await;
    assert_eq!(
        objects::label(&claim, "karpenter.test.sh/testnodeclass"),
        "default",
        "40/LC-52, 30/HY-1"
    );
    bench.reconcile(&hydration, "a").await.unwrap();
    let again = bench.claim("a").await;
    assert_eq!(again.metadata.resource_version, claim.metadata.resource_version);
}
