//! Requests that make no sense.

use base64::Engine as _;
use karpenter_apiserver::MAX_BODY_BYTES;
use serde_json::json;

use super::client::{APPLY, CONFIG_MAPS, Client, JSON, JSON_PATCH, MERGE, STRATEGIC, YAML, event};

const ONE: &str = "/api/v1/namespaces/default/configmaps/one";
const APPLIED: &str = "/api/v1/namespaces/default/configmaps/one?fieldManager=me";

/// With a ConfigMap called `one`.
async fn client() -> Client {
    let client = Client::new();
    let body = json!({"metadata": {"name": "one"}, "data": {"key": "value"}}).to_string();
    assert_eq!(client.request("POST", CONFIG_MAPS, JSON, body).await.code, 201);
    client
}

fn nested(open: &str, close: &str, depth: usize) -> String {
    format!("{}{}", open.repeat(depth), close.repeat(depth))
}

#[tokio::test]
async fn bodies_that_are_not_objects_of_the_kind_are_rejected() {
    let client = client().await;
    let deep = nested("[", "]", 10_000);
    let deep_object = nested("{\"a\":", "}", 10_000).replacen(":}", ":1}", 1);
    let deep_field = format!("{{\"metadata\":{{\"name\":\"x\"}},\"data\":{deep}}}");
    let flow = format!("metadata: {{name: x}}\ndata: {deep}\n");
    let indented: Vec<_> = (1..1_000).map(|depth| " ".repeat(depth) + "a:\n").collect();
    let indented = format!("metadata: {{name: x}}\ndata:\n{}", indented.concat());
    let laughs = (1..30).map(|level| {
        let before = format!("*a{}, ", level - 1).repeat(9);
        format!("a{level}: &a{level} [{before}]\n")
    });
    let laughs = format!("a0: &a0 [x, x, x]\n{}", laughs.collect::<Vec<_>>().concat());
    let huge_number =
        format!("{{\"metadata\":{{\"name\":\"x\",\"generation\":1{}}}}}", "0".repeat(400));
    for (content_type, body, code) in [
        (JSON, "", 400),
        (JSON, "{", 400),
        (JSON, "null", 422),
        (JSON, "[]", 400),
        (JSON, "\"text\"", 400),
        (JSON, "{\"metadata\":[]}", 400),
        (JSON, "{\"metadata\":{\"name\":5}}", 400),
        (JSON, "{\"metadata\":{\"name\":\"x\"},\"data\":{\"a\":{}}}", 400),
        (JSON, "{\"metadata\":{\"name\":\"x\"}} {}", 400),
        (JSON, "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"x\"}}", 400),
        (JSON, "{\"apiVersion\":\"v9\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"x\"}}", 400),
        (JSON, &deep, 400),
        (JSON, &deep_object, 400),
        (JSON, &deep_field, 400),
        (JSON, &huge_number, 400),
        (YAML, &flow, 400),
        (YAML, &indented, 400),
        (YAML, &laughs, 400),
        (YAML, "a: &a [*a]", 400),
        (YAML, "{unclosed", 400),
        ("application/vnd.kubernetes.protobuf", "k8s\0", 400),
        ("text/html", "<p>", 415),
        ("application/cbor", "\u{0}", 415),
        ("", "{}", 422),
    ] {
        let answer = client.request("POST", CONFIG_MAPS, content_type, body.to_owned()).await;
        let shown: String = body.chars().take(60).collect();
        assert_eq!(answer.failure().0, code, "{content_type} {shown}: {}", answer.json());
    }
    let answer = client
        .request("POST", CONFIG_MAPS, JSON, &b"{\"metadata\":{\"name\":\"\xff\xfe\"}}"[..])
        .await;
    assert_eq!(answer.failure().0, 422, "Go reads it as a character that no name may have");
    let answer =
        client.request("POST", CONFIG_MAPS, YAML, &b"metadata: {name: \xff\xfe}"[..]).await;
    assert_eq!(answer.failure().0, 400);
    client.assert_responsive().await;
}

#[tokio::test]
async fn bodies_over_the_size_limit_are_rejected() {
    let client = client().await;
    let of_size = |size: usize| {
        let body = json!({"metadata": {"name": "large"}, "data": {"a": ""}}).to_string();
        body.replace("\"a\":\"\"", &format!("\"a\":\"{}\"", "x".repeat(size - body.len())))
    };
    let answer = client.request("POST", CONFIG_MAPS, JSON, of_size(MAX_BODY_BYTES + 1)).await;
    assert_eq!(answer.failure(), (413, "RequestEntityTooLarge".to_owned()));
    // Read, and found to be more than a ConfigMap may hold.
    let answer = client.request("POST", CONFIG_MAPS, JSON, of_size(MAX_BODY_BYTES)).await;
    assert_eq!(answer.failure(), (422, "Invalid".to_owned()));
}

#[tokio::test]
async fn unknown_paths_return_not_found() {
    let client = client().await;
    for path in [
        "/",
        "//",
        "/api/v1/",
        "/api/v9/pods",
        "/apis/none.example/v1/things",
        "/api/v1/unknowns",
        "/api/v1/namespaces/default/unknowns/x",
        "/api/v1/namespaces/default/pods/x/unknown",
        "/api/v1/namespaces/default/nodes/x",
        "/api/v1/namespaces/default/configmaps/..%2fone",
        "/api/v1/namespaces/default/configmaps/../one",
        "/api/v1/namespaces/../configmaps/one",
        "/api/v1/namespaces/default/configmaps/one%00",
        "/api/v1/namespaces/default/configmaps/%ff",
        "/api/v1/namespaces/default%2fconfigmaps/configmaps/one",
        "/../etc/passwd",
        "/api/v1/namespaces/default/configmaps/one/status/more/and/more",
        "/openapi/v3/apis/none",
        "/api/v1/namespaces/default/configmaps/%",
        "/api/v1/namespaces/default/configmaps/%e2%80%ae",
    ] {
        let answer = client.request("GET", path, JSON, "").await;
        let is_discovery = matches!(path, "/" | "//" | "/api/v1/");
        assert!(is_discovery || answer.code == 404, "{path}: {}", answer.code);
        let text = String::from_utf8_lossy(&answer.body);
        assert!(!text.contains("\"value\""), "{path} leads to the object: {text}");
    }
}

#[tokio::test]
async fn names_with_odd_bytes_are_invalid() {
    let client = client().await;
    for name in
        ["..", ".", "a/b", "../x", "a%2fb", "a\0b", "Ä", "a b", "\u{202e}x", "a\nb", "-a", "a_"]
    {
        let body = json!({"metadata": {"name": name}}).to_string();
        let answer = client.request("POST", CONFIG_MAPS, JSON, body).await;
        assert_eq!(answer.failure(), (422, "Invalid".to_owned()), "{name:?}");
    }
    let body = json!({"metadata": {"name": "a".repeat(100_000)}}).to_string();
    assert_eq!(client.request("POST", CONFIG_MAPS, JSON, body).await.failure().0, 422);
    let body = json!({"metadata": {"generateName": "ä".repeat(100)}}).to_string();
    assert_eq!(client.request("POST", CONFIG_MAPS, JSON, body).await.failure().0, 422);
}

#[tokio::test]
async fn unsupported_methods_are_not_allowed() {
    let client = client().await;
    for (method, path) in [
        ("PUT", CONFIG_MAPS),
        ("PATCH", CONFIG_MAPS),
        ("POST", ONE),
        ("OPTIONS", ONE),
        ("TRACE", ONE),
        ("BREW", ONE),
        ("POST", "/api/v1/configmaps"),
        ("DELETE", "/api/v1/configmaps"),
    ] {
        let answer = client.request(method, path, JSON, "{}").await;
        assert_eq!(answer.failure(), (405, "MethodNotAllowed".to_owned()), "{method} {path}");
    }
}

#[tokio::test]
async fn invalid_queries_are_rejected() {
    let client = client().await;
    let token = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
    let long = "a".repeat(60_000);
    let many = "k in (v),".repeat(4_000);
    let deep = token(&nested("[", "]", 10_000));
    for query in [
        "labelSelector=%3D%3D",
        "labelSelector=a%20in%20(",
        "labelSelector=!!a",
        "labelSelector=a%3Eb",
        &format!("labelSelector={long}"),
        &format!("labelSelector={}", many.replace(' ', "%20")),
        "fieldSelector=spec.unknown%3Dx",
        "fieldSelector=%00",
        "limit=x",
        "limit=99999999999999999999",
        "continue=%00",
        "continue=x",
        &format!("continue={long}"),
        &format!("continue={deep}"),
        &format!("continue={}", token("{}")),
        &format!("continue={}", token("{\"v\":\"meta.k8s.io/v1\",\"rv\":1}")),
        &format!("continue={}&resourceVersion=5", token("{}")),
        "resourceVersion=-1",
        "resourceVersion=x",
        "resourceVersion=99999999999999999999",
        "resourceVersionMatch=Exact",
        "resourceVersionMatch=Never&resourceVersion=1",
        "watch=true&timeoutSeconds=x",
        "sendInitialEvents=true",
        "watch=true&sendInitialEvents=true",
    ] {
        let answer = client.request("GET", &format!("{CONFIG_MAPS}?{query}"), JSON, "").await;
        let (code, _) = answer.failure();
        let shown: String = query.chars().take(60).collect();
        assert!((400..500).contains(&code), "{shown}: {code}");
    }
    // What a version that is yet to come gets is a timeout.
    let answer =
        client.request("GET", &format!("{CONFIG_MAPS}?resourceVersion=99999999"), JSON, "").await;
    assert_eq!(answer.failure(), (504, "Timeout".to_owned()));
    let flood = "a&".repeat(30_000);
    assert_eq!(client.request("GET", &format!("{CONFIG_MAPS}?{flood}"), JSON, "").await.code, 200);
}

#[tokio::test]
async fn lists_accept_any_page_size() {
    let client = client().await;
    for (limit, more) in [("1", true), ("0", false), ("-5", false), ("9223372036854775807", false)]
    {
        let list =
            client.request("GET", &format!("{CONFIG_MAPS}?limit={limit}"), JSON, "").await.json();
        assert_eq!(list["metadata"].get("continue").is_some(), more, "{limit}");
    }
    // A token that was made up starts where it says, and reaches no other namespace.
    for start in ["", "zzz", "default/", "kube-system/zzz", "a/b/c/d", "\u{10ffff}"] {
        let token = json!({"v": "meta.k8s.io/v1", "rv": -1, "start": start}).to_string();
        let token = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token);
        let answer =
            client.request("GET", &format!("{CONFIG_MAPS}?continue={token}"), JSON, "").await;
        assert_eq!(answer.code, 200, "{start:?}");
        for item in answer.json()["items"].as_array().unwrap() {
            assert_eq!(item["metadata"]["namespace"], "default");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn watches_end_for_any_requested_timeout() {
    let client = client().await;
    for seconds in ["0", "-1", "1", "9223372036854775807"] {
        let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion=1&timeoutSeconds={seconds}");
        let mut events = client.watch(&path).await;
        while event(&mut events).await.is_some() {}
    }
}

#[tokio::test]
async fn exploding_patches_are_rejected() {
    let client = client().await;
    // Doubles with each step.
    let mut copies = vec![json!({"op": "add", "path": "/data/x", "value": "x".repeat(1_000)})];
    for _ in 0..40 {
        copies.push(json!({"op": "copy", "from": "/data", "path": "/data/y"}));
        copies.push(json!({"op": "move", "from": "/data/y", "path": "/data/z"}));
    }
    let copies = json!(copies).to_string();
    let many = json!(vec![json!({"op": "test", "path": "/kind", "value": "ConfigMap"}); 20_000])
        .to_string();
    let deep_path = json!([{"op": "add", "path": "/a".repeat(100_000), "value": 1}]).to_string();
    let deep = nested("{\"a\":", "}", 10_000).replacen(":}", ":1}", 1);
    let flow = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: one}}\ndata: {}",
        nested("[", "]", 10_000)
    );
    for (content_type, path, body) in [
        (JSON_PATCH, ONE, copies.as_str()),
        (JSON_PATCH, ONE, &many),
        (JSON_PATCH, ONE, &deep_path),
        (JSON_PATCH, ONE, "{}"),
        (JSON_PATCH, ONE, "[{\"op\":\"add\"}]"),
        (JSON_PATCH, ONE, "[{\"op\":\"remove\",\"path\":\"\"}]"),
        (JSON_PATCH, ONE, "[{\"op\":\"remove\",\"path\":\"/metadata\"}]"),
        (JSON_PATCH, ONE, "[{\"op\":\"replace\",\"path\":\"\",\"value\":[]}]"),
        (MERGE, ONE, &deep),
        (MERGE, ONE, "null"),
        (MERGE, ONE, "{\"metadata\":null}"),
        (MERGE, ONE, "{\"metadata\":\"x\"}"),
        (STRATEGIC, ONE, &deep),
        (STRATEGIC, ONE, "[]"),
        (STRATEGIC, ONE, "{\"metadata\":{\"$patch\":\"delete\"}}"),
        (APPLY, APPLIED, "[]"),
        (APPLY, APPLIED, "null"),
        (APPLY, APPLIED, &flow),
        (APPLY, APPLIED, "apiVersion: v1\nkind: ConfigMap\nmetadata: []"),
        (APPLY, ONE, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}"),
        (JSON, ONE, "{}"),
    ] {
        let answer = client.request("PATCH", path, content_type, body.to_owned()).await;
        let shown: String = body.chars().take(60).collect();
        let (code, _) = answer.failure();
        assert!((400..500).contains(&code), "{content_type} {shown}: {}", answer.json());
    }
    let one = client.request("GET", ONE, JSON, "").await.json();
    assert_eq!(one["data"], json!({"key": "value"}));
}
