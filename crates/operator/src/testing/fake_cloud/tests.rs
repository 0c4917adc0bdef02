//! Tests of the fake cloud: launches, reservations and injected errors.

use futures_util::FutureExt as _;
use serde_json::{Value, json};

use super::*;
use crate::cloud::CloudErrorClass as Class;

fn claim(pool: &str, requirements: &Value, cpu: &str) -> NodeClaim {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "web", "labels": {"karpenter.sh/nodepool": pool}},
        "spec": {
            "requirements": requirements,
            "resources": {"requests": {"cpu": cpu}},
            "nodeClassRef": {"group": "karpenter.test.sh", "kind": "TestNodeClass", "name": "default"},
        },
    }))
    .unwrap()
}

fn pool(name: &str) -> NodePool {
    NodePool::new(name, karpenter_api::nodepool::NodePoolSpec::default())
}

/// Returns the result of a call, which this cloud completes at once.
fn resolve_now<T>(future: CloudFuture<'_, T>) -> CloudResult<T> {
    future.now_or_never().expect("done at once")
}

fn label<'a>(node_claim: &'a NodeClaim, key: &str) -> &'a str {
    &node_claim.metadata.labels.as_ref().unwrap()[key]
}

#[test]
fn the_cheapest_type_that_fits_is_launched() {
    let arm = json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]);
    #[rustfmt::skip]
    let cases = [
        (json!([]), "1",   "small-instance-type"),
        (json!([]), "3",   "default-instance-type"),
        (json!([]), "15",  "arm-instance-type"),
        (arm,       "1",   "arm-instance-type"),
    ];
    for (requirements, cpu, expected) in cases {
        let launched =
            resolve_now(FakeCloud::new().create(&claim("web", &requirements, cpu))).unwrap();
        assert_eq!(label(&launched, labels::INSTANCE_TYPE), expected, "{cpu}");
        assert_eq!(label(&launched, labels::CAPACITY_TYPE), "spot");
        assert!(provider_id(&launched).unwrap().starts_with("fake:///"));
    }
    let error =
        resolve_now(FakeCloud::new().create(&claim("web", &json!([]), "1000"))).unwrap_err();
    assert!(error.is(Class::InsufficientCapacity), "{error}");
}

#[test]
fn a_full_reservation_stays_available_with_zero_capacity() {
    let cloud = FakeCloud::new();
    let reserved = testing::reserved("r-1", "test-zone-1", 1);
    cloud.set_types([testing::instance_type("a").additional_offering(reserved).build()]);
    let launch = || resolve_now(cloud.create(&claim("web", &json!([]), "1"))).unwrap();
    let first = launch();
    assert_eq!(label(&first, labels::CAPACITY_TYPE), "reserved");
    assert_eq!(label(&first, testing::RESERVATION_ID), "r-1");
    let types = resolve_now(cloud.instance_types(&pool("web"))).unwrap();
    let offering = types[0].offerings.last().unwrap();
    assert_eq!((offering.reservation_capacity, offering.available), (0, true));
    assert_eq!(label(&launch(), labels::CAPACITY_TYPE), "spot");
}

#[test]
fn a_second_delete_returns_not_found() {
    let cloud = FakeCloud::new();
    let launched = resolve_now(cloud.create(&claim("web", &json!([]), "1"))).unwrap();
    let id = provider_id(&launched).unwrap();
    assert_eq!(resolve_now(cloud.get(id)).unwrap(), launched);
    assert_eq!(resolve_now(cloud.list()).unwrap().as_slice(), std::slice::from_ref(&launched));
    resolve_now(cloud.delete(&launched)).unwrap();
    assert!(
        resolve_now(cloud.delete(&launched)).unwrap_err().is(Class::NodeClaimNotFound),
        "40/CP-08"
    );
    assert!(resolve_now(cloud.get(id)).unwrap_err().is(Class::NodeClaimNotFound), "40/CP-08");
    assert_eq!(resolve_now(cloud.list()).unwrap(), []);
    let calls = cloud.calls();
    assert_eq!((calls.create.len(), calls.delete.len(), calls.get.len()), (1, 2, 2));
}

#[test]
fn an_instance_that_is_shutting_down_is_found_until_it_is_terminated() {
    let cloud = FakeCloud::new();
    let mut instance = resolve_now(cloud.create(&claim("web", &json!([]), "1"))).unwrap();
    let id = provider_id(&instance).unwrap().to_owned();
    instance.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    cloud.put_instance(instance.clone());
    assert_eq!(resolve_now(cloud.get(&id)).unwrap(), instance, "55 §11: shutting-down");
    assert_eq!(resolve_now(cloud.list()).unwrap(), [instance]);
    cloud.lose_instance(&id);
    let error = resolve_now(cloud.get(&id)).unwrap_err();
    assert!(error.is(Class::NodeClaimNotFound), "55 §11: terminated: {error}");
}

#[test]
fn injected_errors_fail_the_next_call() {
    let cloud = FakeCloud::new();
    let requested = claim("web", &json!([]), "1");
    cloud.fail_next_create(CloudError::other("create"));
    cloud.fail_next_delete(CloudError::other("delete"));
    cloud.fail_next_get(CloudError::other("get"));
    cloud.fail_next_reboot(CloudError::NodeRebootNotImplemented);
    assert_eq!(resolve_now(cloud.create(&requested)).unwrap_err().to_string(), "create");
    let launched = resolve_now(cloud.create(&requested)).unwrap();
    assert_eq!(resolve_now(cloud.delete(&launched)).unwrap_err().to_string(), "delete");
    assert_eq!(resolve_now(cloud.get("x")).unwrap_err().to_string(), "get");
    assert!(
        resolve_now(cloud.reboot(&launched, "op")).unwrap_err().is(Class::NodeRebootNotImplemented)
    );
    resolve_now(cloud.reboot(&launched, "op")).unwrap();
    assert_eq!(cloud.calls().reboot, [(launched, "op".to_owned())]);
    cloud.allow_creates(1);
    assert!(resolve_now(cloud.create(&requested)).is_err());
}

#[test]
fn nodepools_have_their_own_instance_types_and_errors() {
    let cloud = FakeCloud::new();
    cloud.set_pool_types("own", [testing::instance_type("own").build()]);
    cloud.fail_pool("broken", || CloudError::UnevaluatedNodePool("broken".into()));
    let names = |name| {
        let types = resolve_now(cloud.instance_types(&pool(name)))?;
        Ok::<_, CloudError>(types.iter().map(|t| t.name.clone()).collect::<Vec<_>>())
    };
    assert_eq!(names("own").unwrap(), ["own"]);
    assert_eq!(names("other").unwrap().len(), 6);
    assert!(names("broken").unwrap_err().is(Class::UnevaluatedNodePool));
    let launched = resolve_now(cloud.create(&claim("own", &json!([]), "1"))).unwrap();
    assert_eq!(label(&launched, labels::INSTANCE_TYPE), "own");
    assert!(resolve_now(cloud.create(&claim("broken", &json!([]), "1"))).is_err());
}
