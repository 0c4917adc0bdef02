//! Tests of the controllers as one process: start, stop and cache sync.

use karpenter_operator::harness::NoopObserver;
use karpenter_operator::options::{FeatureGates, GATES, Options};

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
        run(&context, context.metrics.clone(), &Shutdown::new(), &running).await;
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
    let context = Context::new(Dependencies {
        client: broken.client,
        clock: known.clock.clone(),
        rng: known.rng.clone(),
        cloud: bench.cloud.clone(),
        options: known.options.clone(),
        metrics: known.metrics.clone(),
        events: known.events.clone(),
        executor: known.executor.clone(),
    });
    watch(&context, &bench.tasks);
    let (process, tasks) = (context.clone(), bench.tasks.clone());
    bench.tasks.spawn("process", async move {
        run(&process, Arc::new(NoopObserver), &Shutdown::new(), &tasks).await;
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
