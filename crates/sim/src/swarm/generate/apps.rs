//! Generates the workloads of a world: apps, budgets and Jobs.

use std::time::Duration;

use karpenter_api::annotations::DO_NOT_DISRUPT;
use karpenter_api::labels;
use karpenter_operator::rng::SeededRng;
use serde_json::{Value, json};

use super::pools::{self, Kind, Pool};
use super::random_time;
use crate::kubelet::{RUN_FOR, STOP_AFTER};
use crate::swarm::plan::{PlanAction, Step};

/// The most cores that one app may request: a world has thirty nodes, no more.
const MOST_CORES: f64 = 16.0;

/// Pods that one app may have at most.
const MOST_PODS: u64 = 40;

#[derive(Debug, Clone)]
pub(super) struct App {
    pub(super) kind: &'static str,
    pub(super) name: String,
    /// The most replicas of the app; 0 if the plan does not scale it.
    pub(super) max_replicas: u64,
    /// The app itself first, then what comes with it.
    pub(super) manifests: Vec<Value>,
}

impl App {
    /// Returns the app with another template, so that its pods are replaced.
    pub(super) fn with_release(&self, release: u64) -> Value {
        let mut manifest = self.manifests.first().cloned().unwrap_or_default();
        manifest["spec"]["template"]["metadata"]["annotations"]["example.com/release"] =
            release.to_string().into();
        manifest
    }
}

/// Adds the do-not-disrupt annotation to the pods of some apps.
/// Returns the apps, without the annotation, for which it does not expire soon.
pub(super) fn add_do_not_disrupt(rng: &mut SeededRng, apps: &mut [App]) -> Vec<Value> {
    let mut unprotected = Vec::new();
    for app in apps.iter_mut().filter(|app| app.max_replicas > 0) {
        if !rng.random_bool(0.2) {
            continue;
        }
        let how = *rng.pick(&["true", "10m", "1h"]).expect("there are some");
        // What ends soon ends by itself.
        if how != "10m" {
            unprotected.push(app.with_release(1000));
        }
        let template = &mut app.manifests[0]["spec"]["template"];
        template["metadata"]["annotations"][DO_NOT_DISRUPT] = how.into();
    }
    unprotected
}

/// Adds PodDisruptionBudgets that block every eviction for a while.
pub(super) fn add_blocking_budgets(
    steps: &mut Vec<Step>,
    rng: &mut SeededRng,
    apps: &[App],
    last: Duration,
) {
    for app in apps.iter().filter(|app| app.max_replicas > 0) {
        if !rng.random_bool(0.3) {
            continue;
        }
        let at = random_time(rng, last.mul_f64(0.85));
        let until = at + rng.duration(last / 100..last / 8);
        let none = pod_budget(&app.name, json!({"maxUnavailable": 0}));
        let usual = app.manifests.iter().find(|manifest| manifest["kind"] == none["kind"]);
        let lifted =
            usual.cloned().map_or_else(|| PlanAction::Delete(none.clone()), PlanAction::Apply);
        steps.push(Step { at, action: PlanAction::Apply(none) });
        steps.push(Step { at: until, action: lifted });
    }
}

pub(super) fn random_apps(rng: &mut SeededRng, pools: &[Pool]) -> Vec<App> {
    let has = |kind: Kind| pools.iter().any(|pool| pool.kind == kind);
    let mut apps = Vec::new();
    for number in 0..rng.range(2..6) {
        apps.push(deployment(rng, number, &has));
    }
    for number in 0..rng.range(0..3) {
        apps.push(stateful_set(rng, number));
    }
    for number in 0..rng.range(0..3) {
        apps.push(daemon_set(rng, number));
    }
    apps
}

/// A template of one container with random requests, and how many of it fit into [`MOST_CORES`].
fn template(rng: &mut SeededRng, app: &str) -> (Value, u64) {
    let sizes = [("100m", 0.1), ("250m", 0.25), ("500m", 0.5), ("1", 1.0), ("2", 2.0)];
    let (cpu, cores) = *rng.pick(&sizes).expect("there are sizes");
    let memory = *rng.pick(&["64Mi", "256Mi", "1Gi"]).expect("there are sizes");
    let mut annotations = json!({});
    if rng.random_bool(0.2) {
        annotations[STOP_AFTER] = format!("{}s", rng.range(1..60)).into();
    }
    let template = json!({
        "metadata": {"labels": {"app": app}, "annotations": annotations},
        "spec": {
            "terminationGracePeriodSeconds": rng.range(5..60),
            "containers": [{
                "name": "app", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": memory}},
            }],
        },
    });
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
    let fitting = (MOST_CORES / cores) as u64;
    (template, fitting.clamp(1, MOST_PODS))
}

fn deployment(rng: &mut SeededRng, number: u64, has: &dyn Fn(Kind) -> bool) -> App {
    let name = format!("app-{number}");
    let (mut template, mut most) = template(rng, &name);
    let spec = &mut template["spec"];
    let selector = json!({"matchLabels": {"app": name}});
    let spread = |key: &str, skew: u64, otherwise: &str| {
        json!([{
            "maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": otherwise,
            "labelSelector": selector,
        }])
    };
    match rng.range(0..7) {
        0 => spec["topologySpreadConstraints"] = spread(labels::ZONE, 1, "DoNotSchedule"),
        1 => spec["topologySpreadConstraints"] = spread(labels::HOSTNAME, 4, "DoNotSchedule"),
        2 => spec["topologySpreadConstraints"] = spread(labels::HOSTNAME, 1, "ScheduleAnyway"),
        3 => {
            let term = json!({"topologyKey": labels::HOSTNAME, "labelSelector": selector});
            let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
            spec["affinity"] = json!({"podAntiAffinity": required});
            most = most.min(5);
        }
        4 => {
            let term = json!({"topologyKey": labels::ZONE, "labelSelector": selector});
            let preferred = json!([{"weight": 10, "podAffinityTerm": term}]);
            let preferred = json!({"preferredDuringSchedulingIgnoredDuringExecution": preferred});
            spec["affinity"] = json!({"podAffinity": preferred});
        }
        _ => {}
    }
    match rng.range(0..4) {
        0 if has(Kind::Arm) => spec["nodeSelector"] = json!({labels::ARCH: labels::ARM64}),
        1 if has(Kind::Dedicated) => pools::select_team_nodes(spec),
        _ => {}
    }
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": rng.range(0..most + 1),
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    });
    let mut manifests = vec![deployment];
    manifests.extend(budget(rng, &name));
    App { kind: "Deployment", name, max_replicas: most, manifests }
}

/// Returns budgets that allow one eviction, to replace blocking `minAvailable` ones.
/// Half of one pod is one.
pub(super) fn relaxed_budgets(apps: &[App]) -> impl Iterator<Item = Value> {
    let budgets = apps.iter().flat_map(|app| app.manifests.iter().map(|one| (&app.name, one)));
    let holding = budgets.filter(|(_, manifest)| manifest["spec"].get("minAvailable").is_some());
    holding.map(|(app, _)| pod_budget(app, json!({"maxUnavailable": 1})))
}

/// A budget that lets at least one of two pods go.
fn budget(rng: &mut SeededRng, app: &str) -> Option<Value> {
    let limit = match rng.range(0..5) {
        0 => json!({"maxUnavailable": 1}),
        1 => json!({"maxUnavailable": "30%"}),
        2 => json!({"minAvailable": "50%"}),
        _ => return None,
    };
    Some(pod_budget(app, limit))
}

fn pod_budget(app: &str, mut spec: Value) -> Value {
    spec["selector"] = json!({"matchLabels": {"app": app}});
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": spec,
    })
}

pub(super) fn storage_class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disk"},
        "provisioner": "disk.example.com", "volumeBindingMode": "WaitForFirstConsumer",
    })
}

fn stateful_set(rng: &mut SeededRng, number: u64) -> App {
    let name = format!("db-{number}");
    let (template, most) = template(rng, &name);
    let most = most.min(6);
    let mut set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": rng.range(1..most + 1), "serviceName": name,
            "podManagementPolicy": rng.pick(&["OrderedReady", "Parallel"]),
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    });
    if rng.random_bool(0.7) {
        set["spec"]["volumeClaimTemplates"] = json!([{
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "disk",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }]);
    }
    let mut manifests = vec![set];
    if rng.random_bool(0.5) {
        manifests.extend(budget(rng, &name));
    }
    App { kind: "StatefulSet", name, max_replicas: most, manifests }
}

fn daemon_set(rng: &mut SeededRng, number: u64) -> App {
    let name = format!("agent-{number}");
    let tolerations =
        if rng.random_bool(0.7) { json!([{"operator": "Exists"}]) } else { json!([]) };
    let set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "tolerations": tolerations,
                    "containers": [{
                        "name": "agent", "image": "agent",
                        "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}},
                    }],
                },
            },
        },
    });
    App { kind: "DaemonSet", name, max_replicas: 0, manifests: vec![set] }
}

/// Adds Jobs that are created in the course of the day.
pub(super) fn add_jobs(steps: &mut Vec<Step>, rng: &mut SeededRng, last: Duration) {
    for number in 0..rng.range(0..6) {
        let name = format!("job-{number}");
        let (mut template, most) = template(rng, &name);
        template["metadata"]["annotations"][RUN_FOR] =
            format!("{}s", rng.range(20..last.as_secs() / 40)).into();
        if rng.random_bool(0.3) {
            template["metadata"]["annotations"][DO_NOT_DISRUPT] = "true".into();
        }
        template["spec"]["restartPolicy"] = "Never".into();
        let parallelism = rng.range(2..most.clamp(2, 12) + 1);
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "parallelism": parallelism,
                "completions": parallelism + rng.range(0..4),
                "backoffLimit": 1000,
                "template": template,
            },
        });
        steps.push(Step { at: random_time(rng, last), action: PlanAction::Apply(job) });
    }
}
