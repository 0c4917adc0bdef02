//! Removes Events an hour after their last write, which is the default of kube-apiserver.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

use crate::api::State;
use crate::store::{ObjectKey, ResourceId};

const EVENT_TTL: SignedDuration = SignedDuration::from_hours(1);

/// The writes of Events, oldest first. An Event that was written again is in the queue more than
/// once; its last write counts.
#[derive(Debug, Default)]
pub(crate) struct EventTtlQueue(VecDeque<EventWrite>);

#[derive(Debug)]
struct EventWrite {
    at: Timestamp,
    id: ResourceId,
    key: ObjectKey,
    version: u64,
}

impl EventTtlQueue {
    pub(crate) fn record_write(
        &mut self,
        id: &ResourceId,
        key: &ObjectKey,
        version: u64,
        at: Timestamp,
    ) {
        if is_event(id) {
            self.0.push_back(EventWrite { at, id: id.clone(), key: key.clone(), version });
        }
    }

    fn pop_before(&mut self, time: Timestamp) -> Option<EventWrite> {
        self.0.pop_front_if(|write| write.at <= time)
    }
}

fn is_event(id: &ResourceId) -> bool {
    &*id.plural == "events" && matches!(&*id.group, "" | "events.k8s.io")
}

/// Removes Events that are older than the TTL. Without such an Event it costs nothing.
pub(crate) fn expire_events(state: &mut State) {
    let oldest = state.environment.now().saturating_sub(EVENT_TTL).unwrap_or(Timestamp::MIN);
    while let Some(write) = state.event_ttl.pop_before(oldest) {
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
    use crate::testing::request::send_request;

    const EVENTS: &str = "/api/v1/namespaces/default/events";

    fn event(name: &str) -> Value {
        json!({
            "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default"},
        })
    }

    async fn names(api: &Api) -> Vec<String> {
        let body = send_request(api, "GET", EVENTS, &Value::Null).await.collect().await.unwrap();
        let list: Value = serde_json::from_slice(&body.to_bytes()).unwrap();
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn events_expire_one_hour_after_their_last_write() {
        let api = Api::new(Arc::new(TestEnvironment::new()));
        send_request(&api, "POST", EVENTS, &event("once")).await;
        send_request(&api, "POST", EVENTS, &event("again")).await;
        tokio::time::advance(Duration::from_mins(40)).await;
        let path = format!("{EVENTS}/again");
        send_request(&api, "PATCH", &path, &json!({"count": 2})).await;
        tokio::time::advance(Duration::from_mins(19)).await;
        send_request(&api, "POST", EVENTS, &event("new")).await;
        assert_eq!(names(&api).await, ["again", "new", "once"]);
        tokio::time::advance(Duration::from_mins(2)).await;
        assert_eq!(names(&api).await, ["again", "new"]);
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(names(&api).await, [""; 0]);
    }
}
