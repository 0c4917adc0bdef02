//! Tests of the controllers as one process: start, stop and cache sync.

use std::sync::Mutex;

use k8s_openapi::api::core::v1::ConfigMap;
use karpenter_operator::harness::{Controller, NoopObserver, Outcome, Reconcile, ReconcileResult};
use karpenter_operator::options::{FeatureGates, GATES, Options};
use karpenter_operator::watch::{Informer, InformerHandle, ObjectKey};

use super::*;
use crate::Dependencies;
use crate::node::testing::{claim, node};
use crate::testing::Bench;

mod upstream_rbac;

#[tokio::test(start_paused = true)]
async fn a_stopped_process_frees_its_cache_and_mirror() {
    let bench = Bench::new().await;
    let (context, tasks) = (bench.context.clone(), bench.tasks.clone());
    let running = tasks.clone();
    tasks.spawn("process", async move {
        let work = ProviderWork::default();
        run(&context, work, context.metrics.clone(), &Shutdown::new(), &running).await;
    });
    bench.context.clock.sleep(Duration::from_secs(30)).await;
    let (nodes, mirror) =
        (bench.context.cache.nodes.downgrade(), Arc::downgrade(&bench.context.mirror));
    assert!(nodes.is_alive() && mirror.strong_count() > 0);
    tasks.stop().await;
    drop((bench, tasks));
    assert_eq!(mirror.strong_count(), 0);
    assert!(!nodes.is_alive());
}

/// Upstream deletes a NodeClaim without instance although it could not read the Node. Here
/// controllers read Nodes from the cache, and none runs before the cache has synced.
#[tokio::test(start_paused = true)]
async fn no_claim_is_garbage_collected_before_the_node_cache_syncs() {
    let bench = Bench::new().await;
    bench.create(node("ready")).await;
    for name in ["ready", "lost"] {
        bench.create(claim(name)).await;
    }
    let (broken, faults) = bench.with_faults();
    for _ in 0..8 {
        faults.fail("GET", "/api/v1/nodes", 500);
    }
    let known = &bench.context;
    let dependencies = Dependencies {
        client: broken.client,
        clock: known.clock.clone(),
        rng: known.rng.clone(),
        provider: known.provider.clone(),
        repair_policies: known.repair_policies.clone(),
        options: known.options.clone(),
        metrics: known.metrics.clone(),
        events: known.events.clone(),
        executor: known.executor.clone(),
    };
    let context = Context::new(dependencies, bench.cloud.clone());
    watch(&context, &bench.tasks);
    let (process, tasks) = (context.clone(), bench.tasks.clone());
    bench.tasks.spawn("process", async move {
        let work = ProviderWork::default();
        run(&process, work, Arc::new(NoopObserver), &Shutdown::new(), &tasks).await;
    });
    let is_kept = async |name: &str| {
        let claim: Option<karpenter_api::nodeclaim::NodeClaim> = bench.get("", name).await;
        claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_none())
    };
    bench.pass(Duration::from_secs(1)).await;
    let missing: Vec<_> =
        context.cache.unsynced_kinds().into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(missing, ["nodes"]);
    assert!(is_kept("ready").await && is_kept("lost").await, "40/Q18");
    bench.pass(Duration::from_mins(15)).await;
    assert!(context.cache.unsynced_kinds().is_empty());
    assert!(is_kept("ready").await, "40/Q18: its kubelet lives");
    assert!(!is_kept("lost").await, "it is garbage");
}

/// Adds the name of the step to the list, so that a test can compare the order of steps.
#[derive(Clone, Default)]
struct Steps(Arc<Mutex<Vec<&'static str>>>);

impl Steps {
    fn add(&self, step: &'static str) {
        self.0.lock().unwrap().push(step);
    }

    fn all(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

impl Reconcile for Steps {
    async fn reconcile(&self, _: &ObjectKey) -> ReconcileResult {
        self.add("controller");
        Ok(Outcome::Done)
    }
}

#[tokio::test(start_paused = true)]
async fn the_hook_of_the_provider_runs_once_before_its_controllers() {
    let bench = Bench::new().await;
    let steps = Steps::default();
    let hook = steps.clone();
    let clock = bench.context.clock.clone();
    let own = Controller::new("x.own", &clock, steps.clone()).singleton();
    let on_elected = async move {
        clock.sleep(Duration::from_secs(5)).await;
        hook.add("elected");
    };
    let work = ProviderWork { controllers: vec![own], on_elected: Some(Box::pin(on_elected)) };
    let (context, tasks) = (bench.context.clone(), bench.tasks.clone());
    bench.tasks.spawn("process", async move {
        run(&context, work, Arc::new(NoopObserver), &Shutdown::new(), &tasks).await;
    });
    bench.pass(Duration::from_secs(4)).await;
    assert!(steps.all().is_empty(), "the hook has not ended: {:?}", steps.all());
    bench.pass(Duration::from_mins(1)).await;
    assert_eq!(steps.all(), ["elected", "controller"]);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_the_hook_of_the_provider() {
    let bench = Bench::new().await;
    let (context, tasks) = (bench.context.clone(), bench.tasks.clone());
    let shutdown = Shutdown::new();
    shutdown.begin();
    let work = ProviderWork {
        on_elected: Some(Box::pin(std::future::pending())),
        ..ProviderWork::default()
    };
    run(&context, work, Arc::new(NoopObserver), &shutdown, &tasks).await;
}

#[tokio::test(start_paused = true)]
async fn informers_of_the_provider_count_for_synced_and_stale() {
    let bench = Bench::new().await;
    let (broken, faults) = bench.with_faults();
    for _ in 0..3 {
        faults.fail("GET", "/api/v1/configmaps", 500);
    }
    let clock = &bench.context.clock;
    let own: Informer<ConfigMap> = Informer::shared(kube::Api::all(broken.client.clone()), clock);
    let mut cache = bench.context.cache.clone();
    cache.add_informers(vec![InformerHandle::new("configmaps", &own)]);
    InformerHandle::new("configmaps", &own).start(&bench.tasks);
    bench.settle().await;
    let kinds = |found: Vec<(&'static str, Option<String>)>| {
        found.into_iter().map(|(kind, _)| kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(cache.unsynced_kinds()), ["configmaps"]);
    bench.pass(Duration::from_mins(1)).await;
    assert!(cache.unsynced_kinds().is_empty(), "{:?}", cache.unsynced_kinds());
    assert!(cache.stale_kinds(clock.now()).is_empty());
    for _ in 0..100 {
        faults.fail("GET", "/api/v1/configmaps", 500);
    }
    own.relist();
    bench.pass(Duration::from_mins(5)).await;
    assert_eq!(kinds(cache.stale_kinds(clock.now())), ["configmaps"]);
}

/// Upstream has a controller for VerticalPodAutoscalers and does not run it.
#[tokio::test(start_paused = true)]
async fn no_controller_watches_vertical_pod_autoscalers() {
    let gates = GATES.iter().map(|entry| entry.gate);
    let feature_gates =
        gates.fold(FeatureGates::default(), |gates, gate| gates.with_gate(gate, true));
    let bench = Bench::with_options(Options { feature_gates, ..Options::default() }).await;
    let names: Vec<_> =
        all(&bench.context).iter().map(karpenter_operator::harness::Controller::name).collect();
    assert!(names.contains(&"nodeoverlay.controller"), "all gates are on: {names:?}");
    let of_vpas = names.iter().filter(|name| name.contains("vpa"));
    assert_eq!(of_vpas.count(), 0, "40/OV-16, decided otherwise by 45 \u{a7}14: {names:?}");
}
