//! Injects faults into a watch: lines come late, twice, in another order, or stop.
//!
//! Only events of different objects change places, and none stays away: before a watch ends, what
//! was held back is sent. So a client that resumes where it was misses nothing, and one that
//! compares versions within an object is never misled.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::future::{self, Either};
use futures_util::stream;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use jiff::Timestamp;
use karpenter_operator::rng::SeededRng;
use serde::Deserialize;

use super::layer::{BoxError, LayerState, ResponseBody, connection_error};

/// How long a held-back event waits for an event to overtake it.
const REORDER_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest line read as one; a longer one is forwarded in pieces.
const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;

/// Returns the body of a watch, with the faults active when each event passes.
pub(super) fn faulty_watch_body<B>(
    body: B,
    shared: Arc<LayerState>,
    rng: SeededRng,
    call: String,
) -> ResponseBody
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let watch = Watch {
        lines: LineReader { body: Box::pin(body), buffer: BytesMut::new() },
        shared,
        rng,
        call,
        held: None,
        ready: VecDeque::new(),
        is_over: false,
    };
    let frames = stream::unfold(watch, async |mut watch: Watch<B>| {
        let next = watch.next().await?;
        Some((next.map(Frame::data), watch))
    });
    UnsyncBoxBody::new(StreamBody::new(Box::pin(frames)))
}

struct Watch<B> {
    lines: LineReader<B>,
    shared: Arc<LayerState>,
    rng: SeededRng,
    call: String,
    /// An event that waits to be overtaken.
    held: Option<HeldBackEvent>,
    ready: VecDeque<Result<Bytes, BoxError>>,
    is_over: bool,
}

struct HeldBackEvent {
    object: Object,
    line: Bytes,
    until: Timestamp,
}

/// Which object an event is about.
#[derive(Debug, PartialEq, Eq)]
struct Object {
    namespace: String,
    name: String,
}

impl<B> Watch<B>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        loop {
            if let Some(next) = self.ready.pop_front() {
                return Some(next);
            }
            if self.is_over {
                return None;
            }
            let line = match &self.held {
                None => Some(self.lines.next().await),
                Some(held) => {
                    let due = self.shared.clock.sleep_until(held.until);
                    match future::select(Box::pin(self.lines.next()), due).await {
                        Either::Left((line, _)) => Some(line),
                        Either::Right(_) => None,
                    }
                }
            };
            match line {
                None => self.release_held_back(),
                Some(Some(Ok(line))) => self.forward(line).await,
                Some(end) => {
                    self.release_held_back();
                    self.ready.extend(end);
                    self.is_over = true;
                }
            }
        }
    }

    /// Sends the held-back event, if there is one.
    fn release_held_back(&mut self) {
        self.ready.extend(self.held.take().map(|held| Ok(held.line)));
    }

    async fn forward(&mut self, line: Bytes) {
        let (Some(on), Some(object)) = (self.shared.switch.active_faults(), object_of(&line))
        else {
            // Bookmarks and errors say something about all that came before them.
            self.release_held_back();
            self.ready.push_back(Ok(line));
            return;
        };
        let faults = on.faults;
        let mut happens = |rate| self.rng.random_bool(rate);
        let is_cut = happens(faults.watch_cuts);
        let is_late = happens(faults.watch_delays.rate);
        let is_double = happens(faults.duplicates);
        let is_overtaken = happens(faults.reorders);
        let how = self.rng.range(0..3);
        if is_late {
            self.record("events late", &object);
            self.shared.clock.sleep(faults.watch_delays.by).await;
        }
        if is_cut {
            self.cut(how, &line, &object);
            return;
        }
        if self.held.as_ref().is_some_and(|held| held.object == object) {
            self.release_held_back();
        }
        if is_overtaken && self.held.is_none() {
            self.record("event held back", &object);
            let until =
                self.shared.clock.now().checked_add(REORDER_TIMEOUT).unwrap_or(Timestamp::MAX);
            self.held = Some(HeldBackEvent { object, line, until });
            return;
        }
        if is_double {
            self.record("event twice", &object);
            self.ready.push_back(Ok(line.clone()));
        }
        self.ready.push_back(Ok(line));
        self.release_held_back();
    }

    fn cut(&mut self, how: u64, line: &Bytes, object: &Object) {
        self.release_held_back();
        let fault = match how {
            0 => "watch ends",
            1 => {
                self.ready.push_back(Ok(line.slice(..line.len() / 2)));
                "watch ends in a line"
            }
            _ => {
                let kind = io::ErrorKind::ConnectionReset;
                self.ready.push_back(Err(connection_error(kind, "connection reset by peer")));
                "watch breaks"
            }
        };
        self.record(fault, object);
        self.is_over = true;
    }

    fn record(&self, fault: &'static str, object: &Object) {
        let Object { namespace, name } = object;
        self.shared.journal.record(fault, format!("{} at {namespace}/{name}", self.call));
    }
}

/// Returns the object of a watch event, if it has one.
fn object_of(line: &[u8]) -> Option<Object> {
    #[derive(Deserialize)]
    struct Event {
        #[serde(rename = "type")]
        kind: String,
        object: About,
    }
    #[derive(Deserialize)]
    struct About {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default)]
        namespace: String,
        name: String,
    }
    let event: Event = serde_json::from_slice(line).ok()?;
    let Metadata { namespace, name } = event.object.metadata;
    matches!(event.kind.as_str(), "ADDED" | "MODIFIED" | "DELETED")
        .then_some(Object { namespace, name })
}

/// Reads a response body line by line.
struct LineReader<B> {
    body: Pin<Box<B>>,
    buffer: BytesMut,
}

impl<B> LineReader<B>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    /// Nothing is lost when it is dropped before it is done.
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        let mut searched = 0;
        loop {
            let found = self.buffer[searched..].iter().position(|byte| *byte == b'\n');
            if let Some(at) = found {
                return Some(Ok(self.buffer.split_to(searched + at + 1).freeze()));
            }
            searched = self.buffer.len();
            if searched > MAX_LINE_BYTES {
                return Some(Ok(self.buffer.split().freeze()));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default();
                    self.buffer.extend_from_slice(&data);
                }
                Some(Err(error)) => return Some(Err(error.into())),
                None if self.buffer.has_remaining() => {
                    return Some(Ok(self.buffer.split().freeze()));
                }
                None => return None,
            }
        }
    }
}
