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

/// Calls of this cloud never wait.
fn now<T>(future: CloudFuture<'_, T>) -> CloudResult<T> {
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
        let launched = now(FakeCloud::new().create(&claim("web", &requirements, cpu))).unwrap();
        assert_eq!(label(&launched, labels::INSTANCE_TYPE), expected, "{cpu}");
        assert_eq!(label(&launched, labels::CAPACITY_TYPE), "spot");
        assert!(provider_id(&launched).unwrap().starts_with("fake:///"));
    }
    let error = now(FakeCloud::new().create(&claim("web", &json!([]), "1000"))).unwrap_err();
    assert!(error.is(Class::InsufficientCapacity), "{error}");
}

#[test]
fn a_reservation_is_used_up_and_stays_available() {
    let cloud = FakeCloud::new();
    let reserved = testing::reserved("r-1", "test-zone-1", 1);
    cloud.set_types([testing::instance_type("a").also_sold(reserved).build()]);
    let launch = || now(cloud.create(&claim("web", &json!([]), "1"))).unwrap();
    let first = launch();
    assert_eq!(label(&first, labels::CAPACITY_TYPE), "reserved");
    assert_eq!(label(&first, testing::RESERVATION_ID), "r-1");
    let types = now(cloud.instance_types(&pool("web"))).unwrap();
    let offering = types[0].offerings.last().unwrap();
    assert_eq!((offering.reservation_capacity, offering.available), (0, true));
    assert_eq!(label(&launch(), labels::CAPACITY_TYPE), "spot");
}

#[test]
fn the_second_end_finds_nothing() {
    let cloud = FakeCloud::new();
    let launched = now(cloud.create(&claim("web", &json!([]), "1"))).unwrap();
    let id = provider_id(&launched).unwrap();
    assert_eq!(now(cloud.get(id)).unwrap(), launched);
    assert_eq!(now(cloud.list()).unwrap().as_slice(), std::slice::from_ref(&launched));
    now(cloud.delete(&launched)).unwrap();
    assert!(now(cloud.delete(&launched)).unwrap_err().is(Class::NodeClaimNotFound), "40/CP-08");
    assert!(now(cloud.get(id)).unwrap_err().is(Class::NodeClaimNotFound), "40/CP-08");
    assert_eq!(now(cloud.list()).unwrap(), []);
    let calls = cloud.calls();
    assert_eq!((calls.create.len(), calls.delete.len(), calls.get.len()), (1, 2, 2));
}

#[test]
fn errors_come_when_they_are_ordered() {
    let cloud = FakeCloud::new();
    let asked = claim("web", &json!([]), "1");
    cloud.fail_next_create(CloudError::other("create"));
    cloud.fail_next_delete(CloudError::other("delete"));
    cloud.fail_next_get(CloudError::other("get"));
    cloud.fail_next_reboot(CloudError::NodeRebootNotImplemented);
    assert_eq!(now(cloud.create(&asked)).unwrap_err().to_string(), "create");
    let launched = now(cloud.create(&asked)).unwrap();
    assert_eq!(now(cloud.delete(&launched)).unwrap_err().to_string(), "delete");
    assert_eq!(now(cloud.get("x")).unwrap_err().to_string(), "get");
    assert!(now(cloud.reboot(&launched, "op")).unwrap_err().is(Class::NodeRebootNotImplemented));
    now(cloud.reboot(&launched, "op")).unwrap();
    assert_eq!(cloud.calls().reboot, [(launched, "op".to_owned())]);
    cloud.allow_creates(1);
    assert!(now(cloud.create(&asked)).is_err());
}

#[test]
fn pools_have_types_and_errors_of_their_own() {
    let cloud = FakeCloud::new();
    cloud.set_pool_types("own", [testing::instance_type("own").build()]);
    cloud.fail_pool("broken", || CloudError::UnevaluatedNodePool("broken".into()));
    let names = |name| {
        let types = now(cloud.instance_types(&pool(name)))?;
        Ok::<_, CloudError>(types.iter().map(|t| t.name.clone()).collect::<Vec<_>>())
    };
    assert_eq!(names("own").unwrap(), ["own"]);
    assert_eq!(names("other").unwrap().len(), 6);
    assert!(names("broken").unwrap_err().is(Class::UnevaluatedNodePool));
    let launched = now(cloud.create(&claim("own", &json!([]), "1"))).unwrap();
    assert_eq!(label(&launched, labels::INSTANCE_TYPE), "own");
    assert!(now(cloud.create(&claim("broken", &json!([]), "1"))).is_err());
}
