//! Subscriptions: which functions receive an informer's changes, and for how long.
//!
//! An informer keeps its subscribers. A subscriber that holds the informer in turn, as all
//! controllers do, would keep itself alive for ever, so it either ends its [`Subscription`] or
//! holds a [`WeakInformer`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use k8s_openapi::serde::de::DeserializeOwned;
use kube::Resource;

use super::{Change, Informer, ObjectKey, State, lock};

/// Receives every change.
type Subscriber<K> = Arc<dyn Fn(&Change<K>) + Send + Sync>;

/// In the order in which they came.
pub(super) struct Subscribers<K> {
    by_number: BTreeMap<u64, Subscriber<K>>,
    next: u64,
}

impl<K> Subscribers<K> {
    pub(super) fn all(&self) -> Vec<Subscriber<K>> {
        self.by_number.values().cloned().collect()
    }

    fn add(&mut self, subscriber: Subscriber<K>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.by_number.insert(number, subscriber);
        number
    }
}

impl<K> Default for Subscribers<K> {
    fn default() -> Self {
        Self { by_number: BTreeMap::new(), next: 0 }
    }
}

/// A subscription, which ends when this is dropped.
#[must_use = "a subscription ends when it is dropped"]
pub struct Subscription {
    unsubscribe: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Subscription {
    /// Lets it go on for as long as the informer is there. The subscriber must not hold that.
    pub fn detach(mut self) {
        self.unsubscribe = None;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(end) = self.unsubscribe.take() {
            end();
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

impl<K> Informer<K>
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// Passes every later change to the subscriber, and first the known objects as new, in the
    /// order of the subscriptions. The informer calls it where the change is made, so it must be
    /// quick, and it may read the informer but not write to it. While writers
    /// [apply](Self::apply_write_result) their results on other threads, changes of one object may
    /// arrive out of order: a subscriber that stores an object reads it again.
    pub fn subscribe(
        &self,
        subscriber: impl Fn(&Change<K>) + Send + Sync + 'static,
    ) -> Subscription {
        let subscriber: Subscriber<K> = Arc::new(subscriber);
        let (number, known) = {
            let mut subscribers = lock(&self.subscribers);
            let number = subscribers.add(subscriber.clone());
            let state = self.state();
            let new = |(key, object): (&ObjectKey, &Arc<K>)| Change {
                key: key.clone(),
                before: None,
                after: Some(object.clone()),
            };
            let mut known: Vec<_> = state.objects.iter().map(new).collect();
            known.sort_unstable_by(|a, b| a.key.cmp(&b.key));
            (number, known)
        };
        for change in known {
            subscriber(&change);
        }
        let subscribers = Arc::downgrade(&self.subscribers);
        let end = move || {
            let Some(subscribers) = subscribers.upgrade() else { return };
            let ended = lock(&subscribers).by_number.remove(&number);
            // Outside the lock: it may hold the last handle of anything.
            drop(ended);
        };
        Subscription { unsubscribe: Some(Box::new(end)) }
    }

    /// A handle that does not keep the informer alive, for its own subscribers.
    pub fn downgrade(&self) -> WeakInformer<K> {
        WeakInformer(Arc::downgrade(&self.state))
    }
}

/// Reads an informer for as long as another owner holds it.
pub struct WeakInformer<K>(Weak<Mutex<State<K>>>);

impl<K> WeakInformer<K> {
    /// The object of that name; none if the informer is gone.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        lock(&*self.0.upgrade()?).objects.get(key).cloned()
    }

    /// Whether another owner still holds the informer.
    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl<K> Clone for WeakInformer<K> {
    fn clone(&self) -> Self {
        Self(Weak::clone(&self.0))
    }
}

impl<K> fmt::Debug for WeakInformer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakInformer").finish_non_exhaustive()
    }
}
