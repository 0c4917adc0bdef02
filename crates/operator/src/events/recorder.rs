//! The recorder: publishes from anywhere, writes from one task.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Event as ApiEvent;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tracing::{debug, warn};

use super::Event;
use super::correlator::{Correlator, EventWrite};
use super::dedupe::DedupeFilter;
use crate::clock::Clock;
use crate::harness::tasks::Tasks;

/// The most events that wait to be written. When the queue is full, new events are dropped.
const QUEUE_CAPACITY: usize = 1000;

/// The most attempts to write an event if the API server does not answer, with these pauses.
const MAX_ATTEMPTS: usize = 12;
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// The most events that an in-memory recorder keeps.
const MAX_EVENTS_IN_MEMORY: usize = 100_000;

/// Publishes events. Clones share one recorder.
#[derive(Clone)]
pub struct EventRecorder(Arc<Inner>);

struct Inner {
    clock: Arc<dyn Clock>,
    filter: Mutex<DedupeFilter>,
    sink: Sink,
}

enum Sink {
    Queue(Sender<Event>),
    Memory(PublishedEvents),
}

/// The events that an in-memory recorder has published, oldest first.
#[derive(Clone, Debug, Default)]
pub struct PublishedEvents(Arc<Mutex<VecDeque<Event>>>);

impl PublishedEvents {
    /// The events so far.
    pub fn all(&self) -> Vec<Event> {
        self.lock().iter().cloned().collect()
    }

    /// The events since the last call.
    pub fn take(&self) -> Vec<Event> {
        self.lock().drain(..).collect()
    }

    fn push(&self, event: Event) {
        let mut events = self.lock();
        if events.len() >= MAX_EVENTS_IN_MEMORY {
            events.pop_front();
        }
        events.push_back(event);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Event>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventRecorder {
    /// One that writes to the cluster, in a task of its own.
    pub fn start(client: Client, clock: Arc<dyn Clock>, tasks: &Tasks) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
        let writer =
            EventWriter { client, clock: clock.clone(), correlator: Correlator::default() };
        tasks.spawn("events", writer.run(receiver));
        Self::new(clock, Sink::Queue(sender))
    }

    /// One that keeps what it lets through, for tests.
    pub fn in_memory(clock: Arc<dyn Clock>) -> (Self, PublishedEvents) {
        let published = PublishedEvents::default();
        (Self::new(clock, Sink::Memory(published.clone())), published)
    }

    fn new(clock: Arc<dyn Clock>, sink: Sink) -> Self {
        Self(Arc::new(Inner { clock, filter: Mutex::default(), sink }))
    }

    /// Publishes an event, unless the same one was published lately. It never waits.
    pub fn publish(&self, event: Event) {
        let Inner { clock, filter, sink } = &*self.0;
        let mut filter = filter.lock().unwrap_or_else(PoisonError::into_inner);
        if !filter.admits(&event, clock.now()) {
            return;
        }
        drop(filter);
        match sink {
            Sink::Memory(published) => published.push(event),
            Sink::Queue(queue) => {
                if let Err(lost) = queue.try_send(event) {
                    let event = lost.into_inner();
                    debug!(reason = %event.reason, "lost an event, as too many wait");
                }
            }
        }
    }

    /// Publishes several events.
    pub fn publish_all(&self, events: impl IntoIterator<Item = Event>) {
        events.into_iter().for_each(|event| self.publish(event));
    }
}

impl fmt::Debug for EventRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0.sink {
            Sink::Queue(_) => "Recorder",
            Sink::Memory(_) => "Recorder(in memory)",
        })
    }
}

struct EventWriter {
    client: Client,
    clock: Arc<dyn Clock>,
    correlator: Correlator,
}

impl EventWriter {
    async fn run(mut self, mut queue: Receiver<Event>) {
        while let Some(event) = queue.recv().await {
            if let Some(write) = self.correlator.correlate(&event, self.clock.now()) {
                self.write(&write).await;
            }
        }
    }

    /// Writes until the API server has answered, whatever it answered.
    async fn write(&self, write: &EventWrite) {
        for _ in 0..MAX_ATTEMPTS {
            match self.write_once(write).await {
                Ok(()) => return,
                Err(kube::Error::Api(status)) => {
                    // The object's namespace may be going, and events with it.
                    warn!(reason = ?write.event.reason, error = %status, "event was refused");
                    return;
                }
                Err(error) => {
                    debug!(error = %error, "cannot write an event, trying again");
                    self.clock.sleep(RETRY_INTERVAL).await;
                }
            }
        }
        warn!(reason = ?write.event.reason, "gave up on an event, as the API server is not there");
    }

    async fn write_once(&self, write: &EventWrite) -> kube::Result<()> {
        let EventWrite { event, patch } = write;
        let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<ApiEvent> = Api::namespaced(self.client.clone(), namespace);
        if let Some(patch) = patch {
            let name = event.metadata.name.as_deref().unwrap_or_default();
            let params = PatchParams::default();
            match api.patch(name, &params, &Patch::Strategic(patch)).await {
                // It has been too long: the API server keeps events for an hour.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                result => return result.map(drop),
            }
        }
        api.create(&PostParams::default(), event).await.map(drop)
    }
}

#[cfg(test)]
mod tests;
