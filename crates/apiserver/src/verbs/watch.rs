//! Changes as they happen.

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

use crate::api::{Answer, Body, Call, Shared, State};
use crate::registry::Served;
use crate::request::Show;
use crate::selectors::Selection;
use crate::show;
use crate::status::Failure;
use crate::store::{Change, Key, Latest, Reader, Stored, TooOld};
use crate::verbs::list::selection;
use crate::verbs::options;

/// How often a client that likes bookmarks is told how far it has come.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);

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
    shared: Arc<Shared>,
    served: Arc<Served>,
    show: Show,
    namespace: String,
    selection: Selection,
    /// What the client still has to get before the changes.
    start: Start,
    /// The last version that the client knows of.
    version: u64,
    latest: Reader<Arc<Latest>>,
    bookmarks: bool,
    timeout: Duration,
    /// Whether column names have been sent: the first row of a table carries them.
    headed: bool,
}

#[derive(Debug)]
enum Start {
    /// What was there at the first version, after this key. It is looked up as the client reads:
    /// a list of all objects for each that does not would be the end of the memory.
    Objects {
        after: Option<Key>,
        /// Whether the client wants to be told that it has seen all.
        announced: bool,
    },
    Failed(Box<Failure>),
    Changes,
}

/// What goes to the client next.
#[derive(Debug)]
enum Event {
    Object(&'static str, Arc<Stored>),
    /// The same, of the last change.
    Latest(&'static str, Arc<Latest>),
    /// It left the selection: the client sees what it knew.
    Left(Arc<Change>),
    InitialEnd,
    Bookmark,
}

/// What the last change tells a watcher without the store.
enum Direct {
    Nothing,
    Event(Event),
    /// There was more than that change.
    AskStore,
}

pub(crate) fn watch(
    shared: &Arc<Shared>,
    state: &mut State,
    call: &Call,
) -> Result<Answer, Failure> {
    let query = &call.request.query;
    let selection = selection(call)?;
    options::check_watch(query)?;
    let wanted = options::version(query)?;
    let newest_version = state.store.version();
    let initial =
        if query.has("sendInitialEvents") { query.flag("sendInitialEvents") } else { wanted == 0 };
    let table = state.store.table(&call.served.id);
    let namespace = call.target.namespace.clone();

    let version = if wanted == 0 || initial { newest_version } else { wanted.min(newest_version) };
    let start = if initial {
        Start::Objects { after: None, announced: query.flag("sendInitialEvents") }
    } else if table.since(version).is_err() {
        Start::Failed(Box::new(too_old(version, newest_version)))
    } else {
        Start::Changes
    };
    let latest = table.subscribe();
    let seconds = query.number("timeoutSeconds")?.and_then(|seconds| u64::try_from(seconds).ok());
    let watch = Watch {
        shared: shared.clone(),
        served: call.served.clone(),
        show: call.show,
        namespace,
        selection,
        start,
        version,
        latest,
        bookmarks: query.flag("allowWatchBookmarks"),
        timeout: seconds
            .filter(|seconds| *seconds > 0)
            .map_or(DEFAULT_TIMEOUT, |seconds| Duration::from_secs(seconds).min(TIMEOUT_MAX)),
        headed: false,
    };
    Ok(Answer::new(StatusCode::OK, Body::Watch(Box::new(watch))))
}

fn too_old(version: u64, oldest: u64) -> Failure {
    Failure::expired(format!("too old resource version: {version} ({oldest})"))
}

type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Watch {
    /// The events as they go over the wire, one line each. Ends at the timeout, or with an error
    /// event when the client is too far behind.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Bytes> + Send {
        let environment = self.shared.environment.clone();
        let end = environment.sleep(self.timeout);
        let bookmark = environment.sleep(BOOKMARK_EVERY);
        let running = Running { watch: self, ready: VecDeque::new(), end, bookmark, over: false };
        stream::unfold(running, |mut running| async move {
            let line = running.next().await?;
            Some((line, running))
        })
    }

    fn event(&mut self, kind: &str, stored: &Stored) -> Bytes {
        let now = self.shared.environment.now();
        let object = show::event_object(&self.served, self.show, stored, &mut self.headed, now);
        event_line(kind, &object)
    }

    fn line(&mut self, event: &Event) -> Bytes {
        match event {
            Event::Object(kind, stored) => self.event(kind, stored),
            Event::Latest(kind, latest) if self.show == Show::Whole => {
                let object = || show::whole(&self.served, &latest.change.now);
                latest.line(kind, &self.served.type_meta, || event_line(kind, &object()))
            }
            Event::Latest(kind, latest) => self.event(kind, &latest.change.now),
            Event::Left(change) => {
                let known = change.old.as_ref().unwrap_or(&change.now);
                self.event("DELETED", &known.at(change.version))
            }
            Event::InitialEnd => self.bookmark(true),
            Event::Bookmark => self.bookmark(false),
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

    /// What is next, as far as the last change alone tells.
    fn direct(&mut self) -> Direct {
        let latest = self.latest.latest();
        if !matches!(self.start, Start::Changes) {
            return Direct::AskStore;
        }
        let Some(latest) = latest.filter(|latest| latest.change.version > self.version) else {
            return Direct::Nothing;
        };
        if latest.previous > self.version {
            return Direct::AskStore;
        }
        self.version = latest.change.version;
        match self.seen(latest.change.clone()) {
            None => Direct::Nothing,
            Some(Event::Object(kind, _)) => Direct::Event(Event::Latest(kind, latest)),
            Some(event) => Direct::Event(event),
        }
    }

    /// What is next, from the store: a part of what was there at the start, or of what has
    /// happened since; and whether there may be more.
    fn more(&mut self) -> Result<(VecDeque<Event>, bool), TooOld> {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        let newest = state.store.version();
        let table = state.store.table(&self.served.id);
        match &mut self.start {
            Start::Objects { after, announced } => {
                let page = table.range_at(self.version, &self.namespace, after.as_ref(), BATCH)?;
                let is_last = page.len() < BATCH;
                *after = page.last().map(|(key, _)| key.clone());
                let selected =
                    page.into_iter().filter(|(key, stored)| self.selection.selects(key, stored));
                let mut events: VecDeque<_> =
                    selected.map(|(_, stored)| Event::Object("ADDED", stored)).collect();
                if is_last {
                    events.extend(announced.then_some(Event::InitialEnd));
                    self.start = Start::Changes;
                }
                Ok((events, true))
            }
            Start::Failed(_) | Start::Changes => {
                let changes: Vec<_> = table.since(self.version)?.take(BATCH).cloned().collect();
                let is_full = changes.len() == BATCH;
                self.version = match changes.last() {
                    Some(last) if is_full => last.version,
                    _ => newest,
                };
                drop(state);
                Ok((changes.into_iter().filter_map(|change| self.seen(change)).collect(), is_full))
            }
        }
    }

    /// What a change is to a client that sees only what it selects.
    fn seen(&self, change: Arc<Change>) -> Option<Event> {
        let selects = |stored: &Stored| {
            change.key.is_in(&self.namespace) && self.selection.selects(&change.key, stored)
        };
        let before = change.old.as_ref().is_some_and(|old| selects(old));
        let now = !change.removed && selects(&change.now);
        match (before, now) {
            (false, true) => Some(Event::Object("ADDED", change.now.clone())),
            (true, true) => Some(Event::Object("MODIFIED", change.now.clone())),
            (true, false) if change.removed => Some(Event::Object("DELETED", change.now.clone())),
            (true, false) => Some(Event::Left(change)),
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

fn error(failure: &Failure) -> Bytes {
    line(&json!({"type": "ERROR", "object": failure.to_value()}))
}

/// A watch with its timers.
struct Running {
    watch: Watch,
    ready: VecDeque<Event>,
    end: Timer,
    bookmark: Timer,
    over: bool,
}

impl Running {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(self.watch.line(&event));
            }
            if self.over {
                return None;
            }
            if let Start::Failed(failure) = &self.watch.start {
                self.over = true;
                return Some(error(failure));
            }
            // The last change is marked as seen before the store is asked, so that nothing that
            // comes later is missed.
            let before = self.watch.version;
            let more = match self.watch.direct() {
                Direct::Nothing => false,
                Direct::Event(event) => {
                    self.ready.push_back(event);
                    false
                }
                Direct::AskStore => {
                    let Ok((events, more)) = self.watch.more() else {
                        self.over = true;
                        return Some(error(&too_old(before, before)));
                    };
                    self.ready = events;
                    more
                }
            };
            if self.ready.is_empty() && !more {
                self.wait().await;
            } else if (&mut self.end).now_or_never().is_some() {
                // There is always something to tell; the time is up nevertheless.
                self.over = true;
            }
        }
    }

    /// Until there is something new, a bookmark is due, or the time is up.
    async fn wait(&mut self) {
        let is_bookmark_due = {
            let changed = pin!(self.watch.latest.changed());
            let timers = future::select(&mut self.end, &mut self.bookmark);
            match future::select(changed, timers).await {
                Either::Left((Ok(()), _)) => false,
                // The table is gone with its API.
                Either::Left((Err(_), _)) | Either::Right((Either::Left(_), _)) => {
                    self.over = true;
                    false
                }
                Either::Right((Either::Right(_), _)) => true,
            }
        };
        if is_bookmark_due {
            self.bookmark = self.watch.shared.environment.sleep(BOOKMARK_EVERY);
            // Versions go on without this resource, too: the store knows how far.
            if self.watch.bookmarks
                && let Ok((events, _)) = self.watch.more()
            {
                self.ready = events;
                self.ready.push_back(Event::Bookmark);
            }
        }
    }
}

#[cfg(test)]
mod tests;
