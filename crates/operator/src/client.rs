//! The Kubernetes client of the process: rate limit, user agent, retries, and a request observer.
//!
//! Like client-go, the client repeats a request only if the server sends Retry-After, and not for
//! ever. Other rejections, such as an eviction that a budget blocks, are returned at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{HeaderValue, Request, Response, StatusCode, header};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use tower::{BoxError, Layer, Service, ServiceExt as _};

use crate::clock::Clock;
use crate::harness::{ReconcileError, TokenBucket};

/// The most retries of a request that the server asks to repeat.
const MAX_RETRIES: u32 = 10;
/// The longest pause before a retry; a longer Retry-After is cut.
const MAX_RETRY_AFTER: Duration = Duration::from_mins(1);
/// The time after which a silent connection counts as dead. Servers send a bookmark every minute to
/// watches, and answer all other requests within a minute.
const READ_TIMEOUT: Duration = Duration::from_secs(150);

/// How the client behaves.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Requests per second; none for no limit.
    pub limit: Option<RequestLimit>,
    /// What it calls itself.
    pub user_agent: String,
}

/// A token bucket for requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestLimit {
    /// Requests per second.
    pub per_second: f64,
    /// Requests at once.
    pub burst: f64,
}

/// Observes every completed request: method, path, status code and duration.
pub type RequestObserver = Arc<dyn Fn(&CompletedRequest<'_>) + Send + Sync>;

/// A completed request, with or without a response.
#[derive(Clone, Copy, Debug)]
pub struct CompletedRequest<'a> {
    /// The method.
    pub method: &'a http::Method,
    /// The address.
    pub uri: &'a http::Uri,
    /// The status; none if there was no answer.
    pub status: Option<http::StatusCode>,
    /// The time from sending the request to the head of the response.
    pub duration: std::time::Duration,
}

/// A client of the cluster.
pub fn connect(
    mut config: Config,
    behaviour: &ClientConfig,
    clock: &Arc<dyn Clock>,
    on_request: RequestObserver,
) -> Result<Client, ReconcileError> {
    // kube's own repeats every 429, so also that of a budget, for minutes.
    config.default_retry = false;
    config.read_timeout = Some(READ_TIMEOUT);
    let layer = RequestLayer::new(behaviour, clock, on_request)?;
    let builder = ClientBuilder::try_from(config).map_err(ReconcileError::from)?;
    Ok(builder.with_layer(&layer).build())
}

/// Puts the behaviour around any service.
#[derive(Clone)]
pub struct RequestLayer {
    user_agent: HeaderValue,
    bucket: Option<Arc<Mutex<TokenBucket>>>,
    clock: Arc<dyn Clock>,
    observer: RequestObserver,
}

impl RequestLayer {
    /// The behaviour. Clones of it share its limit.
    pub fn new(
        behaviour: &ClientConfig,
        clock: &Arc<dyn Clock>,
        on_request: RequestObserver,
    ) -> Result<Self, ReconcileError> {
        let bucket = |limit: RequestLimit| TokenBucket::new(limit.per_second, limit.burst);
        Ok(Self {
            user_agent: HeaderValue::from_str(&behaviour.user_agent)
                .map_err(ReconcileError::new)?,
            bucket: behaviour.limit.map(|limit| Arc::new(Mutex::new(bucket(limit)))),
            clock: clock.clone(),
            observer: on_request,
        })
    }
}

impl std::fmt::Debug for RequestLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestLayer").field("user_agent", &self.user_agent).finish_non_exhaustive()
    }
}

impl<S> Layer<S> for RequestLayer {
    type Service = RequestService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RequestService { inner: Arc::new(tokio::sync::Mutex::new(inner)), layer: self.clone() }
    }
}

/// A service with the behaviour.
#[derive(Clone, Debug)]
pub struct RequestService<S> {
    /// Shared, since the call comes after the wait for the limit.
    inner: Arc<tokio::sync::Mutex<S>>,
    layer: RequestLayer,
}

impl<S, B> Service<Request<Body>> for RequestService<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let (inner, layer) = (self.inner.clone(), self.layer.clone());
        request.headers_mut().insert(header::USER_AGENT, layer.user_agent.clone());
        Box::pin(async move {
            for _ in 0..MAX_RETRIES {
                let Some(again) = try_clone_request(&request) else { break };
                let result = layer.send(&inner, request).await;
                let pause = result.as_ref().ok().and_then(retry_after);
                let Some(pause) = pause else { return result };
                layer.clock.sleep(pause).await;
                request = again;
            }
            layer.send(&inner, request).await
        })
    }
}

impl RequestLayer {
    /// Sends a request once, when the limit allows it.
    async fn send<S, B>(
        &self,
        inner: &tokio::sync::Mutex<S>,
        request: Request<Body>,
    ) -> Result<Response<B>, BoxError>
    where
        S: Service<Request<Body>, Response = Response<B>>,
        S::Error: Into<BoxError>,
    {
        if let Some(bucket) = &self.bucket {
            let now = self.clock.now();
            let pause = bucket.lock().unwrap_or_else(PoisonError::into_inner).reserve(now);
            if !pause.is_zero() {
                self.clock.sleep(pause).await;
            }
        }
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let sent = self.clock.now();
        let answer = {
            let mut inner = inner.lock().await;
            inner.ready().await.map_err(Into::into)?.call(request)
        };
        let result = answer.await.map_err(Into::into);
        let took = self.clock.now().duration_since(sent);
        (self.observer)(&CompletedRequest {
            method: &method,
            uri: &uri,
            status: result.as_ref().ok().map(Response::status),
            duration: took.try_into().unwrap_or_default(),
        });
        result
    }
}

/// Returns a copy of the request; none if its body cannot be copied.
fn try_clone_request(request: &Request<Body>) -> Option<Request<Body>> {
    let mut again = Request::new(request.body().try_clone()?);
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.version_mut() = request.version();
    *again.headers_mut() = request.headers().clone();
    *again.extensions_mut() = request.extensions().clone();
    Some(again)
}

/// Returns how long to wait before the retry that the server asks for, if it does.
fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let status = response.status();
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return None;
    }
    let seconds = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER))
}

/// Returns an error with its causes, outermost first, each text once.
pub fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = String::new();
    let mut cause = Some(error);
    while let Some(error) = cause {
        let answer = api_status_message(error);
        // Its own text repeats the whole answer, and so does its cause.
        cause = if answer.is_some() { None } else { error.source() };
        let more = answer.unwrap_or_else(|| error.to_string());
        if text.is_empty() {
            text = more;
        } else if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
    }
    text
}

/// Returns the message of an API server error; none for other errors.
fn api_status_message(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    match error.downcast_ref()? {
        kube::Error::Api(status) if status.message.is_empty() => {
            Some(format!("the API server answers {} without a word", status.code))
        }
        kube::Error::Api(status) => Some(status.message.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::Node;
    use karpenter_apiserver::testing::environment::TestEnvironment;

    use super::*;
    use crate::clock::TokioClock;

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_the_burst_are_sent_at_the_configured_rate() {
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
        let api = karpenter_apiserver::Api::new(Arc::new(TestEnvironment::new()));
        let behaviour = ClientConfig {
            limit: Some(RequestLimit { per_second: 10.0, burst: 5.0 }),
            user_agent: "karpenter/test".to_owned(),
        };
        let observed: Arc<Mutex<Vec<String>>> = Arc::default();
        let recorder = observed.clone();
        let on_request: RequestObserver = Arc::new(move |done| {
            let status = done.status.unwrap().as_u16();
            recorder.lock().unwrap().push(format!("{} {} {status}", done.method, done.uri.path()));
        });
        let layer = RequestLayer::new(&behaviour, &clock, on_request).unwrap();
        let client = Client::new(layer.layer(api.service()), "default");
        let nodes: kube::Api<Node> = kube::Api::all(client);
        for _ in 0..15 {
            assert!(nodes.get_opt("none").await.unwrap().is_none());
        }
        let passed = Duration::try_from(clock.now().duration_since(Timestamp::UNIX_EPOCH)).unwrap();
        assert_eq!(passed, Duration::from_secs(1));
        assert_eq!(observed.lock().unwrap().len(), 15);
        assert_eq!(observed.lock().unwrap()[0], "GET /api/v1/nodes/none 404");
    }

    #[test]
    fn an_error_chain_lists_each_cause_and_the_server_message_once() {
        let refused = |message: &str| {
            let status = kube::core::Status::failure(message, "NotFound").with_code(404);
            kube::Error::Api(status.boxed())
        };
        let text = r#"namespaces "nope" not found"#;
        assert_eq!(error_chain(&refused(text)), text);
        assert_eq!(error_chain(&ReconcileError::from(refused(text))), text);
        let doing = ReconcileError::with_context("creating the lease", refused(text));
        assert_eq!(error_chain(&doing), format!("creating the lease, {text}"));
        assert_eq!(error_chain(&refused("")), "the API server answers 404 without a word");
        let no_route = kube::Error::Service(std::io::Error::other("no route").into());
        assert_eq!(error_chain(&ReconcileError::from(no_route)), "ServiceError: no route");
    }

    #[tokio::test(start_paused = true)]
    async fn a_rejected_request_is_retried_only_with_a_retry_after_header() {
        let rows = [
            ("a budget refuses", 429, None, 1, 0),
            ("a busy server", 429, Some("1"), 11, 10),
            ("a server that ends", 503, Some("2"), 11, 20),
            ("a proxy without a server", 503, None, 1, 0),
            ("no time is no wish", 500, Some("soon"), 1, 0),
            ("not the server's fault", 409, Some("1"), 1, 0),
            ("a wish without end", 429, Some("18446744073709551615"), 11, 600),
        ];
        for (name, code, after, requests, seconds) in rows {
            let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
            let behaviour = ClientConfig { limit: None, user_agent: "karpenter/test".to_owned() };
            let observed: Arc<Mutex<u32>> = Arc::default();
            let recorder = observed.clone();
            let on_request: RequestObserver = Arc::new(move |_| *recorder.lock().unwrap() += 1);
            let layer = RequestLayer::new(&behaviour, &clock, on_request).unwrap();
            let server = tower::service_fn(move |_: Request<Body>| async move {
                let mut answer = Response::builder().status(code);
                if let Some(after) = after {
                    answer = answer.header(header::RETRY_AFTER, after);
                }
                Ok::<_, BoxError>(answer.body(Body::empty()).unwrap())
            });
            let client = Client::new(layer.layer(server), "default");
            kube::Api::<Node>::all(client).get("none").await.unwrap_err();
            let passed = clock.now().duration_since(Timestamp::UNIX_EPOCH).as_secs();
            assert_eq!((*observed.lock().unwrap(), passed), (requests, seconds), "{name}");
        }
    }
}
