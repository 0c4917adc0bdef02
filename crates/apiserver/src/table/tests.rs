//! Tests that tables equal those of a real kube-apiserver 1.36 for the same objects.
//!
//! `tests/recorded.json` has the columns of each kind, then objects (only the useful fields) with
//! the cells they got.

use serde_json::{Value, json};

use super::*;
use crate::builtin_controllers::served_versions;
use crate::registry::{Registry, ServedResource};

const RECORDED: &str = include_str!("tests/recorded.json");
const WIDGETS: &str = include_str!("tests/widgets.yaml");

fn registry() -> Registry {
    let mut registry = Registry::new();
    for served in served_versions(&serde_saphyr::from_str(WIDGETS).unwrap()) {
        registry.add(served);
    }
    registry
}

#[track_caller]
fn served(registry: &Registry, kind: &str) -> std::sync::Arc<ServedResource> {
    let (api_version, plural) = kind.split_once(' ').unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    registry.get(group, version, plural).unwrap_or_else(|| panic!("{kind} is not served"))
}

#[test]
fn columns_match_kube_apiserver() {
    let registry = registry();
    let recorded: Value = serde_json::from_str(RECORDED).unwrap();
    for (kind, expected) in recorded["columns"].as_object().unwrap() {
        let table = to_table(
            &served(&registry, kind),
            &[],
            json!({}),
            true,
            IncludeObject::None,
            Timestamp::UNIX_EPOCH,
        );
        let columns = table["columnDefinitions"].as_array().unwrap();
        let found: Vec<String> = columns.iter().map(column).collect();
        assert_eq!(json!(found), *expected, "{kind}");
    }
}

/// `Name name`, `Desired integer`, `Node wide`
fn column(column: &Value) -> String {
    let mut words = vec![column["name"].as_str().unwrap().replace(' ', "_")];
    for field in ["type", "format"] {
        let word = column[field].as_str().unwrap();
        words.extend(Some(word).filter(|word| !matches!(*word, "string" | "")).map(str::to_owned));
    }
    words.extend((column["priority"] != 0).then(|| "wide".to_owned()));
    words.join(" ")
}

#[test]
fn cells_match_kube_apiserver() {
    let registry = registry();
    let recorded: Value = serde_json::from_str(RECORDED).unwrap();
    let mut different = Vec::new();
    for row in recorded["rows"].as_array().unwrap() {
        let now = row["now"].as_str().unwrap().parse().unwrap();
        let served = served(&registry, row["kind"].as_str().unwrap());
        let objects = std::slice::from_ref(&row["object"]);
        let table = to_table(&served, objects, json!({}), true, IncludeObject::None, now);
        let mut expected = json!({"cells": row["cells"]});
        if let Some(conditions) = row.get("conditions") {
            expected["conditions"] = conditions.clone();
        }
        expected["object"] = Value::Null;
        if table["rows"][0] != expected {
            different.push(format!("{}\n{expected}\n{}", row["kind"], table["rows"][0]));
        }
    }
    assert!(different.is_empty(), "expected, found\n{}", different.join("\n"));
}

#[test]
fn every_printer_returns_one_cell_per_column() {
    let empty = json!({});
    for printer in printer::all_printers() {
        let cells = (printer.cells)(Row { object: &empty, now: Timestamp::UNIX_EPOCH });
        assert_eq!(cells.len(), printer.columns.len(), "{}", printer.plural);
    }
}

#[test]
fn printers_accept_malformed_objects() {
    for odd in [json!(null), json!([]), json!({"spec": 1, "status": "x", "metadata": []})] {
        for printer in printer::all_printers() {
            (printer.cells)(Row { object: &odd, now: Timestamp::UNIX_EPOCH });
        }
    }
}

#[test]
fn rows_include_the_object_form_that_the_client_requests() {
    let registry = registry();
    let served = served(&registry, "v1 configmaps");
    let object = json!({"metadata": {"name": "a"}, "data": {"b": "c"}});
    for (requested, expected) in [
        ("None", json!(null)),
        (
            "",
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}}),
        ),
        (
            "Object",
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"b": "c"}}),
        ),
    ] {
        let include = IncludeObject::parse(requested).unwrap();
        let objects = std::slice::from_ref(&object);
        let table = to_table(&served, objects, json!({}), false, include, Timestamp::UNIX_EPOCH);
        assert_eq!(table["rows"][0]["object"], expected, "{requested}");
        assert_eq!(table["columnDefinitions"], Value::Null);
    }
    assert_eq!(IncludeObject::parse("All").unwrap_err().code, 400);
}

#[test]
fn empty_tables_encode_rows_as_list_or_null_like_kube_apiserver() {
    let registry = registry();
    for (kind, expected) in [
        ("v1 pods", json!([])),
        ("v1 limitranges", json!(null)),
        ("example.com/v1 widgets", json!([])),
    ] {
        let table = to_table(
            &served(&registry, kind),
            &[],
            json!({}),
            true,
            IncludeObject::None,
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(table["rows"], expected, "{kind}");
    }
}

#[test]
fn scale_tables_show_desired_and_available_replicas() {
    let scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": "web", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"replicas": 3},
        "status": {"replicas": 2},
    });
    let now = "2026-01-01T00:05:00Z".parse().unwrap();
    let table = super::scale_to_table(&scale, IncludeObject::None, now);
    let columns: Vec<String> =
        table["columnDefinitions"].as_array().unwrap().iter().map(column).collect();
    assert_eq!(columns, ["Name", "Desired integer", "Available integer", "Age"]);
    assert_eq!(table["rows"][0]["cells"], json!(["web", 3, 2, "5m"]));
    assert_eq!(table["metadata"], json!({"resourceVersion": "7"}));
}
