//! The API as a tower service: `kube::Client::new` takes it as it is, and so does a TCP server.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{self, BoxFuture};
use futures_util::stream::{self, StreamExt as _};
use http::{HeaderValue, Request as HttpRequest, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use serde_json::json;

use crate::api::{Answer, Api, Body};
use crate::request::{Query, Request, Show, wants_yaml};
use crate::show;
use crate::status::{Failure, PLAIN_TEXT};
use crate::table;

/// The largest body that is read, as in the real API server.
pub const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

/// How much of a larger body is heard out, to be able to say that it is too large.
const MAX_REFUSED_BYTES: usize = 1024 * 1024 * 1024;

/// What the service answers with. It never fails, and a watch never ends by itself before its time.
pub type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// See [`Api::service`].
#[derive(Debug, Clone)]
pub struct Service {
    api: Api,
}

impl Api {
    /// The API as a service. Clones of it serve the same objects.
    pub fn service(&self) -> Service {
        Service { api: self.clone() }
    }
}

impl<B> tower::Service<HttpRequest<B>> for Service
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<B>) -> Self::Future {
        let api = self.api.clone();
        Box::pin(async move { Ok(answer(&api, request).await) })
    }
}

async fn answer<B>(api: &Api, request: HttpRequest<B>) -> Response<ResponseBody>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    let body = match read(body).await {
        Ok(body) => body,
        Err(failure) => return failed(&failure),
    };
    let request = Request {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query: Query::parse(parts.uri.query().unwrap_or_default()),
        headers: parts.headers,
        body,
    };
    // A bug in one request is the loss of that one: the state is whole after any of its steps.
    let answered = AssertUnwindSafe(respond_to(api, request)).catch_unwind().await;
    answered.unwrap_or_else(|_| failed(&Failure::panicked()))
}

/// The whole body, if it is not too large.
async fn read<B>(body: B) -> Result<Bytes, Failure>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut body = pin!(body);
    let mut parts = Vec::new();
    let mut bytes = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::bad_request(error.into().to_string()))?;
        let data = frame.into_data().unwrap_or_default();
        bytes = bytes.saturating_add(data.len());
        if bytes <= MAX_BODY_BYTES {
            parts.push(data);
            continue;
        }
        // A client that still sends does not see an answer before it has said all.
        parts.clear();
        if bytes > MAX_REFUSED_BYTES {
            break;
        }
    }
    if bytes > MAX_BODY_BYTES {
        let message = format!("Request entity too large: limit is {MAX_BODY_BYTES}");
        return Err(Failure::too_large(message));
    }
    Ok(match parts.as_mut_slice() {
        [only] => std::mem::take(only),
        parts => parts.concat().into(),
    })
}

async fn respond_to(api: &Api, request: Request) -> Response<ResponseBody> {
    let show = Show::of(&request).unwrap_or(Show::Whole);
    let yaml = wants_yaml(request.header(header::ACCEPT));
    match api.handle(request) {
        Ok(answer) if matches!(answer.body, Body::Watch(_) | Body::Bytes(..)) || !yaml => {
            respond(api, answer, show)
        }
        Ok(answer) => to_yaml(respond(api, answer, show)).await,
        Err(failure) if yaml => to_yaml(failed(&failure)).await,
        Err(failure) => failed(&failure),
    }
}

/// The same answer in the other form.
async fn to_yaml(answer: Response<ResponseBody>) -> Response<ResponseBody> {
    let (mut head, body) = answer.into_parts();
    let bytes = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(never) => match never {},
    };
    let value = serde_json::from_slice::<serde_json::Value>(&bytes);
    let text = value.ok().and_then(|value| serde_saphyr::to_string(&value).ok());
    let body = match text {
        Some(text) => {
            let yaml = HeaderValue::from_static("application/yaml");
            head.headers.insert(header::CONTENT_TYPE, yaml);
            Bytes::from(text)
        }
        None => bytes,
    };
    let frames = stream::iter([Ok(Frame::data(body))]);
    Response::from_parts(head, UnsyncBoxBody::new(StreamBody::new(frames)))
}

/// The answer to somebody whom nobody knows.
pub(crate) fn unauthorized() -> Response<ResponseBody> {
    failed(&Failure::unauthorized())
}

/// The last event of a watch that met a bug.
fn panicked() -> Bytes {
    let status = Failure::panicked().to_value();
    format!("{}\n", json!({"type": "ERROR", "object": status})).into()
}

fn failed(failure: &Failure) -> Response<ResponseBody> {
    if failure.reason == PLAIN_TEXT {
        let text = Bytes::from(failure.message.clone() + "\n");
        return parts(failure.code, "text/plain; charset=utf-8", vec![text]);
    }
    let body = Bytes::from(failure.to_value().to_string() + "\n");
    let mut response = parts(failure.code, "application/json", vec![body]);
    let retry =
        failure.details.as_ref().and_then(|details| details.get("retryAfterSeconds")?.as_i64());
    if let Some(seconds) = retry {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    warn(&mut response, &failure.warnings);
    response
}

fn respond(api: &Api, answer: Answer, show: Show) -> Response<ResponseBody> {
    let now = api.now();
    let json = "application/json";
    let mut response = match answer.body {
        Body::Stored(served, stored) => {
            parts(answer.code, json, vec![show::object(&served, show, &stored, now)])
        }
        Body::Object(served, object) => {
            let value = show::value(&served, show, &object, now);
            parts(answer.code, json, vec![value.to_string().into()])
        }
        Body::Value(value) => {
            let value = match show {
                Show::Table(include) if value["kind"] == "Scale" => {
                    table::scale(&value, include, now)
                }
                _ => value,
            };
            parts(answer.code, json, vec![value.to_string().into()])
        }
        Body::Bytes(media_type, bytes) => parts(answer.code, media_type, vec![bytes]),
        Body::List(list) => {
            let parts = AssertUnwindSafe(stream::iter(show::list(list, show, now))).catch_unwind();
            // Cut off where we met a bug: what is half cannot be taken for the whole.
            let frames =
                parts.filter_map(|part| future::ready(part.ok().map(|part| Ok(Frame::data(part)))));
            response(answer.code, json, UnsyncBoxBody::new(StreamBody::new(frames)))
        }
        Body::Watch(watch) => {
            let lines = AssertUnwindSafe(watch.into_stream()).catch_unwind();
            let frames = lines.map(|line| Ok(Frame::data(line.unwrap_or_else(|_| panicked()))));
            response(answer.code, json, UnsyncBoxBody::new(StreamBody::new(frames)))
        }
    };
    warn(&mut response, &answer.warnings);
    response
}

fn warn(response: &mut Response<ResponseBody>, warnings: &[String]) {
    for warning in warnings {
        let escaped = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

fn parts(code: StatusCode, media_type: &'static str, parts: Vec<Bytes>) -> Response<ResponseBody> {
    let frames = stream::iter(parts.into_iter().map(|part| Ok(Frame::data(part))));
    response(code, media_type, UnsyncBoxBody::new(StreamBody::new(frames)))
}

fn response(
    code: StatusCode,
    media_type: &'static str,
    body: ResponseBody,
) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}
