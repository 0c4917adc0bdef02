//! Node classes of any provider, as provider-neutral controllers read them.
//!
//! A provider declares each kind with its Rust type. The informer decodes that type, which the
//! provider reads directly; controllers read the part that all kinds share, [`NodeClass`].

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use k8s_openapi::serde::de::DeserializeOwned;
use karpenter_api::condition_set::{ConditionSet, HasConditions, Subject, find};
use karpenter_api::conditions::READY;
use karpenter_api::labels;
use karpenter_api::node_class_ref::NodeClassRef;
use kube::{Api, Client, Resource};

use crate::clock::Clock;
use crate::harness::Controller;
use crate::options::Options;
use crate::watch::{Change, Informer, InformerHandle, ObjectKey};

#[cfg(test)]
mod tests;

/// The Rust type of a node class.
pub trait NodeClassObject:
    Resource<DynamicType = ()>
    + HasConditions
    + Clone
    + fmt::Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> NodeClassObject for K where
    K: Resource<DynamicType = ()>
        + HasConditions
        + Clone
        + fmt::Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// A kind of node class.
#[derive(Clone)]
pub struct NodeClassKind {
    /// The API group.
    pub group: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The label of NodeClaims and Nodes that holds the name of their node class.
    pub label: String,
    /// How condition metrics and events are published; None publishes nothing.
    pub report: Option<ConditionReport>,
    informer: fn(&Client, &Arc<dyn Clock>) -> Arc<dyn DynInformer>,
}

/// How a process publishes metrics and events of the conditions of a node class.
#[derive(Clone, Copy, Debug)]
pub struct ConditionReport {
    /// The name of the controller.
    pub controller: &'static str,
    /// Returns the conditions besides Ready that count as Unknown while they are missing.
    pub dependents: fn(&Options) -> &'static [&'static str],
}

impl NodeClassKind {
    /// Returns the kind of a Rust type, without reports of conditions.
    pub fn of<K: NodeClassObject>() -> Self {
        let (group, kind) = (static_text(K::group(&())), static_text(K::kind(&())));
        Self {
            group,
            kind,
            label: labels::node_class(group, kind),
            report: None,
            informer: |client, clock| {
                Arc::new(Informer::<K>::shared(Api::all(client.clone()), clock))
            },
        }
    }

    /// The same kind with metrics and events of its conditions.
    #[must_use]
    pub fn with_report(self, report: ConditionReport) -> Self {
        Self { report: Some(report), ..self }
    }

    /// Whether the reference is to an object of this kind.
    pub fn is_kind_of(&self, reference: &NodeClassRef) -> bool {
        self.group == reference.group && self.kind == reference.kind
    }

    /// Returns an informer of this kind. It does not run yet.
    pub fn informer(&self, client: &Client, clock: &Arc<dyn Clock>) -> NodeClassInformer {
        NodeClassInformer { kind: self.clone(), inner: (self.informer)(client, clock) }
    }
}

/// Types of the API return constants, so the second arm never runs.
fn static_text(text: Cow<'static, str>) -> &'static str {
    match text {
        Cow::Borrowed(text) => text,
        Cow::Owned(text) => text.leak(),
    }
}

/// The part of a node class that all kinds share.
#[derive(Clone, Debug)]
pub struct NodeClass {
    /// Names it in events.
    pub reference: ObjectReference,
    pub metadata: ObjectMeta,
    /// The conditions that are present.
    pub conditions: Vec<Condition>,
}

impl NodeClass {
    /// Returns the shared part of a node class.
    pub fn of<K: NodeClassObject>(object: &K) -> Self {
        Self {
            reference: object.object_ref(&()),
            metadata: object.meta().clone(),
            conditions: object.conditions().to_vec(),
        }
    }

    /// Returns the condition Ready, if it is present.
    pub fn ready(&self) -> Option<&Condition> {
        find(&self.conditions, READY)
    }

    /// Returns the conditions; Ready and missing dependents are added as Unknown.
    pub fn conditions_with(&self, dependents: &[&str], now: Timestamp) -> Vec<Condition> {
        let mut conditions = self.conditions.clone();
        ConditionSet::new(&mut conditions, dependents, Subject::from(&self.metadata), now);
        conditions
    }
}

/// An informer of one kind of node class. Clones share it.
#[derive(Clone)]
pub struct NodeClassInformer {
    kind: NodeClassKind,
    inner: Arc<dyn DynInformer>,
}

impl NodeClassInformer {
    /// Returns its kind.
    pub fn kind(&self) -> &NodeClassKind {
        &self.kind
    }

    /// Returns the node class of that name.
    pub fn get(&self, name: &str) -> Option<NodeClass> {
        self.inner.get(name)
    }

    /// Returns the informer if the kind has this Rust type.
    pub fn typed<K: NodeClassObject>(&self) -> Option<&Informer<K>> {
        self.inner.as_any().downcast_ref()
    }

    /// Returns a handle for the cache of the process.
    pub fn handle(&self) -> InformerHandle {
        self.inner.handle()
    }

    /// Makes the controller reconcile the objects that a change of a node class affects.
    #[must_use]
    pub fn watch_map<I: IntoIterator<Item = ObjectKey>>(
        &self,
        controller: Controller,
        keys: impl Fn(&Change<NodeClass>) -> I + Send + Sync + 'static,
    ) -> Controller {
        let keys = move |change: &Change<NodeClass>| keys(change).into_iter().collect();
        self.inner.watch_map(controller, Box::new(keys))
    }
}

type KeysOfChange = Box<dyn Fn(&Change<NodeClass>) -> Vec<ObjectKey> + Send + Sync>;

/// An informer whose Rust type is not known.
trait DynInformer: Send + Sync {
    fn get(&self, name: &str) -> Option<NodeClass>;
    fn handle(&self) -> InformerHandle;
    fn watch_map(&self, controller: Controller, keys: KeysOfChange) -> Controller;
    fn as_any(&self) -> &dyn Any;
}

impl<K: NodeClassObject> DynInformer for Informer<K> {
    fn get(&self, name: &str) -> Option<NodeClass> {
        Self::get(self, "", name).map(|object| NodeClass::of(object.as_ref()))
    }

    fn handle(&self) -> InformerHandle {
        InformerHandle::new("nodeclasses", self)
    }

    fn watch_map(&self, controller: Controller, keys: KeysOfChange) -> Controller {
        controller.watch_map(self, move |change: &Change<K>| {
            let neutral = |side: &Option<Arc<K>>| {
                side.as_deref().map(|object| Arc::new(NodeClass::of(object)))
            };
            keys(&Change {
                key: change.key.clone(),
                before: neutral(&change.before),
                after: neutral(&change.after),
            })
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl fmt::Debug for NodeClassKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeClassKind({}.{})", self.kind, self.group)
    }
}

impl fmt::Debug for NodeClassInformer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeClassInformer({}.{})", self.kind.kind, self.kind.group)
    }
}
