//! Tests of informers: list, watch, resume, relist, selectors and subscriptions.

use std::collections::VecDeque;
use std::future;

use futures_util::future::select;
use http::{Request, Response};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;

use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::clock::TokioClock;

/// An API that returns scripted responses in order, and then none. It records each request with the
/// seconds since the start.
#[derive(Clone, Default)]
struct ScriptedApi {
    responses: Arc<Mutex<VecDeque<(u16, String)>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl ScriptedApi {
    fn of(answers: impl IntoIterator<Item = (u16, String)>) -> Self {
        let script = Self::default();
        script.responses.lock().unwrap().extend(answers);
        script
    }

    fn informer(&self) -> Informer<ConfigMap> {
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
        let (script, request_clock) = (self.clone(), Arc::clone(&clock));
        let service = tower::service_fn(move |request: Request<Body>| {
            let seconds = request_clock.now().as_second();
            let requested = request.uri().query().unwrap_or_default().to_owned();
            script.requests.lock().unwrap().push(format!("{seconds}s {requested}"));
            let answer = script.responses.lock().unwrap().pop_front();
            async move {
                let Some((code, body)) = answer else { future::pending().await };
                let response = Response::builder().status(code).body(Body::from(body.into_bytes()));
                Ok::<_, http::Error>(response.unwrap())
            }
        });
        let api = Api::all(kube::Client::new(service, "default"));
        Informer::new(api, &clock, &Notifier::default())
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn object(name: &str, version: u32) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "namespace": "a",
            "name": name,
            "resourceVersion": version.to_string(),
            "managedFields": [{"manager": "x"}],
        },
    })
}

fn list(version: u32, objects: &[Value], next: Option<&str>) -> (u16, String) {
    let metadata = json!({"resourceVersion": version.to_string(), "continue": next});
    let list = json!({
        "apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": objects,
    });
    (200, list.to_string())
}

fn watch(events: &[(&str, Value)]) -> (u16, String) {
    let lines = events.iter().map(|(kind, object)| {
        let event = json!({"type": kind, "object": object});
        format!("{event}\n")
    });
    (200, lines.collect())
}

/// Runs the informer until it waits for a response that does not arrive.
async fn run(informer: &Informer<ConfigMap>) {
    let (feed, end) = (informer.run(), informer.clock.sleep(Duration::from_mins(1)));
    select(Box::pin(feed), end).await;
}

/// Returns the changes as `name@version`, or `name gone`.
fn drain_changes(informer: &Informer<ConfigMap>) -> Vec<String> {
    let changes = informer.take_changes().into_iter().map(|change| match change.after {
        Some(object) => format!("{}@{}", change.key.name, resource_version(object.as_ref())),
        None => format!("{} gone", change.key.name),
    });
    changes.collect()
}

#[tokio::test(start_paused = true)]
async fn an_unserved_kind_has_no_objects_until_it_is_served() {
    let script = || {
        let not_served = || (404, "404 page not found\n".to_owned());
        ScriptedApi::of([not_served(), not_served(), list(9, &[object("a", 1)], None)])
    };
    let informer = script().informer();
    let (feed, end) = (informer.run(), informer.clock.sleep(Duration::from_secs(2)));
    select(Box::pin(feed), end).await;
    assert!(!informer.is_synced(), "it is waited for");

    let script = script();
    let informer = script.informer().allow_unserved();
    let (feed, end) = (informer.run(), informer.clock.sleep(Duration::from_secs(2)));
    select(Box::pin(feed), end).await;
    assert!(informer.is_synced() && informer.is_empty(), "{:?}", informer.last_error());
    assert_eq!(script.requests().len(), 1, "it need not be asked for often");
    run(&informer).await;
    assert_eq!(drain_changes(&informer), ["a@1"]);
}

#[tokio::test(start_paused = true)]
async fn list_pages_and_watch_events_merge_into_one_change_per_object() {
    let script = ScriptedApi::of([
        list(9, &[object("b", 2)], Some("more")),
        list(9, &[object("a", 1), object("c", 3), object("d", 4)], None),
        watch(&[
            ("MODIFIED", object("a", 10)),
            ("MODIFIED", object("a", 11)),
            ("DELETED", object("b", 12)),
            ("ADDED", object("e", 13)),
            ("DELETED", object("e", 14)),
        ]),
    ]);
    let informer = script.informer();
    run(&informer).await;
    assert_eq!(drain_changes(&informer), ["a@11", "c@3", "d@4"]);
    assert_eq!(drain_changes(&informer), [""; 0], "told once");
    assert!(informer.get("a", "b").is_none());
    let names: Vec<_> = informer.all().iter().map(|o| o.metadata.name.clone().unwrap()).collect();
    assert_eq!(names, ["a", "c", "d"]);
    assert!(informer.all().iter().all(|object| object.metadata.managed_fields.is_none()));
}

#[tokio::test(start_paused = true)]
async fn an_ended_watch_resumes_from_its_last_resource_version() {
    let script = ScriptedApi::of([
        list(9, &[], None),
        watch(&[("ADDED", object("a", 10)), ("BOOKMARK", object("x", 20))]),
        watch(&[]),
    ]);
    let informer = script.informer();
    run(&informer).await;
    let versions: Vec<_> = script
        .requests()
        .iter()
        .map(|requested| {
            let version = requested.split("resourceVersion=").nth(1).map_or("list", |v| v);
            format!("{} {version}", requested.split(' ').next().unwrap())
        })
        .collect();
    assert_eq!(versions, ["0s list", "0s 9", "0s 20", "1s 20"]);
    assert_eq!(informer.last_error(), None);
}

#[tokio::test(start_paused = true)]
async fn a_relist_after_an_error_reports_only_differences() {
    let expired = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    });
    let script = ScriptedApi::of([
        list(9, &[object("a", 1), object("b", 2)], None),
        watch(&[("ERROR", expired.clone())]),
        (410, expired.to_string()),
        list(20, &[object("b", 2), object("c", 15)], None),
    ]);
    let informer = script.informer();
    let first = async {
        informer.notifier.notified().await;
        drain_changes(&informer)
    };
    let feed = informer.run();
    let (first, feed) = match select(Box::pin(first), Box::pin(feed)).await {
        futures_util::future::Either::Left(done) => done,
        futures_util::future::Either::Right(_) => unreachable!(),
    };
    assert_eq!(first, ["a@1", "b@2"]);
    select(feed, informer.clock.sleep(Duration::from_mins(1))).await;
    assert_eq!(drain_changes(&informer), ["a gone", "c@15"]);
    let seconds: Vec<_> = script
        .requests()
        .iter()
        .map(|requested| requested.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(seconds, ["0s", "0s", "1s", "3s", "3s"]);
}

#[tokio::test(start_paused = true)]
async fn selectors_are_sent_with_lists_and_watches() {
    let script = ScriptedApi::of([list(9, &[], None)]);
    let informer =
        script.informer().with_label_selector("app=x").with_field_selector("metadata.name=y");
    run(&informer).await;
    let requested = script.requests();
    assert_eq!(requested.len(), 2);
    for requested in requested {
        assert!(requested.contains("labelSelector=app%3Dx"), "{requested}");
        assert!(requested.contains("fieldSelector=metadata.name%3Dy"), "{requested}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_result_is_visible_at_once_and_reported_once() {
    let script = ScriptedApi::of([
        list(9, &[object("a", 1)], None),
        watch(&[
            ("MODIFIED", object("a", 10)),
            ("ADDED", object("b", 11)),
            ("DELETED", object("c", 12)),
        ]),
    ]);
    let informer = script.informer();
    let learn = |name, version| {
        informer.apply_write_result(serde_json::from_value(object(name, version)).unwrap());
    };
    learn("a", 20);
    learn("b", 11);
    assert_eq!(drain_changes(&informer), ["a@20", "b@11"], "known before the watch tells");
    run(&informer).await;
    assert_eq!(drain_changes(&informer), [""; 0], "older news, and news that is none");
    learn("c", 12);
    assert_eq!(drain_changes(&informer), [""; 0], "the watch has told that it is gone");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_subscription_receives_no_more_changes() {
    let informer = ScriptedApi::of([]).informer();
    let changes: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = changes.clone();
    let subscription = informer.subscribe(move |change| {
        noted.lock().unwrap().push(change.key.name.clone());
    });
    let object = |name: &str, version| serde_json::from_value(object(name, version)).unwrap();
    informer.apply_write_result(object("one", 1));
    drop(subscription);
    informer.apply_write_result(object("two", 2));
    assert_eq!(*changes.lock().unwrap(), ["one"]);
    assert_eq!(Arc::strong_count(&changes), 1, "nor kept");
}

#[tokio::test(start_paused = true)]
async fn an_index_does_not_keep_its_informer_alive() {
    let informer = ScriptedApi::of([]).informer();
    let weak = informer.downgrade();
    let index = Index::new(&informer, |map: &ConfigMap| map.metadata.name.as_deref());
    informer.apply_write_result(serde_json::from_value(object("one", 1)).unwrap());
    assert_eq!(index.get("one").len(), 1);
    assert!(weak.get(&ObjectKey::new("a", "one")).is_some());
    drop((informer, index));
    assert!(weak.get(&ObjectKey::new("a", "one")).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_list_with_an_older_resource_version_replaces_the_cache() {
    let failed = || (403, "{}".to_owned());
    let script = ScriptedApi::of([
        list(90, &[object("a", 80), object("b", 81)], None),
        watch(&[("MODIFIED", object("a", 95))]),
        failed(),
        list(20, &[object("a", 7)], None),
        watch(&[("ADDED", object("c", 21))]),
    ]);
    let informer = script.informer();
    run(&informer).await;
    assert_eq!(drain_changes(&informer), ["a@7", "c@21"], "no ghost of b, and the older a");
    assert_eq!(informer.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn lasting_list_failures_are_reported_until_a_list_succeeds() {
    let failed = || (403, "{}".to_owned());
    let script = ScriptedApi::of([list(9, &[], None), failed(), failed(), failed()]);
    let informer = script.informer();
    run(&informer).await;
    assert_eq!(informer.failing_since(), Some(Timestamp::UNIX_EPOCH));
    assert!(informer.last_error().is_some());
    script.responses.lock().unwrap().push_back(list(10, &[], None));
    run(&informer).await;
    assert_eq!((informer.failing_since(), informer.last_error()), (None, None));
}
