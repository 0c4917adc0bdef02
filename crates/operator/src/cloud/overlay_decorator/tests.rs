//! Tests of NodeOverlays applied to instance types.

use karpenter_core::overlay::{Overlay, PriceChange, Selection, TypeKey};
use karpenter_core::resources::{Quantity, Resources};
use serde_json::json;

use super::*;
use crate::cloud::CloudErrorClass;
use crate::testing::FakeCloud;

fn pool(name: &str) -> NodePool {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": {"group": "", "kind": "", "name": ""}}}},
    }))
    .unwrap()
}

fn pools(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// Every offering of the first type costs 7 in the pool, and the type has gadgets.
fn overrides(pool: &str, types: &InstanceTypes) -> Overrides {
    let first = &types[0];
    let mut overrides = Overrides::default();
    let overlay = Overlay {
        weight: None,
        price: Some(PriceChange::parse("7").unwrap()),
        capacity: [("gadgets", Quantity::from_units(2))].into_iter().collect::<Resources>(),
    };
    let selection = Selection {
        instance_type: TypeKey { pool: pool.to_owned(), instance_type: first.name.clone() },
        offerings: first.offerings.iter().map(|o| o.requirements.to_string()).collect(),
    };
    overrides.record(&overlay, &[selection]).unwrap();
    overrides
}

#[tokio::test]
async fn without_overlays_the_instance_types_are_shared_unchanged() {
    let cloud = Arc::new(FakeCloud::new());
    let before = cloud.instance_types(&pool("p")).await.unwrap();
    let store = Arc::new(OverlayStore::new());
    store.publish(pools(&["p"]), Overrides::default());
    for store in [Some(store), None] {
        let after =
            OverlayDecorator::new(cloud.clone(), store).instance_types(&pool("p")).await.unwrap();
        assert!(Arc::ptr_eq(&before, &after), "40/OV-01");
    }
}

#[tokio::test]
async fn an_unevaluated_nodepool_has_no_instance_types() {
    let store = Arc::new(OverlayStore::new());
    let overlaid = OverlayDecorator::new(Arc::new(FakeCloud::new()), Some(store.clone()));
    let error = overlaid.instance_types(&pool("p")).await.unwrap_err();
    assert_eq!(error.to_string(), "nodepool \"p\" is awaiting evaluation", "40/OV-10");
    store.publish(pools(&["q"]), Overrides::default());
    let error = overlaid.instance_types(&pool("p")).await.unwrap_err();
    assert!(error.is(CloudErrorClass::UnevaluatedNodePool), "40/OV-10");
    store.publish(pools(&["p"]), Overrides::default());
    assert!(overlaid.instance_types(&pool("p")).await.is_ok());
}

#[tokio::test]
async fn overlays_change_only_matching_types_of_their_nodepool() {
    let cloud = Arc::new(FakeCloud::new());
    let before = cloud.instance_types(&pool("p")).await.unwrap();
    let store = Arc::new(OverlayStore::new());
    store.publish(pools(&["p", "q"]), overrides("p", &before));
    let overlaid = OverlayDecorator::new(cloud, Some(store));
    let after = overlaid.instance_types(&pool("p")).await.unwrap();
    let (old, new) = (&before[0], &after[0]);
    assert!(new.offerings.iter().all(|offering| (offering.price - 7.0).abs() < 1e-9), "40/OV-07");
    assert_eq!(new.capacity.get("gadgets"), Some(Quantity::from_units(2)));
    assert_eq!(
        (&old.volume_limits, &old.dynamic_resources),
        (&new.volume_limits, &new.dynamic_resources),
        "45/OV-1"
    );
    assert!(before.iter().zip(after.iter()).skip(1).all(|(a, b)| Arc::ptr_eq(a, b)));
    let again = overlaid.instance_types(&pool("p")).await.unwrap();
    assert!(Arc::ptr_eq(&after, &again), "made once");
    let other = overlaid.instance_types(&pool("q")).await.unwrap();
    assert!(Arc::ptr_eq(&before, &other), "40/OV-06");
}

#[tokio::test]
async fn a_new_evaluation_replaces_the_last_one() {
    let cloud = Arc::new(FakeCloud::new());
    let before = cloud.instance_types(&pool("p")).await.unwrap();
    let store = Arc::new(OverlayStore::new());
    let overlaid = OverlayDecorator::new(cloud, Some(store.clone()));
    store.publish(pools(&["p"]), overrides("p", &before));
    let first = overlaid.instance_types(&pool("p")).await.unwrap();
    store.publish(pools(&["p"]), Overrides::default());
    let second = overlaid.instance_types(&pool("p")).await.unwrap();
    assert!(!Arc::ptr_eq(&first, &second) && Arc::ptr_eq(&before, &second));
}

#[tokio::test]
async fn errors_name_the_nodepool_with_and_without_the_gate() {
    for (name, text) in [
        ("p", "getting cloud provider instance types, insufficient capacity, none (NodePool=p)"),
        ("", "getting cloud provider instance types, insufficient capacity, none (NodePool=)"),
    ] {
        for store in [None, Some(Arc::new(OverlayStore::new()))] {
            let cloud = Arc::new(FakeCloud::new());
            cloud.fail_pool(name, || CloudError::insufficient_capacity("none"));
            let error =
                OverlayDecorator::new(cloud, store).instance_types(&pool(name)).await.unwrap_err();
            assert_eq!(error.to_string(), text, "45/CP-7");
            assert!(error.is(CloudErrorClass::InsufficientCapacity), "45/CP-7");
        }
    }
}
