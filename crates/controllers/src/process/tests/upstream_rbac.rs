//! A process under upstream's ClusterRoles: it gets ready and launches without a forbidden request.

use std::sync::Mutex;

use http::{Method, Request, Response};
use karpenter_core::pod::SpreadConstraint;
use karpenter_core::selector::Selector;
use karpenter_operator::health::{HealthChecks, Routes};
use kube::Client;
use kube::client::Body;
use serde_json::json;

use super::*;
use crate::process::readiness_checks;
use crate::testing::fixtures::{POOL, merged, node_class, node_pool, pod};

/// Group, resources and verbs of a rule.
type Rule = (&'static str, &'static [&'static str], &'static [&'static str]);

const READ: &[&str] = &["get", "list", "watch"];

/// The rules of upstream's 1.14 chart (spec 60 §2.6), without leases and admin roles. The test
/// provider's node class stands for ec2nodeclasses.
#[rustfmt::skip]
const RULES: &[Rule] = &[
    ("karpenter.sh", &["nodepools", "nodepools/status", "nodeclaims", "nodeclaims/status",
        "nodeoverlays", "nodeoverlays/status"], READ),
    ("autoscaling.x-k8s.io", &["capacitybuffers", "capacitybuffers/status"], READ),
    ("", &["podtemplates", "pods", "nodes", "persistentvolumes", "persistentvolumeclaims",
        "replicationcontrollers", "namespaces", "events"], READ),
    ("storage.k8s.io", &["storageclasses", "csinodes", "volumeattachments"], READ),
    ("apps", &["daemonsets", "deployments", "replicasets", "statefulsets"], READ),
    ("policy", &["poddisruptionbudgets"], READ),
    ("karpenter.sh", &["nodeclaims", "nodeclaims/status"], &["create", "delete", "update", "patch"]),
    ("karpenter.sh", &["nodepools", "nodepools/status", "nodeoverlays/status"], &["update", "patch"]),
    ("autoscaling.x-k8s.io", &["capacitybuffers/status"], &["update", "patch"]),
    ("", &["events"], &["create", "patch"]),
    ("", &["nodes"], &["patch", "delete", "update"]),
    ("", &["pods/eviction"], &["create"]),
    ("", &["pods"], &["delete"]),
    ("karpenter.test.sh", &["testnodeclasses"], READ),
    ("karpenter.test.sh", &["testnodeclasses", "testnodeclasses/status"], &["patch", "update"]),
];

/// A request as authorization sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Access {
    verb: &'static str,
    group: String,
    /// With the subresource: `pods/eviction`.
    resource: String,
}

impl Access {
    /// Returns the access of a request; none if it is not about a resource.
    fn of(request: &Request<Body>) -> Option<Self> {
        let parts: Vec<_> = request.uri().path().trim_matches('/').split('/').collect();
        let (group, mut rest) = match parts[..] {
            ["api", _, ref rest @ ..] => ("", rest),
            ["apis", group, _, ref rest @ ..] => (group, rest),
            _ => return None,
        };
        if let ["namespaces", _, inner @ ..] = rest
            && !inner.is_empty()
        {
            rest = inner;
        }
        let (resource, is_one) = match *rest {
            [] => return None,
            [resource] => (resource.to_owned(), false),
            [resource, _] => (resource.to_owned(), true),
            [resource, _, subresource, ..] => (format!("{resource}/{subresource}"), true),
        };
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
        let verb = match *request.method() {
            Method::GET if is_watch => "watch",
            Method::GET if is_one => "get",
            Method::GET => "list",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => "unknown",
        };
        Some(Self { verb, group: group.to_owned(), resource })
    }

    fn is_allowed(&self) -> bool {
        RULES.iter().any(|(group, resources, verbs)| {
            self.group == *group
                && resources.contains(&self.resource.as_str())
                && verbs.contains(&self.verb)
        })
    }
}

/// A process whose requests are authorized by upstream's rules.
struct AuthorizedProcess {
    bench: Bench,
    context: Context,
    forbidden: Arc<Mutex<Vec<Access>>>,
    readyz: HealthChecks,
}

impl AuthorizedProcess {
    /// Starts the process with all controllers, and lets a minute pass.
    async fn start(options: Options) -> Self {
        // In a box, as its future is large.
        Box::pin(Self::make(options)).await
    }

    async fn make(options: Options) -> Self {
        let bench = Bench::new().await;
        let forbidden: Arc<Mutex<Vec<Access>>> = Arc::default();
        let known = &bench.context;
        let dependencies = Dependencies {
            client: authorized_client(&known.client, &forbidden),
            clock: known.clock.clone(),
            rng: known.rng.clone(),
            provider: known.provider.clone(),
            repair_policies: known.repair_policies.clone(),
            options: Arc::new(options),
            metrics: known.metrics.clone(),
            events: known.events.clone(),
            executor: known.executor.clone(),
        };
        let context = Context::new(dependencies, bench.cloud.clone());
        let readyz = readiness_checks(&context);
        readyz.evaluate_periodically(&bench.tasks);
        watch(&context, &bench.tasks);
        let (process, tasks) = (context.clone(), bench.tasks.clone());
        bench.tasks.spawn("process", async move {
            let work = ProviderWork::default();
            run(&process, work, Arc::new(NoopObserver), &Shutdown::new(), &tasks).await;
        });
        bench.pass(Duration::from_mins(1)).await;
        Self { bench, context, forbidden, readyz }
    }

    /// Returns the status and the body of a request to `/readyz`.
    fn readyz(&self) -> (u16, String) {
        let healthz = HealthChecks::new("healthz", &self.context.clock);
        let routes = Routes::Health { healthz, readyz: self.readyz.clone() };
        let response = routes.respond(&Method::GET, "/readyz", "");
        (response.status.as_u16(), response.body)
    }

    fn forbidden(&self) -> Vec<Access> {
        self.forbidden.lock().unwrap().clone()
    }
}

/// Returns a client whose forbidden requests the API server answers with 403.
fn authorized_client(admin: &Client, forbidden: &Arc<Mutex<Vec<Access>>>) -> Client {
    let (admin, forbidden) = (admin.clone(), forbidden.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        let admin = admin.clone();
        let refused = Access::of(&request).filter(|access| !access.is_allowed());
        let answer = refused.map(|access| {
            let answer = forbid(&access);
            forbidden.lock().unwrap().push(access);
            answer
        });
        async move {
            match answer {
                Some(answer) => Ok(answer),
                None => admin.send(request).await,
            }
        }
    });
    Client::new(service, "default")
}

fn forbid(access: &Access) -> Response<Body> {
    let Access { verb, group, resource } = access;
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": format!("{resource}.{group} is forbidden: cannot {verb}"),
        "reason": "Forbidden",
        "code": 403,
    });
    let body = Body::from(status.to_string().into_bytes());
    let response = Response::builder().status(403).header("content-type", "application/json");
    response.body(body).unwrap()
}

/// Options with a default spread constraint over zones.
fn with_default_spread() -> Options {
    let constraint = SpreadConstraint {
        topology_key: "topology.kubernetes.io/zone".to_owned(),
        max_skew: 1,
        is_required: false,
        selector: Selector::Nothing,
        match_label_keys: Vec::new(),
        min_domains: None,
        honors_node_affinity: true,
        honors_node_taints: false,
    };
    Options { default_spread: vec![constraint], ..Options::default() }
}

#[tokio::test(start_paused = true)]
async fn a_process_with_upstream_permissions_is_ready_and_launches() {
    let process = AuthorizedProcess::start(Options::default()).await;
    assert!(process.context.cache.unsynced_kinds().is_empty(), "55/UP-H8");
    assert_eq!(process.readyz(), (200, "ok".to_owned()), "55/UP-H8");

    let bench = &process.bench;
    bench.create(node_class()).await;
    let ready = json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let class = json!({"status": {"conditions": [ready]}});
    bench.patch_status(merged(node_class(), &class)).await;
    bench.create(node_pool(POOL)).await;
    let unschedulable = json!({"status": {"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
    ]}});
    bench.create(pod("web", None, &unschedulable)).await;
    bench.pass(Duration::from_mins(1)).await;
    let claims = process.context.cache.node_claims.all();
    assert_eq!(claims.len(), 1, "55/UP-H8: the provisioner launches");
    bench
        .delete(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": claims[0].metadata.name}}))
        .await;
    bench.pass(Duration::from_mins(5)).await;
    assert_eq!(process.forbidden(), [], "55/UP-H8");
    assert_eq!(process.readyz(), (200, "ok".to_owned()), "55/UP-H8");
}

#[tokio::test(start_paused = true)]
async fn default_spread_constraints_require_permission_to_list_services() {
    let process = AuthorizedProcess::start(with_default_spread()).await;
    let unsynced: Vec<_> =
        process.context.cache.unsynced_kinds().into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(unsynced, ["services"], "55 §7.2");
    let (code, body) = process.readyz();
    assert_eq!(code, 500, "{body}");
    assert!(body.contains("services is forbidden") || body.contains("services."), "{body}");
    let forbidden = process.forbidden();
    assert!(
        forbidden.iter().all(|access| access.resource == "services") && !forbidden.is_empty(),
        "{forbidden:?}"
    );
}
