//! Tests of watches: slow clients, selectors and timeouts.

use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::*;
use crate::store::ResourceId;
use crate::testing::environment::TestEnvironment;
use crate::testing::request::send_request;
use crate::{Api, ResponseBody};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn event(events: &mut ResponseBody) -> Option<Value> {
    let line = events.frame().await?.unwrap().into_data().unwrap();
    Some(serde_json::from_slice(&line).unwrap())
}

/// Returns an API with a small history of ConfigMaps, and one ConfigMap.
async fn api_with_short_history() -> Api {
    let api = Api::new(Arc::new(TestEnvironment::new()));
    api.lock().store.limit_history(&ResourceId::new("", "configmaps"), 20_000);
    send_request(&api, "POST", CONFIG_MAPS, &json!({"metadata": {"name": "one"}})).await;
    api
}

async fn change(api: &Api, value: usize) {
    let patch = json!({"data": {"value": value.to_string()}});
    send_request(api, "PATCH", &format!("{CONFIG_MAPS}/one"), &patch).await;
}

#[tokio::test]
async fn a_watcher_that_stops_reading_expires_and_buffers_at_most_a_batch() {
    let api = api_with_short_history().await;
    let watch = format!("{CONFIG_MAPS}?watch=true");
    let mut begun = send_request(&api, "GET", &watch, &Value::Null).await;
    assert_eq!(event(&mut begun).await.unwrap()["type"], "ADDED");
    let mut unread = send_request(&api, "GET", &watch, &Value::Null).await;
    let mut reading =
        send_request(&api, "GET", &format!("{watch}&resourceVersion=1"), &Value::Null).await;
    for value in 0..100 {
        change(&api, value).await;
        let written = json!(value.to_string());
        while event(&mut reading).await.unwrap()["object"]["data"]["value"] != written {}
    }
    for events in [&mut begun, &mut unread] {
        let mut last = Value::Null;
        let mut count = 0;
        while let Some(event) = event(events).await {
            last = event;
            count += 1;
        }
        assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(410)));
        assert!(count <= BATCH, "{count} events were held for a client that did not read");
    }
}

#[tokio::test]
async fn unselected_changes_do_not_hide_later_selected_ones() {
    let api = Api::new(Arc::new(TestEnvironment::new()));
    send_request(&api, "POST", CONFIG_MAPS, &json!({"metadata": {"name": "one"}})).await;
    let path =
        format!("{CONFIG_MAPS}?watch=true&resourceVersion=1&fieldSelector=metadata.name%3Dtwo");
    let mut events = send_request(&api, "GET", &path, &Value::Null).await;
    for value in 0..3 * BATCH {
        change(&api, value).await;
    }
    send_request(&api, "POST", CONFIG_MAPS, &json!({"metadata": {"name": "two"}})).await;
    assert_eq!(event(&mut events).await.unwrap()["object"]["metadata"]["name"], "two");
}

#[tokio::test(start_paused = true)]
async fn a_watch_times_out_even_with_constant_changes() {
    let api = Api::new(Arc::new(TestEnvironment::new()));
    send_request(&api, "POST", CONFIG_MAPS, &json!({"metadata": {"name": "one"}})).await;
    let path = format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=5");
    let mut events = send_request(&api, "GET", &path, &Value::Null).await;
    let mut seen = 0;
    while event(&mut events).await.is_some() {
        seen += 1;
        change(&api, seen).await;
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert!((4..=8).contains(&seen), "{seen}");
}
