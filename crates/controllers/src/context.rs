//! What every controller is made of.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use karpenter_api::labels;
use karpenter_api::node_class_ref::NodeClassRef;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_cluster::cost::CostTracker;
use karpenter_cluster::mirror::Mirror;
use karpenter_operator::clock::Clock;
use karpenter_operator::cloud::{CloudProvider, OverlayDecorator, OverlayStore};
use karpenter_operator::compute::Executor;
use karpenter_operator::device_selectors::DeviceSelectorEvaluator;
use karpenter_operator::events::EventRecorder;
use karpenter_operator::harness::scaled_workers;
use karpenter_operator::metrics::Metrics;
use karpenter_operator::options::{Gate, Options};
use karpenter_operator::rng::SeededRng;
use kube::{Client, Resource};

use crate::failed_consolidation::ConsolidationTracker;
use crate::nodepool::registration_health::RegistrationHealth;
use crate::provisioner::batcher::Batcher;
use crate::{Cache, state};

/// The ports and the knowledge of one process. Clones share everything.
#[derive(Clone)]
pub struct Context {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<SeededRng>,
    /// With its decorators: metered, and overlaid where the gate is on.
    pub cloud: Arc<dyn CloudProvider>,
    /// What NodeOverlays say, with the gate NodeOverlay.
    pub overlays: Option<Overlays>,
    pub options: Arc<Options>,
    pub metrics: Arc<Metrics>,
    pub events: EventRecorder,
    pub cache: Cache,
    pub mirror: Arc<Mirror>,
    /// Whether the nodes of pools register.
    pub registration_health: RegistrationHealth,
    /// Wakes the provisioner.
    pub batcher: Batcher,
    /// Who makes the decisions that take long.
    pub executor: Arc<dyn Executor>,
    /// Who speaks the language of device selectors.
    pub device_selectors: Arc<dyn DeviceSelectorEvaluator>,
    /// What the nodes of pools cost.
    pub(crate) cost_tracker: Arc<Mutex<CostTracker>>,
    /// The pods that consolidation has just displaced.
    pub(crate) consolidation_tracker: Arc<ConsolidationTracker>,
}

/// Where NodeOverlays are kept, and the cloud that has none.
#[derive(Clone, Debug)]
pub struct Overlays {
    pub store: Arc<OverlayStore>,
    pub cloud: Arc<dyn CloudProvider>,
}

/// What the outside gives to a process.
#[derive(Clone)]
pub struct Dependencies {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<SeededRng>,
    /// Without overlays, which the context adds.
    pub cloud: Arc<dyn CloudProvider>,
    pub options: Arc<Options>,
    pub metrics: Arc<Metrics>,
    pub events: EventRecorder,
    pub executor: Arc<dyn Executor>,
    pub device_selectors: Arc<dyn DeviceSelectorEvaluator>,
}

impl Context {
    /// A process that knows nothing yet.
    pub fn new(ports: Dependencies) -> Self {
        let Dependencies { client, clock, rng, cloud, options, metrics, events, .. } = ports;
        let cache = Cache::new(&client, &clock, cloud.as_ref(), &options);
        let settings = state::settings(cloud.as_ref(), &options);
        let time = Arc::clone(&clock);
        let mirror = Arc::new(Mirror::new(settings, move || time.now()));
        let batcher = Batcher::new(&clock, options.batch_idle_duration, options.batch_max_duration);
        let overlays = options
            .feature_gates
            .is_enabled(Gate::NodeOverlay)
            .then(|| Overlays { store: Arc::new(OverlayStore::new()), cloud: Arc::clone(&cloud) });
        let store = overlays.as_ref().map(|overlays| Arc::clone(&overlays.store));
        Self {
            client,
            clock,
            rng,
            cloud: Arc::new(OverlayDecorator::new(cloud, store)),
            overlays,
            options,
            metrics,
            events,
            cache,
            mirror,
            registration_health: RegistrationHealth::default(),
            batcher,
            executor: ports.executor,
            device_selectors: ports.device_selectors,
            cost_tracker: Arc::default(),
            consolidation_tracker: Arc::default(),
        }
    }

    /// What the nodes of pools cost.
    pub fn cost_tracker(&self) -> MutexGuard<'_, CostTracker> {
        // Nothing panics while it is held.
        self.cost_tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the claim is of this installation (spec 40 §0.2).
    pub fn manages_claim(&self, claim: &NodeClaim) -> bool {
        self.serves(&claim.spec.node_class_ref)
    }

    /// Whether the pool is.
    pub fn manages_pool(&self, pool: &NodePool) -> bool {
        self.serves(&pool.spec.template.spec.node_class_ref)
    }

    /// Whether the object, a Node, is: it has the label of a node class that we serve.
    pub fn manages_node(&self, node: &impl Resource) -> bool {
        let labels = node.meta().labels.as_ref();
        labels.is_some_and(|labels| {
            let mut served = self.cache.node_classes.iter();
            served.any(|(class, _)| {
                labels.contains_key(&labels::node_class(&class.group, &class.kind))
            })
        })
    }

    fn serves(&self, class: &NodeClassRef) -> bool {
        let mut served = self.cache.node_classes.iter();
        served.any(|(served, _)| served.group == class.group && served.kind == class.kind)
    }

    /// How many workers a controller has that scales with the CPU of the process.
    pub fn workers(&self, least: usize, most: usize) -> usize {
        scaled_workers(self.options.cpu_requests, least, most)
    }
}

impl fmt::Debug for Dependencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dependencies").field("cloud", &self.cloud).finish_non_exhaustive()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("cloud", &self.cloud).finish_non_exhaustive()
    }
}
