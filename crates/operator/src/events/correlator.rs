//! Correlates events as client-go does before it writes them: aggregates similar events, counts
//! duplicates, and limits the rate per object.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event as ApiEvent, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use karpenter_api::grammar::dns_subdomain_errors;
use serde_json::{Value, json};

use super::Event;
use crate::harness::TokenBucket;

/// The component that reports the events.
const COMPONENT: &str = "karpenter";

/// The most entries of each cache; the least recently used one is dropped.
const MAX_CACHE_ENTRIES: usize = 4096;

/// The number of messages with one reason per interval that become one event.
const AGGREGATE_THRESHOLD: usize = 10;
const AGGREGATE_INTERVAL: SignedDuration = SignedDuration::from_mins(10);

/// The most events of one object at once; one more is allowed every five minutes.
const OBJECT_BURST: f64 = 25.0;
const OBJECT_RATE_PER_SECOND: f64 = 1.0 / 300.0;

/// An event to create or to patch.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EventWrite {
    pub(super) event: ApiEvent,
    /// What changes in the event if it exists already.
    pub(super) patch: Option<Value>,
}

/// Remembers what was written.
#[derive(Debug, Default)]
pub(super) struct Correlator {
    aggregates: LruCache<Aggregate>,
    recorded: LruCache<EventRecord>,
    buckets: LruCache<TokenBucket>,
    last_nanos: i128,
}

#[derive(Clone, Debug)]
struct Aggregate {
    messages: BTreeSet<u64>,
    last_seen: Timestamp,
}

#[derive(Clone, Debug)]
struct EventRecord {
    count: i32,
    first_seen: Timestamp,
    name: String,
}

impl Correlator {
    /// What to write for an event; nothing if its object has caused too many.
    pub(super) fn correlate(&mut self, event: &Event, now: Timestamp) -> Option<EventWrite> {
        let key = aggregate_key(event);
        let is_many = self.is_aggregated(&key, &event.message, now);
        let message = if is_many {
            format!("(combined from similar events): {}", event.message)
        } else {
            event.message.clone()
        };
        let key = if is_many { key } else { format!("{key}\n{:x}", fingerprint(&message)) };
        let before = self.recorded.get(&key).cloned();
        let written = match &before {
            Some(before) => EventRecord { count: before.count.saturating_add(1), ..before.clone() },
            None => EventRecord {
                count: 1,
                first_seen: now,
                name: self.next_event_name(&event.object, now),
            },
        };
        self.recorded.insert(key, written.clone());
        if !self.take_token(event, now) {
            return None;
        }
        let patch = before.map(
            |_| json!({"count": written.count, "lastTimestamp": time_json(now), "message": message}),
        );
        Some(EventWrite { event: api_event(event, message, &written, now), patch })
    }

    /// Records a message. Returns whether there were many with the same reason.
    fn is_aggregated(&mut self, key: &str, message: &str, now: Timestamp) -> bool {
        let known = self.aggregates.get(key).cloned();
        let known = known.filter(|known| now.duration_since(known.last_seen) <= AGGREGATE_INTERVAL);
        let mut messages = known.map(|known| known.messages).unwrap_or_default();
        messages.insert(fingerprint(message));
        let is_many = messages.len() >= AGGREGATE_THRESHOLD;
        if is_many {
            messages.pop_first();
        }
        self.aggregates.insert(key.to_owned(), Aggregate { messages, last_seen: now });
        is_many
    }

    fn take_token(&mut self, event: &Event, now: Timestamp) -> bool {
        let key = object_key(&event.object, event.severity.name());
        let bucket = self.buckets.get(&key).cloned();
        let mut bucket =
            bucket.unwrap_or_else(|| TokenBucket::new(OBJECT_RATE_PER_SECOND, OBJECT_BURST));
        let has_token = bucket.try_take(now);
        self.buckets.insert(key, bucket);
        has_token
    }

    /// Returns a unique event name: the object's name and an increasing time.
    fn next_event_name(&mut self, object: &ObjectReference, now: Timestamp) -> String {
        self.last_nanos = now.as_nanosecond().max(self.last_nanos + 1);
        let stamp = self.last_nanos;
        let name = format!("{}.{stamp:x}", object.name.as_deref().unwrap_or_default());
        if dns_subdomain_errors(&name).is_empty() { name } else { format!("{COMPONENT}.{stamp:x}") }
    }
}

/// Stands for a text in memories: messages are long, and there are thousands of them. Two of one
/// object with the same one would count as one event.
fn fingerprint(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn object_key(object: &ObjectReference, severity: &str) -> String {
    let parts = [&object.api_version, &object.kind, &object.namespace, &object.name, &object.uid];
    let parts: Vec<_> = parts.iter().map(|part| part.as_deref().unwrap_or_default()).collect();
    format!("{}\n{severity}", parts.join("\n"))
}

fn aggregate_key(event: &Event) -> String {
    format!("{}\n{}", object_key(&event.object, event.severity.name()), event.reason)
}

fn time_json(now: Timestamp) -> Value {
    serde_json::to_value(Time(now)).unwrap_or_default()
}

fn api_event(event: &Event, message: String, written: &EventRecord, now: Timestamp) -> ApiEvent {
    let namespace = event.object.namespace.clone().filter(|namespace| !namespace.is_empty());
    ApiEvent {
        metadata: ObjectMeta {
            name: Some(written.name.clone()),
            namespace: Some(namespace.unwrap_or_else(|| "default".to_owned())),
            ..ObjectMeta::default()
        },
        involved_object: event.object.clone(),
        reason: Some(event.reason.clone().into_owned()),
        message: Some(message),
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
        reporting_component: Some(COMPONENT.to_owned()),
        reporting_instance: Some(String::new()),
        first_timestamp: Some(Time(written.first_seen)),
        last_timestamp: Some(Time(now)),
        count: Some(written.count),
        type_: Some(event.severity.name().to_owned()),
        ..ApiEvent::default()
    }
}

/// A cache of bounded size that drops the least recently used entry.
#[derive(Debug)]
struct LruCache<V> {
    entries: BTreeMap<String, (u64, V)>,
    keys_by_use: BTreeMap<u64, String>,
    uses: u64,
}

impl<V> Default for LruCache<V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), keys_by_use: BTreeMap::new(), uses: 0 }
    }
}

impl<V> LruCache<V> {
    fn get(&mut self, key: &str) -> Option<&V> {
        let (used, value) = self.entries.get_mut(key)?;
        self.keys_by_use.remove(used);
        self.uses += 1;
        *used = self.uses;
        self.keys_by_use.insert(self.uses, key.to_owned());
        Some(value)
    }

    fn insert(&mut self, key: String, value: V) {
        self.uses += 1;
        self.keys_by_use.insert(self.uses, key.clone());
        if let Some((used, _)) = self.entries.insert(key, (self.uses, value)) {
            self.keys_by_use.remove(&used);
        }
        if self.entries.len() > MAX_CACHE_ENTRIES
            && let Some((_, oldest)) = self.keys_by_use.pop_first()
        {
            self.entries.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    fn event(object: &str, message: &str) -> Event {
        let object = ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(object.to_owned()),
            ..ObjectReference::default()
        };
        Event::new(object, Severity::Normal, "Reason", message, [""; 0])
    }

    #[test]
    fn the_first_event_is_created_as_client_go_does() {
        let write = Correlator::default().correlate(&event("a", "text"), at(0)).unwrap();
        let written = serde_json::to_value(&write.event).unwrap();
        assert_eq!(write.patch, None);
        assert_eq!(
            written,
            json!({
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": "a.17979cfe362a0000", "namespace": "default"},
                "involvedObject": {"kind": "Node", "name": "a"},
                "reason": "Reason",
                "message": "text",
                "source": {"component": "karpenter"},
                "reportingComponent": "karpenter",
                "reportingInstance": "",
                "firstTimestamp": "2023-11-14T22:13:20Z",
                "lastTimestamp": "2023-11-14T22:13:20Z",
                "count": 1,
                "type": "Normal",
            })
        );
    }

    #[test]
    fn a_repeated_event_increments_its_count() {
        let mut correlator = Correlator::default();
        let first = correlator.correlate(&event("a", "text"), at(0)).unwrap();
        let second = correlator.correlate(&event("a", "text"), at(5)).unwrap();
        let patch = json!({"count": 2, "lastTimestamp": "2023-11-14T22:13:25Z", "message": "text"});
        assert_eq!(second.patch, Some(patch));
        assert_eq!(second.event.metadata, first.event.metadata);
        assert_eq!(second.event.first_timestamp, first.event.first_timestamp);
    }

    #[test]
    fn similar_events_are_aggregated_into_one() {
        let mut correlator = Correlator::default();
        let mut write = |n: i64, seconds| {
            let write = correlator.correlate(&event("a", &format!("text {n}")), at(seconds));
            let write = write.unwrap();
            (write.event.message.unwrap(), write.event.count.unwrap())
        };
        for n in 0..9 {
            assert_eq!(write(n, 0), (format!("text {n}"), 1));
        }
        let combined = |n| format!("(combined from similar events): text {n}");
        assert_eq!(write(9, 1), (combined(9), 1));
        assert_eq!(write(10, 2), (combined(10), 2));
        assert_eq!(write(11, 700), ("text 11".to_owned(), 1), "after ten quiet minutes");
    }

    #[test]
    fn events_of_one_object_are_rate_limited() {
        let mut correlator = Correlator::default();
        let same = event("a", "text");
        let written = (0..100).filter(|_| correlator.correlate(&same, at(0)).is_some()).count();
        assert_eq!(written, 25);
        assert!(correlator.correlate(&event("b", "text"), at(0)).is_some(), "others go on");
        assert!(correlator.correlate(&same, at(299)).is_none());
        let later = correlator.correlate(&same, at(300)).unwrap();
        assert_eq!(later.event.count, Some(102), "what was cut off is counted");
    }

    #[test]
    fn event_names_are_valid_and_unique_within_one_instant() {
        let mut correlator = Correlator::default();
        let mut name = |object: &str, text: &str| {
            let write = correlator.correlate(&event(object, text), at(0)).unwrap();
            write.event.metadata.name.unwrap()
        };
        assert_ne!(name("a", "one"), name("a", "two"));
        assert!(name("Not_A_Name", "one").starts_with("karpenter.1"));
    }

    #[test]
    fn correlator_memory_is_bounded() {
        let mut correlator = Correlator::default();
        for n in 0..MAX_CACHE_ENTRIES + 50 {
            correlator.correlate(&event(&n.to_string(), "text"), at(0));
        }
        let sizes = [
            correlator.aggregates.entries.len(),
            correlator.recorded.entries.len(),
            correlator.buckets.keys_by_use.len(),
        ];
        assert_eq!(sizes, [MAX_CACHE_ENTRIES; 3]);
    }
}
