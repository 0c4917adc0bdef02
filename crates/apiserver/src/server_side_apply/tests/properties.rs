//! Laws that hold for any set and any object.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{LATER, NOW, endpoint, test_object, with_uid};
use crate::server_side_apply::path::{Path, PathElement};
use crate::server_side_apply::set::FieldSet;

fn element() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        4 => "[a-c]".prop_map(|name| PathElement::field(&name)),
        1 => "\\PC{0,3}".prop_map(|name| PathElement::field(&name)),
        2 => "[a-c]".prop_map(|name| PathElement::key(vec![("name".into(), json!(name))])),
        1 => (0..3_i64).prop_map(|value| PathElement::value(json!(value))),
        1 => "[a<\"]{0,2}".prop_map(|value| PathElement::value(json!(value))),
        1 => (0..3_i64).prop_map(PathElement::Index),
    ]
}

fn field_set() -> impl Strategy<Value = FieldSet> {
    vec(vec(element(), 1..4), 0..8).prop_map(|paths: Vec<Path>| {
        let mut set = FieldSet::default();
        for path in &paths {
            set.insert(path);
        }
        set
    })
}

fn text() -> impl Strategy<Value = Value> {
    "[a-c]".prop_map(Value::from)
}

fn optional_field(
    name: &'static str,
    value: impl Strategy<Value = Value> + 'static,
) -> BoxedStrategy<Option<(String, Value)>> {
    proptest::option::of(value.prop_map(move |value| (name.to_owned(), value))).boxed()
}

fn keyed_items(items: Vec<(String, Value)>) -> Value {
    let items: std::collections::BTreeMap<_, _> = items.into_iter().collect();
    items.into_iter().rev().map(|(name, value)| json!({"name": name, "value": value})).collect()
}

fn spec() -> impl Strategy<Value = Value> {
    let set = proptest::collection::btree_set("[a-d]", 0..4);
    let any = prop_oneof![
        text(),
        Just(Value::Null),
        vec(text(), 0..2).prop_map(Value::from),
        text().prop_map(|value| json!({"x": {"y": value}})),
    ];
    let fields = vec![
        optional_field("text", text()),
        optional_field("alist", vec(text(), 0..3).prop_map(Value::from)),
        optional_field("set", set.prop_map(|set| set.into_iter().rev().map(Value::from).collect())),
        optional_field("labels", text().prop_map(|value| json!({"a": value, "b": value}))),
        optional_field("obj", text().prop_map(|value| json!({"a": value, "nested": {"c": value}}))),
        optional_field("aobj", text().prop_map(|value| json!({"a": value}))),
        optional_field("items", vec(("[a-d]", text()), 0..4).prop_map(keyed_items)),
        optional_field("any", any),
    ];
    fields.prop_map(|fields| fields.into_iter().flatten().collect())
}

proptest! {
    #[test]
    fn field_set_encoding_round_trips(set in field_set()) {
        prop_assert_eq!(FieldSet::decode(&set.encode()), Ok(set));
    }

    #[test]
    fn decoding_a_field_set_from_any_json_does_not_panic(key in "\\PC{0,6}", value in text()) {
        let _ = FieldSet::decode(&json!({ key: value }));
    }

    #[test]
    fn field_sets_obey_set_algebra(a in field_set(), b in field_set(), c in field_set()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        prop_assert_eq!(a.intersection(&b.union(&c)), a.intersection(&b).union(&a.intersection(&c)));
        let recursive = a.recursive_difference(&b);
        prop_assert_eq!(recursive.difference(&a.difference(&b)), FieldSet::default());
        for path in a.paths() {
            let kept = (1..=path.len()).all(|length| !b.contains(&path[..length]));
            prop_assert_eq!(recursive.contains(&path), kept);
        }
    }

    #[test]
    fn repeating_an_apply_changes_nothing(old in spec(), new in spec()) {
        let live = with_uid(endpoint().apply(None, &test_object(old), "a", false, NOW).unwrap().object);
        let config = test_object(new);
        let once = with_uid(endpoint().apply(Some(&live), &config, "b", true, NOW).unwrap().object);
        let twice = endpoint().apply(Some(&once), &config, "b", false, LATER).unwrap();
        prop_assert!(!twice.changed);
        prop_assert_eq!(twice.object, once);
    }

    #[test]
    fn an_empty_apply_removes_the_fields_of_its_manager(old in spec()) {
        let live = with_uid(endpoint().apply(None, &test_object(old), "a", false, NOW).unwrap().object);
        let rest = endpoint().apply(Some(&live), &test_object(json!({})), "a", false, LATER).unwrap();
        let left = &rest.object["spec"];
        // Empty parts without an owner stay, as in Kubernetes.
        let is_empty = |value: &Value| *value == json!([]) || *value == json!({}) || value.is_null();
        let is_gone = left.as_object().is_none_or(|left| left.values().all(is_empty));
        prop_assert!(is_gone, "{}", left);
    }

    #[test]
    fn an_update_without_changes_keeps_the_managed_fields(old in spec()) {
        let live = with_uid(endpoint().apply(None, &test_object(old), "a", false, NOW).unwrap().object);
        let mut new = live.clone();
        endpoint().update(Some(&live), &mut new, "b", LATER);
        prop_assert_eq!(new, live);
    }
}
