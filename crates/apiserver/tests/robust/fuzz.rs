//! Tests with random requests: each gets a response without a server bug, and the API stays up.

use bytes::Bytes;
use http::{Request, Uri, header};
use http_body_util::{BodyExt as _, Full};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::client::{APPLY, Client, JSON, JSON_PATCH, MERGE, PROTOBUF, STRATEGIC, YAML};

#[derive(Debug, Clone)]
struct FuzzRequest {
    method: &'static str,
    uri: Uri,
    content_type: &'static str,
    accept: &'static str,
    body: Bytes,
}

fn resource() -> impl Strategy<Value = &'static str> {
    select(vec![
        "/api/v1/namespaces",
        "/api/v1/nodes",
        "/api/v1/namespaces/default/pods",
        "/api/v1/namespaces/default/configmaps",
        "/api/v1/namespaces/default/services",
        "/api/v1/namespaces/default/events",
        "/api/v1/namespaces/default/persistentvolumeclaims",
        "/apis/apps/v1/namespaces/default/deployments",
        "/apis/apps/v1/namespaces/default/daemonsets",
        "/apis/apps/v1/namespaces/default/statefulsets",
        "/apis/batch/v1/namespaces/default/jobs",
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        "/apis/storage.k8s.io/v1/storageclasses",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
        "/apis/resource.k8s.io/v1/resourceslices",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
    ])
}

fn uri() -> impl Strategy<Value = Uri> {
    let name = prop_oneof![
        4 => Just("/a".to_owned()),
        1 => Just(String::new()),
        1 => "/[a-z0-9%./_-]{0,12}",
    ];
    let subresource = prop_oneof![6 => Just(""), 3 => select(vec!["/status", "/scale", "/binding", "/eviction", "/finalize", "/token", "/log"])];
    let query = prop_oneof![
        5 => Just(String::new()),
        3 => prop::collection::vec(pair(), 1..4).prop_map(|pairs| format!("?{}", pairs.join("&"))),
        1 => "\\?[a-zA-Z0-9%&=,!()+._-]{0,40}",
    ];
    let path = prop_oneof![
        9 => (resource(), name, subresource).prop_map(|(a, b, c)| format!("{a}{b}{c}")),
        1 => "/[a-z0-9/%.]{0,30}",
        1 => select(vec!["/openapi/v2", "/openapi/v3", "/apis", "/api", "/version"]).prop_map(str::to_owned),
    ];
    (path, query).prop_filter_map("a URI", |(path, query)| format!("{path}{query}").parse().ok())
}

fn pair() -> impl Strategy<Value = String> {
    let name = select(vec![
        "labelSelector",
        "fieldSelector",
        "limit",
        "continue",
        "resourceVersion",
        "watch",
        "dryRun",
        "resourceVersionMatch",
        "fieldManager",
        "force",
        "fieldValidation",
        "timeoutSeconds",
        "propagationPolicy",
        "gracePeriodSeconds",
        "sendInitialEvents",
        "includeObject",
    ]);
    let value = prop_oneof![
        2 => select(vec!["true", "All", "0", "1", "-1", "a", "Strict", "Exact", "Foreground", "Orphan", "99999999999999999999"]).prop_map(str::to_owned),
        1 => "[a-z0-9%=,!()]{0,12}",
    ];
    (name, value).prop_map(|(name, value)| format!("{name}={value}"))
}

/// Values that mean something somewhere, and are wrong nearly everywhere.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        select(vec![0, 1, -1, 8080, i64::MAX, i64::MIN]).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        select(vec![
            "",
            "a",
            "1",
            "100m",
            "1Gi",
            "-1",
            "50%",
            "Always",
            "2026-01-01T00:00:00Z",
            "a/b",
            "ä\0",
            "x.example",
            "Namespaced",
            "v1",
            "self.a > 1",
            "{.spec.a}",
            "self.matches('(')",
            "2Xi",
        ])
        .prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    let key = || {
        prop_oneof![
            8 => select(vec![
                "metadata", "spec", "status", "data", "name", "labels", "annotations", "finalizers",
                "ownerReferences", "template", "containers", "initContainers", "image", "resources",
                "requests", "selector", "matchLabels", "matchExpressions", "key", "operator", "values",
                "replicas", "ports", "port", "volumes", "affinity", "tolerations", "conditions", "type",
                "group", "names", "plural", "kind", "scope", "versions", "schema", "openAPIV3Schema",
                "properties", "x-kubernetes-validations", "rule", "items", "uid", "managedFields",
                "minAvailable", "maxUnavailable", "strategy", "deletionTimestamp", "generateName",
                "creationTimestamp", "resourceVersion", "$patch", "$setElementOrder/a", "devices",
            ]).prop_map(str::to_owned),
            1 => "[a-zA-Z0-9./$-]{0,8}",
        ]
    };
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => prop::collection::btree_map(key(), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// An object that is nearly right, so that much of the way is gone before it is refused.
pub(super) fn object() -> impl Strategy<Value = Value> {
    let pod = json!({"containers": [{"name": "c", "image": "i"}]});
    let template = json!({"metadata": {"labels": {"a": "a"}}, "spec": pod});
    let selector = json!({"matchLabels": {"a": "a"}});
    let spec = select(vec![
        json!({}),
        pod,
        json!({"selector": selector, "template": template, "replicas": 2}),
        json!({"selector": selector, "minAvailable": "50%"}),
        json!({"group": "x.example", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}),
    ]);
    (spec, value(), value(), any::<u8>()).prop_map(|(spec, more, metadata, salt)| {
        let mut object = json!({"metadata": {"name": "a", "labels": {"a": "a"}}, "spec": spec});
        if let (Some(spec), Some(more)) = (object["spec"].as_object_mut(), more.as_object()) {
            spec.extend(more.clone());
        }
        if salt % 3 == 0 {
            object["metadata"] = metadata;
        }
        if salt % 5 == 0 {
            object["status"] = more;
        }
        object
    })
}

fn body() -> impl Strategy<Value = Bytes> {
    let operation = (
        select(vec!["add", "remove", "replace", "move", "copy", "test"]),
        "(/(metadata|spec|data|labels|a|0|-|~1|containers)){0,4}",
        "(/(metadata|spec|data|labels|a|0)){0,3}",
        value(),
    )
        .prop_map(
            |(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}),
        );
    prop_oneof![
        6 => object().prop_map(|value| value.to_string().into()),
        2 => value().prop_map(|value| value.to_string().into()),
        2 => prop::collection::vec(operation, 0..4).prop_map(|ops| Value::from(ops).to_string().into()),
        1 => prop::collection::vec(any::<u8>(), 0..60).prop_map(Bytes::from),
        1 => "\\PC{0,40}".prop_map(Bytes::from),
        1 => Just(Bytes::new()),
    ]
}

fn fuzz_request() -> impl Strategy<Value = FuzzRequest> {
    let method =
        select(vec!["GET", "POST", "POST", "POST", "PUT", "PATCH", "PATCH", "DELETE", "OPTIONS"]);
    let content_type =
        select(vec![JSON, JSON, YAML, PROTOBUF, JSON_PATCH, MERGE, STRATEGIC, APPLY, "", "text/x"]);
    let accept = select(vec![
        "",
        JSON,
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "text/html",
        ";;,,=",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    ]);
    (method, uri(), content_type, accept, body()).prop_map(
        |(method, uri, content_type, accept, body)| FuzzRequest {
            method,
            uri,
            content_type,
            accept,
            body,
        },
    )
}

async fn send_and_check(client: &Client, fuzzed: &FuzzRequest) -> Result<(), TestCaseError> {
    // A watch has no end to wait for.
    let is_watch = fuzzed.uri.query().is_some_and(|query| query.contains("watch"));
    let request = Request::builder()
        .method(fuzzed.method)
        .uri(fuzzed.uri.clone())
        .header(header::CONTENT_TYPE, fuzzed.content_type)
        .header(header::ACCEPT, fuzzed.accept)
        .body(Full::new(fuzzed.body.clone()))
        .expect("a request");
    if is_watch {
        let mut events = client.watch(&fuzzed.uri.to_string()).await;
        let _ = futures_util::FutureExt::now_or_never(events.frame());
        return Ok(());
    }
    let answer = client.send(request).await;
    let text = String::from_utf8_lossy(&answer.body);
    prop_assert!(!text.contains("caused apiserver to panic"), "{fuzzed:?}");
    if answer.code >= 400 && answer.content_type == JSON {
        prop_assert_eq!(&answer.json()["kind"], "Status", "{:?}: {}", fuzzed, text);
        prop_assert_eq!(&answer.json()["code"], answer.code);
    } else if answer.content_type == JSON {
        prop_assert!(answer.json().is_object(), "{:?}: {}", fuzzed, text);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn no_request_panics_the_api_server(requests in prop::collection::vec(fuzz_request(), 1..12)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let client = Client::new();
            for fuzzed in &requests {
                send_and_check(&client, fuzzed).await?;
            }
            client.assert_responsive().await;
            Ok::<(), TestCaseError>(())
        })?;
    }
}
