//! Tests of node classes as provider-neutral controllers read them.

use serde_json::json;

use super::*;
use crate::clock::TokioClock;
use crate::testing::TestNodeClass;

#[test]
fn a_kind_follows_from_its_rust_type() {
    let kind = NodeClassKind::of::<TestNodeClass>();
    assert_eq!((kind.group, kind.kind), ("karpenter.test.sh", "TestNodeClass"));
    assert_eq!(kind.label, "karpenter.test.sh/testnodeclass");
    let reference = |group: &str, kind: &str| NodeClassRef {
        group: group.to_owned(),
        kind: kind.to_owned(),
        name: "default".to_owned(),
    };
    assert!(kind.is_kind_of(&reference("karpenter.test.sh", "TestNodeClass")));
    assert!(!kind.is_kind_of(&reference("karpenter.test.sh", "Other")));
    assert!(!kind.is_kind_of(&reference("other.sh", "TestNodeClass")));
}

#[test]
fn missing_conditions_of_a_node_class_count_as_unknown() {
    let class: TestNodeClass = serde_json::from_value(json!({
        "metadata": {"name": "default"},
        "status": {"conditions": [{
            "type": "Resolved", "status": "True", "reason": "Resolved", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]},
    }))
    .unwrap();
    let class = NodeClass::of(&class);
    assert!(class.ready().is_none());
    let all = class.conditions_with(&["Resolved", "Other"], Timestamp::UNIX_EPOCH);
    let mut all: Vec<_> = all.iter().map(|c| (c.type_.as_str(), c.status.as_str())).collect();
    all.sort_unstable();
    assert_eq!(all, [("Other", "Unknown"), ("Ready", "Unknown"), ("Resolved", "True")]);
}

#[tokio::test]
async fn the_typed_informer_of_a_node_class_is_found() {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
    });
    let client = Client::new(service, "default");
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
    let informer = NodeClassKind::of::<TestNodeClass>().informer(&client, &clock);
    assert!(informer.typed::<TestNodeClass>().is_some());
    assert!(informer.typed::<karpenter_api::nodeclaim::NodeClaim>().is_none());
    assert!(informer.get("default").is_none());
}
