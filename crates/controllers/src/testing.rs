//! A process of the product in a test: the embedded API, the provider `x` in memory, and virtual
//! time.
//!
//! Use it in tests with `#[tokio::test(start_paused = true)]`: whenever the test sleeps, everything
//! that can happen does before time moves on.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::serde::de::DeserializeOwned;
use karpenter_api::crds::{CrdSet, crds};
use karpenter_apiserver::Api as ApiServer;
use karpenter_apiserver::environment::Environment as _;
use karpenter_apiserver::testing::environment::TestEnvironment;
use karpenter_operator::clock::{Clock, TokioClock};
use karpenter_operator::compute::Inline;
use karpenter_operator::events::{EventRecorder, PublishedEvents};
use karpenter_operator::harness::tasks::Tasks;
use karpenter_operator::harness::{Controller, Harness, NoopObserver, ReconcileResult, Shutdown};
use karpenter_operator::metrics::{Metrics, MetricsConfig};
use karpenter_operator::options::Options;
use karpenter_operator::provider::{ConfiguredProvider as _, Provider as _};
use karpenter_operator::rng::SeededRng;
use karpenter_operator::testing::{FakeCloud, XProvider, test_node_class_crd};
use karpenter_operator::watch::ObjectKey;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::{Context, Dependencies, process};

pub(crate) mod faults;
pub(crate) mod fixtures;
pub(crate) mod logs;

/// The controllers' context with a fake environment.
pub(crate) struct Bench {
    pub(crate) context: Context,
    pub(crate) cloud: Arc<FakeCloud>,
    /// Events that were published.
    pub(crate) published: PublishedEvents,
    pub(crate) tasks: Tasks,
}

impl Bench {
    /// Creates a bench with the default options.
    pub(crate) async fn new() -> Self {
        Self::with_options(Options::default()).await
    }

    /// Creates a bench with these options. The CRDs are installed and the cache has synced.
    pub(crate) async fn with_options(options: Options) -> Self {
        // In a box, as its future is large.
        Box::pin(Self::make(options)).await
    }

    async fn make(options: Options) -> Self {
        let environment = TestEnvironment::new();
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(environment.now()));
        let server = ApiServer::new(Arc::new(environment));
        let client = Client::new(server.service(), "default");
        let cloud = Arc::new(FakeCloud::new());
        let (events, published) = EventRecorder::in_memory(clock.clone());
        let x = XProvider::new(&cloud);
        let config = MetricsConfig::for_provider(&x.facts(), &x.labels());
        let metrics = Metrics::new(clock.clone(), &config);
        let dependencies = Dependencies {
            client: client.clone(),
            clock,
            rng: Arc::new(SeededRng::new(1)),
            provider: Arc::new(x.facts()),
            repair_policies: x.repair_policies().into(),
            options: Arc::new(options),
            metrics: Arc::new(metrics),
            events,
            executor: Arc::new(Inline),
        };
        let tasks = Tasks::new();
        let built = Context::build(dependencies, Box::new(x), client, &tasks).await;
        let (context, _) = built.expect("the provider x needs nothing");
        let bench = Self { context, cloud, published, tasks };
        for crd in crds(CrdSet::Core) {
            bench.create(crd).await;
        }
        bench.create(test_node_class_crd()).await;
        process::watch(&bench.context, &bench.tasks);
        bench.context.cache.wait_for_sync(&bench.context.clock).await;
        bench
    }

    /// Creates an object from a manifest, with its status if it has one.
    pub(crate) async fn create(&self, manifest: Value) -> DynamicObject {
        // In a box, as its future is large.
        Box::pin(self.store(manifest)).await
    }

    async fn store(&self, manifest: Value) -> DynamicObject {
        let (api, name) = self.locate(&manifest).await;
        let object = serde_json::from_value(manifest.clone()).expect("a manifest");
        let mut created = api.create(&PostParams::default(), &object).await.expect("is created");
        if !manifest["status"].is_null() {
            let body = json!({"status": manifest["status"]});
            let patch = Patch::Merge(body);
            let params = PatchParams::default();
            created = api.patch_status(&name, &params, &patch).await.expect("has a status");
        }
        self.settle().await;
        created
    }

    /// Changes an object by a merge patch of everything but its status; the manifest names it.
    pub(crate) async fn patch(&self, manifest: Value) -> DynamicObject {
        let (api, name) = self.locate(&manifest).await;
        let patched = api.patch(&name, &PatchParams::default(), &Patch::Merge(manifest)).await;
        self.settle().await;
        patched.expect("is patched")
    }

    /// The same for its status.
    pub(crate) async fn patch_status(&self, manifest: Value) -> DynamicObject {
        let (api, name) = self.locate(&manifest).await;
        let params = PatchParams::default();
        let patched = api.patch_status(&name, &params, &Patch::Merge(manifest)).await;
        self.settle().await;
        patched.expect("is patched")
    }

    /// Deletes the object that the manifest names.
    pub(crate) async fn delete(&self, manifest: Value) {
        let (api, name) = self.locate(&manifest).await;
        api.delete(&name, &DeleteParams::default()).await.expect("is deleted");
        self.settle().await;
    }

    /// An object as it is stored.
    pub(crate) async fn get<K>(&self, namespace: &str, name: &str) -> Option<K>
    where
        K: DeserializeOwned,
        K: kube::Resource<DynamicType = ()>,
    {
        let path = match namespace {
            "" => K::url_path(&(), None),
            namespace => K::url_path(&(), Some(namespace)),
        };
        let request = http::Request::get(format!("{path}/{name}")).body(Vec::new());
        match self.context.client.request::<K>(request.expect("a path")).await {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits until the watches have delivered all writes.
    pub(crate) async fn settle(&self) {
        self.pass(Duration::from_millis(1)).await;
    }

    /// Lets time pass.
    pub(crate) async fn pass(&self, time: Duration) {
        self.context.clock.sleep(time).await;
    }

    /// Reconciles an object once. The cache has its writes when this returns.
    pub(crate) async fn reconcile(&self, controller: &Controller, name: &str) -> ReconcileResult {
        let result = controller.reconcile(&ObjectKey::new("", name)).await;
        self.settle().await;
        result
    }

    /// Runs controllers in the background, as the process does.
    pub(crate) fn run(&self, controllers: impl IntoIterator<Item = Controller>) {
        let harness = Harness {
            clock: self.context.clock.clone(),
            rng: self.context.rng.clone(),
            observer: Arc::new(NoopObserver),
            shutdown: Shutdown::new(),
        };
        for controller in controllers {
            let (harness, name) = (harness.clone(), controller.name());
            self.tasks.spawn(name, async move { harness.run(controller).await });
        }
    }

    async fn locate(&self, manifest: &Value) -> (Api<DynamicObject>, String) {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let api_version = text(&manifest["apiVersion"]);
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
        let gvk = GroupVersionKind::gvk(group, version, &text(&manifest["kind"]));
        let found = pinned_kind(&self.context.client, &gvk).await;
        let (resource, capabilities) = found.expect("a kind that is served");
        let client = self.context.client.clone();
        let namespace = manifest["metadata"]["namespace"].as_str().unwrap_or("default");
        let api = match capabilities.scope {
            Scope::Cluster => Api::all_with(client, &resource),
            Scope::Namespaced => Api::namespaced_with(client, namespace, &resource),
        };
        (api, text(&manifest["metadata"]["name"]))
    }
}
