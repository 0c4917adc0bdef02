//! Generates NodePools and DaemonSets.

use serde_json::{Value, json};

use super::objects::{ARCH, CAPACITY_TYPE, CPU_LABEL, FAMILY, Pool, requirement};
use super::{Case, Feature, Features, Profile, Recipe, Types, disruption};
use crate::random::SeededRng;

/// A label of the user's own, with values in some pools only.
pub(super) const RACK: &str = "example.com/rack";

pub(super) fn add_pools(
    recipe: &Recipe,
    features: Features,
    random: &mut SeededRng,
    case: &mut Case,
) {
    if recipe.types == Types::Fake400 {
        case.objects.push(benchmark_pool());
        return;
    }
    let many = matches!(recipe.profile, Profile::Mixed | Profile::Wide);
    let mut pools = vec![default_pool(recipe, random, many, features)];
    if many {
        add_common_pools(random, &mut pools);
    }
    add_feature_pools(features, random, &mut pools);
    if recipe.profile == Profile::Disruption {
        disruption::add_pools(features, random, &mut pools);
        case.options.spot_to_spot = features.has(Feature::Spot) && random.rng(0.6);
    }
    if features.has(Feature::Weights) {
        for pool in &mut pools {
            pool.weight = random.pick(&[None, Some(1), Some(10), Some(10), Some(100)]);
        }
    }
    if features.has(Feature::TightLimits) {
        for pool in &mut pools {
            pool.limits = random.pick(&[
                None,
                Some(json!({"cpu": "8"})),
                Some(json!({"cpu": "20", "memory": "48Gi"})),
                Some(json!({"nodes": "2"})),
                Some(json!({"memory": "24Gi"})),
            ]);
        }
    }
    case.objects.extend(pools.into_iter().map(Pool::build));
    if many {
        for i in 0..random.below(3) {
            case.objects.push(daemon_set(&format!("ds{i}"), random));
        }
    }
    if features.has(Feature::Daemons) {
        add_feature_daemon_sets(random, case);
    }
}

/// The one pool of upstream's scheduler benchmark (spec 20 §6.1).
fn benchmark_pool() -> Value {
    Pool {
        name: "default",
        limits: Some(json!({"cpu": "10000000", "memory": "10000000Gi"})),
        labels: Some(json!({"testing/cluster": "unspecified"})),
        ..Pool::default()
    }
    .build()
}

pub(super) fn linux_requirement() -> Value {
    requirement("kubernetes.io/os", "In", &["linux"])
}

pub(super) fn capacity_type_requirement(types: &[&str]) -> Value {
    requirement(CAPACITY_TYPE, "In", types)
}

fn default_pool(recipe: &Recipe, random: &mut SeededRng, many: bool, features: Features) -> Pool {
    let both: &[&str] = &["spot", "on-demand"];
    let is_on_demand = match recipe.profile {
        Profile::Packed => true,
        Profile::Disruption => !features.has(Feature::Spot),
        _ => false,
    };
    let capacity_types = if is_on_demand {
        &["on-demand"]
    } else if features.has(Feature::Reserved) {
        random.pick(&[
            &["reserved", "on-demand"][..],
            &["reserved", "spot", "on-demand"],
            &["reserved"],
        ])
    } else {
        random.pick(&[both, &["on-demand"], &["spot"]])
    };
    let mut requirements = vec![linux_requirement(), capacity_type_requirement(capacity_types)];
    if random.rng(0.5) {
        requirements.push(requirement(ARCH, "In", &["amd64"]));
    }
    if random.rng(0.6) {
        requirements.push(requirement(CPU_LABEL, "Lt", &[random.pick(&["9", "33", "65"])]));
    }
    let limited = many && random.rng(0.15);
    let limits = limited.then(|| json!({"cpu": random.pick(&["200", "1000"])}));
    Pool { name: "default", requirements, limits, ..Pool::default() }
}

fn add_common_pools(random: &mut SeededRng, pools: &mut Vec<Pool>) {
    if random.rng(0.5) {
        pools.push(Pool {
            name: "arm",
            requirements: vec![
                linux_requirement(),
                requirement(ARCH, "In", &["arm64"]),
                capacity_type_requirement(&["on-demand", "spot"]),
            ],
            weight: random.pick(&[None, Some(10), Some(50)]),
            ..Pool::default()
        });
    }
    if random.rng(0.4) {
        pools.push(Pool {
            name: "tainted",
            requirements: vec![linux_requirement(), capacity_type_requirement(&["on-demand"])],
            weight: random.pick(&[None, Some(90)]),
            taints: vec![json!({"key": "team", "value": "gpu", "effect": "NoSchedule"})],
            labels: Some(json!({"team": "gpu"})),
            ..Pool::default()
        });
    }
    if random.rng(0.3) {
        let mut families = requirement(FAMILY, "In", &["c", "m", "s"]);
        families["minValues"] = 2.into();
        pools.push(Pool {
            name: "flex",
            requirements: vec![
                linux_requirement(),
                families,
                capacity_type_requirement(&["spot", "on-demand"]),
            ],
            weight: random.pick(&[None, Some(20)]),
            ..Pool::default()
        });
    }
}

fn add_feature_pools(features: Features, random: &mut SeededRng, pools: &mut Vec<Pool>) {
    if features.has(Feature::CustomLabels) {
        let mut requirements =
            vec![linux_requirement(), capacity_type_requirement(&["spot", "on-demand"])];
        requirements.push(match random.below(3) {
            0 => requirement(RACK, "In", &["r1", "r2", "r3"]),
            1 => requirement(RACK, "Exists", &[]),
            _ => requirement(RACK, "NotIn", &["r2"]),
        });
        pools.push(Pool {
            name: "racks",
            requirements,
            labels: Some(json!({"example.com/owner": "red"})),
            ..Pool::default()
        });
    }
    if features.has(Feature::SoftTaints) {
        pools.push(Pool {
            name: "soft",
            requirements: vec![
                linux_requirement(),
                capacity_type_requirement(&["spot", "on-demand"]),
            ],
            weight: random.pick(&[None, Some(60)]),
            taints: vec![json!({"key": "batch", "value": "yes", "effect": "PreferNoSchedule"})],
            ..Pool::default()
        });
    }
    if features.has(Feature::MinValues) {
        let mut types = requirement("node.kubernetes.io/instance-type", "Exists", &[]);
        types["minValues"] = random.pick(&[3, 10, 40]).into();
        let mut sizes = requirement(CPU_LABEL, "In", &["1", "2", "4", "8"]);
        sizes["minValues"] = random.pick(&[2, 3]).into();
        pools.push(Pool {
            name: "choosy",
            requirements: vec![
                linux_requirement(),
                capacity_type_requirement(&["spot", "on-demand"]),
                types,
                sizes,
            ],
            weight: random.pick(&[None, Some(70)]),
            ..Pool::default()
        });
    }
}

fn daemon_set(name: &str, random: &mut SeededRng) -> Value {
    let mut spec =
        json!({"containers": [super::objects::container(random.pick(&["100m", "250m"]), "128Mi")]});
    if random.rng(0.5) {
        spec["tolerations"] = json!([{"operator": "Exists"}]);
    }
    daemon_set_of(name, &spec)
}

fn daemon_set_of(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system", "uid": name},
        "spec": {
            "selector": {"matchLabels": {"ds": name}},
            "template": {"metadata": {"labels": {"ds": name}}, "spec": spec},
        },
    })
}

fn add_feature_daemon_sets(random: &mut SeededRng, case: &mut Case) {
    let container = super::objects::container("200m", "256Mi");
    let mut port =
        json!({"containers": [container.clone()], "tolerations": [{"operator": "Exists"}]});
    port["containers"][0]["ports"] =
        json!([{"containerPort": 80, "hostPort": random.pick(&[8080, 9100])}]);
    case.objects.push(daemon_set_of("ds-port", &port));
    let selected = match random.below(3) {
        0 => json!({"containers": [container], "nodeSelector": {ARCH: "arm64"}}),
        1 => json!({"containers": [container], "nodeSelector": {CAPACITY_TYPE: "spot"}}),
        _ => {
            json!({"containers": [container], "affinity": {"nodeAffinity": {super::objects::REQUIRED: {"nodeSelectorTerms": [
                {"matchExpressions": [requirement(CPU_LABEL, "Gt", &["4"])]},
            ]}}}})
        }
    };
    case.objects.push(daemon_set_of("ds-some", &selected));
}
