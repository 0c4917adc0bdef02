//! Records what the product writes to the API, after the faults that keep calls away.
//!
//! Each actor of a world has a client of its own, so all writes through this one are the product's.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use karpenter_operator::clock::Clock;
use kube::client::Body;
use serde_json::Value;

/// More writes than these are counted and not kept: the last ones are.
const MOST_KEPT: usize = 10_000;

/// A write, or an attempt to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    pub at: Timestamp,
    pub method: Method,
    pub path: String,
    /// The uid that the object must have, if the call deletes that one alone.
    pub uid: Option<String>,
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// An async callback that gets each write before it happens.
pub type WriteHook = Arc<dyn Fn(Write) -> BoxFuture<'static, ()> + Send + Sync>;

/// The writes so far. Clones are the same.
#[derive(Clone)]
pub struct Writes {
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    count: u64,
    last: std::collections::VecDeque<Write>,
    hook: Option<WriteHook>,
}

impl Writes {
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Self {
        Self { clock: Arc::clone(clock), state: Arc::default() }
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.lock().count
    }

    /// Those since a time, as far as they are kept.
    pub fn since(&self, time: Timestamp) -> Vec<Write> {
        self.lock().last.iter().filter(|write| write.at >= time).cloned().collect()
    }

    /// Sets the callback that runs before each write.
    /// It may read the world as it is before the write.
    pub fn set_hook(&self, hook: WriteHook) {
        self.lock().hook = Some(hook);
    }

    fn record<B>(
        &self,
        request: &Request<B>,
        uid: Option<String>,
    ) -> Option<BoxFuture<'static, ()>> {
        if request.method() == Method::GET {
            return None;
        }
        let write = Write {
            at: self.clock.now(),
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            uid,
        };
        let mut state = self.lock();
        state.count += 1;
        if state.last.len() >= MOST_KEPT {
            state.last.pop_front();
        }
        state.last.push_back(write.clone());
        let hook = state.hook.clone();
        drop(state);
        hook.map(|hook| hook(write))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writes").field("count", &self.count()).finish_non_exhaustive()
    }
}

impl<S> tower::Layer<S> for Writes {
    type Service = RecordingService<S>;

    fn layer(&self, inner: S) -> RecordingService<S> {
        RecordingService { inner, writes: self.clone() }
    }
}

/// A service that records the writes through it.
#[derive(Debug, Clone)]
pub struct RecordingService<S> {
    inner: S,
    writes: Writes,
}

impl<S, B> tower::Service<Request<Body>> for RecordingService<S>
where
    S: tower::Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // Call the service that has been polled for readiness, not its clone.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        let writes = self.writes.clone();
        Box::pin(async move {
            let (request, uid) = precondition(request).await;
            if let Some(seen) = writes.record(&request, uid) {
                seen.await;
            }
            inner.call(request).await
        })
    }
}

/// The request again, and of which uid the object has to be that it deletes.
async fn precondition(request: Request<Body>) -> (Request<Body>, Option<String>) {
    if request.method() != Method::DELETE {
        return (request, None);
    }
    let (parts, body) = request.into_parts();
    // A body of this process cannot break off.
    let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let options: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let uid = options["preconditions"]["uid"].as_str().map(str::to_owned);
    (Request::from_parts(parts, Body::from(bytes)), uid)
}
