//! Server-side apply: merging, removal, conflicts.

use serde_json::{Value, json};

use super::{
    LATER, NOW, apply_spec, describe_managed_fields, endpoint, status_endpoint, test_object,
    update_spec, with_uid,
};
use crate::server_side_apply::restore_unchanged_times;

#[test]
fn the_first_apply_owns_the_fields_it_sets() {
    let live =
        apply_spec(None, "a", json!({"obj": {"a": "x"}, "items": [{"name": "i", "value": "v"}]}));
    assert_eq!(
        live["metadata"]["managedFields"],
        json!([{
            "manager": "a", "operation": "Apply", "apiVersion": "test.io/v1", "time": NOW,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {
                "f:items": {"k:{\"name\":\"i\"}": {".": {}, "f:name": {}, "f:value": {}}},
                "f:obj": {"f:a": {}},
            }},
        }])
    );
}

#[test]
fn apply_removes_dropped_fields_unless_another_manager_owns_them() {
    #[rustfmt::skip]
    let rows = [
        // before, others' change, now, expected
        (json!({"text": "a", "num": 1}), None, json!({"num": 1}), json!({"num": 1})),
        (json!({"set": ["a", "b", "c"]}), None, json!({"set": ["a", "c"]}), json!({"set": ["a", "c"]})),
        (json!({"labels": {"a": "1"}}), Some(json!({"labels": {"a": "1", "b": "2"}})), json!({}), json!({"labels": {"b": "2"}})),
        (json!({"items": [{"name": "a"}, {"name": "b"}]}), None, json!({"items": [{"name": "b"}]}), json!({"items": [{"name": "b"}]})),
        (json!({"items": [{"name": "a", "port": 1}]}), Some(json!({"items": [{"name": "a", "port": 1, "value": "v"}]})),
            json!({"items": [{"name": "a"}]}), json!({"items": [{"name": "a", "value": "v"}]})),
        (json!({"text": "a", "num": 1}), Some(json!({"text": "b", "num": 1})), json!({"num": 1}), json!({"text": "b", "num": 1})),
    ];
    for (before, other, now, expected) in rows {
        let mut live = apply_spec(None, "a", before.clone());
        if let Some(other) = other {
            live = update_spec(Some(&live), "other", other);
        }
        assert_eq!(apply_spec(Some(&live), "a", now)["spec"], expected, "{before}");
    }
}

#[test]
fn a_field_with_two_owners_stays_until_both_drop_it() {
    let live = apply_spec(None, "a", json!({"text": "x"}));
    let live = apply_spec(Some(&live), "b", json!({"text": "x"}));
    let live = apply_spec(Some(&live), "a", json!({}));
    assert_eq!(live["spec"], json!({"text": "x"}));
    let live = apply_spec(Some(&live), "b", json!({}));
    assert_eq!(live["spec"], Value::Null);
}

#[test]
fn list_items_keep_their_order_unless_the_configuration_reorders_them() {
    #[rustfmt::skip]
    let rows = [
        (&["a", "b", "c"][..], &["b"][..], &["a", "b", "c"][..]),
        (&["a", "b", "c"], &["c", "a"], &["b", "c", "a"]),
        (&["a", "b"], &["c"], &["a", "b", "c"]),
        (&["a", "c"], &["a", "b", "c"], &["a", "b", "c"]),
        (&["a", "b"], &["b", "x", "a"], &["b", "x", "a"]),
    ];
    for (live, config, expected) in rows {
        let object = apply_spec(None, "a", json!({"set": live}));
        let merged = apply_spec(Some(&object), "b", json!({"set": config}));
        assert_eq!(merged["spec"]["set"], json!(expected), "{live:?} + {config:?}");
    }
}

#[test]
fn a_single_conflict_is_reported_on_one_line() {
    let live = update_spec(None, "kubectl-edit", json!({"items": [{"name": "i", "value": "v"}]}));
    let config = test_object(json!({"items": [{"name": "i", "value": "w"}]}));
    let failure = endpoint().apply(Some(&live), &config, "a", false, NOW).unwrap_err();
    assert_eq!(
        failure.to_value(),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Apply failed with 1 conflict: conflict with \"kubectl-edit\" using \
                        test.io/v1: .spec.items[name=\"i\"].value",
            "reason": "Conflict",
            "details": {"causes": [{
                "reason": "FieldManagerConflict",
                "message": "conflict with \"kubectl-edit\" using test.io/v1",
                "field": ".spec.items[name=\"i\"].value",
            }]},
            "code": 409,
        })
    );
}

#[test]
fn conflicts_are_grouped_by_field_manager() {
    let live = apply_spec(None, "b", json!({"text": "1", "num": 1}));
    let mut new = live.clone();
    new["status"] = json!({"phase": "p"});
    status_endpoint().update(Some(&live), &mut new, "c", NOW);
    let mut config = test_object(json!({"text": "2", "num": 2}));
    config["status"] = json!({"phase": "q"});
    let failure = endpoint().apply(Some(&new), &config, "a", false, NOW).unwrap_err();
    // The status is not this endpoint's to change, so it is no conflict.
    assert_eq!(
        failure.message,
        "Apply failed with 2 conflicts: conflicts with \"b\":\n- .spec.num\n- .spec.text"
    );
    let failure = status_endpoint().apply(Some(&new), &config, "a", false, NOW).unwrap_err();
    assert_eq!(
        failure.message,
        "Apply failed with 1 conflict: conflict with \"c\" with subresource \"status\" using \
         test.io/v1: .status.phase"
    );
}

#[test]
fn a_forced_apply_takes_ownership_of_conflicting_fields() {
    let live = apply_spec(None, "b", json!({"text": "1", "num": 1}));
    let forced =
        endpoint().apply(Some(&live), &test_object(json!({"text": "2"})), "a", true, LATER);
    let object = forced.unwrap().object;
    assert_eq!(object["spec"], json!({"text": "2", "num": 1}));
    assert_eq!(
        describe_managed_fields(&object),
        [r#"b Apply {"f:spec":{"f:num":{}}}"#, r#"a Apply {"f:spec":{"f:text":{}}}"#]
    );
}

#[test]
fn an_apply_without_changes_keeps_the_managed_fields_time() {
    let live = apply_spec(None, "a", json!({"text": "1"}));
    let again =
        endpoint().apply(Some(&live), &test_object(json!({"text": "1"})), "a", false, LATER);
    let again = again.unwrap();
    assert!(!again.changed);
    assert_eq!(again.object, live);
}

#[test]
fn managed_fields_times_are_restored_when_nothing_else_changed() {
    let old = apply_spec(None, "a", json!({"text": "1"}));
    let mut new = old.clone();
    new["metadata"]["managedFields"][0]["time"] = LATER.into();
    let mut changed = new.clone();
    changed["spec"]["text"] = "2".into();
    let kept = changed.clone();
    restore_unchanged_times(&old, &mut new);
    restore_unchanged_times(&old, &mut changed);
    assert_eq!((new, changed), (old, kept));
}

#[test]
fn fields_set_before_the_first_apply_get_their_own_manager() {
    let live = with_uid(test_object(json!({"text": "1", "num": 1})));
    let object = apply_spec(Some(&live), "a", json!({"text": "1"}));
    assert_eq!(
        describe_managed_fields(&object),
        [
            r#"a Apply {"f:spec":{"f:text":{}}}"#,
            r#"before-first-apply Update {"f:spec":{".":{},"f:num":{},"f:text":{}}}"#,
        ]
    );
}

#[test]
fn apply_rejects_invalid_configurations_with_kubernetes_messages() {
    let error = "failed to create typed patch object (/n; test.io/v1, Kind=Thing): ";
    #[rustfmt::skip]
    let rows = [
        (json!({"nope": 1}), ".spec.nope: field not declared in schema"),
        (json!({"text": 1}), ".spec.text: expected string, got &value.valueUnstructured{Value:1}"),
        (json!({"num": "1"}), ".spec.num: expected numeric (int or float), got string"),
        (json!({"flag": "yes"}), ".spec.flag: expected boolean, got &{yes}"),
        (json!({"obj": []}), ".spec.obj: expected map, got &{[]}"),
        (json!({"set": {"a": 1}}), ".spec.set: expected list, got &{map[a:1]}"),
        (json!({"set": ["a", "a"]}), ".spec.set: duplicate entries for key [=\"a\"]"),
        (json!({"items": [{"value": "v"}]}), ".spec.items: element 0: associative list with keys has an element that \
            omits all key fields [\"name\"] (and doesn't have default values for any key fields)"),
        (json!({"set": [[]]}), ".spec.set: element 0: not supported: associative list with lists as elements"),
    ];
    for (spec, problem) in rows {
        let failure = endpoint().apply(None, &test_object(spec), "a", false, NOW).unwrap_err();
        let problem = problem.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!((failure.code.as_u16(), failure.reason), (500, ""));
        assert_eq!(failure.message, format!("{error}{problem}"));
    }
}

#[test]
fn an_apply_of_another_kind_or_with_managed_fields_is_a_bad_request() {
    let mut other = test_object(json!({}));
    other["kind"] = "Other".into();
    let mut managed = test_object(json!({}));
    managed["metadata"]["managedFields"] = json!([]);
    let rows = [
        (other, "invalid object type: test.io/v1, Kind=Other"),
        (managed, "metadata.managedFields must be nil"),
    ];
    for (config, message) in rows {
        let failure = endpoint().apply(None, &config, "a", false, NOW).unwrap_err();
        assert_eq!((failure.code.as_u16(), &*failure.message), (400, message));
    }
}

#[test]
fn an_undecodable_apply_result_is_a_conversion_error() {
    let failure = endpoint().conversion_failure(&test_object(json!({})), "illegal base64 data");
    let object = "/n; test.io/v1, Kind=Thing";
    let words = "to proper version: illegal base64 data";
    assert_eq!(failure.message, format!("failed to convert new object ({object}) {words}"));
    assert_eq!((failure.code.as_u16(), failure.reason), (500, ""));
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns an object as client-side `kubectl apply` leaves it, with its annotation.
fn client_side_applied_object(spec: Value) -> Value {
    let mut object = test_object(spec.clone());
    object["metadata"]["annotations"] = json!({ LAST_APPLIED: test_object(spec).to_string() });
    endpoint().update(None, &mut object, "kubectl-client-side-apply", NOW);
    with_uid(object)
}

#[test]
fn kubectl_server_side_apply_adopts_last_applied_fields() {
    let live = client_side_applied_object(json!({"text": "1", "num": 1}));
    let config = test_object(json!({"text": "2", "num": 1}));
    let object = endpoint().apply(Some(&live), &config, "kubectl", false, LATER).unwrap().object;
    assert_eq!(object["spec"]["text"], json!("2"));
    assert_eq!(
        object["metadata"]["annotations"][LAST_APPLIED],
        json!(
            "{\"apiVersion\":\"test.io/v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"n\"},\
               \"spec\":{\"num\":1,\"text\":\"2\"}}\n"
        )
    );
    let failure = endpoint().apply(Some(&live), &config, "other", false, LATER).unwrap_err();
    assert_eq!(failure.code.as_u16(), 409);
}

#[test]
fn kubectl_conflicts_on_fields_changed_since_the_last_apply() {
    let live = client_side_applied_object(json!({"text": "1", "num": 1}));
    let live = update_spec(Some(&live), "other", json!({"text": "1", "num": 2}));
    let config = test_object(json!({"text": "2", "num": 1}));
    let failure = endpoint().apply(Some(&live), &config, "kubectl", false, LATER).unwrap_err();
    assert_eq!(
        failure.message,
        "Apply failed with 1 conflict: conflict with \"other\" using test.io/v1: .spec.num"
    );
}
