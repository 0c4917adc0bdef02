//! Tests of the metrics that the decorator records for provider calls.

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::clock::TokioClock;
use crate::cloud::CloudError;
use crate::metrics::MetricsConfig;
use crate::testing::FakeCloud;

const ERRORS_METRIC: &str = "karpenter_cloudprovider_errors_total";

fn claim() -> NodeClaim {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "web", "labels": {"karpenter.sh/nodepool": "p"}},
        "spec": {"requirements": [], "nodeClassRef": {"group": "", "kind": "", "name": ""}},
    }))
    .unwrap()
}

fn metered_fake_cloud() -> (Arc<FakeCloud>, MetricsDecorator, Metrics) {
    let cloud = Arc::new(FakeCloud::new());
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
    let metrics = Metrics::new(clock.clone(), &MetricsConfig::default());
    (cloud.clone(), MetricsDecorator::new(cloud, metrics.clone(), clock), metrics)
}

#[track_caller]
fn assert_failed(metrics: &Metrics, method: &str, error: &str, nodepool: &str, id: &str) {
    let labels = [
        ("controller", ""),
        ("method", method),
        ("provider", "x"),
        ("error", error),
        ("nodepool", nodepool),
    ];
    let count = metrics.registry().value(ERRORS_METRIC, &labels);
    assert_eq!(count, Some(1.0), "{id} {}", metrics.registry().text());
}

#[tokio::test]
async fn a_failed_launch_is_counted_by_error_class_and_nodepool() {
    let (cloud, metered, metrics) = metered_fake_cloud();
    cloud.fail_next_create(CloudError::insufficient_capacity("none").context("creating fleet"));
    metered.create(&claim()).await.unwrap_err();
    assert_failed(&metrics, "Create", "InsufficientCapacityError", "p", "45/CP-5 40/CP-09");
    cloud.fail_next_create(CloudError::other("no answer"));
    metered.create(&claim()).await.unwrap_err();
    assert_failed(&metrics, "Create", "unknown", "p", "40/CP-09");
}

#[tokio::test]
async fn failed_get_calls_have_an_empty_nodepool_label() {
    let (cloud, metered, metrics) = metered_fake_cloud();
    cloud.fail_next_get(CloudError::other("no answer"));
    metered.get("fake:///a").await.unwrap_err();
    assert_failed(&metrics, "Get", "unknown", "", "45/CP-6");
}

#[tokio::test]
async fn failed_delete_reboot_and_instance_type_calls_are_counted() {
    let (cloud, metered, metrics) = metered_fake_cloud();
    cloud.fail_next_delete(CloudError::node_class_not_ready("not yet"));
    metered.delete(&claim()).await.unwrap_err();
    assert_failed(&metrics, "Delete", "NodeClassNotReadyError", "p", "Delete");
    cloud.fail_next_reboot(CloudError::NodeRebootNotImplemented);
    metered.reboot(&claim(), "1").await.unwrap_err();
    assert_failed(&metrics, "Reboot", "unknown", "p", "Reboot");
    cloud.fail_pool("p", || CloudError::not_found("gone"));
    let pool: NodePool = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "p"},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": {"group": "", "kind": "", "name": ""}}}},
    }))
    .unwrap();
    metered.instance_types(&pool).await.unwrap_err();
    assert_failed(&metrics, "GetInstanceTypes", "NodeClaimNotFoundError", "p", "GetInstanceTypes");
}

#[tokio::test]
async fn every_call_is_measured() {
    let (_, metered, metrics) = metered_fake_cloud();
    metered.list().await.unwrap();
    metered.is_drifted(&claim()).await.unwrap();
    for method in ["List", "IsDrifted"] {
        let labels = [("controller", ""), ("method", method), ("provider", "x")];
        let name = "karpenter_cloudprovider_duration_seconds";
        assert_eq!(metrics.registry().value(name, &labels), Some(1.0), "{method}");
    }
    assert_eq!(metrics.registry().series_count(ERRORS_METRIC), 0);
}
