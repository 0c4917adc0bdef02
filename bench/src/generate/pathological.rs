//! Generates pods with as many constraints as are supported, one for each sort of constraint.
//!
//! Every user with permission to create pods can create such a pod. It must not delay the decision
//! about others.
#![expect(clippy::needless_pass_by_value, reason = "literals are handed over as they are")]

use serde_json::{Map, Value, json};

use super::Case;
use super::objects::{HOSTNAME, PREFERRED, REQUIRED, ZONE, container, pod};

/// Almost as many terms as a pod may have (`karpenter_cluster::ingest::constraint_limits`).
const TERMS: usize = 1_000;

/// Terms of node affinity and spread constraints that have almost as many combinations as allowed.
const REQUIRED_TERMS: usize = 900;
const SPREAD_CONSTRAINTS: usize = 11;

/// Name, CPU request and constraints of a pod.
type PodSpec = (&'static str, &'static str, Map<String, Value>);

pub(super) fn add_pods(specs: impl Iterator<Item = PodSpec>, case: &mut Case) {
    for (name, cpu, fields) in specs {
        let mut spec = fields;
        spec.insert("containers".to_owned(), json!([container(cpu, "100Mi")]));
        let labels = json!({"app": name});
        case.objects.push(pod("default", name, &labels, &spec));
    }
}

/// Returns the pods with many constraints.
pub(super) fn specs() -> Vec<PodSpec> {
    let spec = |name, fields: Value| (name, "1", as_map(fields));
    let zone_term = |index| pod_term(ZONE, index);
    // A pod that is too large for every node is tried at every step.
    let own_zone = || {
        let selector = json!({"matchLabels": {"app": "too-large"}});
        json!({"topologyKey": ZONE, "labelSelector": selector})
    };
    let unplaceable = |index: usize| {
        let mut term = own_zone();
        term["labelSelector"]["matchExpressions"] =
            json!([{"key": "tier", "operator": "NotIn", "values": [index.to_string()]}]);
        weighted(index, term)
    };
    let combined = json!({
        "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(REQUIRED_TERMS, node_term)}}},
        "topologySpreadConstraints": list(SPREAD_CONSTRAINTS, |index| spread(index, "DoNotSchedule")),
    });
    vec![
        spec(
            "preferred-affinity",
            affinity(
                "podAffinity",
                PREFERRED,
                list(TERMS, |index| weighted(index, zone_term(index))),
            ),
        ),
        spec(
            "preferred-keys",
            affinity(
                "podAffinity",
                PREFERRED,
                list(TERMS, |index| weighted(index, pod_term(&format!("key-{index}"), index))),
            ),
        ),
        spec(
            "preferred-anti-affinity",
            affinity(
                "podAntiAffinity",
                PREFERRED,
                list(TERMS, |index| weighted(index, pod_term(HOSTNAME, index))),
            ),
        ),
        spec(
            "required-anti-affinity",
            affinity("podAntiAffinity", REQUIRED, list(TERMS, |index| pod_term(HOSTNAME, index))),
        ),
        spec(
            "required-keys",
            affinity(
                "podAffinity",
                REQUIRED,
                list(TERMS, |index| pod_term(&format!("key-{index}"), index)),
            ),
        ),
        spec(
            "node-preferences",
            affinity(
                "nodeAffinity",
                PREFERRED,
                list(
                    TERMS,
                    |index| json!({"weight": index % 100 + 1, "preference": node_term(index)}),
                ),
            ),
        ),
        spec("required-terms-and-spread", combined),
        spec(
            "soft-spread",
            json!({"topologySpreadConstraints": list(TERMS, |index| spread(index, "ScheduleAnyway"))}),
        ),
        spec(
            "tolerations",
            json!({"tolerations": list(TERMS, |index| json!({"key": format!("key-{index}"), "operator": "Exists"}))}),
        ),
        ("too-large", "1000", as_map(affinity("podAffinity", PREFERRED, list(TERMS, unplaceable)))),
    ]
}

fn as_map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn list(count: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..count).map(item).collect()
}

fn affinity(kind: &str, strength: &str, terms: Value) -> Value {
    json!({"affinity": {kind: {strength: terms}}})
}

fn weighted(index: usize, term: Value) -> Value {
    json!({"weight": index % 100 + 1, "podAffinityTerm": term})
}

/// Returns a term with labels as long as they may be, so that the pod has almost 1.5 MB.
fn pod_term(key: &str, index: usize) -> Value {
    let labels = (0..5).map(|label| (format!("label-{label}"), json!(format!("{index:063}"))));
    let labels: Map<String, Value> = labels.collect();
    json!({"topologyKey": key, "labelSelector": {"matchLabels": labels}})
}

fn node_term(index: usize) -> Value {
    let expression = |part: usize| json!({"key": format!("key-{part}.example.com/{index:050}"), "operator": "In", "values": [format!("{index:063}")]});
    json!({"matchExpressions": [expression(0), expression(1)]})
}

fn spread(index: usize, when_unsatisfiable: &str) -> Value {
    let selector = json!({"matchLabels": {"app": format!("{index:063}")}});
    json!({"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": when_unsatisfiable, "labelSelector": selector})
}
