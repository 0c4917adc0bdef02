//! A simulated world: the embedded API, the actors of a cluster and a cloud, with one seed and one
//! clock.
//!
//! ```text
//! Scenario ─▶ World ─┬─ api        karpenter_apiserver::Api
//!                    ├─ cloud      the CloudProvider of the caller, with the faults of sim::cloud
//!                    ├─ actors     scheduler, kubelets, workloads: each with a client of its own
//!                    ├─ faults     the faults of the product's API client and cloud
//!                    └─ product    karpenter_controllers::all()
//! ```
//!
//! Faults are for the product alone: actors and scenarios have clients that work.
//!
//! Nothing here decides anything for the product. On a runtime of one thread whose time is paused,
//! a world with one seed takes the same course every time.

mod controllers;
mod detached;
mod environment;
mod product;
mod provider;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_apiserver::Api;
use karpenter_operator::clock::Clock;
use karpenter_operator::cloud::{CloudProvider, RepairPolicy};
use karpenter_operator::harness::tasks::Tasks;
use karpenter_operator::options::Options;
use karpenter_operator::provider::ProviderFacts;
use karpenter_operator::rng::SeededRng;
use kube::Client;
use serde_json::Value;
use tower::Layer as _;

pub use self::controllers::controllers;
use self::detached::DetachedCloud;
use self::environment::SimulatedEnvironment;
pub use self::product::{Product, ProductStarter};
pub use self::provider::{BuildCloud, CloudEnvironment, WorldProvider};
use crate::cloud::FaultyCloud;
use crate::faults::{ApiFaultLayer, Faults};
use crate::kubelet::Pace;
use crate::objects::{self, ApplyError};
use crate::writes::Writes;
use crate::{kubelet, scheduler, workloads};

/// Everything around the product.
#[derive(Clone)]
pub struct World {
    pub api: Api,
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<SeededRng>,
    /// The facts about the provider.
    pub provider: Arc<ProviderFacts>,
    /// The provider's actions for unhealthy nodes.
    pub repair_policies: Arc<[RepairPolicy]>,
    /// CRDs and node classes, in the order in which the world creates them.
    provider_objects: Arc<[Value]>,
    /// As the product sees it.
    pub cloud: Arc<dyn CloudProvider>,
    /// The same cloud, directly: to lose instances and to read the real ones.
    pub faulty_cloud: Arc<FaultyCloud>,
    /// What goes wrong for the product.
    pub faults: Faults,
    api_faults: ApiFaultLayer,
    /// What the product writes.
    pub writes: Writes,
    product: Product,
    kubelets: Pace,
    /// What runs in the world but the product; ending them ends it.
    pub tasks: Tasks,
    /// When it began.
    pub start: Timestamp,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("start", &self.start).finish_non_exhaustive()
    }
}

impl World {
    /// Returns a world of this provider that begins now, on this clock. Nothing happens before
    /// [`World::begin`].
    pub fn new(clock: Arc<dyn Clock>, seed: u64, provider: WorldProvider) -> Self {
        let rng = SeededRng::new(seed);
        let environment = SimulatedEnvironment::new(clock.clone(), &rng);
        let api = Api::new(Arc::new(environment));
        let tasks = Tasks::new();
        let WorldProvider { facts, repair_policies, objects, build_cloud } = provider;
        let cloud = build_cloud(CloudEnvironment {
            client: client_of(&api),
            clock: clock.clone(),
            rng: &rng,
            tasks: tasks.clone(),
        });
        let faults = Faults::new(&clock);
        let journal = faults.journal.clone();
        let faulty_cloud = Arc::new(FaultyCloud::new(
            cloud,
            faults.cloud.clone(),
            &clock,
            rng.fork("cloud faults"),
            journal.clone(),
        ));
        let api_faults =
            ApiFaultLayer::new(faults.api.clone(), &clock, rng.fork("api faults"), journal);
        let start = clock.now();
        let writes = Writes::new(&clock);
        Self {
            api,
            clock,
            rng: Arc::new(rng),
            provider: Arc::new(facts),
            repair_policies: repair_policies.into(),
            provider_objects: objects.into(),
            cloud: Arc::new(DetachedCloud::new(faulty_cloud.clone(), tasks.clone())),
            faulty_cloud,
            faults,
            api_faults,
            writes,
            kubelets: Pace::default(),
            product: Product::new(controllers(Options::default())),
            tasks,
            start,
        }
    }

    /// The same world around a product that is started like this.
    #[must_use]
    pub fn with_product(self, start: ProductStarter) -> Self {
        Self { product: Product::new(start), ..self }
    }

    /// The same world with kubelets that renew their leases so often.
    #[must_use]
    pub fn with_leases(self, every: Duration) -> Self {
        Self { kubelets: Pace { lease_every: every, ..self.kubelets }, ..self }
    }

    /// A client of an administrator.
    pub fn client(&self) -> Client {
        client_of(&self.api)
    }

    /// A client of the product, with the faults of the world.
    pub fn product_client(&self) -> Client {
        let noted = self.writes.layer(self.api.service());
        Client::new(self.api_faults.layer(noted), "default")
    }

    /// Returns the fault layer between the product and the API.
    pub fn api_faults(&self) -> &ApiFaultLayer {
        &self.api_faults
    }

    /// Kills the product's process and starts it again after a while, with nothing in its memory.
    pub async fn restart_product(&self, down: Duration) {
        self.kill_product().await;
        self.clock.sleep(down).await;
        self.start_product();
    }

    /// Kills the product's process: its tasks end where they are, without any cleanup.
    pub async fn kill_product(&self) {
        self.product.stop().await;
    }

    /// Starts the product's process, which must not run.
    pub fn start_product(&self) {
        self.product.start(self);
    }

    /// How many times the product has panicked: in a reconcile, or in a task of its own.
    pub fn panics(&self) -> u64 {
        self.product.panics()
    }

    /// Ends the product and everything around it.
    pub async fn end(&self) {
        self.product.stop().await;
        self.tasks.stop().await;
    }

    /// Installs the CRDs and starts all actors, the product last.
    pub async fn begin(&self) -> Result<(), ApplyError> {
        self.begin_with(&self.client()).await
    }

    /// The same, with this client for the actors; for worlds in which faults are for them, too.
    pub async fn begin_with(&self, actors: &Client) -> Result<(), ApplyError> {
        let client = self.client();
        for object in self.provider_objects.iter() {
            objects::apply(&client, object).await?;
        }
        let (clock, rng) = (&self.clock, &self.rng);
        let tasks = &self.tasks;
        let forever = |run: std::pin::Pin<
            Box<dyn Future<Output = std::convert::Infallible> + Send>,
        >| async move {
            run.await;
        };
        tasks.spawn("binder", forever(Box::pin(scheduler::run(actors.clone(), clock.clone()))));
        let chance_of_kubelets = rng.fork("kubelet");
        let pace = self.kubelets.clone();
        let kubelets = kubelet::run(pace, actors.clone(), clock.clone(), chance_of_kubelets);
        tasks.spawn("kubelet", forever(Box::pin(kubelets)));
        let workloads = workloads::run(actors.clone(), clock.clone(), rng.fork("workloads"));
        tasks.spawn("workloads", forever(Box::pin(workloads)));
        let (faulty_cloud, client) = (self.faulty_cloud.clone(), self.client());
        tasks.spawn("cloud", async move {
            faulty_cloud.silence_lost(client).await;
        });
        self.product.start(self);
        Ok(())
    }
}

fn client_of(api: &Api) -> Client {
    Client::new(api.service(), "default")
}
