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

use crate::api::{Api, ApiResponse, Body};
use crate::impersonation;
use crate::projection;
use crate::request::{Projection, Query, Request, wants_yaml};
use crate::status::{PLAIN_TEXT, StatusError};
use crate::table;

/// The largest body that is read, as in the real API server.
pub const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

/// The bytes of a too large body that the server reads before it responds. A client sees the
/// response only after it has sent its body.
const MAX_DISCARDED_BYTES: usize = 1024 * 1024 * 1024;

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
        Box::pin(async move { Ok(handle_request(&api, request).await) })
    }
}

async fn handle_request<B>(api: &Api, request: HttpRequest<B>) -> Response<ResponseBody>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    if let Err(error) = impersonation::check(&parts.headers) {
        return error_response(&error);
    }
    let body = match read_body(body).await {
        Ok(body) => body,
        Err(failure) => return error_response(&failure),
    };
    let request = Request {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query: Query::parse(parts.uri.query().unwrap_or_default()),
        headers: parts.headers,
        body,
    };
    // A bug in one request is the loss of that one: the state is whole after any of its steps.
    let answered = AssertUnwindSafe(handle_and_respond(api, request)).catch_unwind().await;
    answered.unwrap_or_else(|_| error_response(&StatusError::panicked()))
}

/// Reads the whole body, or fails if it is too large.
async fn read_body<B>(body: B) -> Result<Bytes, StatusError>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut body = pin!(body);
    let mut parts = Vec::new();
    let mut bytes = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| StatusError::bad_request(error.into().to_string()))?;
        let data = frame.into_data().unwrap_or_default();
        bytes = bytes.saturating_add(data.len());
        if bytes <= MAX_BODY_BYTES {
            parts.push(data);
            continue;
        }
        // A client reads the response only after it has sent its whole body.
        parts.clear();
        if bytes > MAX_DISCARDED_BYTES {
            break;
        }
    }
    if bytes > MAX_BODY_BYTES {
        let message = format!("Request entity too large: limit is {MAX_BODY_BYTES}");
        return Err(StatusError::too_large(message));
    }
    Ok(match parts.as_mut_slice() {
        [only] => std::mem::take(only),
        parts => parts.concat().into(),
    })
}

async fn handle_and_respond(api: &Api, request: Request) -> Response<ResponseBody> {
    let show = Projection::from_request(&request).unwrap_or(Projection::Full);
    let yaml = wants_yaml(request.header(header::ACCEPT));
    match api.handle(request) {
        Ok(answer) if matches!(answer.body, Body::Watch(_) | Body::Bytes(..)) || !yaml => {
            to_http_response(api, answer, show)
        }
        Ok(answer) => to_yaml(to_http_response(api, answer, show)).await,
        Err(failure) if yaml => to_yaml(error_response(&failure)).await,
        Err(failure) => error_response(&failure),
    }
}

/// The same response in the other form.
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

/// Returns the response to an unauthenticated client.
pub(crate) fn unauthorized_response() -> Response<ResponseBody> {
    error_response(&StatusError::unauthorized())
}

/// Returns the last event of a watch whose handler panicked.
fn panic_event() -> Bytes {
    let status = StatusError::panicked().to_value();
    format!("{}\n", json!({"type": "ERROR", "object": status})).into()
}

fn error_response(failure: &StatusError) -> Response<ResponseBody> {
    if failure.reason == PLAIN_TEXT {
        let text = Bytes::from(failure.message.clone() + "\n");
        return response_from_chunks(failure.code, "text/plain; charset=utf-8", vec![text]);
    }
    let body = Bytes::from(failure.to_value().to_string() + "\n");
    let mut response = response_from_chunks(failure.code, "application/json", vec![body]);
    let retry =
        failure.details.as_ref().and_then(|details| details.get("retryAfterSeconds")?.as_i64());
    if let Some(seconds) = retry {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    add_warning_headers(&mut response, &failure.warnings);
    response
}

fn to_http_response(api: &Api, answer: ApiResponse, show: Projection) -> Response<ResponseBody> {
    let now = api.now();
    let json = "application/json";
    let mut response = match answer.body {
        Body::Stored(served, stored) => response_from_chunks(
            answer.code,
            json,
            vec![projection::project_stored(&served, show, &stored, now)],
        ),
        Body::Object(served, object) => {
            let value = projection::project_value(&served, show, &object, now);
            response_from_chunks(answer.code, json, vec![value.to_string().into()])
        }
        Body::Value(value) => {
            let value = match show {
                Projection::Table(include) if value["kind"] == "Scale" => {
                    table::scale_to_table(&value, include, now)
                }
                _ => value,
            };
            response_from_chunks(answer.code, json, vec![value.to_string().into()])
        }
        Body::Bytes(media_type, bytes) => {
            response_from_chunks(answer.code, media_type, vec![bytes])
        }
        Body::List(list) => {
            let parts = AssertUnwindSafe(stream::iter(projection::project_list(list, show, now)))
                .catch_unwind();
            // A panic cuts the list off, so that clients do not take incomplete JSON for the whole
            // list.
            let frames =
                parts.filter_map(|part| future::ready(part.ok().map(|part| Ok(Frame::data(part)))));
            response(answer.code, json, UnsyncBoxBody::new(StreamBody::new(frames)))
        }
        Body::Watch(watch) => {
            let lines = AssertUnwindSafe(watch.into_stream()).catch_unwind();
            let frames = lines.map(|line| Ok(Frame::data(line.unwrap_or_else(|_| panic_event()))));
            response(answer.code, json, UnsyncBoxBody::new(StreamBody::new(frames)))
        }
    };
    add_warning_headers(&mut response, &answer.warnings);
    response
}

fn add_warning_headers(response: &mut Response<ResponseBody>, warnings: &[String]) {
    for warning in warnings {
        let escaped = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

fn response_from_chunks(
    code: StatusCode,
    media_type: &'static str,
    parts: Vec<Bytes>,
) -> Response<ResponseBody> {
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
