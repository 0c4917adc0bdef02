//! A client that calls the embedded API in this process, without a client library.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use karpenter_apiserver::testing::environment::TestEnvironment;
use karpenter_apiserver::{Api, ResponseBody, Service};
use serde_json::Value;
use tower::ServiceExt as _;

pub(crate) const JSON: &str = "application/json";
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub(crate) const YAML: &str = "application/yaml";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[derive(Debug, Clone)]
pub(crate) struct Client(Service);

#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) code: u16,
    pub(crate) content_type: String,
    pub(crate) body: Bytes,
}

impl TestResponse {
    /// The body; null if it is no JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The code and the reason of a `Status` that is whole.
    #[track_caller]
    pub(crate) fn failure(&self) -> (u16, String) {
        let status = self.json();
        assert_eq!(status["kind"], "Status", "{}", String::from_utf8_lossy(&self.body));
        assert_eq!(status["status"], "Failure");
        assert_eq!(status["code"], self.code);
        assert!(status["message"].as_str().is_some_and(|text| !text.is_empty()));
        (self.code, status["reason"].as_str().unwrap_or_default().to_owned())
    }
}

impl Client {
    pub(crate) fn new() -> Self {
        Self(Api::new(Arc::new(TestEnvironment::new())).service())
    }

    pub(crate) async fn request(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: impl Into<Bytes>,
    ) -> TestResponse {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::USER_AGENT, "test")
            .body(Full::new(body.into()))
            .expect("a request");
        self.send(request).await
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> TestResponse {
        let (head, body) = self.0.clone().oneshot(request).await.unwrap().into_parts();
        let content_type = head.headers[header::CONTENT_TYPE].to_str().expect("text").to_owned();
        let body = body.collect().await.unwrap().to_bytes();
        TestResponse { code: head.status.as_u16(), content_type, body }
    }

    /// The events of a watch, unread.
    pub(crate) async fn watch(&self, path: &str) -> ResponseBody {
        let request = Request::get(path).body(Full::new(Bytes::new())).expect("a request");
        self.0.clone().oneshot(request).await.unwrap().into_body()
    }

    #[track_caller]
    pub(crate) fn assert_responsive(&self) -> impl Future<Output = ()> {
        let client = self.clone();
        async move {
            let answer = client.request("GET", "/api/v1/namespaces/default", JSON, "").await;
            assert_eq!(answer.json()["metadata"]["name"], "default");
        }
    }
}

/// The next line of a watch.
pub(crate) async fn event(body: &mut ResponseBody) -> Option<Value> {
    let mut line = Vec::new();
    loop {
        let frame = body.frame().await?.ok()?;
        line.extend_from_slice(frame.data_ref()?);
        if line.ends_with(b"\n") {
            return serde_json::from_slice(&line).ok();
        }
    }
}
