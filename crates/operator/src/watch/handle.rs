//! A handle to an informer of any kind: starts it and reports its health.

use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::serde::de::DeserializeOwned;
use kube::Resource;

use super::Informer;
use crate::harness::tasks::Tasks;

/// How long a list or watch may fail before its kind counts as stale.
const STALE_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// An informer of any kind.
#[derive(Clone)]
pub struct InformerHandle {
    kind: &'static str,
    informer: Arc<dyn DynInformer>,
}

/// The part of an informer that does not depend on its kind.
trait DynInformer: Send + Sync {
    fn start(&self, name: &'static str, tasks: &Tasks);
    fn is_synced(&self) -> bool;
    fn last_error(&self) -> Option<String>;
    fn failing_since(&self) -> Option<Timestamp>;
}

impl<K> DynInformer for Informer<K>
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned + Send + Sync + 'static,
{
    fn start(&self, name: &'static str, tasks: &Tasks) {
        let informer = self.clone();
        tasks.spawn(name, async move {
            informer.run().await;
        });
    }

    fn is_synced(&self) -> bool {
        Self::is_synced(self)
    }

    fn last_error(&self) -> Option<String> {
        Self::last_error(self)
    }

    fn failing_since(&self) -> Option<Timestamp> {
        Self::failing_since(self)
    }
}

impl InformerHandle {
    /// Returns a handle to the informer. Logs and probes call its kind by this name.
    pub fn new<K>(kind: &'static str, informer: &Informer<K>) -> Self
    where
        K: Resource + Clone + fmt::Debug + DeserializeOwned + Send + Sync + 'static,
    {
        Self { kind, informer: Arc::new(informer.clone()) }
    }

    /// Returns the name of the kind.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Starts to list and watch, in a task of its own.
    pub fn start(&self, tasks: &Tasks) {
        self.informer.start(self.kind, tasks);
    }

    /// Whether the objects have been listed once.
    pub fn is_synced(&self) -> bool {
        self.informer.is_synced()
    }

    /// Whether lists or watches have failed for long after the first list.
    pub fn is_stale(&self, now: Timestamp) -> bool {
        let since = self.informer.failing_since().filter(|_| self.is_synced());
        since.is_some_and(|since| now.duration_since(since) > STALE_AFTER)
    }

    /// Returns why the last list or watch ended.
    pub fn last_error(&self) -> Option<String> {
        self.informer.last_error()
    }
}

impl fmt::Debug for InformerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InformerHandle").field(&self.kind).finish()
    }
}
