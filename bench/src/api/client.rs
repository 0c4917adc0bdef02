//! A client of the API in this process that costs next to nothing: it builds requests itself and
//! reads only the measured parts of responses.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use karpenter_apiserver::environment::Environment;
use karpenter_apiserver::{ResponseBody, Service};
use serde_json::Value;
use tower::Service as _;

use crate::host::{self, Stopwatch};

/// The `Accept` header of `kubectl get`.
pub(super) const TABLE_MEDIA_TYPE: &str =
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// Wall time; numbers that do not repeat within a run.
#[derive(Debug, Default)]
pub(super) struct WallClock {
    drawn_numbers: AtomicU64,
}

impl WallClock {
    pub(super) fn new() -> Self {
        Self::default()
    }
}

impl Environment for WallClock {
    fn now(&self) -> Timestamp {
        host::now()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(host::sleep(duration))
    }

    fn random(&self) -> u128 {
        // An odd factor spreads the counter over all bits.
        let drawn = u128::from(self.drawn_numbers.fetch_add(1, Ordering::Relaxed) + 1);
        drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
    }
}

#[derive(Debug, Clone)]
pub(super) struct Client(Service);

/// The duration and size of a response whose body was discarded.
#[derive(Debug)]
pub(super) struct TimedResponse {
    pub(super) took: Duration,
    pub(super) bytes: u64,
}

/// The event stream of a watch, as bytes.
#[derive(Debug)]
pub(super) struct WatchEvents(ResponseBody);

impl WatchEvents {
    /// Reads one whole line.
    pub(super) async fn next(&mut self) -> Option<()> {
        loop {
            let frame = self.0.frame().await?.ok()?;
            if frame.data_ref().is_some_and(|data| data.ends_with(b"\n")) {
                return Some(());
            }
        }
    }
}

impl Client {
    pub(super) fn new(service: Service) -> Self {
        Self(service)
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<()> {
        self.send("POST", path, "application/json", "bench", body.to_string()).await
    }

    pub(super) async fn patch(&self, path: &str, agent: &str, body: &Value) -> Result<()> {
        let media = "application/strategic-merge-patch+json";
        self.send("PATCH", path, media, agent, body.to_string()).await
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value> {
        let answer = self.call(request("GET", path, "", "bench", String::new())?).await?;
        Ok(serde_json::from_slice(&answer.into_body().collect().await?.to_bytes())?)
    }

    pub(super) async fn timed_get(
        &self,
        path: &str,
        accept: &'static str,
    ) -> Result<TimedResponse> {
        let mut request = request("GET", path, "", "bench", String::new())?;
        if !accept.is_empty() {
            request.headers_mut().insert(header::ACCEPT, accept.parse()?);
        }
        let watch = Stopwatch::start();
        let mut body = self.call(request).await?.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame?.data_ref().map_or(0, |data| data.len() as u64);
        }
        Ok(TimedResponse { took: watch.elapsed(), bytes })
    }

    pub(super) async fn watch(&self, path: &str) -> Result<WatchEvents> {
        let answer = self.call(request("GET", path, "", "bench", String::new())?).await?;
        Ok(WatchEvents(answer.into_body()))
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        media: &str,
        agent: &str,
        body: String,
    ) -> Result<()> {
        self.call(request(method, path, media, agent, body)?).await.map(drop)
    }

    async fn call(&self, request: Request<Full<Bytes>>) -> Result<Response<ResponseBody>> {
        let request_line = format!("{} {}", request.method(), request.uri());
        let answer = self.0.clone().call(request).await?;
        if !answer.status().is_success() {
            let status = answer.status();
            let body = answer.into_body().collect().await?.to_bytes();
            bail!("{request_line}: {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(answer)
    }
}

fn request(
    method: &str,
    path: &str,
    media: &str,
    agent: &str,
    body: String,
) -> Result<Request<Full<Bytes>>> {
    let mut request = Request::builder().method(method).uri(path);
    if !media.is_empty() {
        request = request.header(header::CONTENT_TYPE, media);
    }
    Ok(request.header(header::USER_AGENT, agent).body(Full::new(Bytes::from(body)))?)
}
