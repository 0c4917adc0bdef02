//! Tests of pods and DaemonSets over the bound of constraints.

use serde_json::{Value, json};

use super::super::constraint_limits::MAX_TERMS;
use super::super::tests::read_pod;
use super::*;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn list(count: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..count).map(item).collect()
}

fn term(key: &str, index: usize) -> Value {
    json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": index.to_string()}}})
}

fn read_wire(fields: Value) -> (PodSpec, Vec<String>) {
    let wire: WireSpec = serde_json::from_value(fields).unwrap();
    assert!(constraint_limits::excess(&wire).is_some(), "the pod is over the bound");
    let mut problems = Vec::new();
    (read(&wire, Resources::default(), &Aliases::default(), &mut problems), problems)
}

#[test]
fn a_pod_over_the_bound_keeps_its_required_terms() {
    let preferences =
        list(MAX_TERMS, |index| json!({"weight": 1, "podAffinityTerm": term("zone", index)}));
    let (spec, problems) = read_wire(json!({
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "affinity": {
            "podAffinity": {PREFERRED: preferences},
            "podAntiAffinity": {REQUIRED: [term("zone", 1)]},
        },
        "containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}],
    }));
    assert_eq!(spec.pod_anti_affinity.len(), 1, "the term keeps other pods away");
    assert_eq!((spec.host_ports.len(), spec.tolerations.len()), (1, 1));
    assert!(!spec.node_selector.is_empty(), "a DaemonSet counts on the nodes that it selects");
    assert!(spec.preferred_pod_affinity.is_empty());
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn too_many_tolerations_do_not_hide_the_anti_affinity() {
    let tolerations =
        list(MAX_TERMS + 1, |index| json!({"key": index.to_string(), "operator": "Exists"}));
    let (spec, problems) = read_wire(json!({
        "tolerations": tolerations,
        "affinity": {"podAntiAffinity": {REQUIRED: [term("zone", 1)]}},
        "containers": [],
    }));
    assert_eq!(spec.pod_anti_affinity.len(), 1);
    assert_eq!(spec.tolerations, [tolerate_everything()], "a DaemonSet counts on tainted nodes");
    assert_eq!(problems, [NODE_SELECTION_UNREAD]);
}

#[test]
fn too_much_anti_affinity_closes_the_node_and_the_domains_of_its_terms() {
    let terms = list(MAX_TERMS + 1, |index| term("zone", index));
    let (spec, problems) =
        read_wire(json!({"affinity": {"podAntiAffinity": {REQUIRED: terms}}, "containers": []}));
    let keys: Vec<_> =
        spec.pod_anti_affinity.iter().map(|term| term.topology_key.as_str()).collect();
    assert_eq!(keys, ["zone", HOSTNAME]);
    assert_eq!(problems, [NODE_SELECTION_UNREAD, NODE_CLOSED]);
}

#[test]
fn ports_of_the_container_alone_are_no_scheduling_terms() {
    let ports = |host: bool| {
        list(MAX_TERMS + 1, |index| {
            let host_port = host.then_some(index + 1);
            json!({"containerPort": index + 1, "hostPort": host_port})
        })
    };
    for (host, is_ignored) in [(false, false), (true, true)] {
        let spec = json!({"containers": [{"name": "c", "ports": ports(host)}]});
        let pod = read_pod(json!({}), spec, json!({}));
        assert_eq!(pod.problem.is_some(), is_ignored, "host ports: {host}");
    }
}
