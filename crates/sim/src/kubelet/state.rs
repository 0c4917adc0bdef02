//! Decides what a kubelet does next with a node or a pod.

use std::ops::Range;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::labels::kwok;
use karpenter_operator::rng::SeededRng;
use kube::ResourceExt as _;

use super::{RUN_FOR, SILENT, STOP_AFTER, status};

/// How long things take that chance decides, and how much happens at once.
#[derive(Clone, Debug)]
pub struct Pace {
    /// From the first event of a node until it is ready.
    /// It covers boot and the start of network plugins.
    pub node_ready: Range<Duration>,
    /// From a pod's binding until it runs: pulling and starting.
    pub pod_start: Range<Duration>,
    /// From the wish that a pod ends until it has ended, if its grace period allows that.
    pub pod_stop: Range<Duration>,
    /// How often a node says that it is alive. Where days pass, that is most of what happens, so
    /// long worlds have it less often.
    pub lease_every: Duration,
    /// The most requests at the same time.
    /// With one, they come in the same order in every run.
    pub concurrency: usize,
}

impl Default for Pace {
    fn default() -> Self {
        let millis = |from, to| Duration::from_millis(from)..Duration::from_millis(to);
        Self {
            node_ready: millis(3_000, 12_000),
            pod_start: millis(800, 4_000),
            pod_stop: millis(500, 3_000),
            lease_every: Duration::from_secs(10),
            concurrency: 1,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeStep {
    Nothing,
    BecomeReady,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodStep {
    Nothing,
    Wait(Duration),
    Start,
    Succeed,
    End,
}

/// Whether the node has no real instance, and so no kubelet but this one.
pub(super) fn is_simulated(node: &Node) -> bool {
    node.annotations().get(kwok::NODE).is_some_and(|mark| mark == kwok::NODE_FAKE)
}

pub(super) fn is_silent(node: &Node) -> bool {
    node.annotations().get(SILENT).is_some_and(|silent| silent == "true")
}

pub(super) fn node_step(node: &Node) -> NodeStep {
    let acts = is_simulated(node) && !is_silent(node) && node.metadata.deletion_timestamp.is_none();
    if acts && !status::is_ready(node) { NodeStep::BecomeReady } else { NodeStep::Nothing }
}

/// Returns when to sync the pod after this change; `None` for never.
pub(super) fn sync_delay(
    pod: &Pod,
    before: Option<&Pod>,
    pace: &Pace,
    rng: &mut SeededRng,
) -> Option<Duration> {
    let is_ending = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    // A StatefulSet gives the same name again: one change may go from one pod to the next.
    let before = before.filter(|old| old.metadata.uid == pod.metadata.uid);
    if is_ending(pod) {
        if before.is_some_and(is_ending) {
            return None;
        }
        let wanted =
            annotated(pod, STOP_AFTER).unwrap_or_else(|| rng.duration(pace.pod_stop.clone()));
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
        return Some(wanted.min(Duration::from_secs(u64::try_from(grace).unwrap_or_default())));
    }
    match phase(pod) {
        "" | "Pending" if before.is_none() => Some(rng.duration(pace.pod_start.clone())),
        "Running" => {
            annotated(pod, RUN_FOR).filter(|_| before.is_none_or(|old| phase(old) != "Running"))
        }
        _ => None,
    }
}

pub(super) fn pod_step(pod: &Pod, node: &Node, now: Timestamp) -> PodStep {
    if !is_simulated(node) || is_silent(node) {
        return PodStep::Nothing;
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return PodStep::End;
    }
    match phase(pod) {
        // A pod that came before its node was ready has to wait for it.
        "" | "Pending" if !status::is_ready(node) => PodStep::Wait(Duration::from_secs(1)),
        "" | "Pending" => PodStep::Start,
        "Running" => succeeds(pod, now),
        _ => PodStep::Nothing,
    }
}

fn succeeds(pod: &Pod, now: Timestamp) -> PodStep {
    let Some(run_for) = annotated(pod, RUN_FOR) else {
        return PodStep::Nothing;
    };
    let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    let end = started.and_then(|time| time.0.checked_add(run_for).ok()).unwrap_or(now);
    match Duration::try_from(end.duration_since(now)) {
        Ok(left) if !left.is_zero() => PodStep::Wait(left),
        _ => PodStep::Succeed,
    }
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn annotated(pod: &Pod, key: &str) -> Option<Duration> {
    let text = pod.annotations().get(key)?;
    let parsed = karpenter_api::grammar::Duration::parse(text).value().ok()?;
    Duration::try_from(parsed).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(ready: bool, annotations: &Value) -> Node {
        let status = if ready { "True" } else { "False" };
        let mut all = json!({kwok::NODE: kwok::NODE_FAKE});
        for (key, value) in annotations.as_object().into_iter().flatten() {
            all[key] = value.clone();
        }
        serde_json::from_value(json!({
            "metadata": {"name": "n", "annotations": all},
            "status": {"conditions": [{"type": "Ready", "status": status}]},
        }))
        .unwrap()
    }

    fn pod(phase: &str, metadata: &Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": metadata,
            "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
            "status": {"phase": phase, "startTime": "2026-01-01T00:00:00Z"},
        }))
        .unwrap()
    }

    #[test]
    fn pods_start_on_ready_nodes_finish_and_end() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let plain = json!({"name": "p"});
        let ending = json!({"name": "p", "deletionTimestamp": "2026-01-01T00:01:30Z"});
        let run_for = |time: &str| json!({"name": "p", "annotations": {RUN_FOR: time}});
        let silent = json!({SILENT: "true"});
        let rows = vec![
            ("starts", pod("Pending", &plain), node(true, &json!({})), PodStep::Start),
            (
                "waits for the node",
                pod("Pending", &plain),
                node(false, &json!({})),
                PodStep::Wait(Duration::from_secs(1)),
            ),
            ("runs on", pod("Running", &plain), node(true, &json!({})), PodStep::Nothing),
            (
                "has run long enough",
                pod("Running", &run_for("30s")),
                node(true, &json!({})),
                PodStep::Succeed,
            ),
            (
                "runs a little longer",
                pod("Running", &run_for("90s")),
                node(true, &json!({})),
                PodStep::Wait(Duration::from_secs(30)),
            ),
            ("ends", pod("Running", &ending), node(true, &json!({})), PodStep::End),
            ("nobody ends it", pod("Running", &ending), node(true, &silent), PodStep::Nothing),
            ("stays done", pod("Succeeded", &plain), node(true, &json!({})), PodStep::Nothing),
        ];
        for (name, pod, node, expected) in rows {
            assert_eq!(pod_step(&pod, &node, now), expected, "{name}");
        }
    }

    #[test]
    fn a_pod_never_takes_longer_to_end_than_its_grace_period() {
        let (mut rng, pace) = (SeededRng::new(1), Pace::default());
        let ending = json!({
            "name": "p", "deletionTimestamp": "2026-01-01T00:01:30Z", "deletionGracePeriodSeconds": 2,
            "annotations": {STOP_AFTER: "1h"},
        });
        let before = pod("Running", &json!({"name": "p"}));
        let ending = pod("Running", &ending);
        assert_eq!(
            sync_delay(&ending, Some(&before), &pace, &mut rng),
            Some(Duration::from_secs(2))
        );
        assert_eq!(
            sync_delay(&ending, Some(&ending), &pace, &mut rng),
            None,
            "it is waited for already"
        );
    }

    #[test]
    fn a_recreated_pod_with_the_same_name_is_started() {
        let (mut rng, pace) = (SeededRng::new(1), Pace::default());
        let old = pod("Running", &json!({"name": "p", "uid": "1"}));
        let new = pod("Pending", &json!({"name": "p", "uid": "2"}));
        assert!(sync_delay(&new, Some(&old), &pace, &mut rng).is_some());
        assert_eq!(sync_delay(&new, Some(&new), &pace, &mut rng), None);
    }
}
