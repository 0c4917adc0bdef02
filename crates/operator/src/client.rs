//! The client of the product: a rate limit, a name, and somebody who is told of every request.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::{HeaderValue, Request, Response, header};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use tower::{BoxError, Layer, Service, ServiceExt as _};

use crate::clock::Clock;
use crate::harness::{Bucket, Trouble};

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

/// Is told of every request that was answered: method, path, code, and how long it took.
pub type OnRequest = Arc<dyn Fn(&RequestDone<'_>) + Send + Sync>;

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
pub struct RequestDone<'a> {
    /// The method.
    pub method: &'a http::Method,
    /// The address.
    pub uri: &'a http::Uri,
    /// The status; none if there was no answer.
    pub status: Option<http::StatusCode>,
    /// From sending to the head of the answer.
    pub took: std::time::Duration,
}

/// A client of the cluster.
pub fn connect(
    config: Config,
    behaviour: &ClientConfig,
    clock: &Arc<dyn Clock>,
    on_request: OnRequest,
) -> Result<Client, Trouble> {
    let layer = RequestLayer::new(behaviour, clock, on_request)?;
    let builder = ClientBuilder::try_from(config).map_err(Trouble::from)?;
    Ok(builder.with_layer(&layer).build())
}

/// Puts the behaviour around any service.
#[derive(Clone)]
pub struct RequestLayer {
    user_agent: HeaderValue,
    bucket: Option<Arc<Mutex<Bucket>>>,
    clock: Arc<dyn Clock>,
    on_request: OnRequest,
}

impl RequestLayer {
    /// The behaviour. Clones of it share its limit.
    pub fn new(
        behaviour: &ClientConfig,
        clock: &Arc<dyn Clock>,
        on_request: OnRequest,
    ) -> Result<Self, Trouble> {
        let bucket = |limit: RequestLimit| Bucket::new(limit.per_second, limit.burst);
        Ok(Self {
            user_agent: HeaderValue::from_str(&behaviour.user_agent).map_err(Trouble::new)?,
            bucket: behaviour.limit.map(|limit| Arc::new(Mutex::new(bucket(limit)))),
            clock: clock.clone(),
            on_request,
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
            if let Some(bucket) = &layer.bucket {
                let now = layer.clock.now();
                let pause = bucket.lock().unwrap_or_else(PoisonError::into_inner).take(now);
                if !pause.is_zero() {
                    layer.clock.sleep(pause).await;
                }
            }
            let (method, uri) = (request.method().clone(), request.uri().clone());
            let sent = layer.clock.now();
            let answer = {
                let mut inner = inner.lock().await;
                inner.ready().await.map_err(Into::into)?.call(request)
            };
            let result = answer.await.map_err(Into::into);
            let took = layer.clock.now().duration_since(sent);
            (layer.on_request)(&RequestDone {
                method: &method,
                uri: &uri,
                status: result.as_ref().ok().map(Response::status),
                took: took.try_into().unwrap_or_default(),
            });
            result
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::Node;
    use karpenter_apiserver::testing::environment::TestEnvironment;

    use super::*;
    use crate::clock::ScaledClock;

    #[tokio::test(start_paused = true)]
    async fn a_burst_goes_through_and_the_rest_at_its_rate() {
        let clock: Arc<dyn Clock> = Arc::new(ScaledClock::starting_at(Timestamp::UNIX_EPOCH));
        let api = karpenter_apiserver::Api::new(Arc::new(TestEnvironment::new()));
        let behaviour = ClientConfig {
            limit: Some(RequestLimit { per_second: 10.0, burst: 5.0 }),
            user_agent: "karpenter/test".to_owned(),
        };
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let tells = told.clone();
        let on_request: OnRequest = Arc::new(move |done| {
            let status = done.status.unwrap().as_u16();
            tells.lock().unwrap().push(format!("{} {} {status}", done.method, done.uri.path()));
        });
        let layer = RequestLayer::new(&behaviour, &clock, on_request).unwrap();
        let client = Client::new(layer.layer(api.service()), "default");
        let nodes: kube::Api<Node> = kube::Api::all(client);
        for _ in 0..15 {
            assert!(nodes.get_opt("none").await.unwrap().is_none());
        }
        let passed = Duration::try_from(clock.now().duration_since(Timestamp::UNIX_EPOCH)).unwrap();
        assert_eq!(passed, Duration::from_secs(1));
        assert_eq!(told.lock().unwrap().len(), 15);
        assert_eq!(told.lock().unwrap()[0], "GET /api/v1/nodes/none 404");
    }
}
