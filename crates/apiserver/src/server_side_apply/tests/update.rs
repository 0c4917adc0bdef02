//! Tests of updates: owners of changed fields, and limits and errors of managed fields.

use serde_json::{Value, json};

use super::{
    LATER, NOW, apply_spec, describe_managed_fields, endpoint, status_endpoint, test_object,
    update_spec, with_uid,
};
use crate::server_side_apply::{ScaleFields, managed_fields_problem};

#[test]
fn an_update_takes_ownership_of_the_fields_it_changes() {
    let live = apply_spec(None, "a", json!({"text": "1", "num": 1, "set": ["x", "y"]}));
    let live = update_spec(Some(&live), "b", json!({"text": "2", "num": 1, "set": ["y", "z"]}));
    assert_eq!(
        describe_managed_fields(&live),
        [
            r#"a Apply {"f:spec":{"f:num":{},"f:set":{"v:\"y\"":{}}}}"#,
            r#"b Update {"f:spec":{"f:set":{"v:\"z\"":{}},"f:text":{}}}"#,
        ]
    );
}

#[test]
fn a_manager_without_fields_is_removed() {
    let live = apply_spec(None, "a", json!({"text": "1"}));
    let live = update_spec(Some(&live), "b", json!({"text": "2"}));
    assert_eq!(describe_managed_fields(&live), [r#"b Update {"f:spec":{"f:text":{}}}"#]);
}

#[test]
fn status_updates_own_only_status_and_ignore_sent_managed_fields() {
    let live = apply_spec(None, "a", json!({"text": "1"}));
    let mut new = live.clone();
    new["spec"]["text"] = "2".into();
    new["status"] = json!({"phase": "p"});
    new["metadata"]["managedFields"] = json!([]);
    status_endpoint().update(Some(&live), &mut new, "b", NOW);
    assert_eq!(
        describe_managed_fields(&new),
        [r#"a Apply {"f:spec":{"f:text":{}}}"#, r#"b Update {"f:status":{".":{},"f:phase":{}}}"#,]
    );
    assert_eq!(new["metadata"]["managedFields"][1]["subresource"], json!("status"));
}

#[test]
fn clients_can_reset_the_managed_fields() {
    for reset in [json!([]), json!([{}])] {
        let live = apply_spec(None, "a", json!({"text": "1"}));
        let mut new = live.clone();
        new["metadata"]["managedFields"] = reset;
        endpoint().update(Some(&live), &mut new, "b", NOW);
        assert_eq!(new["metadata"].get("managedFields"), None);
        // No manager is tracked then, until the next apply.
        let again = update_spec(Some(&with_uid(new)), "b", json!({"text": "2"}));
        assert_eq!(again["metadata"].get("managedFields"), None);
    }
}

#[test]
fn unreadable_managed_fields_are_replaced_by_the_stored_ones() {
    let live = apply_spec(None, "a", json!({"text": "1"}));
    for broken in [json!([{"manager": "x", "operation": "Delete"}]), json!(null), json!("x")] {
        let mut new = live.clone();
        new["metadata"]["managedFields"] = broken;
        endpoint().update(Some(&live), &mut new, "b", NOW);
        assert_eq!(new, live);
    }
}

#[test]
fn managed_fields_errors_match_kubernetes_messages() {
    let entry = |fields: Value| {
        let mut entry =
            json!({"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"});
        for (key, value) in fields.as_object().unwrap() {
            entry[key] = value.clone();
        }
        json!([entry])
    };
    let rows = [
        (json!({"operation": "Patch"}), Some("operation must be `Apply` or `Update`")),
        (json!({"apiVersion": ""}), Some("apiVersion must not be empty")),
        (json!({"fieldsType": ""}), Some("missing fieldsType in managed fields entry 0")),
        (json!({"fieldsType": "V2"}), Some("invalid fieldsType \"V2\" in managed fields entry 0")),
        (json!({"fieldsV1": {"f:a": {}}}), None),
    ];
    for (fields, expected) in rows {
        assert_eq!(managed_fields_problem(&entry(fields)).as_deref(), expected);
    }
}

#[test]
fn the_eleventh_update_manager_merges_the_two_oldest() {
    let fields =
        ["text", "num", "flag", "ios", "labels", "amap", "aobj", "obj", "alist", "set", "nset"];
    let values = [
        json!("a"),
        json!(1),
        json!(true),
        json!(1),
        json!({"a": "b"}),
        json!({"a": "b"}),
        json!({"a": "b"}),
        json!({"a": "b"}),
        json!(["a"]),
        json!(["a"]),
        json!([1]),
    ];
    let mut live = None;
    let mut spec = json!({});
    for (i, (field, value)) in fields.into_iter().zip(values).enumerate() {
        spec[field] = value;
        let mut new = live.clone().unwrap_or_else(|| test_object(json!({})));
        new["spec"] = spec.clone();
        let now = format!("2026-01-01T00:00:{i:02}Z");
        endpoint().update(live.as_ref(), &mut new, &format!("m{i}"), &now);
        live = Some(with_uid(new));
    }
    let live = live.unwrap();
    let owners = describe_managed_fields(&live);
    assert_eq!(owners.len(), 10);
    assert_eq!(owners[0], r#"ancient-changes Update {"f:spec":{".":{},"f:num":{},"f:text":{}}}"#);
    assert_eq!(owners[9], r#"m10 Update {"f:spec":{"f:nset":{".":{},"v:1":{}}}}"#);
    assert_eq!(live["metadata"]["managedFields"][0]["time"], json!("2026-01-01T00:00:01Z"));
}

#[test]
fn managed_fields_of_unserved_versions_are_dropped() {
    let entry = |version: &str| {
        json!({"manager": version, "operation": "Update", "apiVersion": version, "time": NOW,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:num": {}}}})
    };
    let mut live = with_uid(test_object(json!({"num": 1})));
    live["metadata"]["managedFields"] = json!([entry("test.io/v0"), entry("test.io/v1beta1")]);
    let mut new = live.clone();
    new["spec"]["text"] = "1".into();
    let endpoint =
        crate::server_side_apply::ApiEndpoint { api_versions: &["test.io/v1beta1"], ..endpoint() };
    endpoint.update(Some(&live), &mut new, "b", LATER);
    assert_eq!(
        describe_managed_fields(&new),
        [
            r#"test.io/v1beta1 Update {"f:spec":{"f:num":{}}}"#,
            r#"b Update {"f:spec":{"f:text":{}}}"#,
        ]
    );
}

#[test]
fn owners_of_parts_own_the_whole_field_once_it_is_atomic() {
    let mut live = with_uid(test_object(json!({"aobj": {"a": "x", "b": 1}, "alist": ["x"]})));
    live["metadata"]["managedFields"] = json!([{
        "manager": "a", "operation": "Update", "apiVersion": "test.io/v1", "time": NOW,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:aobj": {".": {}, "f:a": {}}, "f:alist": {"v:\"x\"": {}}}},
    }]);
    let live = update_spec(
        Some(&live),
        "b",
        json!({"aobj": {"a": "x", "b": 1}, "alist": ["x"], "num": 1}),
    );
    assert_eq!(
        describe_managed_fields(&live),
        [
            r#"a Update {"f:spec":{"f:alist":{},"f:aobj":{}}}"#,
            r#"b Update {"f:spec":{"f:num":{}}}"#,
        ]
    );
}

#[test]
fn an_object_that_violates_its_schema_loses_its_managed_fields() {
    let live = apply_spec(None, "a", json!({"text": "1"}));
    let new = update_spec(Some(&live), "b", json!({"text": {}}));
    assert_eq!(new["metadata"].get("managedFields"), None);
}

#[test]
fn scale_managed_fields_are_the_owners_of_replicas() {
    let scale =
        ScaleFields { api_version: "apps/v1", replicas: &[("apps/v1", &["spec", "replicas"])] };
    let entry = |manager: &str, operation: &str, version: &str, fields: Value| {
        json!({"manager": manager, "operation": operation, "apiVersion": version,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": fields}})
    };
    let both = json!({"f:replicas": {}, "f:selector": {}});
    let object = json!([
        entry("a", "Apply", "apps/v1", both),
        entry("b", "Update", "apps/v1", json!({"f:paused": {}}))
    ]);
    let seen = json!([entry("a", "Apply", "autoscaling/v1", json!({"f:replicas": {}}))]);
    assert_eq!(scale.to_scale(Some(&object)), Ok(Some(seen.clone())));
    assert_eq!(scale.to_object(Some(&object), Some(&seen)), Ok(Some(object.clone())));

    let mut taken = entry("s", "Update", "autoscaling/v1", json!({"f:replicas": {}}));
    taken["subresource"] = "scale".into();
    let mut given = entry("s", "Update", "apps/v1", json!({"f:replicas": {}}));
    given["subresource"] = "scale".into();
    let after = json!([
        entry("a", "Apply", "apps/v1", json!({"f:selector": {}})),
        entry("b", "Update", "apps/v1", json!({"f:paused": {}})),
        given,
    ]);
    assert_eq!(scale.to_object(Some(&object), Some(&json!([taken]))), Ok(Some(after)));
}

#[test]
fn custom_kind_metadata_merges_like_built_in_metadata() {
    let metadata = |labels: Value, finalizers: Value, owners: Value| {
        let mut object = test_object(json!({}));
        object["metadata"] = json!({"name": "n", "labels": labels, "finalizers": finalizers,
            "ownerReferences": owners});
        object
    };
    let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "K", "name": "o", "uid": uid});
    let first = metadata(json!({"a": "1"}), json!(["x"]), json!([owner("1")]));
    let live = endpoint().apply(None, &first, "a", false, NOW).unwrap().object;
    let second = metadata(json!({"b": "2"}), json!(["y"]), json!([owner("2")]));
    let both = endpoint().apply(Some(&with_uid(live)), &second, "b", false, NOW).unwrap().object;
    assert_eq!(both["metadata"]["labels"], json!({"a": "1", "b": "2"}));
    assert_eq!(both["metadata"]["finalizers"], json!(["x", "y"]));
    assert_eq!(both["metadata"]["ownerReferences"], json!([owner("1"), owner("2")]));
}
