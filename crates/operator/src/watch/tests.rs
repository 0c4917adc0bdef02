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

/// An API that answers what it is told, in order, and then not at all. It notes what was asked, and
/// how many seconds after the start.
#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<(u16, String)>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Script {
    fn of(answers: impl IntoIterator<Item = (u16, String)>) -> Self {
        let script = Self::default();
        script.answers.lock().unwrap().extend(answers);
        script
    }

    fn informer(&self) -> Informer<ConfigMap> {
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
        let (script, asked_at) = (self.clone(), Arc::clone(&clock));
        let service = tower::service_fn(move |request: Request<Body>| {
            let seconds = asked_at.now().as_second();
            let asked = request.uri().query().unwrap_or_default().to_owned();
            script.asked.lock().unwrap().push(format!("{seconds}s {asked}"));
            let answer = script.answers.lock().unwrap().pop_front();
            async move {
                let Some((code, body)) = answer else { future::pending().await };
                let response = Response::builder().status(code).body(Body::from(body.into_bytes()));
                Ok::<_, http::Error>(response.unwrap())
            }
        });
        let api = Api::all(kube::Client::new(service, "default"));
        Informer::new(api, &clock, &Wake::default())
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
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

/// Runs the feed until it waits for an answer that does not come.
async fn run(informer: &Informer<ConfigMap>) {
    let (feed, end) = (informer.feed(), informer.clock.sleep(Duration::from_mins(1)));
    select(Box::pin(feed), end).await;
}

/// `name@version`, or `name gone`.
fn told(informer: &Informer<ConfigMap>) -> Vec<String> {
    let told = informer.take_changes().into_iter().map(|change| match change.after {
        Some(object) => format!("{}@{}", change.key.name, version_of(object.as_ref())),
        None => format!("{} gone", change.key.name),
    });
    told.collect()
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_has_no_objects_until_it_is() {
    let script = || {
        let not_served = || (404, "404 page not found\n".to_owned());
        Script::of([not_served(), not_served(), list(9, &[object("a", 1)], None)])
    };
    let informer = script().informer();
    let (feed, end) = (informer.feed(), informer.clock.sleep(Duration::from_secs(2)));
    select(Box::pin(feed), end).await;
    assert!(!informer.is_synced(), "it is waited for");

    let script = script();
    let informer = script.informer().where_served();
    let (feed, end) = (informer.feed(), informer.clock.sleep(Duration::from_secs(2)));
    select(Box::pin(feed), end).await;
    assert!(informer.is_synced() && informer.is_empty(), "{:?}", informer.last_error());
    assert_eq!(script.asked().len(), 1, "it need not be asked for often");
    run(&informer).await;
    assert_eq!(told(&informer), ["a@1"]);
}

#[tokio::test(start_paused = true)]
async fn pages_and_events_add_up_to_one_change_per_object() {
    let script = Script::of([
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
    assert_eq!(told(&informer), ["a@11", "c@3", "d@4"]);
    assert_eq!(told(&informer), [""; 0], "told once");
    assert!(informer.get("a", "b").is_none());
    let names: Vec<_> = informer.all().iter().map(|o| o.metadata.name.clone().unwrap()).collect();
    assert_eq!(names, ["a", "c", "d"]);
    assert!(informer.all().iter().all(|object| object.metadata.managed_fields.is_none()));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_where_it_was() {
    let script = Script::of([
        list(9, &[], None),
        watch(&[("ADDED", object("a", 10)), ("BOOKMARK", object("x", 20))]),
        watch(&[]),
    ]);
    let informer = script.informer();
    run(&informer).await;
    let versions: Vec<_> = script
        .asked()
        .iter()
        .map(|asked| {
            let version = asked.split("resourceVersion=").nth(1).map_or("list", |v| v);
            format!("{} {version}", asked.split(' ').next().unwrap())
        })
        .collect();
    assert_eq!(versions, ["0s list", "0s 9", "0s 20", "1s 20"]);
    assert_eq!(informer.last_error(), None);
}

#[tokio::test(start_paused = true)]
async fn after_an_error_everything_is_listed_again_and_only_differences_are_told() {
    let expired = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    });
    let script = Script::of([
        list(9, &[object("a", 1), object("b", 2)], None),
        watch(&[("ERROR", expired.clone())]),
        (410, expired.to_string()),
        list(20, &[object("b", 2), object("c", 15)], None),
    ]);
    let informer = script.informer();
    let first = async {
        informer.wake.rung().await;
        told(&informer)
    };
    let feed = informer.feed();
    let (first, feed) = match select(Box::pin(first), Box::pin(feed)).await {
        futures_util::future::Either::Left(done) => done,
        futures_util::future::Either::Right(_) => unreachable!(),
    };
    assert_eq!(first, ["a@1", "b@2"]);
    select(feed, informer.clock.sleep(Duration::from_mins(1))).await;
    assert_eq!(told(&informer), ["a gone", "c@15"]);
    let seconds: Vec<_> =
        script.asked().iter().map(|asked| asked.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(seconds, ["0s", "0s", "1s", "3s", "3s"]);
}

#[tokio::test(start_paused = true)]
async fn selectors_go_with_lists_and_watches() {
    let script = Script::of([list(9, &[], None)]);
    let informer = script.informer().labels("app=x").fields("metadata.name=y");
    run(&informer).await;
    let asked = script.asked();
    assert_eq!(asked.len(), 2);
    for asked in asked {
        assert!(asked.contains("labelSelector=app%3Dx"), "{asked}");
        assert!(asked.contains("fieldSelector=metadata.name%3Dy"), "{asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_writer_learns_is_known_at_once_and_not_told_twice_or_undone() {
    let script = Script::of([
        list(9, &[object("a", 1)], None),
        watch(&[
            ("MODIFIED", object("a", 10)),
            ("ADDED", object("b", 11)),
            ("DELETED", object("c", 12)),
        ]),
    ]);
    let informer = script.informer();
    let learn = |name, version| {
        informer.learn(serde_json::from_value(object(name, version)).unwrap());
    };
    learn("a", 20);
    learn("b", 11);
    assert_eq!(told(&informer), ["a@20", "b@11"], "known before the watch tells");
    run(&informer).await;
    assert_eq!(told(&informer), [""; 0], "older news, and news that is none");
    learn("c", 12);
    assert_eq!(told(&informer), [""; 0], "the watch has told that it is gone");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_dropped_is_told_nothing_more() {
    let informer = Script::of([]).informer();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = told.clone();
    let subscription = informer.subscribe(move |change| {
        noted.lock().unwrap().push(change.key.name.clone());
    });
    let object = |name: &str, version| serde_json::from_value(object(name, version)).unwrap();
    informer.learn(object("one", 1));
    drop(subscription);
    informer.learn(object("two", 2));
    assert_eq!(*told.lock().unwrap(), ["one"]);
    assert_eq!(Arc::strong_count(&told), 1, "nor kept");
}

#[tokio::test(start_paused = true)]
async fn an_index_does_not_keep_its_informer_alive() {
    let informer = Script::of([]).informer();
    let weak = informer.downgrade();
    let index = Index::new(&informer, |map: &ConfigMap| map.metadata.name.as_deref());
    informer.learn(serde_json::from_value(object("one", 1)).unwrap());
    assert_eq!(index.get("one").len(), 1);
    assert!(weak.get(&ObjectKey::new("a", "one")).is_some());
    drop((informer, index));
    assert!(weak.get(&ObjectKey::new("a", "one")).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_set_back_is_believed() {
    let failed = || (403, "{}".to_owned());
    let script = Script::of([
        list(90, &[object("a", 80), object("b", 81)], None),
        watch(&[("MODIFIED", object("a", 95))]),
        failed(),
        list(20, &[object("a", 7)], None),
        watch(&[("ADDED", object("c", 21))]),
    ]);
    let informer = script.informer();
    run(&informer).await;
    assert_eq!(told(&informer), ["a@7", "c@21"], "no ghost of b, and the older a");
    assert_eq!(informer.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn failures_that_last_are_known_until_a_list_succeeds() {
    let failed = || (403, "{}".to_owned());
    let script = Script::of([list(9, &[], None), failed(), failed(), failed()]);
    let informer = script.informer();
    run(&informer).await;
    assert_eq!(informer.failing_since(), Some(Timestamp::UNIX_EPOCH));
    assert!(informer.last_error().is_some());
    script.answers.lock().unwrap().push_back(list(10, &[], None));
    run(&informer).await;
    assert_eq!((informer.failing_since(), informer.last_error()), (None, None));
}
