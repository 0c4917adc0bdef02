//! Tests of many watchers, some of which do not read their events.

use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use karpenter_apiserver::ResponseBody;
use serde_json::json;
use tokio::task::coop::unconstrained;

use super::client::{CONFIG_MAPS, Client, JSON, MERGE, event};

async fn create(client: &Client, name: &str, filler: usize) {
    let body = json!({"metadata": {"name": name}, "data": {"filler": "x".repeat(filler)}});
    let answer = client.request("POST", CONFIG_MAPS, JSON, body.to_string()).await;
    assert_eq!(answer.code, 201, "{}", answer.json());
}

async fn change(client: &Client, name: &str, value: usize) {
    let body = json!({"data": {"value": value.to_string()}}).to_string();
    let path = format!("{CONFIG_MAPS}/{name}");
    assert_eq!(client.request("PATCH", &path, MERGE, body).await.code, 200);
}

/// Everything that can be read without waiting.
fn ready(events: &mut ResponseBody) -> Vec<bytes::Bytes> {
    let mut lines = Vec::new();
    // Tokio would let others run now and then, which looks like having to wait.
    while let Some(Some(Ok(frame))) = unconstrained(events.frame()).now_or_never() {
        lines.push(frame.into_data().expect("data"));
    }
    lines
}

#[tokio::test]
async fn ten_thousand_watches_each_see_every_change_once() {
    const WATCHES: usize = 10_000;
    let client = Client::new();
    create(&client, "one", 10).await;
    let mut watches = Vec::with_capacity(WATCHES);
    for _ in 0..WATCHES {
        let path = format!("{CONFIG_MAPS}?watch=true&fieldSelector=metadata.name%3Done");
        watches.push(client.watch(&path).await);
    }
    for watch in &mut watches {
        assert_eq!(ready(watch).len(), 1);
    }
    change(&client, "one", 1).await;
    create(&client, "other", 10).await;
    for watch in &mut watches {
        let lines = ready(watch);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with(b"{\"type\":\"MODIFIED\""));
    }
    // Those that are dropped without a word leave nothing behind that a change would stumble on.
    watches.truncate(1);
    change(&client, "one", 2).await;
    assert_eq!(ready(&mut watches[0]).len(), 1);
}

#[tokio::test]
async fn a_watch_starts_with_the_objects_at_its_start_version() {
    let client = Client::new();
    for index in 0..150 {
        create(&client, &format!("c-{index:03}"), 10).await;
    }
    let selector = "labelSelector=!none";
    let path = format!(
        "{CONFIG_MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&{selector}"
    );
    let mut events = client.watch(&path).await;
    change(&client, "c-100", 1).await;
    let gone = client.request("DELETE", &format!("{CONFIG_MAPS}/c-149"), JSON, "").await;
    assert_eq!(gone.code, 200);
    create(&client, "c-050-later", 10).await;

    let mut found = Vec::new();
    for _ in 0..155 {
        let event = event(&mut events).await.unwrap();
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        found.push((event["type"].as_str().unwrap().to_owned(), name));
    }
    // `kube-root-ca.crt` is in every namespace.
    let added: Vec<_> =
        found[..151].iter().map(|(kind, name)| (kind.as_str(), name.as_str())).collect();
    assert!(added.iter().all(|(kind, _)| *kind == "ADDED"));
    assert!(added.contains(&("ADDED", "c-149")) && !added.contains(&("ADDED", "c-050-later")));
    let after: Vec<_> =
        found[151..].iter().map(|(kind, name)| (kind.as_str(), name.as_str())).collect();
    assert_eq!(
        after,
        [("BOOKMARK", ""), ("MODIFIED", "c-100"), ("DELETED", "c-149"), ("ADDED", "c-050-later")]
    );
}
