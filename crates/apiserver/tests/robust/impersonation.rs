//! Tests of requests that ask to act as another user.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::json;

use super::client::{CONFIG_MAPS, Client, JSON};

#[tokio::test]
async fn requests_that_impersonate_are_forbidden_and_change_nothing() {
    let client = Client::new();
    let config_map = json!({"metadata": {"name": "web"}}).to_string();
    let created = client.request("POST", CONFIG_MAPS, JSON, config_map.clone()).await;
    assert_eq!(created.code, 201);

    let named = format!("{CONFIG_MAPS}/web");
    let cases = [
        ("Impersonate-User", "jane", "users \"jane\" is forbidden: "),
        ("impersonate-group", "developers", "groups \"developers\" is forbidden: "),
        ("Impersonate-Uid", "1", "impersonate-uid is forbidden: "),
        ("Impersonate-Extra-scopes", "view", "impersonate-extra-scopes is forbidden: "),
        ("Impersonate-User", "", "users is forbidden: "),
    ];
    for (header, value, message) in cases {
        for (method, path) in [
            (Method::GET, named.as_str()),
            (Method::DELETE, named.as_str()),
            (Method::POST, CONFIG_MAPS),
            (Method::GET, "/version"),
        ] {
            let request = Request::builder()
                .method(&method)
                .uri(path)
                .header("content-type", JSON)
                .header(header, value)
                .body(Full::new(Bytes::from(config_map.clone())))
                .expect("the request is well formed");
            let response = client.send(request).await;
            let case = format!("{method} {path} with {header}: {value}");
            assert_eq!(response.failure(), (403, "Forbidden".to_owned()), "{case}");
            let text = response.json()["message"].as_str().unwrap_or_default().to_owned();
            assert!(text.starts_with(message), "{case}: {text}");
        }
    }
    let left = client.request("GET", &named, JSON, "").await;
    assert_eq!(left.code, 200, "the ConfigMap still exists");
}
