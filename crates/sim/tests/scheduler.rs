//! Tests of the simulated scheduler on the embedded API, on a virtual clock.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{Either, select};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use karpenter_apiserver::environment::Environment;
use karpenter_apiserver::{Api as Server, ApiOptions};
use karpenter_operator::clock::{Clock, TokioClock};
use karpenter_operator::rng::SeededRng;
use karpenter_sim::scheduler;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";

#[derive(Debug)]
struct TestEnvironment {
    clock: Arc<dyn Clock>,
    rng: Mutex<SeededRng>,
}

impl Environment for TestEnvironment {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.clock.sleep(duration)
    }

    fn random(&self) -> u128 {
        self.rng.lock().unwrap().u128()
    }
}

/// The client and clock of a test.
struct TestClient {
    client: Client,
    clock: Arc<dyn Clock>,
}

/// Runs a test beside a scheduler.
async fn with_scheduler<T, F: Future<Output = T>>(test: impl FnOnce(TestClient) -> F) -> T {
    let clock: Arc<dyn Clock> =
        Arc::new(TokioClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
    let world = TestEnvironment { clock: Arc::clone(&clock), rng: Mutex::new(SeededRng::new(1)) };
    let api = Server::with_options(Arc::new(world), ApiOptions { service_accounts: false });
    let client = Client::new(api.service(), "default");
    let test = test(TestClient { client: client.clone(), clock: Arc::clone(&clock) });
    match select(Box::pin(scheduler::run(client, clock)), Box::pin(test)).await {
        Either::Left((never, _)) => match never {},
        Either::Right((result, _)) => result,
    }
}

impl TestClient {
    async fn create<K>(&self, api: Api<K>, object: Value) -> K
    where
        K: Clone + DeserializeOwned + std::fmt::Debug + Serialize,
    {
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::default_namespaced(self.client.clone())
    }

    async fn node(&self, name: &str, zone: &str, cpu: &str) {
        let labels = json!({ ZONE: zone, "kubernetes.io/hostname": name });
        let allocatable = json!({ "cpu": cpu, "memory": "16Gi", "pods": "110" });
        let node = self.create(
            self.nodes(),
            json!({
                "metadata": { "name": name, "labels": labels },
                "status": { "allocatable": allocatable },
            }),
        );
        node.await;
        // The API taints new nodes; the node lifecycle controller is not here.
        let ready = Patch::Merge(json!({ "spec": { "taints": null } }));
        self.nodes().patch(name, &PatchParams::default(), &ready).await.unwrap();
    }

    async fn pod(&self, name: &str, more: Value) {
        let mut spec = json!({ "containers": [
            { "name": "c", "image": "x", "resources": { "requests": { "cpu": "1" } } },
        ] });
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        self.create(self.pods(), json!({ "metadata": { "name": name }, "spec": spec })).await;
    }

    /// The node of a pod, and the status, reason and message of its condition.
    async fn scheduling_status(&self, name: &str) -> (Option<String>, Vec<String>) {
        let pod = self.pods().get(name).await.unwrap();
        let conditions = pod.status.unwrap_or_default().conditions.unwrap_or_default();
        let condition = conditions.into_iter().find(|condition| condition.type_ == "PodScheduled");
        let texts = condition.map_or(vec![], |found| {
            [Some(found.status), found.reason, found.message].into_iter().flatten().collect()
        });
        (pod.spec.unwrap().node_name, texts)
    }

    async fn advance(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// Reason, note and reporter of all events, in the order of their names.
    async fn events(&self) -> Vec<String> {
        let events: Api<Event> = Api::default_namespaced(self.client.clone());
        let events = events.list(&ListParams::default()).await.unwrap();
        let text = |event: Event| {
            let texts = [event.type_, event.reason, event.note, event.reporting_controller];
            texts.map(Option::unwrap_or_default).join(" | ")
        };
        events.items.into_iter().map(text).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_and_a_scheduled_event_is_emitted() {
    with_scheduler(async |actor| {
        actor.node("a", "1", "4").await;
        actor.pod("web", json!({})).await;
        actor.advance(1).await;
        assert_eq!(
            actor.scheduling_status("web").await,
            (Some("a".to_owned()), vec!["True".to_owned()])
        );
        assert_eq!(
            actor.events().await,
            ["Normal | Scheduled | Successfully assigned default/web to a | default-scheduler"]
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_unschedulable_pod_has_a_condition_until_a_node_fits() {
    with_scheduler(async |actor| {
        actor.node("small", "1", "500m").await;
        actor.pod("web", json!({})).await;
        actor.advance(1).await;
        let message = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, \
                       preemption: 0/1 nodes are available: 1 Preemption is not helpful for \
                       scheduling.";
        let expected = ["False", "Unschedulable", message].map(str::to_owned).to_vec();
        assert_eq!(actor.scheduling_status("web").await, (None, expected));
        assert_eq!(
            actor.events().await,
            [format!("Warning | FailedScheduling | {message} | default-scheduler")]
        );
        actor.node("large", "1", "4").await;
        actor.advance(2).await;
        assert_eq!(actor.scheduling_status("web").await.0.as_deref(), Some("large"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_scheduler_writes_nothing_while_nothing_changes() {
    with_scheduler(async |actor| {
        actor.pod("web", json!({})).await;
        actor.advance(5).await;
        let before = actor.pods().get("web").await.unwrap();
        assert_eq!(
            actor.scheduling_status("web").await.1[2],
            "no nodes available to schedule pods"
        );
        // It is tried again, some times.
        actor.advance(1800).await;
        assert_eq!(actor.pods().get("web").await.unwrap(), before);
        assert_eq!(actor.events().await.len(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn gated_pods_are_not_scheduled_until_the_gate_is_removed() {
    with_scheduler(async |actor| {
        actor.node("a", "1", "4").await;
        actor.pod("web", json!({ "schedulingGates": [{ "name": "x.io/wait" }] })).await;
        actor.advance(5).await;
        let (node, condition) = actor.scheduling_status("web").await;
        assert_eq!((node, condition[1].as_str()), (None, "SchedulingGated"));
        let open = Patch::Merge(json!({ "spec": { "schedulingGates": null } }));
        actor.pods().patch("web", &PatchParams::default(), &open).await.unwrap();
        actor.advance(5).await;
        assert_eq!(actor.scheduling_status("web").await.0.as_deref(), Some("a"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_pending_volume_claim_gets_a_volume_in_the_zone_of_the_node() {
    with_scheduler(async |actor| {
        actor.node("a", "1", "500m").await;
        actor.node("b", "2", "4").await;
        let classes: Api<StorageClass> = Api::all(actor.client.clone());
        actor
            .create(
                classes,
                json!({
                    "metadata": { "name": "wait" }, "provisioner": "x.io/disk",
                    "volumeBindingMode": "WaitForFirstConsumer",
                }),
            )
            .await;
        actor
            .create(
                actor.claims(),
                json!({
                    "metadata": { "name": "data" },
                    "spec": {
                        "accessModes": ["ReadWriteOnce"], "storageClassName": "wait",
                        "resources": { "requests": { "storage": "10Gi" } },
                    },
                }),
            )
            .await;
        let volumes = json!({ "volumes": [
            { "name": "v", "persistentVolumeClaim": { "claimName": "data" } },
        ] });
        actor.pod("db", volumes.clone()).await;
        actor.advance(5).await;
        assert_eq!(
            actor.scheduling_status("db").await.0.as_deref(),
            Some("b"),
            "{:?}",
            actor.scheduling_status("db").await
        );
        let claim = actor.claims().get("data").await.unwrap();
        let status = claim.status.unwrap();
        assert_eq!(status.phase.as_deref(), Some("Bound"));
        let name = format!("pvc-{}", claim.metadata.uid.unwrap());
        assert_eq!(claim.spec.unwrap().volume_name.as_ref(), Some(&name));
        let stored: Api<PersistentVolume> = Api::all(actor.client.clone());
        let volume = serde_json::to_value(stored.get(&name).await.unwrap()).unwrap();
        let term = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0];
        let zone = json!([{ "key": ZONE, "operator": "In", "values": ["2"] }]);
        assert_eq!(term["matchExpressions"], zone);
        assert_eq!(volume["spec"]["claimRef"]["name"], "data");
        assert_eq!(volume["status"]["phase"], "Bound");

        // The volume holds the next one there, whichever node has capacity.
        let full = Patch::Merge(json!({ "status": { "allocatable": { "cpu": "1" } } }));
        actor.nodes().patch_status("b", &PatchParams::default(), &full).await.unwrap();
        let large = Patch::Merge(json!({ "status": { "allocatable": { "cpu": "9" } } }));
        actor.nodes().patch_status("a", &PatchParams::default(), &large).await.unwrap();
        actor.pod("second", volumes).await;
        actor.advance(5).await;
        let (node, condition) = actor.scheduling_status("second").await;
        assert_eq!(node, None);
        let reasons = "1 Insufficient cpu, 1 node(s) didn't match PersistentVolume's node affinity";
        assert!(condition[2].contains(reasons), "{condition:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn scheduling_the_same_cluster_twice_gives_the_same_result() {
    let run = || {
        with_scheduler(async |actor| {
            for n in 0..5 {
                actor.node(&format!("n{n}"), if n % 2 == 0 { "1" } else { "2" }, "3").await;
            }
            for n in 0..20 {
                actor.pod(&format!("p{n}"), json!({})).await;
            }
            actor.advance(60).await;
            let pods = actor.pods().list(&ListParams::default()).await.unwrap();
            (serde_json::to_string(&pods).unwrap(), actor.events().await)
        })
    };
    let first = run().await;
    assert_eq!(first, run().await);
    assert_eq!(first.1.iter().filter(|event| event.starts_with("Normal")).count(), 15);
}
