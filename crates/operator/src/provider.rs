//! The socket for cloud providers: what a process asks a provider, in which order.
//!
//! ```text
//! Provider            facts, options and metrics; known without any option
//!    │ configure      validates the options
//!    ▼
//! ConfiguredProvider  repair policies and labels; depend on options
//!    │ build          connects to the cloud; may fail
//!    ▼
//! BuiltProvider       the cloud, controllers, informers, and a hook for the leader
//! ```
//!
//! The binary lists the providers and selects one by name. All other crates read [`ProviderFacts`].

use std::fmt::{self, Debug};
use std::io;
use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::node_class_ref::NodeClassRef;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_api::validation::ProviderRules;
use kube::Client;

use crate::clock::Clock;
use crate::cloud::{BoxError, CloudProvider, OverlayStore, ProviderLabels, RepairPolicy};
use crate::events::EventRecorder;
use crate::harness::Controller;
use crate::harness::tasks::Tasks;
use crate::metrics::Registry;
use crate::options::{OptionDefinition, Options, ResolvedOptions};
use crate::rng::SeededRng;
use crate::watch::{Informer, InformerHandle};

mod node_class;

pub use node_class::{
    ConditionReport, NodeClass, NodeClassInformer, NodeClassKind, NodeClassObject,
};

/// A cloud provider before its options are known.
pub trait Provider: Debug + Send + Sync {
    /// Returns the facts that do not depend on options.
    fn facts(&self) -> ProviderFacts;

    /// Returns the provider's own options, in the order of the help text.
    fn option_definitions(&self) -> Vec<OptionDefinition> {
        Vec::new()
    }

    /// Registers the provider's own metrics, for the reference documentation. A process registers
    /// them in [`ConfiguredProvider::build`].
    fn register_metrics(&self, _registry: &Registry) {}

    /// Validates the options of core and of the provider together.
    fn configure(
        &self,
        given: &GivenOptions<'_>,
    ) -> Result<Box<dyn ConfiguredProvider>, InvalidOptions>;
}

/// A cloud provider with valid options.
pub trait ConfiguredProvider: Debug + Send + Sync {
    /// Returns the actions for unhealthy nodes.
    fn repair_policies(&self) -> Vec<RepairPolicy>;

    /// Returns the labels of the provider's instance types, as the built cloud returns them.
    fn labels(&self) -> ProviderLabels;

    /// Connects to the cloud. An error names the cause, such as missing credentials.
    fn build(
        self: Box<Self>,
        environment: ProviderEnvironment,
    ) -> BoxFuture<'static, Result<BuiltProvider, BoxError>>;
}

/// The facts about a provider that depend on no option.
#[derive(Clone, Debug)]
pub struct ProviderFacts {
    /// The name, which `--provider` takes.
    pub name: &'static str,
    /// Rules for labels and resources.
    pub rules: ProviderRules,
    /// The kinds of node classes that the provider serves, the default one first.
    pub node_classes: Vec<NodeClassKind>,
}

impl ProviderFacts {
    /// Returns a reference to the node class `default` of the default kind.
    pub fn default_class(&self) -> NodeClassRef {
        let kind = self.node_classes.first();
        let of_kind = |text: fn(&NodeClassKind) -> &'static str| kind.map(text).unwrap_or_default();
        NodeClassRef {
            group: of_kind(|kind| kind.group).to_owned(),
            kind: of_kind(|kind| kind.kind).to_owned(),
            name: "default".to_owned(),
        }
    }

    /// Whether the provider serves the kind of the reference.
    pub fn serves(&self, reference: &NodeClassRef) -> bool {
        self.node_classes.iter().any(|kind| kind.is_kind_of(reference))
    }
}

/// The options of a process, as a provider validates them.
pub struct GivenOptions<'a> {
    /// The options of core.
    pub options: &'a Options,
    /// All options by flag, the provider's own included.
    pub resolved: &'a ResolvedOptions,
    /// Reads a regular file of at most so many bytes.
    pub read_file: &'a dyn Fn(&Path, u64) -> io::Result<Vec<u8>>,
}

/// The reason why a provider cannot run with the options; names the flags.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidOptions(pub String);

/// What a process gives to its provider.
pub struct ProviderEnvironment {
    /// A client of the Kubernetes API, with a rate limit of its own.
    pub client: Client,
    /// Informers that the provider shares with the controllers.
    pub informers: SharedInformers,
    /// Publishes events.
    pub events: EventRecorder,
    /// Where the provider registers its metrics.
    pub registry: Registry,
    /// The options of core.
    pub options: Arc<Options>,
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<SeededRng>,
    /// Starts background tasks, which end with the process.
    pub tasks: Tasks,
    /// The evaluated NodeOverlays, with the gate NodeOverlay.
    pub overlays: Option<Arc<OverlayStore>>,
}

/// The informers that a provider shares with the controllers. The process starts them.
#[derive(Clone, Debug)]
pub struct SharedInformers {
    pub nodes: Informer<Node>,
    pub node_claims: Informer<NodeClaim>,
    pub node_pools: Informer<NodePool>,
    /// One of each kind in [`ProviderFacts::node_classes`], in that order.
    pub node_classes: Vec<NodeClassInformer>,
}

impl SharedInformers {
    /// Returns the informer of a node class by its Rust type.
    pub fn node_classes_of<K: NodeClassObject>(&self) -> Option<&Informer<K>> {
        self.node_classes.iter().find_map(NodeClassInformer::typed)
    }
}

/// A provider that is ready to run.
pub struct BuiltProvider {
    /// The cloud, without decorators.
    pub cloud: Arc<dyn CloudProvider>,
    /// Informers of the provider alone. They count for "synced" and "stale" like all others.
    pub informers: Vec<InformerHandle>,
    /// The provider's own work of a leader.
    pub work: ProviderWork,
}

/// The work of a provider in the process that leads.
#[derive(Default)]
pub struct ProviderWork {
    /// Controllers that run beside the provider-neutral ones.
    pub controllers: Vec<Controller>,
    /// Runs once after the election is won and the caches have synced, before the controllers.
    pub on_elected: Option<BoxFuture<'static, ()>>,
}

impl BuiltProvider {
    /// Returns a provider without controllers, informers and hook.
    pub fn new(cloud: Arc<dyn CloudProvider>) -> Self {
        Self { cloud, informers: Vec::new(), work: ProviderWork::default() }
    }
}

impl Debug for GivenOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GivenOptions").field("resolved", self.resolved).finish_non_exhaustive()
    }
}

impl Debug for ProviderEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderEnvironment")
            .field("informers", &self.informers)
            .finish_non_exhaustive()
    }
}

impl Debug for BuiltProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuiltProvider")
            .field("cloud", &self.cloud)
            .field("informers", &self.informers)
            .field("work", &self.work)
            .finish()
    }
}

impl Debug for ProviderWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderWork")
            .field("controllers", &self.controllers)
            .field("on_elected", &self.on_elected.is_some())
            .finish()
    }
}
