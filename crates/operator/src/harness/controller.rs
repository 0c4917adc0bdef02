//! A controller: its name, what it watches, and what it does.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::Resource;

use super::{RateLimit, ReconcileError, WorkQueue};
use crate::clock::Clock;
use crate::watch::{Change, Informer, ObjectKey, Subscription};

/// What a reconcile wants next (spec 40 §0.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing, until the next event.
    #[default]
    Done,
    /// Reconcile again after this time.
    RequeueAfter(Duration),
    /// Reconcile again with backoff, as after a conflict.
    Requeue,
}

impl Outcome {
    /// The one that comes first: backoff counts as at once, and nothing never comes.
    #[must_use]
    pub fn sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::Requeue, _) | (_, Self::Requeue) => Self::Requeue,
            (Self::Done, outcome) | (outcome, Self::Done) => outcome,
            (Self::RequeueAfter(one), Self::RequeueAfter(two)) => Self::RequeueAfter(one.min(two)),
        }
    }
}

/// The result of a reconcile.
pub type ReconcileResult = Result<Outcome, ReconcileError>;

/// Reads an object and does the missing work.
pub trait Reconcile: Send + Sync + 'static {
    /// Does it. The object may be gone, and may need nothing.
    fn reconcile(&self, key: &ObjectKey) -> impl Future<Output = ReconcileResult> + Send;
}

/// An object-safe version of [`Reconcile`].
trait DynReconcile: Send + Sync {
    fn reconcile<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, ReconcileResult>;
}

impl<R: Reconcile> DynReconcile for R {
    fn reconcile<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, ReconcileResult> {
        Box::pin(Reconcile::reconcile(self, key))
    }
}

/// A controller that is ready to run ([`super::Harness::run`]). Its watches begin then.
pub struct Controller {
    pub(super) name: &'static str,
    pub(super) group: &'static str,
    pub(super) kind: &'static str,
    pub(super) workers: usize,
    pub(super) queue: WorkQueue,
    pub(super) sources: Vec<Source>,
    reconcile: Arc<dyn DynReconcile>,
}

/// Begins to fill the queue, for as long as what it returns is kept.
pub(super) type Source = Box<dyn FnOnce(&WorkQueue) -> Option<Subscription> + Send + Sync>;

impl Controller {
    /// A controller of that name, with one worker and the default limit. The name is what logs and
    /// metrics call it.
    pub fn new(name: &'static str, clock: &Arc<dyn Clock>, reconcile: impl Reconcile) -> Self {
        Self {
            name,
            group: "",
            kind: "",
            workers: 1,
            queue: WorkQueue::new(clock, RateLimit::DEFAULT),
            sources: Vec::new(),
            reconcile: Arc::new(reconcile),
        }
    }

    /// Sets the kind of the reconciled objects, for logs.
    #[must_use]
    pub fn for_kind(mut self, group: &'static str, kind: &'static str) -> Self {
        (self.group, self.kind) = (group, kind);
        self
    }

    /// How many keys may be in work at once.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Takes keys from this queue, to which other components add keys. The queue has its own limit.
    #[must_use]
    pub fn queue(mut self, queue: &WorkQueue) -> Self {
        self.queue = queue.clone();
        self
    }

    /// Sets the rate limit of retries.
    #[must_use]
    pub fn rate_limit(mut self, clock: &Arc<dyn Clock>, limit: RateLimit) -> Self {
        self.queue = WorkQueue::new(clock, limit);
        self
    }

    /// Runs once at the start, with an empty key, and then when its outcome requests it.
    #[must_use]
    pub fn singleton(mut self) -> Self {
        self.sources.push(Box::new(|queue| {
            queue.add(ObjectKey::default());
            None
        }));
        self
    }

    /// Reconciles every object of the kind that changes.
    #[must_use]
    pub fn watch<K>(self, informer: &Informer<K>) -> Self
    where
        K: Resource + Clone + fmt::Debug + DeserializeOwned + Send + Sync + 'static,
    {
        self.watch_if(informer, |_| true)
    }

    /// The same for changes that matter.
    #[must_use]
    pub fn watch_if<K>(
        self,
        informer: &Informer<K>,
        matters: impl Fn(&Change<K>) -> bool + Send + Sync + 'static,
    ) -> Self
    where
        K: Resource + Clone + fmt::Debug + DeserializeOwned + Send + Sync + 'static,
    {
        self.watch_map(informer, move |change| matters(change).then(|| change.key.clone()))
    }

    /// Reconciles the objects that a change of another object affects.
    #[must_use]
    pub fn watch_map<K, I>(
        mut self,
        informer: &Informer<K>,
        keys: impl Fn(&Change<K>) -> I + Send + Sync + 'static,
    ) -> Self
    where
        K: Resource + Clone + fmt::Debug + DeserializeOwned + Send + Sync + 'static,
        I: IntoIterator<Item = ObjectKey>,
    {
        let informer = informer.clone();
        self.sources.push(Box::new(move |queue| {
            let queue = queue.clone();
            Some(informer.subscribe(move |change| {
                keys(change).into_iter().for_each(|key| queue.add(key));
            }))
        }));
        self
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Does what it does with one key, outside of any queue. For tests.
    pub async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        self.reconcile.reconcile(key).await
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .field("workers", &self.workers)
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sooner_reconcile_outcome_wins() {
        let [one, two] = [1, 2].map(|s| Outcome::RequeueAfter(Duration::from_secs(s)));
        assert_eq!(two.sooner(one), one);
        assert_eq!(Outcome::Done.sooner(two), two);
        assert_eq!(one.sooner(Outcome::Requeue), Outcome::Requeue);
        assert_eq!(Outcome::Done.sooner(Outcome::Done), Outcome::Done);
    }
}
