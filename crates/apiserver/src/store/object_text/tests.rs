//! Tests of object texts: equal to the JSON of the object, with shared parts stored once.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A pod of a workload: all but the name is the same.
fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": "é\"\n"}},
        "spec": {"containers": [{"name": "web", "image": "i".repeat(500), "env": []}]},
    })
}

fn share(texts: &mut TextPool, name: &str) -> ObjectText {
    texts.intern(&ObjectKey::new("n", name), &pod(name))
}

#[test]
fn object_text_equals_the_json_of_its_value() {
    let mut texts = TextPool::new();
    for name in ["a", "b", "b", "c"] {
        let text = share(&mut texts, name);
        assert_eq!(String::from_utf8(text.to_vec()).unwrap(), pod(name).to_string());
        assert_eq!(text.len(), pod(name).to_string().len());
    }
}

#[test]
fn parts_shared_by_two_objects_are_stored_once() {
    let mut texts = TextPool::new();
    let first = share(&mut texts, "a");
    let (second, third) = (share(&mut texts, "b"), share(&mut texts, "c"));
    assert_eq!(first.own_len(), first.len());
    assert!(third.own_len() < 100, "{third:?}");
    let [(_, part)] = &*third.shared else { panic!("{third:?}") };
    // The largest part, not those in it.
    assert!(part.starts_with(b"{\"containers\""));
    assert!(Arc::ptr_eq(part, &second.shared[0].1));
}

#[test]
fn versions_of_one_object_share_no_parts() {
    let mut texts = TextPool::new();
    for _ in 0..3 {
        assert_eq!(share(&mut texts, "a").shared.len(), 0);
    }
}

#[test]
fn unused_shared_parts_are_swept() {
    let mut texts = TextPool::new();
    for index in 0..3 * SWEEP_MIN {
        let value = json!({"spec": {"image": index.to_string().repeat(100)}});
        for name in ["a", "b"] {
            texts.intern(&ObjectKey::new("n", name), &value);
        }
        assert!(texts.shared.len() <= SWEEP_MIN);
    }
}

#[test]
fn object_text_allocates_exactly_its_bytes() {
    let text = share(&mut TextPool::new(), "a");
    let bytes: Vec<u8> = text.own.into();
    assert_eq!(bytes.capacity(), bytes.len());
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-é\"\\\\\n]{0,80}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec(("[a-c\"]{0,3}", inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_round_trips_through_the_text_pool(value in any_value()) {
        let mut texts = TextPool::new();
        for name in ["a", "b", "c"] {
            let text = texts.intern(&ObjectKey::new("n", name), &value);
            prop_assert_eq!(String::from_utf8(text.to_vec()).unwrap(), value.to_string());
        }
    }
}
