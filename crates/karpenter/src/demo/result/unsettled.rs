//! Describes the pods, nodes and claims that have not settled, with the reason.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_sim::check::WorldSnapshot;
use karpenter_sim::view::{NodeState, PodState, message_of, node_state, pod_state, workload_of};
use kube::{Resource, ResourceExt as _};

use crate::commands::count_noun;

/// How many names a line has; the others are counted.
const NAMES_MAX: usize = 3;

/// How many lines there are of one kind.
const LINES_MAX: usize = 10;

/// Returns lines about pods that are pending, starting or ending, by workload and reason.
pub(super) fn unsettled_pods(facts: &WorldSnapshot) -> Vec<String> {
    let nodes: BTreeMap<String, NodeState> =
        facts.nodes.iter().map(|node| (node.name_any(), node_state(node))).collect();
    let mut groups: BTreeMap<(&str, String, String), Vec<String>> = BTreeMap::new();
    for pod in &facts.pods {
        let (phase, why) = match pod_state(pod) {
            PodState::Pending => ("left pending", "no scheduler has looked at it".to_owned()),
            PodState::Unschedulable => ("left pending", message_of(pod)),
            PodState::Bound => ("did not come to rest", state_on_node("starting", pod, &nodes)),
            PodState::Ending => ("did not come to rest", state_on_node("ending", pod, &nodes)),
            PodState::Running | PodState::Succeeded | PodState::Failed => continue,
        };
        groups.entry((phase, workload_of(pod), why)).or_default().push(pod.name_any());
    }
    let line = |((phase, workload, why), mut names): ((&str, String, String), Vec<String>)| {
        names.sort_unstable();
        let is_alone = workload.rsplit('/').next() == names.first().map(String::as_str);
        let named = if is_alone { String::new() } else { format!(" ({})", first_names(&names)) };
        let why = if why.is_empty() { why } else { format!(": {why}") };
        format!("{workload}: {} {phase}{named}{why}", count_noun(names.len(), "pod"))
    };
    // The pending ones last longer than those that move: they come first.
    let (pending, moving): (Vec<_>, Vec<_>) =
        groups.into_iter().partition(|((phase, ..), _)| *phase == "left pending");
    truncate_lines(pending.into_iter().chain(moving).map(line).collect())
}

/// Returns a text such as `starting on node a, which is not ready`.
fn state_on_node(phase: &str, pod: &Pod, nodes: &BTreeMap<String, NodeState>) -> String {
    let kept = blocking_finalizers(pod);
    let Some(name) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) else {
        return format!("{phase}{kept}");
    };
    match nodes.get(name) {
        None => format!("{phase} on node {name}, which is gone{kept}"),
        Some(NodeState::Ready) => format!("{phase} on node {name}{kept}"),
        Some(state) => format!("{phase} on node {name}, which is {}{kept}", state.name()),
    }
}

/// Returns the finalizers that keep a deleted object, as a text.
fn blocking_finalizers(object: &impl Resource) -> String {
    let finalizers = object.meta().finalizers.as_deref().unwrap_or_default();
    if object.meta().deletion_timestamp.is_none() || finalizers.is_empty() {
        return String::new();
    }
    format!(", kept by the finalizer {}", finalizers.join(", "))
}

/// Returns lines about nodes and claims that are neither ready nor deleted.
pub(super) fn unsettled_nodes_and_claims(facts: &WorldSnapshot) -> Vec<String> {
    let node = |node: &Node| {
        let state = node_state(node);
        let is_moving =
            matches!(state, NodeState::Starting | NodeState::Ending | NodeState::NotReady);
        is_moving.then(|| {
            format!("node {} is {}{}", node.name_any(), state.name(), blocking_finalizers(node))
        })
    };
    let claim = |claim: &NodeClaim| {
        let name = claim.name_any();
        let status = claim.status.as_ref();
        let node_name = status.and_then(|status| status.node_name.as_deref()).unwrap_or_default();
        let has_instance = status
            .and_then(|status| status.provider_id.as_deref())
            .is_some_and(|id| !id.is_empty());
        if claim.metadata.deletion_timestamp.is_some() {
            return Some(format!(
                "NodeClaim {name} is being deleted{}",
                blocking_finalizers(claim)
            ));
        }
        if !has_instance {
            return Some(format!("NodeClaim {name} has no instance yet"));
        }
        let has_node = facts.nodes.iter().any(|node| node.name_any() == node_name);
        (!has_node).then(|| format!("NodeClaim {name} has no node yet"))
    };
    let claims = facts.claims.iter().filter_map(claim);
    truncate_lines(facts.nodes.iter().filter_map(node).chain(claims).collect())
}

/// Returns the first names, and how many more there are.
fn first_names(names: &[String]) -> String {
    let first = names.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

fn truncate_lines(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(LINES_MAX);
    if more > 1 {
        lines.truncate(LINES_MAX);
        lines.push(format!("… and {more} more"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(name: &str, workload: &str, more: &Value) -> Pod {
        let mut pod = json!({
            "metadata": {"namespace": "default", "name": name, "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": workload, "uid": "u", "controller": true},
            ]},
            "spec": {"containers": []},
        });
        for part in ["metadata", "spec", "status"] {
            for (key, value) in more[part].as_object().into_iter().flatten() {
                pod[part][key] = value.clone();
            }
        }
        serde_json::from_value(pod).unwrap()
    }

    fn node(name: &str, ready: &str) -> Node {
        let conditions = json!([{"type": "Ready", "status": ready}]);
        let node = json!({"metadata": {"name": name}, "status": {"conditions": conditions}});
        serde_json::from_value(node).unwrap()
    }

    fn claim(name: &str, metadata: &Value, status: &Value) -> NodeClaim {
        let mut claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
            "status": status,
        });
        for (key, value) in metadata.as_object().into_iter().flatten() {
            claim["metadata"][key] = value.clone();
        }
        serde_json::from_value(claim).unwrap()
    }

    #[test]
    fn unsettled_pods_are_listed_with_reason_and_node() {
        let full = "0/1 nodes are available: 1 Insufficient cpu.";
        let unschedulable = json!({"status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": full},
        ]}});
        let on = |node: &str| json!({"spec": {"nodeName": node}});
        let running = json!({"spec": {"nodeName": "a"}, "status": {"phase": "Running"}});
        let ending = json!({
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x.io/keep"]},
            "spec": {"nodeName": "a"},
        });
        let facts = WorldSnapshot {
            pods: vec![
                pod("web-1", "web", &unschedulable),
                pod("web-2", "web", &unschedulable),
                pod("web-3", "web", &unschedulable),
                pod("web-4", "web", &unschedulable),
                pod("alone", "alone", &json!({})),
                pod("db-0", "db", &on("a")),
                pod("db-1", "db", &on("b")),
                pod("db-2", "db", &on("lost")),
                pod("db-3", "db", &running),
                pod("db-4", "db", &ending),
            ],
            nodes: vec![node("a", "True"), node("b", "False"), node("c", "Unknown")],
            claims: vec![
                claim("new", &json!({}), &json!({})),
                claim("up", &json!({}), &json!({"providerID": "kwok://up", "nodeName": "up"})),
                claim("fine", &json!({}), &json!({"providerID": "kwok://a", "nodeName": "a"})),
                claim(
                    "old",
                    &json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["karpenter.sh/termination"]}),
                    &json!({"providerID": "kwok://a", "nodeName": "a"}),
                ),
            ],
            ..WorldSnapshot::default()
        };
        insta::assert_snapshot!(unsettled_pods(&facts).join("\n"), @"
        default/alone: 1 pod left pending: no scheduler has looked at it
        default/web: 4 pods left pending (web-1, web-2, web-3 and 1 more): 0/1 nodes are available: 1 Insufficient cpu.
        default/db: 1 pod did not come to rest (db-4): ending on node a, kept by the finalizer x.io/keep
        default/db: 1 pod did not come to rest (db-0): starting on node a
        default/db: 1 pod did not come to rest (db-1): starting on node b, which is starting
        default/db: 1 pod did not come to rest (db-2): starting on node lost, which is gone
        ");
        insta::assert_snapshot!(unsettled_nodes_and_claims(&facts).join("\n"), @"
        node b is starting
        node c is not ready
        NodeClaim new has no instance yet
        NodeClaim up has no node yet
        NodeClaim old is being deleted, kept by the finalizer karpenter.sh/termination
        ");
    }

    #[test]
    fn the_number_of_lines_is_limited() {
        let nodes = |number| (0..number).map(|number| node(&format!("n-{number:02}"), "False"));
        let lines = |number| {
            unsettled_nodes_and_claims(&WorldSnapshot {
                nodes: nodes(number).collect(),
                ..WorldSnapshot::default()
            })
        };
        assert_eq!(lines(11).len(), 11);
        let many = lines(500);
        assert_eq!((many.len(), many[10].as_str()), (11, "… and 490 more"));
    }
}
