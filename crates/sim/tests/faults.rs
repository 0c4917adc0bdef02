//! Tests of whole worlds with faults, on virtual time.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_operator::clock::TokioClock;
use karpenter_sim::check::{self, Checker, WorldSnapshot};
use karpenter_sim::scenario::{FIXED_START, Scenario, play};
use karpenter_sim::timeline::Timeline;
use karpenter_sim::world::World;
use kube::api::{EvictParams, ListParams, PatchParams};
use kube::{Api, ResourceExt as _};

const CLASS: &str = "
- apiVersion: karpenter.kwok.sh/v1alpha1
  kind: KWOKNodeClass
  metadata: {name: default}";

/// Twenty-four pods that spread over zones, and request about half of three nodes.
fn pods() -> String {
    let pod = |n: u32| {
        format!(
            "
- apiVersion: v1
  kind: Pod
  metadata: {{name: web-{n}, namespace: default, labels: {{app: web}}}}
  spec:
    topologySpreadConstraints:
    - {{maxSkew: 2, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {{matchLabels: {{app: web}}}}}}
    containers: [{{name: web, image: web, resources: {{requests: {{cpu: 200m, memory: 128Mi}}}}}}]"
        )
    };
    (0..24).map(pod).collect()
}

const NODES: &str = "
- {at: 2s, launch: {name: a, instanceType: c-4x-amd64-linux, zone: test-zone-a}}
- {at: 2s, launch: {name: b, instanceType: c-4x-amd64-linux, zone: test-zone-b}}
- {at: 30s, launch: {name: c, instanceType: c-4x-amd64-linux, zone: test-zone-c}}";

fn scenario(faults: &str, objects: &str, steps: &str) -> Scenario {
    let yaml = format!("name: x\nfaults: {faults}\nobjects: {objects}\nsteps: {steps}\n");
    Scenario::parse(&yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"))
}

fn world(seed: u64, scenario: &Scenario) -> World {
    karpenter_sim::kwok::world(
        Arc::new(TokioClock::starting_at(scenario.start.unwrap_or(FIXED_START))),
        seed,
    )
}

/// A played world with its violations, during the steps and at rest.
struct PlayedWorld {
    world: World,
    violations: Vec<String>,
    at_rest: Vec<String>,
    faults: Vec<String>,
    /// The injected faults, for the message when a test fails.
    states: Vec<String>,
}

/// Taints and readiness of nodes, and what the scheduler says of pods.
fn states(snapshot: &WorldSnapshot) -> Vec<String> {
    let nodes = snapshot.nodes.iter().map(|node| {
        let ready = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let ready = ready.into_iter().find(|c| c.type_ == "Ready").map(|c| c.status.clone());
        let taints = node.spec.clone().unwrap_or_default().taints.unwrap_or_default();
        let taints: Vec<_> = taints.into_iter().map(|taint| taint.key).collect();
        format!("{}: ready {ready:?}, taints {taints:?}", node.name_any())
    });
    let pods = snapshot.pods.iter().flat_map(|pod| {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().filter_map(|condition| condition.message.clone())
    });
    let mut states: Vec<_> = nodes.chain(pods).collect();
    states.dedup();
    states
}

async fn play_and_check(world: World, scenario: &Scenario, then: Duration) -> PlayedWorld {
    play::load(&world, scenario).await.unwrap();
    let mut checker = play::play(&world, scenario, &Timeline::new(world.start)).await.unwrap();
    let end = world.clock.now() + then;
    while world.clock.now() < end {
        world.clock.sleep(Duration::from_secs(20)).await;
        checker.check(&WorldSnapshot::gather(&world).await.unwrap());
    }
    let snapshot = WorldSnapshot::gather(&world).await.unwrap();
    let texts = |found: Vec<check::Violation>| found.iter().map(ToString::to_string).collect();
    let journal = world.faults.journal.since(0);
    PlayedWorld {
        states: states(&snapshot),
        violations: texts(checker.violations().cloned().collect()),
        at_rest: texts(check::violations_at_rest(&snapshot)),
        faults: journal.iter().map(|fault| format!("{} {fault}", fault.at)).collect(),
        world,
    }
}

const NOTHING: [&str; 0] = [];

/// Plays a world whose API fails often for the scheduler and the kubelets.
async fn play_with_faulty_actors(seed: u64) -> PlayedWorld {
    let faults = "{for: 10m, api: {errors: 0.1, conflicts: 0.1, slow: {rate: 0.1, by: 2s}, \
                  lostAnswers: 0.1, timeouts: 0.02, expired: 0.2, watchCuts: 0.1, \
                  watchDelays: {rate: 0.05, by: 3s}, duplicates: 0.1, reorders: 0.1}}";
    let scenario = scenario(faults, &format!("{CLASS}{}", pods()), NODES);
    let world = world(seed, &scenario);
    world.begin_with(&world.product_client()).await.unwrap();
    let played = play_and_check(world, &scenario, Duration::from_mins(40)).await;
    played.world.end().await;
    played
}

#[tokio::test(start_paused = true)]
async fn a_world_comes_to_rest_after_api_faults_end() {
    for seed in 1..=3 {
        let played = play_with_faulty_actors(seed).await;
        assert!(played.faults.len() > 50, "seed {seed}: {} faults", played.faults.len());
        assert_eq!(played.violations, NOTHING, "seed {seed}");
        assert_eq!(played.at_rest, NOTHING, "seed {seed}: {:#?}", played.states);
    }
}

#[test]
fn the_same_seed_gives_a_world_the_same_faults() {
    // Each in a runtime of its own: tokio counts its milliseconds from where that began.
    let faults = || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(play_with_faulty_actors(3)).faults
    };
    let (first, second) = (faults(), faults());
    let other = first.iter().zip(&second).find(|(first, second)| first != second);
    assert_eq!(other, None);
    assert_eq!(first.len(), second.len());
}

#[tokio::test(start_paused = true)]
async fn a_world_comes_to_rest_after_cloud_faults_end() {
    let faults = "{for: 10m, cloud: {launchDelay: 20s, shortages: [{zone: test-zone-a, until: 3m}], \
                  errors: 0.3, slow: {rate: 0.3, by: 5s}, lostAnswers: 0.3}}";
    let scenario = scenario(faults, &format!("{CLASS}{}", pods()), NODES);
    for seed in 1..=6 {
        let world = world(seed, &scenario);
        world.begin().await.unwrap();
        let played = play_and_check(world, &scenario, Duration::from_mins(15)).await;
        let kinds = ["launch delayed", "out of capacity"];
        for kind in kinds {
            assert!(played.faults.iter().any(|fault| fault.contains(kind)), "{:?}", played.faults);
        }
        assert_eq!(played.violations, NOTHING, "seed {seed}");
        assert_eq!(played.at_rest, NOTHING, "seed {seed}: {:#?}", played.states);
        played.world.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_never_registers_is_deleted_after_the_timeout() {
    let steps = "[{at: 2s, launch: {instanceType: c-4x-amd64-linux}}]";
    let scenario = scenario("{cloud: {failedRegistrations: 1}}", CLASS, steps);
    let world = world(1, &scenario);
    world.begin().await.unwrap();
    let played = play_and_check(world, &scenario, Duration::from_mins(20)).await;
    let nodes: Api<Node> = Api::all(played.world.client());
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 0);
    assert_eq!(played.world.cloud.list().await.unwrap().len(), 0);
    assert_eq!(played.violations, NOTHING);
    assert_eq!(played.at_rest, NOTHING);
    played.world.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_node_and_claim_of_a_lost_instance_are_deleted() {
    let steps = "[{at: 2s, launch: {instanceType: c-4x-amd64-linux}}]";
    let scenario = scenario("{cloud: {lostInstances: {rate: 1, within: 5m}}}", CLASS, steps);
    let world = world(1, &scenario);
    world.begin().await.unwrap();
    let played = play_and_check(world, &scenario, Duration::from_mins(25)).await;
    let nodes: Api<Node> = Api::all(played.world.client());
    let nodes = nodes.list(&ListParams::default()).await.unwrap().items;
    assert!(nodes.is_empty(), "{nodes:?}");
    assert!(played.faults.iter().any(|fault| fault.contains("lost")), "{:?}", played.faults);
    assert_eq!(played.violations, NOTHING);
    assert_eq!(played.at_rest, NOTHING);
    played.world.end().await;
}

#[tokio::test(start_paused = true)]
async fn deleting_a_claim_before_its_launch_deletes_no_pods() {
    let steps = "
- {at: 2s, launch: {instanceType: c-4x-amd64-linux}}
- {at: 10s, remove: {claims: [node-1]}}";
    let scenario = scenario("{cloud: {launchDelay: 1m}}", &format!("{CLASS}{}", pods()), steps);
    let world = world(1, &scenario);
    world.begin().await.unwrap();
    let played = play_and_check(world, &scenario, Duration::from_secs(30)).await;
    let pods: Api<Pod> = Api::all(played.world.client());
    let pods = pods.list(&ListParams::default()).await.unwrap().items;
    let left = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    assert_eq!(left.count(), 24);
    played.world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_counts_against_its_budget() {
    let budget = "
- apiVersion: policy/v1
  kind: PodDisruptionBudget
  metadata: {name: web, namespace: default}
  spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}";
    let scenario = scenario("{}", &format!("{CLASS}{}{budget}", pods()), NODES);
    let world = world(1, &scenario);
    world.begin().await.unwrap();
    let played = play_and_check(world, &scenario, Duration::from_mins(5)).await;
    let client = played.world.client();
    // No controller runs any more to correct it: two pods may go, although the budget says one.
    played.world.end().await;
    let budgets: Api<k8s_openapi::api::policy::v1::PodDisruptionBudget> =
        Api::namespaced(client.clone(), "default");
    let status = serde_json::json!({"status": {
        "expectedPods": 24, "desiredHealthy": 23, "currentHealthy": 24, "disruptionsAllowed": 2,
        "observedGeneration": 1,
    }});
    let patch = kube::api::Patch::Merge(status);
    budgets.patch_status("web", &PatchParams::default(), &patch).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client, "default");
    let mut found: Vec<Vec<String>> = Vec::new();
    for name in ["web-1", "web-2"] {
        pods.evict(name, &EvictParams::default()).await.unwrap();
        let snapshot = WorldSnapshot::gather(&played.world).await.unwrap();
        found.push(Checker::default().check(&snapshot).iter().map(ToString::to_string).collect());
    }
    let expected: [Vec<String>; 2] =
        [vec![], vec!["2 pods of budget default/web are evicted at once, of 1".to_owned()]];
    assert_eq!(found, expected);
}

#[tokio::test(start_paused = true)]
async fn a_faults_step_replaces_earlier_faults_and_expires() {
    let steps = "
- {at: 1m, faults: {api: {errors: 1}, for: 1m}}
- {at: 2m30s, faults: {cloud: {errors: 1}}}
- {at: 3m, faults: {}}
- {at: 3m30s, say: the end}";
    let scenario = scenario("{cloud: {errors: 1}}", "[]", steps);
    let world = world(1, &scenario);
    world.begin().await.unwrap();
    let timeline = Timeline::new(world.start);
    let samples = async {
        let mut seen = Vec::new();
        for _ in 0..7 {
            let api = world.product_client().apiserver_version().await.is_ok();
            let cloud = world.cloud.list().await.is_ok();
            seen.push((api, cloud));
            world.clock.sleep(Duration::from_secs(30)).await;
        }
        seen
    };
    // The first check is at 15 s, the next ones half a minute later each.
    let samples = async {
        world.clock.sleep(Duration::from_secs(15)).await;
        samples.await
    };
    let (seen, played) =
        futures_util::future::join(samples, play::play(&world, &scenario, &timeline)).await;
    played.unwrap();
    #[rustfmt::skip]
    let expected = [
        // 15s, 45s: cloud; 1m15s, 1m45s: API; 2m15s: none; 2m45s: cloud; 3m15s: none
        (true, false), (true, false), (false, true), (false, true), (true, true), (true, false), (true, true),
    ];
    assert_eq!(seen, expected);
    let words: BTreeSet<_> = timeline.since(0).iter().map(|entry| entry.text.clone()).collect();
    assert!(words.contains("faults begin") && words.contains("no more faults"), "{words:?}");
    world.end().await;
}
