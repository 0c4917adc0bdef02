//! Sends the steps of a check and records the responses.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;
use serde_json::{Map, Value};

use super::normalize::{Content, StepRecord, StepResponse};
use super::response_filter::{filter_response, value_at};
use super::script::{Area, Check, PROTOBUF, Step, StepAction, media_type};
use super::{Body, Target, Transcript, normalize};
use crate::testing::admission_table::{expand, patched};
use crate::testing::protobuf;

/// The time after which a response or a watch event counts as missing.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The number of attempts before a step with `until` fails.
const MAX_ATTEMPTS: u32 = 600;

/// Runs the checks of an area whose names `wanted` accepts, up to `at_once` at a time.
pub async fn run<T: Target>(
    area: &Area,
    target: &T,
    at_once: usize,
    wanted: impl Fn(&str) -> bool,
) -> Transcript {
    let checks: Vec<_> = area.checks.iter().filter(|check| wanted(&check.name)).collect();
    let run = |check| async move {
        (check_name(check), CheckRunner::new(area, check, target).run().await)
    };
    let answers = stream::iter(checks).map(run).buffered(at_once.max(1)).collect::<Vec<_>>().await;
    Transcript::new(answers)
}

fn check_name(check: &Check) -> String {
    check.name.clone()
}

struct CheckRunner<'a, T> {
    target: &'a T,
    check: &'a Check,
    vars: Map<String, Value>,
    streams: BTreeMap<&'a str, OpenWatch>,
}

/// The response body of an open watch, with its unread bytes.
struct OpenWatch {
    body: Body,
    buffer: BytesMut,
}

impl<'a, T: Target> CheckRunner<'a, T> {
    fn new(area: &Area, check: &'a Check, target: &'a T) -> Self {
        let id = area.id(check);
        let mut vars = area.vars.clone();
        vars.insert("core".to_owned(), format!("/api/v1/namespaces/{id}").into());
        vars.insert("ns".to_owned(), id.clone().into());
        vars.insert("id".to_owned(), id.into());
        let mut runner = Self { target, check, vars, streams: BTreeMap::new() };
        // Texts among the script's variables may name `$id`; objects are filled when they are used.
        for name in area.vars.keys() {
            if let Value::String(text) = &area.vars[name] {
                runner.vars[name] = runner.expand_text(text).into();
            }
        }
        runner
    }

    /// One text per step.
    async fn run(mut self) -> Vec<String> {
        let mut notes = Vec::new();
        let named = |step: &Step| step.mentions_variable("$ns") || step.mentions_variable("$core");
        if self.check.steps.iter().any(named)
            && let Err(problem) = self.create_namespace().await
        {
            return vec![problem];
        }
        for step in &self.check.steps {
            let answer = self.step(step).await;
            let goes_on = answer.is_ok();
            notes.push(StepRecord { title: title(step), response: answer });
            if !goes_on {
                break; // later steps would fail only because of this one
            }
        }
        normalize::normalize_steps(notes, self.vars["id"].as_str().unwrap_or_default())
    }

    async fn create_namespace(&mut self) -> Result<(), String> {
        let namespace = serde_json::json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.vars["ns"]},
        });
        let request = Request::post("/api/v1/namespaces")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Bytes::from(namespace.to_string()))
            .expect("it is well formed");
        let answer = self.send(request).await?;
        if answer.status() == StatusCode::CREATED {
            return Ok(());
        }
        Err(format!("! the namespace was not made: {}", answer.status()))
    }

    async fn step(&mut self, step: &'a Step) -> Result<StepResponse, String> {
        let answer = match step.action() {
            StepAction::Request(method, path) => self.send_step_until(step, method, path).await?,
            StepAction::Watch(path) => self.watch(step, path).await?,
            StepAction::Read(name) => {
                let stream = self.streams.get_mut(name).ok_or("! no such watch is open")?;
                let mut events = Vec::new();
                for _ in 0..step.events.unwrap_or_default() {
                    let Some(event) = stream.event().await? else {
                        events.push(Content::Text("(the watch has ended)".to_owned()));
                        break;
                    };
                    events.push(event);
                }
                StepResponse::from_events(events)
            }
            StepAction::End(name) => {
                let mut stream = self.streams.remove(name).ok_or("! no such watch is open")?;
                let mut events = Vec::new();
                while let Some(event) = stream.event().await? {
                    events.push(event);
                }
                StepResponse::from_events(events)
            }
            StepAction::Close(name) => {
                self.streams.remove(name).ok_or("! no such watch is open")?;
                StepResponse::from_events(Vec::new())
            }
        };
        for (name, path) in &step.save {
            let value = answer.contents.last().and_then(Content::json);
            let value = value.and_then(|value| value_at(value, path)).cloned();
            let value = value.ok_or_else(|| {
                format!(
                    "! nothing at {path} to save; {} answered {:?}",
                    answer.code, answer.contents
                )
            })?;
            self.vars.insert(name.clone(), value);
        }
        Ok(filter_response(answer, step))
    }

    async fn send_step_until(
        &self,
        step: &Step,
        method: &str,
        path: &str,
    ) -> Result<StepResponse, String> {
        let Some(until) = &step.until else { return self.send_step(step, method, path).await };
        let until =
            until.iter().map(|(path, wanted)| (path.as_str(), self.expand_value(wanted))).collect();
        let mut answer = self.send_step(step, method, path).await?;
        for _ in 0..MAX_ATTEMPTS {
            if meets_condition(&answer, &until) {
                return Ok(answer);
            }
            self.target.pause().await;
            answer = self.send_step(step, method, path).await?;
        }
        Err(format!("! never came true; at last {answer}"))
    }

    async fn send_step(
        &self,
        step: &Step,
        method: &str,
        path: &str,
    ) -> Result<StepResponse, String> {
        let response = self.send(self.build_request(step, method, path)).await?;
        let (head, body) = response.into_parts();
        let body = with_timeout(body.collect()).await?.map_err(|error| format!("! {error}"))?;
        Ok(StepResponse::new(head.status, &head.headers, Some(parsed(&body.to_bytes()))))
    }

    async fn watch(&mut self, step: &'a Step, path: &str) -> Result<StepResponse, String> {
        let response = self.send(self.build_request(step, "GET", path)).await?;
        let (head, body) = response.into_parts();
        if head.status == StatusCode::OK {
            let stream = OpenWatch { body, buffer: BytesMut::new() };
            self.streams.insert(step.stream.as_deref().unwrap_or_default(), stream);
            return Ok(StepResponse::new(head.status, &head.headers, None));
        }
        let body = with_timeout(body.collect()).await?.map_err(|error| format!("! {error}"))?;
        Ok(StepResponse::new(head.status, &head.headers, Some(parsed(&body.to_bytes()))))
    }

    async fn send(&self, request: Request<Bytes>) -> Result<http::Response<Body>, String> {
        with_timeout(self.target.send(request)).await?.map_err(|error| format!("! {error}"))
    }

    fn build_request(&self, step: &Step, method: &str, path: &str) -> Request<Bytes> {
        let body = step.body.as_ref().map_or(Value::Null, |body| self.expand_value(&expand(body)));
        let body = match &step.with {
            Some(with) => patched(&body, &self.expand_value(&expand(with))),
            None => body,
        };
        let is_protobuf = step.content_type.as_deref().map(media_type) == Some(PROTOBUF);
        let body = match (&step.body, &step.text, &step.base64) {
            (_, Some(text), _) => self.expand_text(text).into_bytes(),
            (_, _, Some(text)) => STANDARD.decode(text).unwrap_or_else(|e| panic!("{path}: {e}")),
            (Some(_), _, _) if is_protobuf => protobuf::body(&body)
                .unwrap_or_else(|| panic!("{path}: {body} cannot be written as protobuf")),
            (Some(_), _, _) => body.to_string().into_bytes(),
            (None, None, None) => Vec::new(),
        };
        let agent = step.agent.as_deref().unwrap_or("twin");
        let accept = media_type(step.accept.as_deref().unwrap_or("json"));
        let mut request = Request::builder()
            .method(method)
            .uri(encoded(&self.expand_text(path)))
            .header(header::USER_AGENT, agent)
            .header(header::ACCEPT, accept);
        let content_type = step.content_type.as_deref().or((!body.is_empty()).then_some("json"));
        if let Some(content_type) = content_type {
            request = request.header(header::CONTENT_TYPE, media_type(content_type));
        }
        request.body(Bytes::from(body)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Returns `value` with the variables in its strings expanded.
    fn expand_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let whole = text.strip_prefix('$').and_then(|name| self.vars.get(name));
                match whole {
                    // A variable of the script may name others.
                    Some(Value::String(text)) => Value::String(text.clone()),
                    Some(value) => self.expand_value(value),
                    None => Value::String(self.expand_text(text)),
                }
            }
            Value::Array(list) => list.iter().map(|item| self.expand_value(item)).collect(),
            Value::Object(map) => map
                .iter()
                .map(|(key, value)| (self.expand_text(key), self.expand_value(value)))
                .collect(),
            other => other.clone(),
        }
    }

    /// Returns `text` with its variables expanded; longer names take precedence.
    fn expand_text(&self, text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some(start) = rest.find('$') {
            filled.push_str(&rest[..start]);
            rest = &rest[start + 1..];
            let is_named = |name: &&String| rest.starts_with(name.as_str());
            match self.vars.keys().filter(is_named).max_by_key(|name| name.len()) {
                Some(name) => {
                    filled.push_str(&plain(&self.vars[name]));
                    rest = &rest[name.len()..];
                }
                None => filled.push('$'),
            }
        }
        filled + rest
    }
}

impl OpenWatch {
    /// The next event, or nothing at the end. Bookmarks that say no more than how late it is are
    /// passed over: a server sends them when it likes.
    async fn event(&mut self) -> Result<Option<Content>, String> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let event = parsed(&self.buffer.split_to(end + 1));
                if event.json().is_some_and(is_periodic_bookmark) {
                    continue;
                }
                return Ok(Some(event));
            }
            match with_timeout(self.body.frame()).await? {
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.buffer.extend_from_slice(data);
                    }
                }
                Some(Err(error)) => return Err(format!("! {error}")),
                None if self.buffer.is_empty() => return Ok(None),
                None => return Ok(Some(parsed(&self.buffer.split()))),
            }
        }
    }
}

fn is_periodic_bookmark(event: &Value) -> bool {
    event["type"] == "BOOKMARK" && event.pointer("/object/metadata/annotations").is_none()
}

async fn with_timeout<O>(future: impl Future<Output = O>) -> Result<O, String> {
    let waited = tokio::time::timeout(RESPONSE_TIMEOUT, future).await;
    waited.map_err(|_| "! no answer, no event".to_owned())
}

/// Returns the title of a step in a transcript: as it is written in the script.
fn title(step: &Step) -> String {
    match step.action() {
        StepAction::Request(method, path) => format!("{method} {path}"),
        StepAction::Watch(path) => format!("WATCH {path}"),
        StepAction::Read(name) => format!("READ {name}"),
        StepAction::End(name) => format!("END {name}"),
        StepAction::Close(name) => format!("CLOSE {name}"),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What may not be in a URI as it is, escaped.
fn encoded(path: &str) -> String {
    let mut uri = String::new();
    for byte in path.bytes() {
        match byte {
            b' '
            | b'"'
            | b'<'
            | b'>'
            | b'^'
            | b'`'
            | b'{'
            | b'|'
            | b'}'
            | b'\\'
            | 0x7f..
            | 0..0x20 => {
                let _ = write!(uri, "%{byte:02X}");
            }
            other => uri.push(char::from(other)),
        }
    }
    uri
}

/// JSON whatever its content type says, else text.
fn parsed(text: &[u8]) -> Content {
    match serde_json::from_slice::<Value>(text) {
        Ok(value) if value.is_object() => Content::Json(value),
        _ => Content::Text(String::from_utf8_lossy(text).into_owned()),
    }
}

fn meets_condition(answer: &StepResponse, until: &BTreeMap<&str, Value>) -> bool {
    let body = answer.contents.last().and_then(Content::json);
    until.iter().all(|(path, wanted)| match *path {
        "code" => wanted.as_u64() == Some(u64::from(answer.code)),
        path => body.and_then(|body| value_at(body, path)).unwrap_or(&Value::Null) == wanted,
    })
}

#[cfg(test)]
mod tests;
