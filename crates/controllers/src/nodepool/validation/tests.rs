//! Tests of the validation of NodePools and their budgets.

use karpenter_api::condition_set::{HasConditions as _, find};
use serde_json::{Value, json};

use super::*;
use crate::testing::Bench;
use crate::testing::fixtures::node_pool;

fn pool_requiring(key: &str, values: &[&str]) -> Value {
    let mut pool = node_pool("general");
    let requirement = json!({"key": key, "operator": "In", "values": values});
    pool["spec"]["template"]["spec"]["requirements"] = json!([requirement]);
    pool
}

#[tokio::test(start_paused = true)]
async fn a_pool_is_invalid_if_no_value_of_a_requirement_is_known() {
    const TYPE: &str = "karpenter.sh/capacity-type";
    for (case, values, status, reason) in [
        ("40/NP-10 unknown", ["cheap", "free"], "False", "NodePoolValidationFailed"),
        ("40/NP-10 mixed", ["cheap", "spot"], "True", "ValidationSucceeded"),
        ("40/NP-10 valid", ["on-demand", "spot"], "True", "ValidationSucceeded"),
    ] {
        let bench = Bench::new().await;
        bench.create(pool_requiring(TYPE, &values)).await;
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
    bench.create(pool_requiring("karpenter.sh/capacity-type", &["free"])).await;
    bench.patch(pool_requiring("karpenter.sh/capacity-type", &["spot"])).await;
    let pool: NodePool = bench.get("", "general").await.unwrap();
    let found = find(pool.conditions(), "ValidationSucceeded").expect("it was validated");
    assert_eq!(found.status, "True");
}

#[tokio::test(start_paused = true)]
async fn an_invalid_budget_sets_a_condition_and_keeps_launches_running() {
    let bench = Bench::new().await;
    bench.run([controller(&bench.context)]);
    let with = |schedule: &str| {
        let mut pool = node_pool("general");
        let budget = json!({"nodes": "10%", "schedule": schedule, "duration": "1h"});
        pool["spec"]["disruption"] = json!({"budgets": [{"nodes": "5"}, budget]});
        pool
    };
    bench.create(with("61 * * * *")).await;
    let pool: NodePool = bench.get("", "general").await.unwrap();
    let found = find(pool.conditions(), "DisruptionBudgetsValid").expect("it is told");
    let flaw = "spec.disruption.budgets[1]: invariant violated, invalid cron, end of range (61) \
                above maximum (59): 61";
    assert_eq!((found.status.as_str(), found.reason.as_str()), ("False", "InvalidBudget"));
    assert_eq!(found.message, flaw);
    let event = ("DisruptionBlocked".to_owned(), format!("No allowed disruptions, {flaw}"));
    assert_eq!(bench.events(), [event]);
    let valid = find(pool.conditions(), "ValidationSucceeded").expect("it was validated");
    assert_eq!(valid.status, "True", "nodes are launched from it");
    bench.patch(with("1 * * * *")).await;
    let pool: NodePool = bench.get("", "general").await.unwrap();
    assert!(find(pool.conditions(), "DisruptionBudgetsValid").is_none());
}
