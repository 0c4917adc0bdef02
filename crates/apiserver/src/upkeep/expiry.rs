//! Events are kept for an hour after their last write, as kube-apiserver keeps them by default.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

use crate::api::State;
use crate::store::{Key, ResourceId};

const KEPT: SignedDuration = SignedDuration::from_hours(1);

/// Writes of events, oldest first. An event that was written again is in it more than once; the
/// last time counts.
#[derive(Debug, Default)]
pub(crate) struct Expiry(VecDeque<Write>);

#[derive(Debug)]
struct Write {
    at: Timestamp,
    id: ResourceId,
    key: Key,
    version: u64,
}

impl Expiry {
    pub(crate) fn stored(&mut self, id: &ResourceId, key: &Key, version: u64, at: Timestamp) {
        if is_event(id) {
            self.0.push_back(Write { at, id: id.clone(), key: key.clone(), version });
        }
    }

    fn pop_before(&mut self, time: Timestamp) -> Option<Write> {
        self.0.pop_front_if(|write| write.at <= time)
    }
}

fn is_event(id: &ResourceId) -> bool {
    &*id.plural == "events" && matches!(&*id.group, "" | "events.k8s.io")
}

/// Removes what is too old. It costs nothing while nothing is.
pub(crate) fn expire(state: &mut State) {
    let oldest = state.environment.now().saturating_sub(KEPT).unwrap_or(Timestamp::MIN);
    while let Some(write) = state.expiry.pop_before(oldest) {
        let current = state.store.get(&write.id, &write.key);
        if current.is_some_and(|stored| stored.version == write.version) {
            state.remove(&write.id, &write.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use http_body_util::BodyExt as _;
    use serde_json::{Value, json};

    use crate::Api;
    use crate::testing::environment::TestEnvironment;
    use crate::testing::request::ask;

    const EVENTS: &str = "/api/v1/namespaces/default/events";

    fn event(name: &str) -> Value {
        json!({
            "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default"},
        })
    }

    async fn names(api: &Api) -> Vec<String> {
        let body = ask(api, "GET", EVENTS, &Value::Null).await.collect().await.unwrap();
        let list: Value = serde_json::from_slice(&body.to_bytes()).unwrap();
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_goes_an_hour_after_its_last_write() {
        let api = Api::new(Arc::new(TestEnvironment::new()));
        ask(&api, "POST", EVENTS, &event("once")).await;
        ask(&api, "POST", EVENTS, &event("again")).await;
        tokio::time::advance(Duration::from_mins(40)).await;
        let path = format!("{EVENTS}/again");
        ask(&api, "PATCH", &path, &json!({"count": 2})).await;
        tokio::time::advance(Duration::from_mins(19)).await;
        ask(&api, "POST", EVENTS, &event("new")).await;
        assert_eq!(names(&api).await, ["again", "new", "once"]);
        tokio::time::advance(Duration::from_mins(2)).await;
        assert_eq!(names(&api).await, ["again", "new"]);
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(names(&api).await, [""; 0]);
    }
}
