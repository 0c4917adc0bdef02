//! Informers: the objects of one kind, kept up to date by list and watch.
//!
//! A reader of an [`Informer`] receives changes in one of two ways. Controllers share one informer
//! per kind and [subscribe](Informer::subscribe): the informer passes each change on as it arrives.
//! An actor of a simulated world has informers of its own, which share one [`Notifier`], and takes
//! the changes when it is ready for them:
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use futures_util::future::{self, Either};
//! # use k8s_openapi::api::core::v1::{Node, Pod};
//! # use karpenter_operator::clock::Clock;
//! # use karpenter_operator::watch::{Informer, Notifier};
//! async fn run(client: kube::Client, clock: Arc<dyn Clock>) {
//!     let notifier = Notifier::default();
//!     let pods: Informer<Pod> = Informer::new(kube::Api::all(client.clone()), &clock, &notifier);
//!     let nodes: Informer<Node> = Informer::new(kube::Api::all(client), &clock, &notifier);
//!     let watches = future::join(pods.run(), nodes.run());
//!     let work = async {
//!         loop {
//!             notifier.notified().await;
//!             if !(pods.is_synced() && nodes.is_synced()) {
//!                 continue;
//!             }
//!             for change in pods.take_changes() {
//!                 // `change.before` and `change.after` are `Option<Arc<Pod>>`.
//!             }
//!             // … then act on the cached objects: `nodes.get("", "node-a")`, `nodes.all()`.
//!         }
//!     };
//!     // Nothing is spawned: dropping this future ends the watches.
//!     future::select(Box::pin(watches), Box::pin(work)).await;
//! }
//! ```
//!
//! Everything here is ordered and not random: objects by name and namespace, one change per
//! object, and a fixed pause after an error. So a world on a virtual clock is repeatable.
//!
//! Invariant: between two calls of [`Informer::take_changes`] memory is bounded by the number of
//! objects, however many events there are.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use jiff::Timestamp;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource};
use tokio::sync::Notify;
use tracing::error;

use crate::client::error_chain;
use crate::clock::Clock;

mod handle;
mod index;
mod subscription;
#[cfg(test)]
mod tests;

pub use handle::InformerHandle;
pub use index::Index;
use subscription::Subscribers;
pub use subscription::{Subscription, WeakInformer};

/// The pause after an error, or after a watch that ended silently. Each further error doubles it.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);

/// The longest pause after an error, as in client-go.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// The page size of lists, as in client-go.
const LIST_PAGE_SIZE: u32 = 500;

/// Wakes a loop that waits for work. Several notifications before it runs wake it once.
#[derive(Clone, Debug, Default)]
pub struct Notifier(Arc<Notify>);

impl Notifier {
    /// Wakes the waiting loop, or the next one that waits.
    pub fn notify(&self) {
        self.0.notify_one();
    }

    /// Waits for the next notification; returns at once if one is pending.
    pub async fn notified(&self) {
        self.0.notified().await;
    }
}

/// Names an object of a kind. The namespace is empty for kinds without one.
///
/// Keys are in the order of their names, and of their namespaces only where these are equal: many
/// objects share a namespace, and comparing it first was a twentieth of the work of a scale-up.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The name.
    pub name: String,
    /// The namespace.
    pub namespace: String,
}

impl ObjectKey {
    /// The key of a name in a namespace.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The key of an object.
    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }
}

/// `namespace/name`, or the name alone.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

/// A change of an object since the last call of [`Informer::take_changes`]. At least one side is
/// present; if both are and their uids differ, the object was deleted and created again.
#[derive(Clone, Debug)]
pub struct Change<K> {
    /// Which object.
    pub key: ObjectKey,
    /// The object at the last call.
    pub before: Option<Arc<K>>,
    /// As it is now.
    pub after: Option<Arc<K>>,
}

/// All objects of one kind, or those that a selector leaves. Clones share them.
pub struct Informer<K> {
    api: Api<K>,
    params: WatchParams,
    clock: Arc<dyn Clock>,
    notifier: Notifier,
    relist_request: Notifier,
    transform: fn(&mut K),
    allows_unserved: bool,
    state: Arc<Mutex<State<K>>>,
    subscribers: Arc<Mutex<Subscribers<K>>>,
}

struct State<K> {
    /// Read on every event and in every reconcile; sorted only for callers that read all.
    objects: HashMap<ObjectKey, Arc<K>>,
    /// The objects changed since the last call, as they were then. Not kept for subscribers.
    before: BTreeMap<ObjectKey, Option<Arc<K>>>,
    is_shared: bool,
    /// The newest resource version that the watch has observed, older ones included.
    observed_version: u64,
    is_synced: bool,
    last_error: Option<String>,
    /// The last logged error.
    logged_error: Option<String>,
    failing_since: Option<Timestamp>,
}

impl<K> Informer<K>
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned,
{
    /// An informer that knows nothing until its [run](Self::run) runs.
    pub fn new(api: Api<K>, clock: &Arc<dyn Clock>, wake: &Notifier) -> Self {
        let state = State {
            objects: HashMap::new(),
            before: BTreeMap::new(),
            is_shared: false,
            observed_version: 0,
            is_synced: false,
            last_error: None,
            logged_error: None,
            failing_since: None,
        };
        Self {
            api,
            params: WatchParams::default(),
            clock: Arc::clone(clock),
            notifier: wake.clone(),
            relist_request: Notifier::default(),
            transform: |_| {},
            allows_unserved: false,
            state: Arc::new(Mutex::new(state)),
            subscribers: Arc::default(),
        }
    }

    /// An informer for [subscribers](Self::subscribe). It keeps no changes to be taken.
    pub fn shared(api: Api<K>, clock: &Arc<dyn Clock>) -> Self {
        let informer = Self::new(api, clock, &Notifier::default());
        informer.state().is_shared = true;
        informer
    }

    /// Sets a function that removes unread fields from every object, to save memory. The informer
    /// always removes managed fields.
    #[must_use]
    pub fn with_transform(mut self, transform: fn(&mut K)) -> Self {
        self.transform = transform;
        self
    }

    /// Allows that the server does not serve the kind: until it does, there are no objects. Without
    /// this the informer waits for the kind.
    #[must_use]
    pub fn allow_unserved(mut self) -> Self {
        self.allows_unserved = true;
        self
    }

    /// Lists only objects with these labels, written as in `kubectl --selector`.
    #[must_use]
    pub fn with_label_selector(mut self, selector: &str) -> Self {
        self.params = self.params.labels(selector);
        self
    }

    /// Lists only objects with these fields, written as in `kubectl --field-selector`.
    #[must_use]
    pub fn with_field_selector(mut self, selector: &str) -> Self {
        self.params = self.params.fields(selector);
        self
    }

    /// Where the objects are listed and watched.
    pub fn api(&self) -> &Api<K> {
        &self.api
    }

    /// Whether the objects have been listed once.
    pub fn is_synced(&self) -> bool {
        self.state().is_synced
    }

    /// The object of that name; the namespace is empty for kinds without one.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.state().objects.get(&ObjectKey::new(namespace, name)).cloned()
    }

    /// All objects, by name and namespace.
    pub fn all(&self) -> Vec<Arc<K>> {
        let mut all: Vec<Arc<K>> = self.state().objects.values().cloned().collect();
        // No other thread waits for the sort: it is most of the work.
        all.sort_unstable_by(|a, b| sort_key(a.as_ref()).cmp(&sort_key(b.as_ref())));
        all
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.state().objects.len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the changes since the last call, one per object, by name and namespace. The first
    /// call returns all objects. For one reader: a change is returned once.
    pub fn take_changes(&self) -> Vec<Change<K>> {
        let mut state = self.state();
        let before = std::mem::take(&mut state.before);
        let changes = before.into_iter().map(|(key, before)| {
            let after = state.objects.get(&key).cloned();
            Change { key, before, after }
        });
        changes.filter(|change| change.before.is_some() || change.after.is_some()).collect()
    }

    /// Applies the object that a write returned, so that the writer need not wait for the watch.
    /// Objects that the watch has delivered already, or delivers again, do no harm.
    pub fn apply_write_result(&self, object: K) {
        let mut state = self.state();
        let key = ObjectKey::of(&object);
        let is_change = version_number(&object) > state.observed_version
            && state.objects.get(&key).is_none_or(|known| is_newer(&object, known.as_ref()));
        if is_change {
            let change = state.set(key, Some(self.transformed(object)));
            drop(state);
            self.notify_subscribers([change]);
        }
    }

    /// Applies the deletion by a write, as [`Self::apply_write_result`] does for an update.
    pub fn apply_deletion(&self, key: &ObjectKey) {
        let mut state = self.state();
        if state.objects.contains_key(key) {
            let change = state.set(key.clone(), None);
            drop(state);
            self.notify_subscribers([change]);
        }
    }

    /// Lists all objects again, soon. For callers that suspect a stale cache.
    pub fn relist(&self) {
        self.relist_request.notify();
    }

    /// Why the last list or watch ended, until the next list that succeeds.
    pub fn last_error(&self) -> Option<String> {
        self.state().last_error.clone()
    }

    /// Lists and watches until the future is dropped.
    pub async fn run(&self) -> Infallible {
        let mut pause = INITIAL_BACKOFF;
        loop {
            let Err(error) = self.list_and_watch(&mut pause).await;
            if self.allows_unserved && is_kind_unserved(&error) {
                self.replace(BTreeMap::new(), 0);
                self.state().last_error = Some(error_chain(&error));
                pause = MAX_BACKOFF;
            } else {
                self.record_failure(&error);
            }
            self.clock.sleep(pause).await;
            pause = (pause * 2).min(MAX_BACKOFF);
        }
    }

    /// Records a list or watch failure; logs once per persistent cause. Watches end now and then,
    /// so the first failure is not logged. Before the first sync other components report the error.
    fn record_failure(&self, error: &kube::Error) {
        let text = error_chain(error);
        let mut state = self.state();
        let is_lasting = state.is_synced && state.failing_since.is_some();
        state.failing_since.get_or_insert(self.clock.now());
        if is_lasting && state.logged_error.as_ref() != Some(&text) {
            let url = self.api.resource_url();
            error!(url, error = text, "cannot list or watch, going on with what is known");
            state.logged_error = Some(text.clone());
        }
        state.last_error = Some(text);
    }

    /// Since when nothing could be listed or watched, if that is so.
    pub fn failing_since(&self) -> Option<Timestamp> {
        self.state().failing_since
    }

    async fn list_and_watch(&self, pause: &mut Duration) -> Result<Infallible, kube::Error> {
        let mut version = self.list().await?;
        loop {
            let mut events = pin!(self.api.watch(&self.params, &version).await?);
            let mut is_silent = true;
            loop {
                // Events come first, so a list never replaces an object of a later event.
                let next = match select(events.next(), pin!(self.relist_request.notified())).await {
                    Either::Left((next, _)) => next,
                    Either::Right(_) => {
                        version = self.list().await?;
                        is_silent = false;
                        None
                    }
                };
                let Some(event) = next else { break };
                is_silent = false;
                let event = event?;
                *pause = INITIAL_BACKOFF;
                match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        version = resource_version(&object);
                        self.apply_upsert(object);
                    }
                    WatchEvent::Deleted(object) => {
                        version = resource_version(&object);
                        self.apply_delete_event(&object);
                    }
                    WatchEvent::Bookmark(bookmark) => {
                        version = bookmark.metadata.resource_version;
                        self.state().observe_version(parse_version(&version));
                    }
                    WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
                }
            }
            // The server ended the watch, as it does after some minutes. One that does so at once
            // must not be started again at once.
            if is_silent {
                self.clock.sleep(INITIAL_BACKOFF).await;
            }
        }
    }

    /// Replaces the cache with a list. Returns its resource version.
    async fn list(&self) -> Result<String, kube::Error> {
        let mut params = ListParams {
            label_selector: self.params.label_selector.clone(),
            field_selector: self.params.field_selector.clone(),
            limit: Some(LIST_PAGE_SIZE),
            ..ListParams::default()
        };
        let mut found = BTreeMap::new();
        loop {
            let page = self.api.list(&params).await?;
            for object in page.items {
                found.insert(ObjectKey::of(&object), self.transformed(object));
            }
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                let version = page.metadata.resource_version.unwrap_or_default();
                self.replace(found, parse_version(&version));
                return Ok(version);
            }
        }
    }

    fn replace(&self, found: BTreeMap<ObjectKey, K>, version: u64) {
        let mut state = self.state();
        // Versions only grow, unless the server was set back to an older state: then all that is
        // known is of a time that never was.
        let is_set_back = version != 0 && version < state.observed_version;
        if is_set_back {
            state.observed_version = 0;
        }
        let is_final = is_set_back || version == 0;
        let gone = state.objects.iter().filter(|(key, known)| {
            // An object that a write returned after the list is not in it.
            !found.contains_key(*key) && (is_final || version_number(known.as_ref()) <= version)
        });
        let mut gone: Vec<_> = gone.map(|(key, _)| key.clone()).collect();
        gone.sort_unstable();
        let mut changes: Vec<_> = gone.into_iter().map(|key| state.set(key, None)).collect();
        for (key, object) in found {
            let known = state.objects.get(&key);
            let is_change = known.is_none_or(|known| {
                is_set_back
                    || (resource_version(known.as_ref()) != resource_version(&object)
                        && !is_newer(known.as_ref(), &object))
            });
            if is_change {
                changes.push(state.set(key, Some(object)));
            }
        }
        state.observe_version(version);
        state.is_synced = true;
        (state.last_error, state.logged_error, state.failing_since) = (None, None, None);
        drop(state);
        self.notify_subscribers(changes);
    }

    fn apply_upsert(&self, object: K) {
        let key = ObjectKey::of(&object);
        let mut state = self.state();
        state.observe_version(version_number(&object));
        let known = state.objects.get(&key);
        // The watch delivers a write result again, or an older version.
        if known.is_none_or(|known| {
            !is_newer(known.as_ref(), &object)
                && resource_version(known.as_ref()) != resource_version(&object)
        }) {
            let change = state.set(key, Some(self.transformed(object)));
            drop(state);
            self.notify_subscribers([change]);
        }
    }

    fn apply_delete_event(&self, object: &K) {
        let key = ObjectKey::of(object);
        let mut state = self.state();
        state.observe_version(version_number(object));
        if state.objects.get(&key).is_some_and(|known| !is_newer(known.as_ref(), object)) {
            let change = state.set(key, None);
            drop(state);
            self.notify_subscribers([change]);
        }
    }

    fn transformed(&self, mut object: K) -> K {
        // Half of a pod's bytes, and of no use to any reader.
        object.meta_mut().managed_fields = None;
        (self.transform)(&mut object);
        object
    }

    fn notify_subscribers(&self, changes: impl IntoIterator<Item = Change<K>>) {
        let subscribers = lock(&self.subscribers).all();
        if !subscribers.is_empty() {
            for change in changes {
                for subscriber in &subscribers {
                    subscriber(&change);
                }
            }
        }
        self.notifier.notify();
    }
}

impl<K> Informer<K> {
    fn state(&self) -> MutexGuard<'_, State<K>> {
        lock(&self.state)
    }
}

/// Whether the error means that the server does not serve the kind.
fn is_kind_unserved(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it is held, and each change is complete in itself.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: Resource> State<K> {
    fn observe_version(&mut self, version: u64) {
        self.observed_version = self.observed_version.max(version);
    }

    fn set(&mut self, key: ObjectKey, object: Option<K>) -> Change<K> {
        let after = object.map(Arc::new);
        let before = match &after {
            Some(object) => self.objects.insert(key.clone(), object.clone()),
            None => self.objects.remove(&key),
        };
        if !self.is_shared {
            self.before.entry(key.clone()).or_insert_with(|| before.clone());
        }
        Change { key, before, after }
    }
}

impl<K: Clone> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self {
            api: self.api.clone(),
            params: self.params.clone(),
            clock: Arc::clone(&self.clock),
            notifier: self.notifier.clone(),
            relist_request: self.relist_request.clone(),
            transform: self.transform,
            allows_unserved: self.allows_unserved,
            state: Arc::clone(&self.state),
            subscribers: Arc::clone(&self.subscribers),
        }
    }
}

impl<K> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Informer")
            .field("is_synced", &state.is_synced)
            .field("objects", &state.objects.len())
            .finish_non_exhaustive()
    }
}

fn resource_version<K: Resource>(object: &K) -> String {
    object.meta().resource_version.clone().unwrap_or_default()
}

/// Parses a resource version, a growing number since Kubernetes 1.35; 0 for others.
fn parse_version(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}

/// Returns the key that orders objects as their object keys do.
fn sort_key<K: Resource>(object: &K) -> (Option<&str>, Option<&str>) {
    let meta = object.meta();
    (meta.name.as_deref(), meta.namespace.as_deref())
}

fn version_number<K: Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().map_or(0, parse_version)
}

fn is_newer<K: Resource>(one: &K, other: &K) -> bool {
    version_number(one) > version_number(other)
}
