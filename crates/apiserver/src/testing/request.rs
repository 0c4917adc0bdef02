//! Sends requests of tests directly to the API service.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::Value;
use tower::ServiceExt as _;

use crate::{Api, ResponseBody};

/// Sends a request that must succeed, and returns the response body.
pub(crate) async fn send_request(
    api: &Api,
    method: &str,
    path: &str,
    body: &Value,
) -> ResponseBody {
    let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::CONTENT_TYPE, media)
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap();
    let answer = api.service().oneshot(request).await.unwrap();
    assert!(answer.status().is_success(), "{method} {path}: {}", answer.status());
    answer.into_body()
}
