//! Tests of the published OpenAPI documents: schemas, references, operations and the index hash.

use serde_json::json;

use super::*;
use crate::builtin_controllers::served_versions;

const WIDGETS: &str = include_str!("../table/tests/widgets.yaml");

fn registry() -> Registry {
    let mut registry = Registry::new();
    for served in served_versions(&serde_saphyr::from_str(WIDGETS).unwrap()) {
        registry.add(served);
    }
    registry
}

#[track_caller]
fn get(path: &str) -> Value {
    match handle(&registry(), path, "application/json").expect(path).body {
        Body::Value(value) => value,
        Body::Bytes(_, bytes) => serde_json::from_slice(&bytes).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// All values below, for walks over documents.
fn descendants(value: &Value) -> Vec<&Value> {
    let mut all = vec![value];
    let mut at = 0;
    while at < all.len() {
        match all[at] {
            Value::Array(items) => all.extend(items),
            Value::Object(fields) => all.extend(fields.values()),
            _ => {}
        }
        at += 1;
    }
    all
}

#[test]
fn built_in_schemas_match_the_real_api_server() {
    let document = get("/openapi/v3/apis/apps/v1");
    let schemas = &document["components"]["schemas"];
    let meta = "io.k8s.apimachinery.pkg.apis.meta.v1";
    let apps = "io.k8s.api.apps.v1";
    let int32 = json!({"type": "integer", "format": "int32"});
    assert_eq!(
        schemas[format!("{apps}.DeploymentSpec")],
        json!({
            "type": "object",
            "required": ["selector", "template"],
            "properties": {
                "minReadySeconds": int32,
                "paused": {"type": "boolean"},
                "progressDeadlineSeconds": int32,
                "replicas": int32,
                "revisionHistoryLimit": int32,
                "selector": {"allOf": [reference(&format!("{meta}.LabelSelector"))]},
                "strategy": {
                    "allOf": [reference(&format!("{apps}.DeploymentStrategy"))],
                    "default": {},
                    "x-kubernetes-patch-strategy": "retainKeys",
                },
                "template": {
                    "allOf": [reference("io.k8s.api.core.v1.PodTemplateSpec")],
                    "default": {},
                },
            },
        })
    );
    assert_eq!(
        schemas[format!("{apps}.DeploymentStatus")]["properties"]["conditions"],
        json!({
            "type": "array",
            "items": {"default": {}, "allOf": [reference(&format!("{apps}.DeploymentCondition"))]},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "x-kubernetes-patch-merge-key": "type",
            "x-kubernetes-patch-strategy": "merge",
        })
    );
    assert_eq!(
        schemas[format!("{apps}.Deployment")]["x-kubernetes-group-version-kind"],
        json!([{"group": "apps", "kind": "Deployment", "version": "v1"}])
    );
    assert_eq!(schemas[format!("{meta}.LabelSelector")]["x-kubernetes-map-type"], "atomic");
    assert_eq!(schemas[format!("{meta}.Time")], json!({"type": "string", "format": "date-time"}));
}

#[test]
fn custom_kinds_publish_their_schema_with_type_and_object_meta() {
    let document = get("/openapi/v3/apis/example.com/v1");
    let widget = &document["components"]["schemas"]["com.example.v1.Widget"];
    let metadata = json!({"allOf": [reference("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")]});
    assert_eq!(widget["description"], "A widget");
    assert_eq!(widget["properties"]["metadata"], metadata);
    assert_eq!(widget["properties"]["kind"], json!({"type": "string"}));
    let spec = &widget["properties"]["spec"];
    assert_eq!(spec["properties"]["text"]["description"], "Some text.");
    assert_eq!(spec["properties"]["raw"]["properties"]["metadata"], metadata);
    assert_eq!(spec["properties"]["raw"]["required"], json!(["kind", "apiVersion"]));
    assert_eq!(spec["x-kubernetes-validations"][0]["message"], "no no");
    assert_eq!(
        widget["x-kubernetes-group-version-kind"],
        json!([{"group": "example.com", "kind": "Widget", "version": "v1"}])
    );
}

#[test]
fn patch_operations_list_field_validation_and_patch_types() {
    for (document, path, is_strategic) in [
        ("api/v1", "/api/v1/namespaces/{namespace}/pods/{name}", true),
        ("api/v1", "/api/v1/namespaces/{namespace}/pods/{name}/status", true),
        ("api/v1", "/api/v1/nodes/{name}", true),
        ("apis/apps/v1", "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale", true),
        (
            "apis/example.com/v1",
            "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}",
            false,
        ),
    ] {
        let document = get(&format!("/openapi/v3/{document}"));
        let patch = &document["paths"][path]["patch"];
        let parameters = patch["parameters"].as_array().unwrap();
        assert!(parameters.iter().any(|p| p["name"] == "fieldValidation" && p["in"] == "query"));
        let content = &patch["requestBody"]["content"];
        let strategic = content.get("application/strategic-merge-patch+json");
        assert_eq!(strategic.is_some(), is_strategic, "{path}");
        assert_eq!(patch["x-kubernetes-action"], "patch");
    }
}

#[test]
fn every_reference_resolves_to_a_schema() {
    let registry = registry();
    for path in resources_by_version(&registry).keys() {
        let document = get(&format!("/openapi/v3/{path}"));
        for value in descendants(&document) {
            if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
                let pointer = reference.strip_prefix('#').unwrap();
                assert!(document.pointer(pointer).is_some(), "{path}: {reference}");
            }
        }
    }
}

#[test]
fn openapi_v2_has_definitions_and_paths() {
    let document = get("/openapi/v2");
    assert_eq!(document["swagger"], "2.0");
    for value in descendants(&document) {
        if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
            assert!(document.pointer(&reference[1..]).is_some(), "{reference}");
        }
    }
    let patch =
        &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert!(patch["consumes"].as_array().unwrap().contains(&"application/merge-patch+json".into()));
    let validation = &patch["parameters"].as_array().unwrap()[2];
    assert_eq!(
        (&validation["name"], &validation["type"]),
        (&"fieldValidation".into(), &"string".into())
    );
}

#[test]
fn the_openapi_v3_index_hash_changes_with_crds() {
    let index = get("/openapi/v3");
    let url = |index: &Value, path: &str| index["paths"][path]["serverRelativeURL"].clone();
    let core = url(&index, "api/v1");
    assert!(core.as_str().unwrap().starts_with("/openapi/v3/api/v1?hash="), "{core}");
    let mut crd: Value = serde_saphyr::from_str(WIDGETS).unwrap();
    crd["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["description"] = "Other".into();
    let mut other = Registry::new();
    for served in served_versions(&crd) {
        other.add(served);
    }
    let other = super::index(&other);
    let widgets = "apis/example.com/v1";
    assert_ne!(url(&other, widgets), url(&index, widgets));
    assert_eq!(url(&other, "api/v1"), core);
}

#[test]
fn openapi_as_protobuf_only_is_not_acceptable() {
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    assert_eq!(handle(&registry(), "/openapi/v2", protobuf).unwrap_err().code, 406);
    assert_eq!(handle(&registry(), "/openapi/v3/apis/no/v1", "").unwrap_err().code, 404);
}
