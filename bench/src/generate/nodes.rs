//! Generates the existing nodes and the pods that run on them.

use serde_json::{Map, Value, json};

use super::objects::{
    ARCH, CAPACITY_TYPE, CPU_LABEL, FAMILY, HOSTNAME, ZONE, ZONES, conditions, container,
    node_class_ref, owner, pod, requirement,
};
use super::{Case, Feature, Features, Profile, Recipe, disruption, volumes};
use crate::random::SeededRng;

/// The state of a generated node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeState {
    Ordinary,
    /// Registered, but not ready for pods.
    Starting,
    /// A NodeClaim whose node has not joined.
    Launched,
    Tainted,
    Cordoned,
    Deleting,
    /// Not made by Karpenter.
    Foreign,
}

/// An existing node: size, place, NodePool and state.
struct GeneratedNode {
    number: usize,
    cpu: usize,
    memory: usize,
    family: &'static str,
    zone: &'static str,
    capacity_type: &'static str,
    pool: &'static str,
    state: NodeState,
}

pub(super) fn add_nodes(
    recipe: &Recipe,
    features: Features,
    random: &mut SeededRng,
    case: &mut Case,
) {
    let packed = recipe.profile == Profile::Packed;
    let on_demand = match recipe.profile {
        Profile::Packed | Profile::Consolidate => true,
        Profile::Disruption => !features.has(Feature::Spot),
        _ => false,
    };
    let mixed = features.has(Feature::MixedPools);
    for number in 0..recipe.nodes {
        let cpu = random.pick(&[4, 8, 16, 32]);
        let family = if packed { "c" } else { random.pick(&["c", "m", "s"]) };
        let node = GeneratedNode {
            number,
            cpu,
            memory: cpu
                * [("c", 2), ("s", 4), ("m", 8)].iter().find(|f| f.0 == family).map_or(2, |f| f.1),
            family,
            zone: random.pick(&ZONES),
            capacity_type: if on_demand {
                "on-demand"
            } else {
                random.pick(&["spot", "on-demand"])
            },
            state: draw_state(recipe, features, random),
            pool: if mixed { random.pick(disruption::POOLS) } else { "default" },
        };
        node.add_objects(features, random, case);
        let empty = features.has(Feature::EmptyNodes) && random.rng(0.2);
        if node.state != NodeState::Launched && !empty {
            node.add_running_pods(packed, random, case);
        }
    }
}

fn draw_state(recipe: &Recipe, features: Features, random: &mut SeededRng) -> NodeState {
    // Most nodes have to be ordinary ones where it matters which of them can go.
    let ordinary = if recipe.profile == Profile::Disruption { 0.8 } else { 0.3 };
    if !features.has(Feature::RoughNodes) || random.rng(ordinary) {
        return NodeState::Ordinary;
    }
    random.pick(&[
        NodeState::Starting,
        NodeState::Launched,
        NodeState::Tainted,
        NodeState::Cordoned,
        NodeState::Deleting,
        NodeState::Deleting,
        NodeState::Foreign,
    ])
}

impl GeneratedNode {
    fn name(&self) -> String {
        format!("node-{:05}", self.number)
    }

    fn labels(&self) -> Map<String, Value> {
        let kind = format!("{}-{}x-amd64-linux", self.family, self.cpu);
        let labels = json!({
            "karpenter.sh/nodepool": self.pool, "node.kubernetes.io/instance-type": kind, ZONE: self.zone,
            CAPACITY_TYPE: self.capacity_type, ARCH: "amd64", "kubernetes.io/os": "linux", HOSTNAME: self.name(),
            "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
            CPU_LABEL: self.cpu.to_string(), FAMILY: self.family,
            "karpenter.kwok.sh/instance-size": self.cpu.to_string(),
            "karpenter.kwok.sh/instance-memory": format!("{}Gi", self.memory),
            "karpenter.kwok.sh/kwoknodeclass": "default",
        });
        let Value::Object(mut labels) = labels else { return Map::new() };
        match self.state {
            NodeState::Starting => drop(labels.shift_remove("karpenter.sh/initialized")),
            NodeState::Foreign => labels.retain(|key, _| !key.starts_with("karpenter.")),
            _ => {}
        }
        labels
    }

    fn add_objects(&self, features: Features, random: &mut SeededRng, case: &mut Case) {
        let (name, labels, state) = (self.name(), self.labels(), self.state);
        let allocatable = json!({
            "cpu": format!("{}m", self.cpu * 1000 - 100), "memory": format!("{}Mi", self.memory * 1024 - 10),
            "pods": (self.cpu * 16).min(1024).to_string(), "ephemeral-storage": "20Gi",
        });
        let mut capacity = allocatable.clone();
        capacity["cpu"] = self.cpu.to_string().into();
        capacity["memory"] = format!("{}Gi", self.memory).into();
        let status = json!({"capacity": capacity, "allocatable": allocatable});
        if state != NodeState::Foreign {
            case.objects.push(self.node_claim(&labels, &status));
        }
        if state == NodeState::Launched {
            return;
        }
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "uid": format!("n{}", self.number), "labels": labels},
            "spec": {"providerID": format!("kwok://{name}")}, "status": status,
        });
        node["status"]["conditions"] = conditions(&["Ready"]);
        match state {
            NodeState::Starting => {
                node["spec"]["taints"] =
                    json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
            }
            NodeState::Tainted => {
                let effect = random.pick(&["NoSchedule", "NoExecute", "PreferNoSchedule"]);
                node["spec"]["taints"] = json!([{"key": "team", "value": "gpu", "effect": effect}]);
            }
            NodeState::Cordoned => {
                node["spec"]["unschedulable"] = true.into();
                node["spec"]["taints"] =
                    json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]);
            }
            NodeState::Deleting => {
                node["spec"]["taints"] =
                    json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]);
            }
            _ => {}
        }
        case.objects.push(node);
        if features.has(Feature::Volumes) {
            case.objects.push(volumes::csi_node(&name, random));
        }
    }

    fn node_claim(&self, labels: &Map<String, Value>, status: &Value) -> Value {
        let name = self.name();
        let mut labels = labels.clone();
        labels.shift_remove(HOSTNAME);
        let known: &[&str] = match self.state {
            NodeState::Starting => &["Launched", "Registered"],
            NodeState::Launched => &["Launched"],
            _ => &["Launched", "Registered", "Initialized", "Ready", "Consolidatable"],
        };
        if self.state == NodeState::Launched {
            labels.retain(|key, _| {
                key != "karpenter.sh/registered" && key != "karpenter.sh/initialized"
            });
        }
        let kind =
            labels["node.kubernetes.io/instance-type"].as_str().unwrap_or_default().to_owned();
        let mut claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": format!("{}-{:05}", self.pool, self.number), "uid": format!("nc{}", self.number), "labels": labels},
            "spec": {
                "nodeClassRef": node_class_ref(), "expireAfter": "Never",
                "requirements": [requirement("node.kubernetes.io/instance-type", "In", &[&kind])],
            },
            "status": status,
        });
        claim["status"]["providerID"] = format!("kwok://{name}").into();
        claim["status"]["conditions"] = conditions(known);
        if self.state != NodeState::Launched {
            claim["status"]["nodeName"] = name.into();
        }
        if self.state == NodeState::Deleting {
            claim["metadata"]["deletionTimestamp"] = "2023-11-15T01:00:00Z".into();
            claim["metadata"]["finalizers"] = json!(["karpenter.sh/termination"]);
        }
        claim
    }

    fn add_running_pods(&self, packed: bool, random: &mut SeededRng, case: &mut Case) {
        let cores = self.cpu * 1000;
        // In thousandths of the node.
        let fill = if packed { 1000 } else { 100 + random.below(600) };
        let most = if packed { 200 } else { 30 };
        let mut used = 0;
        for j in 0..most {
            if used * 1000 >= cores * fill {
                return;
            }
            let mut cpu = random.pick(&[250, 500, 1000, 1500]);
            if packed && used + 1500 > cores - 200 {
                cpu = 250.min(50.max((cores - 150).saturating_sub(used)));
            }
            if used + cpu > cores - 200 {
                return;
            }
            used += cpu;
            let spec = json!({"nodeName": self.name(), "containers": [container(&format!("{cpu}m"), "256Mi")]});
            let Value::Object(spec) = spec else { return };
            let labels = json!({"app": format!("r{}", j % 7)});
            let mut pod = pod("default", &format!("run-{}-{j}", self.number), &labels, &spec);
            pod["metadata"]["ownerReferences"] = owner("ReplicaSet", "r");
            pod["status"] = json!({"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}]});
            case.objects.push(pod);
        }
    }
}
