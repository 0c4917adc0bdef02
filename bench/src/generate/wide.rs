//! Adds what only the profile `wide` has: rarer constraints, and objects around the pods.

use serde_json::{Value, json};

use super::apps::{App, spread};
use super::objects::{
    CAPACITY_TYPE, CPU_LABEL, FAMILY, HOSTNAME, PREFERRED, REQUIRED, ZONE, ZONES, container,
    requirement,
};
use super::pools::RACK;
use super::{Case, Feature, Features, volumes};
use crate::random::SeededRng;

const NAMESPACES: [&str; 3] = ["default", "team-a", "team-b"];

/// Adds the objects and options that some features need once per cluster.
pub(super) fn add_objects(features: Features, random: &mut SeededRng, case: &mut Case) {
    if features.has(Feature::Namespaces) {
        for (name, tier) in NAMESPACES.iter().zip(["front", "front", "back"]) {
            case.objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"tier": tier, "kubernetes.io/metadata.name": name}}}));
        }
    }
    if features.has(Feature::Volumes) || features.has(Feature::StatefulSets) {
        volumes::add_classes(case);
    }
    if features.has(Feature::Overlays) {
        case.options.node_overlay = true;
        add_overlays(random, case);
    }
    if features.has(Feature::Reserved) {
        case.instance_types = Some(reserved_types(random));
    }
    if features.has(Feature::Buffers) {
        case.options.capacity_buffer = true;
        add_buffers(random, case);
    }
    if features.has(Feature::Preferences) {
        case.options.ignore_preferences = random.rng(0.25);
    }
    if features.has(Feature::MinValues) {
        case.options.best_effort_min_values = random.rng(0.4);
    }
}

/// Adds rarer constraints to an application.
pub(super) fn add_constraints(
    app: &mut App,
    number: usize,
    features: Features,
    random: &mut SeededRng,
) {
    if features.has(Feature::Namespaces) {
        app.namespace = random.pick(&NAMESPACES);
        if random.rng(0.25) {
            add_cross_namespace_term(app, number, random);
        }
    }
    if features.has(Feature::Spread) && random.rng(0.35) {
        add_unusual_spread(app, random);
    }
    if features.has(Feature::CustomLabels) && random.rng(0.35) {
        add_custom_label_affinity(app, random);
    }
    if features.has(Feature::Preferences) && random.rng(0.35) {
        add_preferences(app, number, random);
    }
    if features.has(Feature::Requests) && random.rng(0.3) {
        add_unusual_requests(app, random);
    }
    if features.has(Feature::SoftTaints) && random.rng(0.1) {
        app.push("tolerations", json!({"key": "batch", "operator": "Exists"}));
    }
    if features.has(Feature::Reserved) && random.rng(0.1) {
        app.set("nodeSelector", json!({CAPACITY_TYPE: random.pick(&["reserved", "on-demand"])}));
    }
}

/// Selects an earlier application, or one on the existing nodes.
fn other_app_selector(number: usize, random: &mut SeededRng) -> Value {
    let name = if number > 0 && random.rng(0.6) {
        format!("app{}", random.below(number))
    } else {
        format!("r{}", random.below(7))
    };
    json!({"matchLabels": {"app": name}})
}

fn add_cross_namespace_term(app: &mut App, number: usize, random: &mut SeededRng) {
    let selector =
        if random.rng(0.4) { app.selector() } else { other_app_selector(number, random) };
    let mut term =
        json!({"labelSelector": selector, "topologyKey": random.pick(&[ZONE, HOSTNAME])});
    match random.below(4) {
        0 => term["namespaces"] = json!(["team-a", "default"]),
        1 => term["namespaceSelector"] = json!({"matchLabels": {"tier": "front"}}),
        2 => term["namespaceSelector"] = json!({}),
        _ => {
            term["namespaces"] = json!(["team-b"]);
            term["namespaceSelector"] = json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["back"]}]});
        }
    }
    let kind = random.pick(&["podAffinity", "podAntiAffinity", "podAntiAffinity"]);
    app.push_term(kind, REQUIRED, term);
}

fn add_unusual_spread(app: &mut App, random: &mut SeededRng) {
    let key = random.pick(&[ZONE, ZONE, HOSTNAME, CAPACITY_TYPE, RACK]);
    let mut constraint = spread(app, random.pick(&[1, 2]), key, "DoNotSchedule");
    match random.below(4) {
        0 => constraint["minDomains"] = random.pick(&[1, 2, 3, 5]).into(),
        1 => {
            constraint["matchLabelKeys"] = json!(["pod-template-hash"]);
            app.labels["pod-template-hash"] = random.pick(&["1a", "2b"]).into();
        }
        2 => {
            constraint["nodeAffinityPolicy"] = random.pick(&["Honor", "Ignore"]).into();
            constraint["nodeTaintsPolicy"] = random.pick(&["Honor", "Ignore"]).into();
        }
        _ => app.push_spread(spread(
            app,
            1,
            HOSTNAME,
            random.pick(&["DoNotSchedule", "ScheduleAnyway"]),
        )),
    }
    app.push_spread(constraint);
}

fn add_custom_label_affinity(app: &mut App, random: &mut SeededRng) {
    let expression = match random.below(7) {
        0 => requirement(RACK, "In", &["r1", "r9"]),
        1 => requirement(RACK, "NotIn", &["r1", "r2"]),
        2 => requirement(RACK, "Exists", &[]),
        3 => requirement(RACK, "DoesNotExist", &[]),
        4 => requirement("example.com/owner", "In", &["red"]),
        5 => requirement("example.com/unknown", "Exists", &[]),
        _ => requirement("example.com/unknown", "DoesNotExist", &[]),
    };
    let node_affinity = app.affinity.entry("nodeAffinity").or_insert_with(|| json!({}));
    node_affinity[REQUIRED] = json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
}

fn add_preferences(app: &mut App, number: usize, random: &mut SeededRng) {
    for weight in [100, 10, 1].into_iter().take(1 + random.below(3)) {
        let expression = match random.below(4) {
            0 => requirement(ZONE, "In", &[random.pick(&ZONES)]),
            1 => requirement(FAMILY, "In", &[random.pick(&["c", "m", "x"])]),
            2 => requirement(CPU_LABEL, "Gt", &["16"]),
            _ => requirement(CAPACITY_TYPE, "NotIn", &["spot"]),
        };
        let preference = json!({"matchExpressions": [expression]});
        app.push_term(
            "nodeAffinity",
            PREFERRED,
            json!({"weight": weight, "preference": preference}),
        );
    }
    let selector =
        if random.rng(0.5) { app.selector() } else { other_app_selector(number, random) };
    let term = json!({"labelSelector": selector, "topologyKey": random.pick(&[ZONE, HOSTNAME])});
    let kind = random.pick(&["podAffinity", "podAntiAffinity"]);
    app.push_term(
        kind,
        PREFERRED,
        json!({"weight": random.pick(&[1, 50]), "podAffinityTerm": term}),
    );
    if random.rng(0.4) {
        app.push_spread(spread(app, 1, random.pick(&[ZONE, HOSTNAME]), "ScheduleAnyway"));
    }
}

fn add_unusual_requests(app: &mut App, random: &mut SeededRng) {
    match random.below(5) {
        0 => app.push("initContainers", json!({"name": "init", "image": "x", "resources": {"requests": {"cpu": "3", "memory": "64Mi"}}})),
        1 => app.push("initContainers", json!({"name": "sidecar", "image": "x", "restartPolicy": "Always", "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}})),
        2 => app.set("overhead", json!({"cpu": "250m", "memory": "120Mi"})),
        3 => app.set("resources", json!({"requests": {"cpu": "5", "memory": "6Gi"}})),
        _ => app.spec["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1".into(),
    }
}

fn add_overlays(random: &mut SeededRng, case: &mut Case) {
    for i in 0..=random.below(4) {
        let requirements = match random.below(4) {
            0 => json!([requirement(FAMILY, "In", &[random.pick(&["c", "m", "s"])])]),
            1 => json!([requirement(ZONE, "In", &[random.pick(&ZONES)])]),
            2 => json!([
                requirement(CPU_LABEL, "Gt", &["8"]),
                requirement(CAPACITY_TYPE, "In", &["spot"])
            ]),
            _ => json!([requirement("karpenter.sh/nodepool", "In", &["default"])]),
        };
        let mut spec =
            json!({"requirements": requirements, "weight": random.pick(&[1, 1, 10, 20])});
        match random.below(5) {
            0 => spec["price"] = "0.05".into(),
            1 => spec["priceAdjustment"] = "-30%".into(),
            2 => spec["priceAdjustment"] = "+0.5".into(),
            3 => spec["capacity"] = json!({"example.com/gpu": "2"}),
            _ => spec["priceAdjustment"] = "+100%".into(),
        }
        case.objects.push(json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": format!("overlay-{i}")}, "spec": spec}));
    }
}

fn add_buffers(random: &mut SeededRng, case: &mut Case) {
    let template = json!({"metadata": {"labels": {"app": "room"}}, "spec": {"containers": [container("1", "2Gi")]}});
    case.objects.push(json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "room", "namespace": "default"}, "template": template}));
    let mut spec = json!({"podTemplateRef": {"name": "room"}, "replicas": random.pick(&[1, 4])});
    if random.rng(0.4) {
        spec["limits"] = json!({"cpu": "2"});
    }
    case.objects.push(json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": "room", "namespace": "default"}, "spec": spec}));
}

/// A small KWOK instance-types file in which some types have reservations.
fn reserved_types(random: &mut SeededRng) -> Value {
    let mut types = Vec::new();
    for (family, per_core) in [("c", 2), ("s", 4), ("m", 8)] {
        for cpu in [1_u32, 2, 4, 8, 16, 32] {
            let memory = cpu * per_core;
            let price = 0.025 * f64::from(cpu) + 0.001 * f64::from(memory) * 1.073_741_824;
            let mut offerings = Vec::new();
            for zone in ZONES {
                for (kind, factor) in [("spot", 0.7), ("on-demand", 1.0)] {
                    offerings.push(offering(
                        price * factor,
                        &[
                            requirement(CAPACITY_TYPE, "In", &[kind]),
                            requirement(ZONE, "In", &[zone]),
                        ],
                    ));
                }
            }
            if random.rng(0.3) {
                let id = format!("cr-{family}{cpu}");
                let zone = random.pick(&ZONES);
                let mut reserved = offering(
                    price / 1e6,
                    &[
                        requirement(CAPACITY_TYPE, "In", &["reserved"]),
                        requirement(ZONE, "In", &[zone]),
                        requirement("karpenter.kwok.sh/reservation-id", "In", &[&id]),
                    ],
                );
                reserved["ReservationCapacity"] = random.pick(&[0, 1, 2, 5]).into();
                offerings.push(reserved);
            }
            types.push(json!({
                "name": format!("{family}-{cpu}x-amd64-linux"), "architecture": "amd64", "operatingSystems": ["linux"],
                "offerings": offerings,
                "resources": {"cpu": cpu.to_string(), "memory": format!("{memory}Gi"), "pods": (cpu * 16).to_string(), "ephemeral-storage": "20Gi"},
            }));
        }
    }
    types.into()
}

fn offering(price: f64, requirements: &[Value]) -> Value {
    json!({"Price": price, "Available": true, "Requirements": requirements})
}
