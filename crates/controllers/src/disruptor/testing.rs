//! A small cluster for tests of disruption.

use karpenter_core::disruption::{
    Candidate, CandidateIndex, Command, DisruptionClass, Method, PassContext, Settings,
};
use karpenter_core::plan::Plan;
use karpenter_core::testing::{TypeBuilder, instance_type};
use karpenter_operator::options::{FeatureGates, Gate, Options};
use serde_json::{Value, json};

use super::observation::Observation;
use crate::testing::Bench;
use crate::testing::fixtures::{POOL, merged, node_claim, node_pool, pod};

pub(crate) const ZONE: &str = "test-zone-1";

/// Two types in one zone: `small` has 2 CPUs for 0.1, `large` 16 for 1.0.
pub(crate) fn types() -> [TypeBuilder; 2] {
    let of = |name: &str, cpu: &str, price| {
        let base = instance_type(name).cpu(cpu).memory("64Gi").no_overhead();
        base.on_demand(ZONE, price)
    };
    [of("small", "2", 0.1), of("large", "16", 1.0)]
}

pub(crate) fn options_with_gates(gates: &[Gate]) -> Options {
    let on = gates.iter().fold(FeatureGates::default(), |all, gate| all.with_gate(*gate, true));
    Options { feature_gates: on, ..Options::default() }
}

/// A cluster with a pool that is ready, whose budgets allow everything.
pub(crate) async fn cluster(options: Options, pool_spec: &Value) -> Bench {
    let bench = Bench::with_options(options).await;
    bench.cloud.set_types(types().map(TypeBuilder::build));
    create_pool(&bench, POOL, pool_spec).await;
    bench
}

pub(crate) async fn create_pool(bench: &Bench, name: &str, spec: &Value) {
    let base = json!({"spec": {"disruption": {
        "consolidateAfter": "0s",
        "budgets": [{"nodes": "100%"}],
    }}});
    let pool = merged(merged(node_pool(name), &base), &json!({"spec": spec}));
    let status = json!({"status": {"conditions": [condition(bench, "Ready", "True")]}});
    bench.create(merged(pool, &status)).await;
}

pub(crate) fn condition(bench: &Bench, type_: &str, status: &str) -> Value {
    json!({
        "type": type_,
        "status": status,
        "reason": type_,
        "message": "",
        "lastTransitionTime": bench.context.clock.now().to_string(),
    })
}

/// A node of a type with its claim, both of which are ready for pods and quiet.
pub(crate) async fn node(bench: &Bench, name: &str, type_: &str, claim_changes: &Value) {
    let id = format!("fake:///{name}");
    let labels = json!({
        "karpenter.sh/nodepool": POOL,
        "karpenter.test.sh/testnodeclass": "default",
        "node.kubernetes.io/instance-type": type_,
        "topology.kubernetes.io/zone": ZONE,
        "karpenter.sh/capacity-type": "on-demand",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
    });
    let conditions: Vec<_> = ["Launched", "Registered", "Initialized", "Ready", "Consolidatable"]
        .iter()
        .map(|type_| condition(bench, type_, "True"))
        .collect();
    let claim = json!({
        "metadata": {"labels": labels, "finalizers": ["karpenter.sh/termination"]},
        "status": {"providerID": id, "nodeName": name, "conditions": conditions},
    });
    let claim = merged(node_claim(name, &claim), claim_changes);
    bench.create(claim.clone()).await;
    let cpu = if type_ == "large" { "16" } else { "2" };
    let size = json!({"cpu": cpu, "memory": "64Gi", "pods": "110"});
    let own = json!({
        "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true",
        "kubernetes.io/hostname": name,
    });
    let labels = merged(claim["metadata"]["labels"].clone(), &own);
    let changes = json!({
        "metadata": {"labels": labels},
        "spec": {"taints": []},
        "status": {"capacity": size, "allocatable": size},
    });
    bench.join(name, &id, &changes).await;
}

/// A pod on a node, with so many CPUs.
pub(crate) async fn running_pod(bench: &Bench, name: &str, node: &str, cpu: &str) {
    bench.create(pod(name, Some(node), &running_with_cpu(cpu))).await;
}

/// Returns the changes that make a pod run with this CPU request.
pub(crate) fn running_with_cpu(cpu: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{
            "name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}},
        }]},
        "status": {"phase": "Running"},
    })
}

/// The nodes as candidates of a command, in this order.
pub(crate) fn candidates(observation: &Observation, names: &[&str]) -> Vec<Candidate> {
    let settings = Settings::default();
    let world =
        PassContext::new(&observation.snapshot, &observation.catalog, &settings, observation.now);
    let board = CandidateIndex::new(&world);
    let all = board.candidates(DisruptionClass::Eventual);
    let find = |name: &&str| all.iter().find(|one| one.name == *name).map(|&one| one.clone());
    let found: Vec<_> = names.iter().filter_map(find).collect();
    assert_eq!(found.len(), names.len(), "all of them are candidates");
    found
}

/// A command that removes these nodes.
pub(crate) fn delete(observation: &Observation, method: Method, names: &[&str]) -> Command {
    Command {
        method,
        candidates: candidates(observation, names),
        replacements: Vec::new(),
        plan: Plan::default(),
        savings: 0.0,
        terminate_first: None,
        is_reboot: false,
        drain_bound: None,
        repair: None,
        scores: Vec::new(),
    }
}
