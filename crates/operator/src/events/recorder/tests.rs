//! The recorder on the embedded API, in virtual time.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Request};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use karpenter_apiserver::testing::environment::TestEnvironment;
use kube::api::{DeleteParams, ListParams};
use kube::client::Body;
use tower::{ServiceExt as _, service_fn};

use super::*;
use crate::clock::TokioClock;
use crate::events::Severity;

struct Fixture {
    client: Client,
    clock: Arc<dyn Clock>,
    tasks: Tasks,
    recorder: EventRecorder,
}

impl Fixture {
    /// The first so many writes of events get no answer.
    fn new(without_answer: usize) -> Self {
        let api = karpenter_apiserver::Api::new(Arc::new(TestEnvironment::default()));
        let tried = Arc::new(AtomicUsize::new(0));
        let service = service_fn(move |request: Request<Body>| {
            let is_write = request.method() != Method::GET;
            let fails = is_write && tried.fetch_add(1, Ordering::Relaxed) < without_answer;
            let answer = api.service().oneshot(request);
            async move {
                if fails {
                    return Err(std::io::Error::other("connection reset"));
                }
                Ok(answer.await.expect("the embedded API always answers"))
            }
        });
        let client = Client::new(service, "default");
        let start = Timestamp::from_second(1_700_000_000).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(start));
        let tasks = Tasks::new();
        let recorder = EventRecorder::start(client.clone(), clock.clone(), &tasks);
        Self { client, clock, tasks, recorder }
    }

    fn api(&self) -> Api<ApiEvent> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn events(&self) -> Vec<ApiEvent> {
        self.clock.sleep(Duration::from_millis(100)).await;
        self.api().list(&ListParams::default()).await.unwrap().items
    }
}

fn event(message: &str) -> Event {
    let object = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some("a".to_owned()),
        uid: Some("1".to_owned()),
        ..ObjectReference::default()
    };
    Event::new(object, Severity::Warning, "Reason", message, [""; 0])
}

#[tokio::test(start_paused = true)]
async fn events_are_written_and_counted() {
    let world = Fixture::new(0);
    for _ in 0..3 {
        world.recorder.publish(event("text"));
    }
    let events = world.events().await;
    let seen: Vec<_> = events.iter().map(|e| (e.message.as_deref(), e.count)).collect();
    assert_eq!(seen, [(Some("text"), Some(3))]);
    assert_eq!(events[0].involved_object.uid.as_deref(), Some("1"));
    world.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_expired_event_is_created_again() {
    let world = Fixture::new(0);
    world.recorder.publish(event("text"));
    let name = world.events().await[0].metadata.name.clone().unwrap();
    world.api().delete(&name, &DeleteParams::default()).await.unwrap();
    world.recorder.publish(event("text"));
    let events = world.events().await;
    let seen: Vec<_> = events.iter().map(|e| (e.metadata.name.as_deref(), e.count)).collect();
    assert_eq!(seen, [(Some(name.as_str()), Some(2))]);
    world.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn event_writes_are_retried_until_the_api_server_answers() {
    let world = Fixture::new(2);
    world.recorder.publish(event("text"));
    assert!(world.events().await.is_empty());
    world.clock.sleep(Duration::from_secs(30)).await;
    assert_eq!(world.events().await.len(), 1);
    world.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn publish_does_not_block_when_the_queue_is_full() {
    let world = Fixture::new(usize::MAX);
    for n in 0..QUEUE_CAPACITY * 2 {
        world.recorder.publish(event(&n.to_string()));
    }
    let Sink::Queue(queue) = &world.recorder.0.sink else { panic!("it writes") };
    assert_eq!(queue.capacity(), 0);
    world.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_in_memory_recorder_keeps_published_events() {
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
    let (recorder, published) = EventRecorder::in_memory(clock);
    let same = Event { dedupe_values: vec!["1".to_owned()], ..event("text") };
    recorder.publish_all([same.clone(), same.clone()]);
    assert_eq!(published.take(), [same]);
    assert!(published.all().is_empty());
}
