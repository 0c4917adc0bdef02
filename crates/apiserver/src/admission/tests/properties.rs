//! Laws that hold for any object.

use std::sync::LazyLock;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::widget;
use crate::admission::CustomKind;

/// A kind with every feature, so that random data meets all of them.
static KIND: LazyLock<CustomKind> = LazyLock::new(|| {
    let text = json!({"type": "string", "maxLength": 4, "pattern": "^[a-z]*$", "default": "d"});
    widget(&json!({"type": "object", "default": {}, "properties": {
        "a": text,
        "b": {"type": "integer", "format": "int32", "minimum": 0, "multipleOf": 2, "nullable": true},
        "c": {"type": "array", "maxItems": 2, "x-kubernetes-list-type": "set", "items": text},
        "d": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
            "items": {"type": "object", "properties": {"a": text, "b": {"type": "number"}},
                "x-kubernetes-validations": [{"rule": "self.a >= oldSelf.a"}]}},
        "e": {"type": "object", "additionalProperties": text, "x-kubernetes-validations": [
            {"rule": "self.all(k, k.matches('^[a-z]+$') && self[k].size() < 3)"},
        ]},
        "f": {"x-kubernetes-preserve-unknown-fields": true},
        "g": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-validations": [{"rule": "type(self) == int ? self < 5 : self.endsWith('%')"}]},
        "h": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
    }, "x-kubernetes-validations": [
        {"rule": "self.a != '' || self.d.exists(x, x.b > 1.0)", "messageExpression": "self.a + self.e['a']"},
        {"rule": "has(self.b) == has(oldSelf.b)", "fieldPath": ".b"},
    ]}))
});

fn name() -> impl Strategy<Value = String> {
    prop_oneof![9 => "[a-i]", 1 => "(metadata|kind|apiVersion|\\PC{0,3})"]
}

fn data() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0..9_i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,5}".prop_map(Value::from),
        "[a-z]{0,3}%?".prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            btree_map(name(), inner, 0..6).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

/// An object with a `spec` most of the time, else anything at all.
fn any_object() -> impl Strategy<Value = Value> {
    let spec = btree_map(name(), data(), 0..8).prop_map(|map| map.into_iter().collect::<Value>());
    prop_oneof![
        9 => (spec, data()).prop_map(|(spec, metadata)| json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": spec,
        })),
        1 => data(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn pruning_and_defaulting_are_idempotent_for_any_object(object in any_object()) {
        let _ = KIND.validate_create(&object); // also what was never pruned

        let mut pruned = object.clone();
        KIND.prune(&mut pruned);
        let mut again = pruned.clone();
        prop_assert_eq!(KIND.prune(&mut again), Vec::<String>::new());
        prop_assert_eq!(&again, &pruned);

        let mut complete = pruned;
        KIND.apply_defaults(&mut complete);
        let mut again = complete.clone();
        KIND.apply_defaults(&mut again);
        prop_assert_eq!(&again, &complete);

        // Defaults are of the schema, so they leave nothing to prune.
        prop_assert_eq!(KIND.prune(&mut again), Vec::<String>::new());
    }

    #[test]
    fn an_unchanged_valid_object_passes_update_validation(
        old in any_object(),
        new in any_object(),
    ) {
        let created = KIND.validate_create(&new).len();
        let _ = KIND.validate_status_update(&new, &old);
        let _ = KIND.validate_update(&new, &old);
        // Without a change, only rules about changes can fail.
        let unchanged = KIND.validate_update(&new, &new).len();
        prop_assert!(created > 0 || unchanged == 0, "{new}");
    }
}
