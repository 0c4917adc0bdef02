//! The layer that injects faults between a client and the API.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use karpenter_apiserver::status::StatusError;
use karpenter_operator::clock::Clock;
use karpenter_operator::rng::SeededRng;
use kube::client::Body;

use super::call::{Call, CallResult, DelayPoint, DrawnFault, TimeoutSide};
use super::{ApiFaults, Journal, Switch, watch};

/// What the API server allows a call that is no watch.
const SERVER_TIMEOUT: Duration = Duration::from_mins(1);

/// How long kube's client waits for bytes before it gives up on a connection.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(295);

pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// What a faulty API answers with: unlike that of the API itself, it may break off.
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// Puts faults between one client and the API. Services of one layer draw from one sequence.
#[derive(Clone)]
pub struct ApiFaultLayer(Arc<LayerState>);

pub(super) struct LayerState {
    pub(super) switch: Switch<ApiFaults>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) journal: Journal,
    rng: SeededRng,
    calls: AtomicU64,
}

impl ApiFaultLayer {
    /// A layer whose faults the switch turns on.
    pub fn new(
        switch: Switch<ApiFaults>,
        clock: &Arc<dyn Clock>,
        rng: SeededRng,
        journal: Journal,
    ) -> Self {
        let clock = Arc::clone(clock);
        Self(Arc::new(LayerState { switch, clock, journal, rng, calls: AtomicU64::new(0) }))
    }
}

impl fmt::Debug for ApiFaultLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiFaultLayer").field("calls", &self.0.calls).finish_non_exhaustive()
    }
}

impl<S> tower::Layer<S> for ApiFaultLayer {
    type Service = FaultyService<S>;

    fn layer(&self, inner: S) -> FaultyService<S> {
        FaultyService { inner, layer: self.clone() }
    }
}

/// A service that injects faults; see [`ApiFaultLayer`].
#[derive(Debug, Clone)]
pub struct FaultyService<S> {
    inner: S,
    layer: ApiFaultLayer,
}

impl<S, B> tower::Service<Request<Body>> for FaultyService<S>
where
    S: tower::Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // Call the service that has been polled for readiness, not its clone.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        let shared = Arc::clone(&self.layer.0);
        let call = Call::of(&request);
        let (drawn, rng) = shared.draw_fault(&call);
        Box::pin(async move {
            let send = async move { inner.call(request).await.map_err(Into::into) };
            shared.answer(call, drawn, rng, send).await
        })
    }
}

impl LayerState {
    /// Draws the fault of the next call; returns it with its random source.
    /// The faults of a watch response are drawn from that source.
    fn draw_fault(&self, call: &Call) -> (DrawnFault, SeededRng) {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut rng = self.rng.fork(&number.to_string());
        let drawn = match self.switch.active_faults() {
            Some(on) => DrawnFault::draw(call, &on.faults, &mut rng),
            None => DrawnFault::default(),
        };
        (drawn, rng.fork("watch"))
    }

    async fn answer<B>(
        self: Arc<Self>,
        call: Call,
        drawn: DrawnFault,
        rng: SeededRng,
        send: impl Future<Output = Result<Response<B>, BoxError>> + Send,
    ) -> Result<Response<ResponseBody>, BoxError>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        if drawn.slow == Some(DelayPoint::Request) {
            self.delay_call(&call).await;
        }
        match drawn.result {
            CallResult::Reject(fault, failure) => {
                self.journal.record(fault, call.to_string());
                return Ok(rejection_response(&failure));
            }
            CallResult::Timeout { is_executed, by } => {
                let fault = if is_executed { "no answer" } else { "not heard" };
                self.journal.record(fault, call.to_string());
                if is_executed {
                    drop(send.await?);
                }
                return self.give_up(by).await;
            }
            CallResult::Respond | CallResult::LoseResponse => {}
        }
        let response = send.await?;
        if drawn.slow == Some(DelayPoint::Response) {
            self.delay_call(&call).await;
        }
        if matches!(drawn.result, CallResult::LoseResponse) {
            self.journal.record("answer lost", call.to_string());
            return Err(connection_error(
                io::ErrorKind::ConnectionReset,
                "connection reset by peer",
            ));
        }
        let (parts, body) = response.into_parts();
        let body = if call.is_watch && parts.status == StatusCode::OK {
            watch::faulty_watch_body(body, self, rng, call.to_string())
        } else {
            UnsyncBoxBody::new(body.map_err(Into::into))
        };
        Ok(Response::from_parts(parts, body))
    }

    async fn delay_call(&self, call: &Call) {
        let Some(on) = self.switch.active_faults() else { return };
        self.journal.record("slow", call.to_string());
        self.clock.sleep(on.faults.slow.by).await;
    }

    async fn give_up(&self, by: TimeoutSide) -> Result<Response<ResponseBody>, BoxError> {
        if by == TimeoutSide::Client {
            self.clock.sleep(CLIENT_TIMEOUT).await;
            return Err(connection_error(io::ErrorKind::TimedOut, "deadline has elapsed"));
        }
        self.clock.sleep(SERVER_TIMEOUT).await;
        let text = "Timeout: request did not complete within the allotted timeout";
        Ok(rejection_response(&StatusError::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", text)))
    }
}

pub(super) fn connection_error(kind: io::ErrorKind, text: &'static str) -> BoxError {
    Box::new(io::Error::new(kind, text))
}

/// Builds the HTTP response of a rejected call.
fn rejection_response(failure: &StatusError) -> Response<ResponseBody> {
    let value = failure.to_value();
    let retry = value.pointer("/details/retryAfterSeconds").and_then(serde_json::Value::as_i64);
    let body = Full::new(Bytes::from(value.to_string() + "\n")).map_err(|never| match never {});
    let mut response = Response::new(UnsyncBoxBody::new(body));
    *response.status_mut() = failure.code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = retry {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
