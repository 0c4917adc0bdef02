//! Tests that controllers in a world at rest write nothing, and few writes otherwise.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{Either, select};
use k8s_openapi::api::apps::v1::Deployment;
use karpenter_operator::rng::SeededRng;
use karpenter_sim::workloads;
use karpenter_sim::world::World;
use kube::Client;
use serde_json::json;
use tower::ServiceExt as _;

use super::actor::{Actor, deployment, template};

/// Returns a client that records its writes.
fn recording_client(world: &World) -> (Client, Arc<Mutex<Vec<String>>>) {
    let writes = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&writes);
    let service =
        world.api.service().map_request(move |request: http::Request<kube::client::Body>| {
            if request.method() != http::Method::GET {
                noted.lock().unwrap().push(format!(
                    "{} {}",
                    request.method(),
                    request.uri().path()
                ));
            }
            request
        });
    (Client::new(service, "default"), writes)
}

async fn with_workload_controllers<T>(
    world: &World,
    client: Client,
    test: impl Future<Output = T>,
) -> T {
    let controllers = workloads::run(client, Arc::clone(&world.clock), SeededRng::new(1));
    match select(Box::pin(controllers), Box::pin(test)).await {
        Either::Left((never, _)) => match never {},
        Either::Right((result, _)) => result,
    }
}

#[tokio::test(start_paused = true)]
async fn controllers_that_start_in_a_world_at_rest_write_nothing() {
    let actor = Actor::with_nodes(2).await;
    actor.apply(&deployment(4, "web:1")).await;
    let of_kind = |kind: &str, version: &str, spec: serde_json::Value| json!({"apiVersion": version, "kind": kind, "metadata": {"name": kind.to_lowercase()}, "spec": spec});
    let labelled = |app: &str| {
        let mut template = template("x:1");
        template["metadata"]["labels"]["app"] = app.into();
        json!({"selector": {"matchLabels": {"app": app}}, "template": template})
    };
    actor.apply(&of_kind("DaemonSet", "apps/v1", labelled("agent"))).await;
    let mut set = labelled("db");
    set["serviceName"] = "db".into();
    set["replicas"] = 2.into();
    actor.apply(&of_kind("StatefulSet", "apps/v1", set)).await;
    let mut work = template("work:1");
    work["metadata"]["annotations"] = json!({"sim.karpenter.sh/run-for": "5s"});
    work["spec"]["restartPolicy"] = "Never".into();
    actor.apply(&of_kind("Job", "batch/v1", json!({"template": work, "completions": 2}))).await;
    let budget = json!({"minAvailable": "50%", "selector": {"matchLabels": {"app": "db"}}});
    actor.apply(&of_kind("PodDisruptionBudget", "policy/v1", budget)).await;
    // A Deployment that cannot be placed is at rest too.
    let mut large = deployment(1, "large:1");
    large["metadata"]["name"] = "large".into();
    large["spec"]["selector"]["matchLabels"]["app"] = "large".into();
    large["spec"]["template"]["metadata"]["labels"]["app"] = "large".into();
    large["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] =
        "999".into();
    actor.apply(&large).await;
    actor.advance(700).await;
    assert_eq!(actor.running().await.len(), 4 + 2 + 2);

    let (client, writes) = recording_client(&actor.world);
    with_workload_controllers(&actor.world, client, actor.advance(600)).await;
    assert_eq!(*writes.lock().unwrap(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn many_replicas_cost_one_write_each() {
    const MANY: u32 = 600;
    let actor = Actor::without_actors();
    let (client, writes) = recording_client(&actor.world);
    let test = async {
        actor.apply(&deployment(MANY, "web:1")).await;
        actor.advance(30).await;
        let made = std::mem::take(&mut *writes.lock().unwrap());
        let few = made.len() - MANY as usize;
        assert!(few < 40, "{few} writes beyond one per pod");
        let web: Deployment = actor.get("web").await;
        assert_eq!(web.status.unwrap().replicas, i32::try_from(MANY).ok());
        actor.patch::<Deployment>("web", json!({"spec": {"replicas": 0}})).await;
        actor.advance(30).await;
        let few = writes.lock().unwrap().len() - MANY as usize;
        assert!(few < 40, "{few} writes beyond one per pod");
        let web: Deployment = actor.get("web").await;
        assert_eq!(web.status.unwrap().replicas, None);
    };
    with_workload_controllers(&actor.world, client, test).await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_with_rejected_pods_backs_off_with_a_condition() {
    let actor = Actor::without_actors();
    let refused = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&refused);
    let inner = actor.world.api.service();
    let service = tower::service_fn(move |mut request: http::Request<kube::client::Body>| {
        let is_pod =
            request.method() == http::Method::POST && request.uri().path().ends_with("/pods");
        if is_pod {
            counted.fetch_add(1, Ordering::Relaxed);
            // No API server serves this.
            *request.uri_mut() = "/api/v1/namespaces/default/nothing".parse().unwrap();
        }
        inner.clone().oneshot(request)
    });
    let client = Client::new(service, "default");
    let test = async {
        actor.apply(&deployment(100, "web:1")).await;
        actor.world.clock.sleep(Duration::from_mins(1)).await;
    };
    with_workload_controllers(&actor.world, client, test).await;
    let tries = refused.load(Ordering::Relaxed);
    assert!((3..12).contains(&tries), "{tries} tries, one pod each");
    let web: Deployment = actor.get("web").await;
    let conditions = web.status.unwrap().conditions.unwrap();
    let failure = conditions.iter().find(|condition| condition.type_ == "ReplicaFailure").unwrap();
    assert_eq!(failure.reason.as_deref(), Some("FailedCreate"));
}
