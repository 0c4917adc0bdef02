//! The context that all controllers share: dependencies, cache and state of one process.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use karpenter_api::node_class_ref::NodeClassRef;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_cluster::cost::CostTracker;
use karpenter_cluster::mirror::Mirror;
use karpenter_core::verify::Level;
use karpenter_operator::clock::Clock;
use karpenter_operator::cloud::{
    BoxError, CloudProvider, MetricsDecorator, OverlayDecorator, OverlayStore, RepairPolicy,
};
use karpenter_operator::compute::Executor;
use karpenter_operator::events::EventRecorder;
use karpenter_operator::harness::scaled_workers;
use karpenter_operator::harness::tasks::Tasks;
use karpenter_operator::metrics::Metrics;
use karpenter_operator::options::{Gate, Options};
use karpenter_operator::provider::{
    ConfiguredProvider, ProviderEnvironment, ProviderFacts, ProviderWork,
};
use karpenter_operator::rng::SeededRng;
use kube::{Client, Resource};

use crate::failed_consolidation::ConsolidationTracker;
use crate::nodepool::registration_health::RegistrationHealth;
use crate::plan_check::PlanCheck;
use crate::provisioner::batcher::Batcher;
use crate::{Cache, state};

/// The dependencies and the state of one process. Clones share everything.
#[derive(Clone)]
pub struct Context {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<SeededRng>,
    /// The facts about the provider.
    pub provider: Arc<ProviderFacts>,
    /// The provider's actions for unhealthy nodes.
    pub repair_policies: Arc<[RepairPolicy]>,
    /// With its decorators: metered, and overlaid where the gate is on.
    pub cloud: Arc<dyn CloudProvider>,
    /// The evaluated NodeOverlays, with the gate NodeOverlay.
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
    /// Runs decisions that take long.
    pub executor: Arc<dyn Executor>,
    /// Verifies plans before they are carried out.
    pub(crate) plan_check: PlanCheck,
    /// Tracks the costs of the nodes of NodePools.
    pub(crate) cost_tracker: Arc<Mutex<CostTracker>>,
    /// Tracks running and recent consolidations, to detect failed ones.
    pub(crate) consolidation_tracker: Arc<ConsolidationTracker>,
}

/// The store of evaluated NodeOverlays, and the cloud without overlays.
#[derive(Clone, Debug)]
pub struct Overlays {
    pub store: Arc<OverlayStore>,
    pub cloud: Arc<dyn CloudProvider>,
}

/// The dependencies that a process injects into its [`Context`].
#[derive(Clone)]
pub struct Dependencies {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<SeededRng>,
    pub provider: Arc<ProviderFacts>,
    pub repair_policies: Arc<[RepairPolicy]>,
    pub options: Arc<Options>,
    pub metrics: Arc<Metrics>,
    pub events: EventRecorder,
    pub executor: Arc<dyn Executor>,
}

impl Context {
    /// Creates the context of a process with an empty cache. The cloud has no overlays yet.
    pub fn new(dependencies: Dependencies, cloud: Arc<dyn CloudProvider>) -> Self {
        let (cache, store) = (dependencies.empty_cache(), dependencies.overlay_store());
        Self::assemble(dependencies, cloud, cache, store)
    }

    /// Builds the provider, and the context of a process around it. The provider gets a Kubernetes
    /// client of its own.
    pub async fn build(
        dependencies: Dependencies,
        provider: Box<dyn ConfiguredProvider>,
        provider_client: Client,
        tasks: &Tasks,
    ) -> Result<(Self, ProviderWork), BoxError> {
        let (mut cache, store) = (dependencies.empty_cache(), dependencies.overlay_store());
        let environment = ProviderEnvironment {
            client: provider_client,
            informers: cache.shared_informers(),
            events: dependencies.events.clone(),
            registry: dependencies.metrics.registry().clone(),
            options: Arc::clone(&dependencies.options),
            clock: Arc::clone(&dependencies.clock),
            rng: Arc::clone(&dependencies.rng),
            tasks: tasks.clone(),
            overlays: store.clone(),
        };
        let built = provider.build(environment).await?;
        cache.add_informers(built.informers);
        let (metrics, clock) = (dependencies.metrics.as_ref(), &dependencies.clock);
        let metered = MetricsDecorator::new(built.cloud, metrics.clone(), Arc::clone(clock));
        let context = Self::assemble(dependencies, Arc::new(metered), cache, store);
        Ok((context, built.work))
    }

    fn assemble(
        dependencies: Dependencies,
        cloud: Arc<dyn CloudProvider>,
        cache: Cache,
        store: Option<Arc<OverlayStore>>,
    ) -> Self {
        let Dependencies { client, clock, rng, provider, options, metrics, events, .. } =
            dependencies;
        let settings = state::settings(&provider, &options);
        let time = Arc::clone(&clock);
        let mirror = Arc::new(Mirror::new(settings, move || time.now()));
        let batcher = Batcher::new(&clock, options.batch_idle_duration, options.batch_max_duration);
        let overlays = store.clone().map(|store| Overlays { store, cloud: Arc::clone(&cloud) });
        Self {
            client,
            clock,
            rng,
            provider,
            repair_policies: dependencies.repair_policies,
            cloud: Arc::new(OverlayDecorator::new(cloud, store)),
            overlays,
            options,
            metrics,
            events,
            cache,
            mirror,
            registration_health: RegistrationHealth::default(),
            batcher,
            executor: dependencies.executor,
            plan_check: PlanCheck::new(Level::of_build()),
            cost_tracker: Arc::default(),
            consolidation_tracker: Arc::default(),
        }
    }

    /// Locks and returns the tracker of node costs.
    pub fn cost_tracker(&self) -> MutexGuard<'_, CostTracker> {
        // Nothing panics while it is held.
        self.cost_tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the claim belongs to this installation (spec 40 §0.2).
    pub fn manages_claim(&self, claim: &NodeClaim) -> bool {
        self.serves(&claim.spec.node_class_ref)
    }

    /// Whether the pool belongs to this installation.
    pub fn manages_pool(&self, pool: &NodePool) -> bool {
        self.serves(&pool.spec.template.spec.node_class_ref)
    }

    /// Whether the Node belongs to this installation: it has the label of a served node class.
    pub fn manages_node(&self, node: &impl Resource) -> bool {
        let labels = node.meta().labels.as_ref();
        labels.is_some_and(|labels| {
            self.provider.node_classes.iter().any(|class| labels.contains_key(&class.label))
        })
    }

    fn serves(&self, class: &NodeClassRef) -> bool {
        self.provider.serves(class)
    }

    /// Returns the number of workers for the CPU of the process.
    pub fn workers(&self, least: usize, most: usize) -> usize {
        scaled_workers(self.options.cpu_requests, least, most)
    }
}

impl Dependencies {
    fn empty_cache(&self) -> Cache {
        Cache::new(&self.client, &self.clock, &self.provider, &self.options)
    }

    /// Returns a store for evaluated NodeOverlays, with the gate NodeOverlay.
    fn overlay_store(&self) -> Option<Arc<OverlayStore>> {
        self.options.is_enabled(Gate::NodeOverlay).then(|| Arc::new(OverlayStore::new()))
    }
}

impl fmt::Debug for Dependencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dependencies").field("provider", &self.provider).finish_non_exhaustive()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("cloud", &self.cloud).finish_non_exhaustive()
    }
}
