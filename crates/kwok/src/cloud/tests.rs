//! The cloud on the embedded API, in virtual time.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Request, Uri};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karpenter_api::crds::{CrdSet, crds};
use karpenter_api::labels;
use karpenter_apiserver::testing::environment::TestEnvironment;
use kube::api::DynamicObject;
use kube::client::Body;
use kube::core::ApiResource;
use serde_json::Value;
use tower::{ServiceExt as _, service_fn};

use super::*;
use crate::catalog::built_in;
use karpenter_operator::clock::TokioClock;
use karpenter_operator::cloud::CloudErrorClass as Class;

/// A cluster with the node class `default`, and the provider in it.
struct KwokCluster {
    client: Client,
    clock: Arc<dyn Clock>,
    tasks: Tasks,
    provider: KwokCloud,
}

impl KwokCluster {
    async fn new() -> Self {
        Self::with_failures(0).await
    }

    /// The first so many creations of Nodes fail.
    async fn with_failures(count: usize) -> Self {
        let api = karpenter_apiserver::Api::new(Arc::new(TestEnvironment::default()));
        let failed = Arc::new(AtomicUsize::new(0));
        let service = service_fn(move |mut request: Request<Body>| {
            let is_creation =
                request.method() == Method::POST && request.uri().path() == NODES_PATH;
            if is_creation && failed.fetch_add(1, Ordering::Relaxed) < count {
                *request.uri_mut() = Uri::from_static("/out-of-order");
            }
            api.service().oneshot(request)
        });
        let client = Client::new(service, "default");
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
        let tasks = Tasks::new();
        let provider = provider(&client, &clock, &tasks, 1);
        let world = Self { client, clock, tasks, provider };
        let is_used =
            |crd: &Value| CRD_PLURALS.contains(&crd["spec"]["names"]["plural"].as_str().unwrap());
        for crd in crds(CrdSet::Kwok).into_iter().filter(is_used) {
            world.create_object("apiextensions.k8s.io/v1", "customresourcedefinitions", crd).await;
        }
        world.node_class("default", json!({})).await;
        world
    }

    async fn create_object(&self, api_version: &str, plural: &str, object: Value) -> DynamicObject {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: api_version.to_owned(),
            kind: object["kind"].as_str().unwrap().to_owned(),
            plural: plural.to_owned(),
        };
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &resource);
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap()
    }

    async fn node_class(&self, name: &str, spec: Value) {
        let class = json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
            "metadata": {"name": name}, "spec": spec,
        });
        self.create_object("karpenter.kwok.sh/v1alpha1", "kwoknodeclasses", class).await;
    }

    /// A claim as it is stored.
    async fn claim(&self, name: &str, class: &str) -> NodeClaim {
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "finalizers": ["karpenter.sh/termination"]},
            "spec": {
                "requirements": [
                    {"key": labels::INSTANCE_TYPE, "operator": "In", "values": ["s-4x-amd64-linux", "s-2x-amd64-linux"]},
                    {"key": labels::CAPACITY_TYPE, "operator": "In", "values": ["spot", "on-demand"]},
                ],
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": class},
            },
        });
        let claim: NodeClaim = serde_json::from_value(claim).unwrap();
        let claims = Api::<NodeClaim>::all(self.client.clone());
        claims.create(&PostParams::default(), &claim).await.unwrap()
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    async fn node_names(&self) -> Vec<String> {
        let nodes = self.nodes().list(&ListParams::default()).await.unwrap();
        nodes.items.iter().map(kube::ResourceExt::name_any).collect()
    }

    async fn sleep_until(&self, second: i64) {
        self.clock.sleep_until(Timestamp::from_second(second).unwrap()).await;
    }
}

/// The provider of a process with this seed.
fn provider(client: &Client, clock: &Arc<dyn Clock>, tasks: &Tasks, seed: u64) -> KwokCloud {
    KwokCloud::new(
        client.clone(),
        Arc::clone(clock),
        &SeededRng::new(seed),
        tasks.clone(),
        built_in(),
    )
}

const NODES_PATH: &str = "/api/v1/nodes";
const CRD_PLURALS: [&str; 2] = ["nodeclaims", "kwoknodeclasses"];

fn provider_id(node_claim: &NodeClaim) -> &str {
    node_claim.status.as_ref().unwrap().provider_id.as_deref().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_launch_creates_the_node_of_the_cheapest_offering() {
    let world = KwokCluster::new().await;
    let launched = world.provider.create(&world.claim("web", "default").await).await.unwrap();
    let launched_labels = launched.metadata.labels.as_ref().unwrap();
    assert_eq!(launched_labels[labels::INSTANCE_TYPE], "s-2x-amd64-linux", "40/KW-04");
    assert_eq!(launched_labels[labels::CAPACITY_TYPE], "spot", "40/KW-04");
    world.sleep_until(1).await;
    let name = provider_id(&launched).strip_prefix(PROVIDER_ID_PREFIX).unwrap();
    let node = world.nodes().get(name).await.unwrap();
    assert_eq!(node.metadata.labels.as_ref(), Some(launched_labels));
    assert_eq!(node.spec.unwrap().taints.unwrap()[0].key, "karpenter.sh/unregistered");
    let allocatable = node.status.unwrap().allocatable.unwrap();
    assert_eq!(allocatable["cpu"].0, "1900m", "a status of its own at creation");
    let found = world.provider.get(provider_id(&launched)).await.unwrap();
    assert_eq!(found.status, launched.status);
    assert_eq!(world.tasks.running(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_node_appears_after_the_registration_delay() {
    let world = KwokCluster::new().await;
    world.node_class("slow", json!({"nodeRegistrationDelay": "10s"})).await;
    let launched = world.provider.create(&world.claim("web", "slow").await).await.unwrap();
    assert_eq!(world.clock.now(), Timestamp::UNIX_EPOCH, "40/KW-05");
    world.sleep_until(9).await;
    assert_eq!(world.node_names().await, [""; 0], "40/KW-05");
    let error = world.provider.get(provider_id(&launched)).await.unwrap_err();
    assert!(error.is(Class::NodeClaimNotFound), "{error}");
    world.sleep_until(11).await;
    assert_eq!(world.provider.list().await.unwrap().len(), 1, "40/KW-05");
}

#[tokio::test(start_paused = true)]
async fn a_node_class_that_is_missing_or_not_ready_launches_nothing() {
    let world = KwokCluster::new().await;
    world.node_class("broken", json!({})).await;
    let status = json!({"status": {"conditions": [{
        "type": "Ready", "status": "False", "reason": "Broken", "message": "out of order",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    let classes = Api::<KwokNodeClass>::all(world.client.clone());
    let params = PatchParams::default();
    classes.patch_status("broken", &params, &Patch::Merge(&status)).await.unwrap();
    #[rustfmt::skip]
    let cases = [
        ("40/KW-06", "missing", Class::InsufficientCapacity, "insufficient capacity, resolving node class from nodeclaim, kwoknodeclasses.karpenter.kwok.sh \"missing\" not found"),
        ("40/KW-06", "broken",  Class::NodeClassNotReady,    "NodeClassRef not ready, out of order"),
        ("a path",   "a/b",     Class::InsufficientCapacity, "insufficient capacity, resolving node class from nodeclaim, no node class can have the name \"a/b\""),
    ];
    for (number, (case, class, kind, text)) in cases.into_iter().enumerate() {
        let claim = world.claim(&format!("web-{number}"), class).await;
        let error = world.provider.create(&claim).await.unwrap_err();
        assert!(error.is(kind), "{case}: {error}");
        assert_eq!(error.to_string(), text, "{case}");
    }
    world.sleep_until(60).await;
    assert_eq!(world.node_names().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_deleting_node_is_not_an_instance() {
    let world = KwokCluster::new().await;
    let launched = world.provider.create(&world.claim("web", "default").await).await.unwrap();
    world.sleep_until(1).await;
    let name = &world.node_names().await[0];
    let finalizer = json!({"metadata": {"finalizers": ["karpenter.sh/termination"]}});
    let params = PatchParams::default();
    world.nodes().patch(name, &params, &Patch::Merge(finalizer)).await.unwrap();
    world.nodes().delete(name, &DeleteParams::default()).await.unwrap();
    let error = world.provider.get(provider_id(&launched)).await.unwrap_err();
    assert!(error.is(Class::NodeClaimNotFound), "40/KW-07: {error}");
    let listed = world.provider.list().await.unwrap();
    assert!(listed[0].metadata.deletion_timestamp.is_some(), "40/KW-07");
    let unknown = ["", "kwok://", "kwok://gone", "kwok://a/../b", "kwok://a?x=1", "aws:///a/i-1"];
    for provider_id in unknown {
        let error = world.provider.get(provider_id).await.unwrap_err();
        assert!(error.is(Class::NodeClaimNotFound), "{provider_id}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn deleting_an_instance_takes_effect_at_once() {
    let world = KwokCluster::new().await;
    let claim = world.claim("web", "default").await;
    let claims = Api::<NodeClaim>::all(world.client.clone());
    let error = world.provider.delete(&claim).await.unwrap_err();
    assert_eq!(error.to_string(), "nodeclaim not found, instance terminated", "40/KW-08");
    assert!(error.is(Class::NodeClaimNotFound), "40/KW-08");
    assert!(claims.get("web").await.unwrap().metadata.deletion_timestamp.is_some(), "40/KW-08");
    let none = json!({"metadata": {"finalizers": null}});
    claims.patch("web", &PatchParams::default(), &Patch::Merge(none)).await.unwrap();
    let error = world.provider.delete(&claim).await.unwrap_err();
    assert!(error.is(Class::NodeClaimNotFound), "40/CP-08: {error}");
    assert!(error.to_string().starts_with("deleting node, nodeclaim not found, "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_nodeclaim_of_the_same_name_with_another_uid_is_not_deleted() {
    let world = KwokCluster::new().await;
    let mut former = world.claim("web", "default").await;
    former.metadata.uid = Some("00000000-0000-4000-8000-000000000000".to_owned());
    let error = world.provider.delete(&former).await.unwrap_err();
    assert!(error.is(Class::NodeClaimNotFound), "{error}");
    let claims = Api::<NodeClaim>::all(world.client.clone());
    assert!(claims.get("web").await.unwrap().metadata.deletion_timestamp.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_repeated_launch_returns_the_same_node() {
    let world = KwokCluster::new().await;
    let claim = world.claim("web", "default").await;
    let first = world.provider.create(&claim).await.unwrap();
    world.sleep_until(1).await;
    let second = world.provider.create(&claim).await.unwrap();
    world.sleep_until(2).await;
    assert_eq!(first, second);
    assert_eq!(world.node_names().await.len(), 1);
    world.provider.create(&world.claim("other", "default").await).await.unwrap();
    world.sleep_until(3).await;
    assert_eq!(world.node_names().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_process_repeats_the_same_launch() {
    let world = KwokCluster::new().await;
    let mut claim = world.claim("web", "default").await;
    let first = world.provider.create(&claim).await.unwrap();
    world.sleep_until(1).await;
    let next = provider(&world.client, &world.clock, &world.tasks, 2);
    claim.metadata.creation_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    // What it could choose now does not matter: the instance is there.
    claim.spec.requirements[0].values = Some(vec!["s-4x-amd64-linux".to_owned()]);
    let second = next.create(&claim).await.unwrap();
    world.sleep_until(2).await;
    assert_eq!(provider_id(&first), provider_id(&second));
    assert_eq!(first.metadata.labels, second.metadata.labels);
    assert_eq!(world.node_names().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unrecorded_instance_is_deleted_with_its_nodeclaim() {
    let world = KwokCluster::new().await;
    world.node_class("slow", json!({"nodeRegistrationDelay": "10s"})).await;
    let claims = Api::<NodeClaim>::all(world.client.clone());
    let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    // One appears before its claim goes, the other one afterwards.
    for (name, class) in [("one", "default"), ("two", "slow")] {
        world.provider.create(&world.claim(name, class).await).await.unwrap();
        world.clock.sleep(Duration::from_secs(1)).await;
        claims.patch(name, &PatchParams::default(), &none).await.unwrap();
        claims.delete(name, &DeleteParams::default()).await.unwrap();
    }
    world.sleep_until(60).await;
    assert_eq!(world.node_names().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_instance_deleted_before_its_node_appears_gets_no_node() {
    let world = KwokCluster::new().await;
    world.node_class("slow", json!({"nodeRegistrationDelay": "10s"})).await;
    let mut claim = world.claim("web", "slow").await;
    claim.status = world.provider.create(&claim).await.unwrap().status;
    world.sleep_until(5).await;
    world.provider.delete(&claim).await.unwrap_err();
    world.sleep_until(60).await;
    assert_eq!(world.node_names().await, [""; 0]);
    assert_eq!(world.tasks.running(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn node_creation_is_attempted_four_times() {
    for (failures, nodes) in [(3, 1), (4, 0)] {
        let world = KwokCluster::with_failures(failures).await;
        world.provider.create(&world.claim("web", "default").await).await.unwrap();
        world.sleep_until(60).await;
        assert_eq!(world.node_names().await.len(), nodes, "{failures} failures");
        assert_eq!(world.tasks.running(), [""; 0]);
        assert!(world.provider.pending_nodes.state().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_of_other_providers_are_not_listed() {
    let world = KwokCluster::new().await;
    for (name, provider_id) in [("a", "aws:///a/i-1"), ("b", "kwok://b"), ("c", "xkwok://c")] {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name}, "spec": {"providerID": provider_id},
        });
        world.create_object("v1", "nodes", node).await;
    }
    let listed = world.provider.list().await.unwrap();
    assert_eq!(listed.iter().map(provider_id).collect::<Vec<_>>(), ["kwok://b"]);
    assert!(listed[0].metadata.creation_timestamp.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_reboot_sets_a_new_boot_id() {
    let world = KwokCluster::new().await;
    let mut claim = world.claim("web", "default").await;
    let error = world.provider.reboot(&claim, "op-1").await.unwrap_err();
    let text = "rebooting nodeclaim, node is not registered (NodeClaim=web)";
    assert_eq!(error.to_string(), text, "45/KW-4");
    claim.status = world.provider.create(&claim).await.unwrap().status;
    world.sleep_until(1).await;
    for operation in ["op-1", "op-1", "op-2"] {
        world.provider.reboot(&claim, operation).await.unwrap();
        let node = world.nodes().get(&world.node_names().await[0]).await.unwrap();
        let boot_id = node.status.unwrap().node_info.unwrap().boot_id;
        assert_eq!(boot_id, format!("kwok-{operation}"));
    }
}

#[tokio::test]
async fn every_node_pool_has_the_built_in_types() {
    let world = KwokCluster::new().await;
    let provider = &world.provider;
    assert_eq!(provider.name(), "kwok");
    assert!(provider.provider_labels().well_known.contains("karpenter.kwok.sh/instance-size"));
    let pool = NodePool::default();
    assert_eq!(provider.instance_types(&pool).await.unwrap().len(), 144, "40/KW-01");
}
