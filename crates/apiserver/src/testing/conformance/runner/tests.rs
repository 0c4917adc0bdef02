//! Tests of the conformance runner: variables, repeated requests, and events of watches.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use http::Response;
use http_body_util::Full;
use serde_json::json;

use super::*;
use crate::testing::conformance::BoxError;

/// A target that responds with the request and counts the pauses.
#[derive(Default)]
struct EchoTarget {
    pauses: AtomicU32,
    requests: Mutex<Vec<String>>,
}

impl Target for EchoTarget {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Body>, BoxError> {
        let path = request.uri().to_string();
        let body = String::from_utf8_lossy(request.body()).into_owned();
        self.requests.lock().unwrap().push(format!("{} {path} {body}", request.method()));
        let n = self.pauses.load(Ordering::Relaxed);
        let (code, body) = match path.as_str() {
            "/api/v1/namespaces" => (201, "{}".to_owned()),
            path if path.contains("watch") => {
                let bookmark =
                    |metadata| json!({"type": "BOOKMARK", "object": {"metadata": metadata}});
                let ended = json!({"annotations": {"k8s.io/initial-events-end": "true"}});
                let events = [json!({"type": "A"}), bookmark(ended), bookmark(json!({}))];
                let events = events.into_iter().chain([json!({"type": "B"})]);
                let lines: Vec<_> = events.map(|event| event.to_string()).collect();
                (200, lines.join("\n") + "\n")
            }
            _ => (200, format!("{{\"n\":{n},\"token\":\"t-{n}\"}}")),
        };
        let body = Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync();
        Ok(Response::builder().status(code).body(body)?)
    }

    async fn pause(&self) {
        self.pauses.fetch_add(1, Ordering::Relaxed);
    }
}

async fn run_steps(steps: &str) -> (Vec<String>, Vec<String>) {
    let area = Area::parse(
        "x",
        &format!("vars: {{obj: {{a: $id, b: 1}}}}\nchecks: [{{name: c, steps: [{steps}]}}]"),
    );
    let echo = EchoTarget::default();
    let transcript = run(&area, &echo, 1, |_| true).await;
    let steps = transcript.steps("c").unwrap().to_vec();
    (steps, echo.requests.into_inner().unwrap())
}

#[tokio::test]
async fn variables_are_expanded_and_the_namespace_is_created_first() {
    let steps =
        "{POST: $core/x, body: $obj, with: {b: null}, save: {t: token}}, {GET: '/y?q=a b&t=$t'}";
    let (_, seen) = run_steps(steps).await;
    assert!(seen[0].starts_with("POST /api/v1/namespaces {"), "{}", seen[0]);
    assert_eq!(seen[1], "POST /api/v1/namespaces/x-c/x {\"a\":\"x-c\"}");
    assert_eq!(seen[2], "GET /y?q=a%20b&t=t-0 ");
}

#[tokio::test]
async fn a_request_is_repeated_until_its_condition_holds() {
    let (steps, seen) = run_steps("{GET: /z, until: {code: 200, n: 2, none: null}}").await;
    assert_eq!(steps, ["> GET /z\n< 200\n{n: 2, token: t-2}"]);
    assert_eq!(seen.len(), 3);
}

#[tokio::test]
async fn an_unmet_until_condition_ends_the_check() {
    let (steps, _) = run_steps("{GET: /z, until: {n: -1}}, {GET: /z}").await;
    assert_eq!(steps.len(), 1);
    assert!(steps[0].contains("! never came true"), "{}", steps[0]);
}

#[tokio::test]
async fn events_are_read_one_by_one_and_the_watch_end_is_reported() {
    let steps = "{WATCH: /watch, as: w}, {READ: w, events: 2, show: [type]}, {READ: w, events: 2}, \
                 {CLOSE: w}, {END: w}";
    let (steps, _) = run_steps(steps).await;
    assert_eq!(steps[1], "> READ w\n* A\n{}\n* BOOKMARK\n{}");
    assert_eq!(steps[2], "> READ w\n* B\n{}\n| (the watch has ended)", "a mere bookmark is none");
    assert_eq!(steps[4], "> END w\n! no such watch is open");
}
