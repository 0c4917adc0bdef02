//! Generates the two mixes of upstream's own scheduler benchmark (spec 20 §6.2).

use serde_json::{Map, Value, json};

use super::objects::{HOSTNAME, PREFERRED, REQUIRED, ZONE, container, pod, requirement};
use super::{Case, Profile, Recipe, Types};
use crate::random::SeededRng;

const LETTERS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
const CPU: [&str; 5] = ["100m", "250m", "500m", "1", "1500m"];
const MEMORY: [&str; 6] = ["100Mi", "256Mi", "512Mi", "1Gi", "2Gi", "4Gi"];

pub(super) fn add_pods(recipe: &Recipe, random: &mut SeededRng, case: &mut Case) {
    let part = recipe.pods / 5;
    // One size for all with the benchmark's own types, as there; any size with the KWOK types.
    let one_size = (random.pick(&CPU), random.pick(&MEMORY));
    for i in 0..recipe.pods {
        let (labels, mut spec) = if recipe.profile == Profile::Preferences {
            preferring_pod(recipe.types)
        } else if i < 5 * part {
            diverse_pod(i / part, random)
        } else {
            diverse_pod(0, random)
        };
        let (cpu, memory) =
            if recipe.profile == Profile::Preferences && recipe.types == Types::Fake400 {
                one_size
            } else {
                (random.pick(&CPU), random.pick(&MEMORY))
            };
        spec.insert("containers".to_owned(), json!([container(cpu, memory)]));
        case.objects.push(pod("default", &format!("p{i}"), &labels, &spec));
    }
}

/// Returns the labels and spec of a pod of one of five kinds:
/// generic, zone spread, hostname spread, zone self-affinity, hostname anti-affinity.
fn diverse_pod(kind: usize, random: &mut SeededRng) -> (Value, Map<String, Value>) {
    let mut spec = Map::new();
    let labels = match kind {
        3 => json!({"my-affinity": random.pick(&LETTERS)}),
        4 => json!({"app": "nginx"}),
        _ => json!({"my-label": random.pick(&LETTERS)}),
    };
    let term = |key: &str| json!({REQUIRED: [{"labelSelector": {"matchLabels": labels}, "topologyKey": key}]});
    let mut spread = |key: &str| {
        let selector = json!({"matchLabels": {"my-label": random.pick(&LETTERS)}});
        json!([{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}])
    };
    let (key, value) = match kind {
        1 => ("topologySpreadConstraints", spread(ZONE)),
        2 => ("topologySpreadConstraints", spread(HOSTNAME)),
        3 => ("affinity", json!({"podAffinity": term(ZONE)})),
        4 => ("affinity", json!({"podAntiAffinity": term(HOSTNAME)})),
        _ => return (labels, spec),
    };
    spec.insert(key.to_owned(), value);
    (labels, spec)
}

fn preferring_pod(types: Types) -> (Value, Map<String, Value>) {
    let zone = if types == Types::Fake400 { "test-zone-1" } else { "test-zone-a" };
    let labels = json!({"app": "nginx"});
    let apart = |weight: i32, key: &str| json!({"weight": weight, "podAffinityTerm": {"labelSelector": {"matchLabels": labels}, "topologyKey": key}});
    let affinity = json!({
        "nodeAffinity": {PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [requirement(ZONE, "In", &[zone])]}}]},
        "podAntiAffinity": {PREFERRED: [apart(10, ZONE), apart(1, HOSTNAME)]},
    });
    (labels, Map::from_iter([("affinity".to_owned(), affinity)]))
}
