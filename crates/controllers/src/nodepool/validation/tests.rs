use karpenter_api::condition_set::{HasConditions as _, find};
use serde_json::{Value, json};

use super::*;
use crate::testing::Bench;
use crate::testing::fixtures::node_pool;

fn asking(key: &str, values: &[&str]) -> Value {
    let mut pool = node_pool("general");
    let requirement = json!({"key": key, "operator": "In", "values": values});
    pool["spec"]["template"]["spec"]["requirements"] = json!([requirement]);
    pool
}

#[tokio::test(start_paused = true)]
async fn a_pool_is_valid_unless_nothing_of_a_requirement_is_known() {
    const TYPE: &str = "karpenter.sh/capacity-type";
    for (case, values, status, reason) in [
        ("40/NP-10 unknown", ["cheap", "free"], "False", "NodePoolValidationFailed"),
        ("40/NP-10 mixed", ["cheap", "spot"], "True", "ValidationSucceeded"),
        ("40/NP-10 valid", ["on-demand", "spot"], "True", "ValidationSucceeded"),
    ] {
        let bench = Bench::new().await;
        bench.create(asking(TYPE, &values)).await;
        bench.reconcile(&controller(&bench.context), "general").await.unwrap();
        let pool: NodePool = bench.get("", "general").await.unwrap();
        let found = find(pool.conditions(), "ValidationSucceeded").expect("it was validated");
        assert_eq!((found.status.as_str(), found.reason.as_str()), (status, reason), "{case}");
        assert_eq!(found.message.is_empty(), status == "True", "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pool_becomes_valid_when_its_spec_does() {
    let bench = Bench::new().await;
    bench.run([controller(&bench.context)]);
    bench.create(asking("karpenter.sh/capacity-type", &["free"])).await;
    bench.patch(asking("karpenter.sh/capacity-type", &["spot"])).await;
    let pool: NodePool = bench.get("", "general").await.unwrap();
    let found = find(pool.conditions(), "ValidationSucceeded").expect("it was validated");
    assert_eq!(found.status, "True");
}
