//! Generates pending pods by application: the pods of one application are alike.

use serde_json::{Map, Value, json};

use super::objects::{
    ARCH, CAPACITY_TYPE, CPU_LABEL, FAMILY, HOSTNAME, PREFERRED, REQUIRED, ZONE, ZONES, container,
    owner, pod, requirement,
};
use super::{Case, Feature, Features, Profile, Recipe, volumes, wide};
use crate::random::SeededRng;

const CPU: [&str; 7] = ["100m", "250m", "500m", "1", "1500m", "2", "4"];
const MEMORY: [&str; 6] = ["128Mi", "512Mi", "1Gi", "2Gi", "4Gi", "8Gi"];

/// An application under construction.
pub(super) struct App {
    pub name: String,
    pub namespace: &'static str,
    pub labels: Value,
    pub spec: Map<String, Value>,
    pub affinity: Map<String, Value>,
    /// How many pods it has.
    pub count: usize,
    /// Whether its pods have names and claims of their own.
    pub stateful: bool,
}

impl App {
    /// What selects its pods.
    pub(super) fn selector(&self) -> Value {
        json!({"matchLabels": {"app": self.name}})
    }

    pub(super) fn set(&mut self, key: &str, value: Value) {
        self.spec.insert(key.to_owned(), value);
    }

    /// Adds an item to a list of the spec, which is made if it is not there.
    pub(super) fn push(&mut self, key: &str, item: Value) {
        if let Some(list) = self.spec.entry(key).or_insert_with(|| json!([])).as_array_mut() {
            list.push(item);
        }
    }

    pub(super) fn push_spread(&mut self, constraint: Value) {
        self.push("topologySpreadConstraints", constraint);
    }

    /// Adds a term to `affinity.<kind>.<strength>`.
    pub(super) fn push_term(&mut self, kind: &str, strength: &str, term: Value) {
        let of_kind = self.affinity.entry(kind).or_insert_with(|| json!({}));
        match &mut of_kind[strength] {
            Value::Array(terms) => terms.push(term),
            absent => *absent = json!([term]),
        }
    }
}

pub(super) fn add_apps(
    recipe: &Recipe,
    features: Features,
    random: &mut SeededRng,
    case: &mut Case,
) {
    let constrained = matches!(recipe.profile, Profile::Mixed | Profile::Prefs | Profile::Wide);
    let counts: &[usize] = if recipe.pods < 2000 { &[1, 2, 3, 5, 8, 13] } else { &[20, 50, 100] };
    let mut left = recipe.pods;
    let mut number = 0;
    while left > 0 {
        let count = left.min(random.pick(counts));
        left -= count;
        let name = format!("app{number}");
        let mut app = App {
            labels: json!({"app": name}),
            name,
            namespace: "default",
            spec: Map::from_iter([(
                "containers".to_owned(),
                json!([container(random.pick(&CPU), random.pick(&MEMORY))]),
            )]),
            affinity: Map::new(),
            count,
            stateful: false,
        };
        if constrained {
            node_constraints(&mut app, random);
            pod_constraints(&mut app, random);
        }
        wide::add_constraints(&mut app, number, features, random);
        if features.has(Feature::Volumes) || features.has(Feature::StatefulSets) {
            volumes::add_volumes(&mut app, features, random, case);
        }
        if random.rng(0.01) {
            app.spec["containers"][0]["resources"]["requests"]["cpu"] = "500".into();
        }
        add_pods_of_app(app, case);
        number += 1;
    }
}

fn add_pods_of_app(mut app: App, case: &mut Case) {
    if !app.affinity.is_empty() {
        let affinity = std::mem::take(&mut app.affinity);
        app.set("affinity", affinity.into());
    }
    let kind = if app.stateful { "StatefulSet" } else { "ReplicaSet" };
    for i in 0..app.count {
        let name = format!("{}-{i}", app.name);
        let mut pod = pod(app.namespace, &name, &app.labels, &app.spec);
        pod["metadata"]["ownerReferences"] = owner(kind, &app.name);
        if app.stateful {
            volumes::mount_own_claim(&mut pod, &name);
        }
        case.objects.push(pod);
    }
}

fn node_constraints(app: &mut App, random: &mut SeededRng) {
    let required = |terms: Value| json!({REQUIRED: {"nodeSelectorTerms": terms}});
    let draw = random.unit();
    if draw < 0.12 {
        let selector = match random.below(5) {
            0 => json!({ARCH: random.pick(&["amd64", "arm64"])}),
            1 => {
                json!({ZONE: random.pick(&["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d", "test-zone-x"])})
            }
            2 => json!({CAPACITY_TYPE: random.pick(&["spot", "on-demand"])}),
            3 => json!({FAMILY: random.pick(&["c", "m"])}),
            _ => json!({"team": "gpu"}),
        };
        app.set("nodeSelector", selector);
    } else if draw < 0.20 {
        let zones = random.sample(&ZONES, 2);
        let mut terms = vec![
            json!({"matchExpressions": [requirement(ZONE, random.pick(&["In", "NotIn"]), &zones)]}),
        ];
        if random.rng(0.4) {
            terms.push(json!({"matchExpressions": [requirement(ARCH, "In", &["arm64"])]}));
        }
        app.affinity.insert("nodeAffinity".to_owned(), required(terms.into()));
    } else if draw < 0.25 {
        let size =
            requirement(CPU_LABEL, random.pick(&["Gt", "Lt"]), &[random.pick(&["4", "8", "16"])]);
        app.affinity
            .insert("nodeAffinity".to_owned(), required(json!([{"matchExpressions": [size]}])));
    }
    if random.rng(0.15) {
        let tolerations = [
            json!({"key": "team", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}),
            json!({"operator": "Exists"}),
        ];
        app.set("tolerations", json!([random.pick(&tolerations)]));
    }
}

/// A spread constraint over the app's own pods.
pub(super) fn spread(app: &App, skew: i32, key: &str, unsatisfiable: &str) -> Value {
    json!({"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": unsatisfiable, "labelSelector": app.selector()})
}

fn pod_constraints(app: &mut App, random: &mut SeededRng) {
    const MUST: &str = "DoNotSchedule";
    let near = |app: &App, key: &str| json!({"labelSelector": app.selector(), "topologyKey": key});
    let draw = random.unit();
    if draw < 0.15 {
        app.push_spread(spread(app, random.pick(&[1, 1, 2]), ZONE, MUST));
    } else if draw < 0.22 {
        app.push_spread(spread(app, 1, HOSTNAME, MUST));
    } else if draw < 0.26 {
        app.push_spread(spread(app, 1, CAPACITY_TYPE, MUST));
    } else if draw < 0.33 {
        app.push_term("podAntiAffinity", REQUIRED, near(app, HOSTNAME));
    } else if draw < 0.36 {
        app.push_term("podAntiAffinity", REQUIRED, near(app, ZONE));
    } else if draw < 0.42 {
        app.push_term("podAffinity", REQUIRED, near(app, random.pick(&[ZONE, HOSTNAME])));
    } else if draw < 0.46 {
        let zone =
            random.pick(&["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d", "nowhere"]);
        let preference = json!({"matchExpressions": [requirement(ZONE, "In", &[zone])]});
        app.push_term("nodeAffinity", PREFERRED, json!({"weight": 10, "preference": preference}));
    } else if draw < 0.50 {
        app.push_spread(spread(app, 1, ZONE, "ScheduleAnyway"));
    } else if draw < 0.53 {
        let port = random.pick(&[8080, 9090]);
        app.spec["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": port}]);
    }
}
