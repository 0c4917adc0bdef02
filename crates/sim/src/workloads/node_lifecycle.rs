//! Node lifecycle: marks silent nodes unknown, and turns conditions into taints.
//!
//! A node that has never reported keeps the taint it was created with, so that pods wait until its
//! kubelet reports. Zones and their rates of eviction are left out.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::pods::created;
use super::queue::later;

/// A kubelet may be silent for so long (`--node-monitor-grace-period`).
const GRACE: Duration = Duration::from_secs(50);

/// And for so long after its node was created (`--node-startup-grace-period`).
const STARTUP_GRACE: Duration = Duration::from_mins(1);

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The conditions that a kubelet reports, unknown when the kubelet is silent.
const KUBELET_CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The taint of each condition when it is true.
const CONDITION_TAINTS: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];

#[derive(Debug, Default, PartialEq)]
pub(super) struct Decision {
    /// All conditions, if they change.
    pub(super) conditions: Option<Vec<NodeCondition>>,
    /// All taints, if they change.
    pub(super) taints: Option<Vec<Taint>>,
    /// When the grace period of the kubelet ends, to check it again.
    pub(super) requeue_at: Option<Timestamp>,
}

/// `renewed` is when the kubelet has renewed its lease last.
pub(super) fn decide(node: &Node, renewed: Option<Timestamp>, now: Timestamp) -> Decision {
    let ready = condition(node, "Ready");
    let heartbeat = ready.and_then(|ready| ready.last_heartbeat_time.as_ref()).map(|time| time.0);
    let is_unknown = ready.is_some_and(|ready| ready.status == "Unknown");
    let deadline = match renewed.into_iter().chain(heartbeat).max() {
        Some(sign) => later(sign, GRACE),
        None => later(created(&node.metadata), STARTUP_GRACE),
    };
    let is_silent = deadline <= now && !is_unknown;
    let conditions = is_silent.then(|| unknown_conditions(node, now));
    let mut changed = node.clone();
    if let Some(conditions) = &conditions {
        changed.status.get_or_insert_default().conditions = Some(conditions.clone());
    }
    let old = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let new = taints(&changed, &old, now);
    Decision {
        conditions,
        taints: (new != old).then_some(new),
        requeue_at: (!is_silent && !is_unknown).then_some(deadline),
    }
}

fn condition<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

pub(super) fn is_ready(node: &Node) -> bool {
    condition(node, "Ready").is_some_and(|ready| ready.status == "True")
}

fn unknown_conditions(node: &Node, now: Timestamp) -> Vec<NodeCondition> {
    let status = node.status.as_ref();
    let mut conditions = status.and_then(|status| status.conditions.clone()).unwrap_or_default();
    for kind in KUBELET_CONDITIONS {
        let known = conditions.iter_mut().find(|condition| condition.type_ == kind);
        match known {
            Some(known) if known.status == "Unknown" => {}
            Some(known) => {
                "Unknown".clone_into(&mut known.status);
                known.reason = Some("NodeStatusUnknown".to_owned());
                known.message = Some("Kubelet stopped posting node status.".to_owned());
                known.last_transition_time = Some(Time(now));
            }
            None => conditions.push(NodeCondition {
                type_: kind.to_owned(),
                status: "Unknown".to_owned(),
                reason: Some("NodeStatusNeverUpdated".to_owned()),
                message: Some("Kubelet never posted node status.".to_owned()),
                last_heartbeat_time: node.metadata.creation_timestamp.clone(),
                last_transition_time: Some(Time(now)),
            }),
        }
    }
    conditions
}

/// The taints that the node should have: those of others as they are, then ours.
fn taints(node: &Node, old: &[Taint], now: Timestamp) -> Vec<Taint> {
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    let ready = condition(node, "Ready").map(|ready| ready.status.as_str());
    match ready {
        Some("False") => wanted.extend([(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]),
        Some("Unknown") => wanted.extend([(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]),
        // Nothing has been heard yet: the taint of the beginning stays.
        None if old.iter().any(|taint| taint.key == NOT_READY) => {
            wanted.push((NOT_READY, "NoSchedule"));
        }
        _ => {}
    }
    for (kind, key) in CONDITION_TAINTS {
        if condition(node, kind).is_some_and(|condition| condition.status == "True") {
            wanted.push((key, "NoSchedule"));
        }
    }
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    let is_wanted = |taint: &Taint| wanted.contains(&(&taint.key, &taint.effect));
    let mut taints: Vec<Taint> =
        old.iter().filter(|taint| !is_ours(taint) || is_wanted(taint)).cloned().collect();
    for (key, effect) in wanted {
        if !taints.iter().any(|taint| taint.key == key && taint.effect == effect) {
            taints.push(Taint {
                key: key.to_owned(),
                effect: effect.to_owned(),
                value: None,
                time_added: Some(Time(now)),
            });
        }
    }
    taints
}

fn is_ours(taint: &Taint) -> bool {
    let of_readiness = [NOT_READY, UNREACHABLE].contains(&taint.key.as_str());
    match taint.effect.as_str() {
        "NoExecute" => of_readiness,
        "NoSchedule" => {
            of_readiness
                || taint.key == UNSCHEDULABLE
                || CONDITION_TAINTS.iter().any(|(_, key)| *key == taint.key)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[expect(clippy::needless_pass_by_value, reason = "tables read better so")]
    fn node(conditions: &[(&str, &str)], taints: &[(&str, &str)], more: Value) -> Node {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|(kind, status)| {
                json!({"type": kind, "status": status, "lastHeartbeatTime": "1970-01-01T00:01:40Z"})
            })
            .collect();
        let taints: Vec<_> =
            taints.iter().map(|(key, effect)| json!({"key": key, "effect": effect})).collect();
        let mut spec = json!({"taints": taints});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(json!({
            "metadata": {"name": "n", "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": spec, "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    fn taints_of(decision: &Decision) -> Option<Vec<(&str, &str)>> {
        let taints = decision.taints.as_ref()?;
        Some(taints.iter().map(|taint| (taint.key.as_str(), taint.effect.as_str())).collect())
    }

    #[test]
    fn node_taints_follow_the_conditions() {
        type Taints = &'static [(&'static str, &'static str)];
        let none = json!({});
        let cordoned = json!({"unschedulable": true});
        #[rustfmt::skip]
        let cases: [(&str, Taints, Taints, &Value, Option<Taints>); 9] = [
            ("ready", &[("Ready", "True")], &[(NOT_READY, "NoSchedule")], &none, Some(&[])),
            ("ready again", &[("Ready", "True")], &[("x", "NoExecute"), (UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")], &none, Some(&[("x", "NoExecute")])),
            ("as it should be", &[("Ready", "True")], &[("x", "NoSchedule")], &none, None),
            ("not ready", &[("Ready", "False")], &[(NOT_READY, "NoSchedule")], &none, Some(&[(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")])),
            ("unknown", &[("Ready", "Unknown")], &[], &none, Some(&[(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")])),
            ("nothing heard yet", &[], &[(NOT_READY, "NoSchedule")], &none, None),
            ("pressure", &[("Ready", "True"), ("DiskPressure", "True")], &[], &none, Some(&[("node.kubernetes.io/disk-pressure", "NoSchedule")])),
            ("cordoned", &[("Ready", "True")], &[], &cordoned, Some(&[(UNSCHEDULABLE, "NoSchedule")])),
            ("no longer cordoned", &[("Ready", "True")], &[(UNSCHEDULABLE, "NoSchedule")], &none, Some(&[])),
        ];
        for (case, conditions, old, more, expected) in cases {
            // Within the grace period, so silence does not matter.
            let now = if conditions.is_empty() { at(1) } else { at(110) };
            let decision = decide(&node(conditions, old, more.clone()), None, now);
            assert_eq!(taints_of(&decision).as_deref(), expected, "{case}");
            assert_eq!(decision.conditions, None, "{case}");
        }
    }

    #[test]
    fn a_silent_kubelet_makes_its_node_conditions_unknown() {
        let ready = node(&[("Ready", "True")], &[], json!({}));
        let alive = decide(&ready, Some(at(120)), at(160));
        assert_eq!(alive, Decision { requeue_at: Some(at(170)), ..Decision::default() });
        let silent = decide(&ready, Some(at(120)), at(170));
        let conditions = silent.conditions.clone().unwrap();
        assert!(conditions.iter().all(|condition| condition.status == "Unknown"), "{conditions:?}");
        assert_eq!(conditions[0].reason.as_deref(), Some("NodeStatusUnknown"));
        let expected = vec![(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")];
        assert_eq!((taints_of(&silent), silent.requeue_at), (Some(expected), None));
        // A node that is being deleted is no exception: the controller that deletes it has to know.
        let mut going = ready;
        going.metadata.deletion_timestamp = Some(Time(at(100)));
        assert_eq!(decide(&going, Some(at(120)), at(170)), silent);
    }

    #[test]
    fn a_node_without_a_heartbeat_gets_the_startup_grace_period() {
        let mute = node(&[], &[(NOT_READY, "NoSchedule")], json!({}));
        assert_eq!(decide(&mute, None, at(59)).requeue_at, Some(at(60)));
        let conditions = decide(&mute, None, at(60)).conditions.unwrap();
        assert_eq!(conditions[0].reason.as_deref(), Some("NodeStatusNeverUpdated"));
    }

    #[test]
    fn an_unknown_node_is_not_changed_again() {
        let taints = [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")];
        let unknown = node(&[("Ready", "Unknown")], &taints, json!({}));
        assert_eq!(decide(&unknown, Some(at(0)), at(1000)), Decision::default());
    }
}
