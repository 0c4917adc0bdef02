//! Adds the features of the profile `disruption` to a cluster: constraints that keep nodes, or that
//! make it matter which node is removed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::objects::{CAPACITY_TYPE, HOSTNAME, Pool, REQUIRED, ZONE};
use super::pools::{capacity_type_requirement, linux_requirement};
use super::{Case, Feature, Features};
use crate::random::SeededRng;

/// Where nodes are with the feature of several pools.
pub(super) const POOLS: &[&str] = &["default", "default", "second", "guarded"];

const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// Changes the pools according to the features and adds those of [`POOLS`].
pub(super) fn add_pools(features: Features, random: &mut SeededRng, pools: &mut Vec<Pool>) {
    let spot = features.has(Feature::Spot);
    if features.has(Feature::MixedPools) {
        let types: &[&str] = if spot { &["spot", "on-demand"] } else { &["on-demand"] };
        pools.push(Pool {
            name: "second",
            requirements: vec![linux_requirement(), capacity_type_requirement(types)],
            ..Pool::default()
        });
        pools.push(Pool {
            name: "guarded",
            requirements: vec![linux_requirement(), capacity_type_requirement(types)],
            taints: vec![json!({"key": "team", "value": "gpu", "effect": "NoSchedule"})],
            ..Pool::default()
        });
    }
    for pool in pools {
        pool.disruption = Some(disruption_spec(features, random));
    }
}

fn disruption_spec(features: Features, random: &mut SeededRng) -> Value {
    let policy = if features.has(Feature::Policies) {
        random.pick(&["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced", "Balanced"])
    } else {
        "WhenEmptyOrUnderutilized"
    };
    let after = if features.has(Feature::Policies) && random.rng(0.15) { "Never" } else { "0s" };
    let budgets = if features.has(Feature::Budgets) {
        random_budgets(random)
    } else {
        json!([{"nodes": "100%"}])
    };
    json!({"consolidationPolicy": policy, "consolidateAfter": after, "budgets": budgets})
}

/// Returns random budgets. Schedules hold at any time of day: upstream reads the host's clock.
fn random_budgets(random: &mut SeededRng) -> Value {
    random.pick(&[
        json!([{"nodes": "1"}]),
        json!([{"nodes": "3"}]),
        json!([{"nodes": "10%"}]),
        json!([{"nodes": "40%"}]),
        json!([{"nodes": "0"}]),
        json!([{"nodes": "0", "reasons": ["Empty"]}, {"nodes": "50%"}]),
        json!([{"nodes": "2", "reasons": ["Underutilized"]}, {"nodes": "100%"}]),
        json!([{"nodes": "0", "reasons": ["Drifted"]}]),
        json!([{"nodes": "2", "schedule": "0 0 * * *", "duration": "24h"}, {"nodes": "100%"}]),
    ])
}

/// Applies the features to existing nodes and pods.
pub(super) fn apply_features(features: Features, random: &mut SeededRng, case: &mut Case) {
    let draw = |feature: Feature, random: &mut SeededRng| {
        let own = random.fork();
        features.has(feature).then_some(own)
    };
    if let Some(mut random) = draw(Feature::MixedPools, random) {
        taint_guarded_nodes(&mut random, case);
    }
    if let Some(mut random) = draw(Feature::DoNotDisrupt, random) {
        forbid_disruption(&mut random, case);
    }
    if let Some(mut random) = draw(Feature::Settling, random) {
        for claim in objects_of_kind(case, "NodeClaim").filter(|_| random.rng(0.25)) {
            let conditions = claim["status"]["conditions"].as_array_mut();
            if let Some(all) = conditions {
                all.retain(|one| one["type"] != "Consolidatable");
            }
        }
    }
    if let Some(mut random) = draw(Feature::Costs, random) {
        set_deletion_costs(&mut random, case);
    }
    if let Some(mut random) = draw(Feature::Constraints, random) {
        constrain_running_pods(&mut random, case);
    }
    if let Some(mut random) = draw(Feature::Pdbs, random) {
        for pod in running_pods(case).filter(|_| random.rng(0.08)) {
            pod["metadata"]["labels"]["tier"] = "careful".into();
        }
        for number in 0..2 + random.below(4) {
            case.objects.push(pod_disruption_budget(number, &mut random));
        }
    }
}

fn objects_of_kind<'a>(
    case: &'a mut Case,
    kind: &'static str,
) -> impl Iterator<Item = &'a mut Value> {
    case.objects.iter_mut().filter(move |object| object["kind"] == kind)
}

/// Returns the pods that are bound to a node.
fn running_pods(case: &mut Case) -> impl Iterator<Item = &mut Value> {
    objects_of_kind(case, "Pod").filter(|pod| pod["spec"]["nodeName"].is_string())
}

/// Taints the nodes of the guarded pool; their pods tolerate the taint.
fn taint_guarded_nodes(random: &mut SeededRng, case: &mut Case) {
    let taint = json!({"key": "team", "value": "gpu", "effect": "NoSchedule"});
    let mut guarded = Vec::new();
    for node in objects_of_kind(case, "Node") {
        if node["metadata"]["labels"]["karpenter.sh/nodepool"] == "guarded" {
            guarded.push(node["metadata"]["name"].clone());
            match &mut node["spec"]["taints"] {
                Value::Array(taints) => taints.push(taint.clone()),
                absent => *absent = json!([taint]),
            }
        }
    }
    for pod in running_pods(case) {
        if guarded.contains(&pod["spec"]["nodeName"]) || random.rng(0.1) {
            pod["spec"]["tolerations"] = json!([{"key": "team", "operator": "Exists"}]);
        }
    }
}

fn forbid_disruption(random: &mut SeededRng, case: &mut Case) {
    for node in objects_of_kind(case, "Node") {
        if random.rng(0.12) {
            let value = random.pick(&["true", "true", "false"]);
            node["metadata"]["annotations"] = json!({DO_NOT_DISRUPT: value});
        }
    }
    for pod in running_pods(case) {
        if random.rng(0.03) {
            let value = random.pick(&["true", "true", "false", "1000000h"]);
            pod["metadata"]["annotations"] = json!({DO_NOT_DISRUPT: value});
        }
    }
}

fn set_deletion_costs(random: &mut SeededRng, case: &mut Case) {
    for pod in running_pods(case) {
        if random.rng(0.2) {
            let cost = random.pick(&["-2147483647", "-1000000", "5000", "100000000", "2147483647"]);
            pod["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"] =
                cost.into();
        }
        if random.rng(0.2) {
            pod["spec"]["priority"] =
                random.pick(&[-1000, 1000, 100_000_000, 2_000_000_000]).into();
        }
    }
}

/// Adds random constraints to running pods that their own nodes satisfy.
fn constrain_running_pods(random: &mut SeededRng, case: &mut Case) {
    let nodes: BTreeMap<String, Value> = objects_of_kind(case, "Node")
        .map(|node| (string_of(&node["metadata"]["name"]), node["metadata"]["labels"].clone()))
        .collect();
    let mut alone: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pod in running_pods(case) {
        let node = string_of(&pod["spec"]["nodeName"]);
        let Some(labels) = nodes.get(&node) else { continue };
        let app = string_of(&pod["metadata"]["labels"]["app"]);
        let mine = json!({"matchLabels": {"app": app}});
        match random.below(16) {
            0 => pod["spec"]["nodeSelector"] = json!({ZONE: labels[ZONE]}),
            1 => pod["spec"]["nodeSelector"] = json!({CAPACITY_TYPE: labels[CAPACITY_TYPE]}),
            2 => {
                pod["spec"]["topologySpreadConstraints"] = json!([
                    {"maxSkew": 2, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": mine}
                ]);
            }
            3 => {
                // Two of them never share a node, as the scheduler would not have let them.
                let name = format!("alone-{}", random.below(3));
                let here = alone.entry(node).or_default();
                if !here.contains(&name) {
                    pod["metadata"]["labels"]["alone"] = name.clone().into();
                    let other = json!({"matchLabels": {"alone": name.clone()}});
                    let term = json!({"labelSelector": other, "topologyKey": HOSTNAME});
                    pod["spec"]["affinity"] = json!({"podAntiAffinity": {REQUIRED: [term]}});
                    here.push(name);
                }
            }
            _ => {}
        }
    }
}

fn string_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns a budget for some pods of an application; a few budgets overlap.
fn pod_disruption_budget(number: usize, random: &mut SeededRng) -> Value {
    let app = format!("r{}", random.below(7));
    let (mut spec, allowed) = match random.below(5) {
        0 => (json!({"maxUnavailable": 0}), 0),
        1 => (json!({"minAvailable": "100%"}), 0),
        2 => (json!({"maxUnavailable": 1}), 1),
        3 => (json!({"minAvailable": 1}), 3),
        _ => (json!({"maxUnavailable": "50%", "unhealthyPodEvictionPolicy": "AlwaysAllow"}), 2),
    };
    spec["selector"] = json!({"matchLabels": {"app": app, "tier": "careful"}});
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": format!("pdb{number}"), "namespace": "default"},
        "spec": spec,
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 5, "desiredHealthy": 5 - allowed, "expectedPods": 5},
    })
}
