//! Watches send the changes of objects to clients as they happen.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{self, Either};
use futures_util::stream::{self, Stream};
use http::StatusCode;
use serde_json::{Value, json};

use crate::api::{ApiResponse, Body, ResourceRequest, SharedState, State};
use crate::projection;
use crate::registry::ServedResource;
use crate::request::Projection;
use crate::selectors::ObjectSelector;
use crate::status::StatusError;
use crate::store::{Change, LatestChange, ObjectKey, Receiver, StoredObject, VersionTooOld};
use crate::verbs::list::parse_selector;
use crate::verbs::options;

/// The interval of bookmarks, for clients that request them.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);

/// How long a watch lasts when the client does not say; the real one draws 30 to 60 minutes.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);

/// The longest watch, whatever the client says: time can be reckoned with it.
const TIMEOUT_MAX: Duration = Duration::from_hours(24);

/// How much is taken out of the store at once: the lock is held shortly, and a client that stops
/// reading keeps no more than that.
const BATCH: usize = 64;

/// A watch that is to be answered.
#[derive(Debug)]
pub(crate) struct Watch {
    shared: Arc<SharedState>,
    served: Arc<ServedResource>,
    projection: Projection,
    namespace: String,
    selector: ObjectSelector,
    /// The events that the client must receive before the changes.
    phase: WatchPhase,
    /// The last version that the client knows of.
    version: u64,
    latest_change: Receiver<Arc<LatestChange>>,
    bookmarks: bool,
    timeout: Duration,
    /// Whether column names have been sent: the first row of a table has them.
    has_sent_columns: bool,
}

#[derive(Debug)]
enum WatchPhase {
    /// The objects at the first version, after this key. They are read as the client reads: one
    /// list of all objects for each slow client would exhaust the memory.
    InitialObjects {
        after: Option<ObjectKey>,
        /// Whether the client wants a bookmark after the initial objects.
        sends_end_bookmark: bool,
    },
    Failed(Box<StatusError>),
    Changes,
}

/// The next event for the client.
#[derive(Debug)]
enum WatchEvent {
    Object(&'static str, Arc<StoredObject>),
    /// The same, of the last change.
    Latest(&'static str, Arc<LatestChange>),
    /// The object is no longer selected: the client receives its old state.
    LeftSelection(Arc<Change>),
    InitialEventsEnd,
    Bookmark,
}

/// The result of reading the last change without the store.
enum LatestChangeOutcome {
    Nothing,
    Event(WatchEvent),
    /// There are more changes than the last one.
    ReadStore,
}

pub(crate) fn watch(
    shared: &Arc<SharedState>,
    state: &mut State,
    call: &ResourceRequest,
) -> Result<ApiResponse, StatusError> {
    let query = &call.request.query;
    let selector = parse_selector(call)?;
    options::check_watch(query)?;
    let wanted = options::version(query)?;
    let newest_version = state.store.version();
    let initial =
        if query.has("sendInitialEvents") { query.flag("sendInitialEvents") } else { wanted == 0 };
    let table = state.store.table(&call.served.id);
    let namespace = call.target.namespace.clone();

    let version = if wanted == 0 || initial { newest_version } else { wanted.min(newest_version) };
    let phase = if initial {
        WatchPhase::InitialObjects {
            after: None,
            sends_end_bookmark: query.flag("sendInitialEvents"),
        }
    } else if table.changes_after(version).is_err() {
        WatchPhase::Failed(Box::new(too_old(version, newest_version)))
    } else {
        WatchPhase::Changes
    };
    let latest_change = table.subscribe();
    let seconds = query.number("timeoutSeconds")?.and_then(|seconds| u64::try_from(seconds).ok());
    let watch = Watch {
        shared: shared.clone(),
        served: call.served.clone(),
        projection: call.projection,
        namespace,
        selector,
        phase,
        version,
        latest_change,
        bookmarks: query.flag("allowWatchBookmarks"),
        timeout: seconds
            .filter(|seconds| *seconds > 0)
            .map_or(DEFAULT_TIMEOUT, |seconds| Duration::from_secs(seconds).min(TIMEOUT_MAX)),
        has_sent_columns: false,
    };
    Ok(ApiResponse::new(StatusCode::OK, Body::Watch(Box::new(watch))))
}

fn too_old(version: u64, oldest: u64) -> StatusError {
    StatusError::expired(format!("too old resource version: {version} ({oldest})"))
}

type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Watch {
    /// The events as they go over the wire, one line each. Ends at the timeout, or with an error
    /// event when the client is too far behind.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Bytes> + Send {
        let environment = self.shared.environment.clone();
        let end = environment.sleep(self.timeout);
        let bookmark = environment.sleep(BOOKMARK_INTERVAL);
        let running =
            WatchStream { watch: self, ready: VecDeque::new(), end, bookmark, is_finished: false };
        stream::unfold(running, |mut running| async move {
            let line = running.next().await?;
            Some((line, running))
        })
    }

    fn event(&mut self, kind: &str, stored: &StoredObject) -> Bytes {
        let now = self.shared.environment.now();
        let object = projection::project_event_object(
            &self.served,
            self.projection,
            stored,
            &mut self.has_sent_columns,
            now,
        );
        event_line(kind, &object)
    }

    fn line(&mut self, event: &WatchEvent) -> Bytes {
        match event {
            WatchEvent::Object(kind, stored) => self.event(kind, stored),
            WatchEvent::Latest(kind, latest) if self.projection == Projection::Full => {
                let object = || projection::full_object(&self.served, &latest.change.new);
                latest.event_line(kind, &self.served.type_meta, || event_line(kind, &object()))
            }
            WatchEvent::Latest(kind, latest) => self.event(kind, &latest.change.new),
            WatchEvent::LeftSelection(change) => {
                let known = change.old.as_ref().unwrap_or(&change.new);
                self.event("DELETED", &known.at_version(change.version))
            }
            WatchEvent::InitialEventsEnd => self.bookmark(true),
            WatchEvent::Bookmark => self.bookmark(false),
        }
    }

    /// An object with nothing but a version.
    fn bookmark(&self, initial_end: bool) -> Bytes {
        let mut object = json!({
            "kind": &*self.served.resource.kind,
            "apiVersion": self.served.api_version(),
            "metadata": {"resourceVersion": self.version.to_string()},
        });
        if initial_end {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        line(&json!({"type": "BOOKMARK", "object": object}))
    }

    /// Returns the next event, if the last change alone determines it.
    fn next_from_latest_change(&mut self) -> LatestChangeOutcome {
        let latest = self.latest_change.latest();
        if !matches!(self.phase, WatchPhase::Changes) {
            return LatestChangeOutcome::ReadStore;
        }
        let Some(latest) = latest.filter(|latest| latest.change.version > self.version) else {
            return LatestChangeOutcome::Nothing;
        };
        if latest.previous > self.version {
            return LatestChangeOutcome::ReadStore;
        }
        self.version = latest.change.version;
        match self.event_for_change(latest.change.clone()) {
            None => LatestChangeOutcome::Nothing,
            Some(WatchEvent::Object(kind, _)) => {
                LatestChangeOutcome::Event(WatchEvent::Latest(kind, latest))
            }
            Some(event) => LatestChangeOutcome::Event(event),
        }
    }

    /// Returns the next events from the store, and whether there may be more. They are a part of
    /// the initial objects, or of the changes since.
    fn next_from_store(&mut self) -> Result<(VecDeque<WatchEvent>, bool), VersionTooOld> {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        let newest = state.store.version();
        let table = state.store.table(&self.served.id);
        match &mut self.phase {
            WatchPhase::InitialObjects { after, sends_end_bookmark } => {
                let page =
                    table.range_at_version(self.version, &self.namespace, after.as_ref(), BATCH)?;
                let is_last = page.len() < BATCH;
                *after = page.last().map(|(key, _)| key.clone());
                let selected =
                    page.into_iter().filter(|(key, stored)| self.selector.matches(key, stored));
                let mut events: VecDeque<_> =
                    selected.map(|(_, stored)| WatchEvent::Object("ADDED", stored)).collect();
                if is_last {
                    events.extend(sends_end_bookmark.then_some(WatchEvent::InitialEventsEnd));
                    self.phase = WatchPhase::Changes;
                }
                Ok((events, true))
            }
            WatchPhase::Failed(_) | WatchPhase::Changes => {
                let changes: Vec<_> =
                    table.changes_after(self.version)?.take(BATCH).cloned().collect();
                let is_full = changes.len() == BATCH;
                self.version = match changes.last() {
                    Some(last) if is_full => last.version,
                    _ => newest,
                };
                drop(state);
                Ok((
                    changes
                        .into_iter()
                        .filter_map(|change| self.event_for_change(change))
                        .collect(),
                    is_full,
                ))
            }
        }
    }

    /// Returns the event of a change for a client with this selector.
    fn event_for_change(&self, change: Arc<Change>) -> Option<WatchEvent> {
        let selects = |stored: &StoredObject| {
            change.key.is_in(&self.namespace) && self.selector.matches(&change.key, stored)
        };
        let before = change.old.as_ref().is_some_and(|old| selects(old));
        let now = !change.removed && selects(&change.new);
        match (before, now) {
            (false, true) => Some(WatchEvent::Object("ADDED", change.new.clone())),
            (true, true) => Some(WatchEvent::Object("MODIFIED", change.new.clone())),
            (true, false) if change.removed => {
                Some(WatchEvent::Object("DELETED", change.new.clone()))
            }
            (true, false) => Some(WatchEvent::LeftSelection(change)),
            (false, false) => None,
        }
    }
}

fn event_line(kind: &str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + 40);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(kind.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    line.into()
}

fn line(value: &Value) -> Bytes {
    format!("{value}\n").into()
}

fn error(failure: &StatusError) -> Bytes {
    line(&json!({"type": "ERROR", "object": failure.to_value()}))
}

/// A watch with its timers, as a stream of events.
struct WatchStream {
    watch: Watch,
    ready: VecDeque<WatchEvent>,
    end: Timer,
    bookmark: Timer,
    is_finished: bool,
}

impl WatchStream {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(self.watch.line(&event));
            }
            if self.is_finished {
                return None;
            }
            if let WatchPhase::Failed(failure) = &self.watch.phase {
                self.is_finished = true;
                return Some(error(failure));
            }
            // The last change is marked as seen before the store is read, so that no later change
            // is missed.
            let before = self.watch.version;
            let more = match self.watch.next_from_latest_change() {
                LatestChangeOutcome::Nothing => false,
                LatestChangeOutcome::Event(event) => {
                    self.ready.push_back(event);
                    false
                }
                LatestChangeOutcome::ReadStore => {
                    let Ok((events, more)) = self.watch.next_from_store() else {
                        self.is_finished = true;
                        return Some(error(&too_old(before, before)));
                    };
                    self.ready = events;
                    more
                }
            };
            if self.ready.is_empty() && !more {
                self.wait().await;
            } else if (&mut self.end).now_or_never().is_some() {
                // There may always be another event; the watch has reached its timeout
                // nevertheless.
                self.is_finished = true;
            }
        }
    }

    /// Until there is something new, a bookmark is due, or the time is up.
    async fn wait(&mut self) {
        let is_bookmark_due = {
            let changed = pin!(self.watch.latest_change.changed());
            let timers = future::select(&mut self.end, &mut self.bookmark);
            match future::select(changed, timers).await {
                Either::Left((Ok(()), _)) => false,
                // The table is gone with its API.
                Either::Left((Err(_), _)) | Either::Right((Either::Left(_), _)) => {
                    self.is_finished = true;
                    false
                }
                Either::Right((Either::Right(_), _)) => true,
            }
        };
        if is_bookmark_due {
            self.bookmark = self.watch.shared.environment.sleep(BOOKMARK_INTERVAL);
            // Versions go on without this resource, too: the store knows how far.
            if self.watch.bookmarks
                && let Ok((events, _)) = self.watch.next_from_store()
            {
                self.ready = events;
                self.ready.push_back(WatchEvent::Bookmark);
            }
        }
    }
}

#[cfg(test)]
mod tests;
