//! Decides which pods must leave their node because of its taints, and when.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};
use karpenter_cluster::ingest::conversion;

/// Returns how long a pod tolerates a node's taints; `None` for ever.
/// The time counts from when the controller saw the taints.
pub(super) fn toleration_period(pod: &Pod, node: &Node) -> Option<Duration> {
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref());
    let tolerations = tolerations.unwrap_or_default();
    let mut shortest: Option<Duration> = None;
    for taint in no_execute_taints(node) {
        match tolerations.iter().find(|toleration| tolerates(toleration, taint)) {
            None => return Some(Duration::ZERO),
            Some(toleration) => shortest = shortest.into_iter().chain(seconds(toleration)).min(),
        }
    }
    shortest
}

/// Returns the `NoExecute` taints of a node.
pub(super) fn no_execute_taints(node: &Node) -> impl Iterator<Item = &Taint> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    taints.iter().filter(|taint| taint.effect == "NoExecute")
}

fn seconds(toleration: &Toleration) -> Option<Duration> {
    let seconds = toleration.toleration_seconds?;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let taints = conversion::taints(Some(&vec![taint.clone()]));
    let tolerations = conversion::tolerations(Some(&vec![toleration.clone()]));
    tolerations.iter().any(|toleration| taints.iter().all(|taint| toleration.tolerates(taint)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn toleration_seconds_limit_how_long_a_pod_stays() {
        let pod = |tolerations: Value| -> Pod {
            serde_json::from_value(json!({"spec": {"containers": [], "tolerations": tolerations}}))
                .unwrap()
        };
        let node = |taints: Value| -> Node {
            serde_json::from_value(json!({"spec": {"taints": taints}})).unwrap()
        };
        let a = || json!({"key": "a", "effect": "NoExecute"});
        let b = || json!({"key": "b", "effect": "NoExecute"});
        let soft = json!([{"key": "a", "effect": "NoSchedule"}]);
        let for_seconds = |key: &str, seconds: i64| json!({"key": key, "operator": "Exists", "tolerationSeconds": seconds});
        let forever = json!({"operator": "Exists"});
        let secs = |seconds| Some(Duration::from_secs(seconds));
        for (case, tolerations, taints, expected) in [
            ("no taint", json!([]), json!([]), None),
            ("only about scheduling", json!([]), soft, None),
            ("not tolerated", json!([]), json!([a()]), secs(0)),
            ("for ever", json!([forever]), json!([a(), b()]), None),
            ("for a while", json!([for_seconds("a", 300)]), json!([a()]), secs(300)),
            ("one of two", json!([for_seconds("a", 300)]), json!([a(), b()]), secs(0)),
            (
                "the shorter",
                json!([for_seconds("a", 300), for_seconds("b", 10)]),
                json!([a(), b()]),
                secs(10),
            ),
            ("below zero", json!([for_seconds("a", -5)]), json!([a()]), secs(0)),
        ] {
            assert_eq!(toleration_period(&pod(tolerations), &node(taints)), expected, "{case}");
        }
    }
}
