//! PodDisruptionBudget: computes how many pods may be disrupted now.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::int_or_percent::{int, scaled_value};
use super::pods::{controller_of, is_ready, is_terminating};
use super::queue::later;

/// A pod whose eviction was granted and that is not deleted by then is counted again.
const DELETION_TIMEOUT: Duration = Duration::from_mins(2);

const ALLOWED: &str = "DisruptionAllowed";

/// The status, and when it changes by the passing of time. `scale` returns the controller that sets
/// the number of pods of a pod's kind, by uid, and that number.
pub(super) fn status(
    budget: &PodDisruptionBudget,
    pods: &[&Arc<Pod>],
    scale: impl Fn(&Pod) -> Option<(String, i32)>,
    now: Timestamp,
) -> (PodDisruptionBudgetStatus, Option<Timestamp>) {
    let old = budget.status.clone().unwrap_or_default();
    let (expected, desired) = match expected_and_desired_pods(budget, pods, scale) {
        Ok(numbers) => numbers,
        Err(problem) => return (sync_failed_status(budget, old, problem, now), None),
    };
    let (disrupted, again) = disrupted(&old, pods, now);
    let healthy = pods.iter().filter(|pod| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        !is_terminating(pod) && !disrupted.contains_key(name) && is_ready(pod)
    });
    let healthy = int(healthy.count());
    // Without pods nothing is allowed, so that the first ones are not lost before they count.
    let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
    let (value, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let generation = budget.metadata.generation;
    let conditions = condition(old.conditions, value, reason, String::new(), generation, now);
    let status = PodDisruptionBudgetStatus {
        current_healthy: Some(healthy),
        desired_healthy: Some(desired),
        expected_pods: Some(expected),
        disruptions_allowed: Some(allowed),
        disrupted_pods: Some(disrupted).filter(|pods| !pods.is_empty()),
        observed_generation: generation,
        conditions: Some(conditions),
    };
    (status, again)
}

/// Returns the expected number of pods, and how many must be healthy.
fn expected_and_desired_pods(
    budget: &PodDisruptionBudget,
    pods: &[&Arc<Pod>],
    scale: impl Fn(&Pod) -> Option<(String, i32)>,
) -> Result<(i32, i32), String> {
    let spec = budget.spec.clone().unwrap_or_default();
    let resolved = |value: &IntOrString, total| {
        scaled_value(value, total, true)
            .ok_or_else(|| format!("invalid value for IntOrString: {value:?}"))
    };
    match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => {
            let expected = expected(pods, scale)?;
            Ok((expected, expected.saturating_sub(resolved(most, expected)?).max(0)))
        }
        (None, Some(IntOrString::Int(least))) => Ok((int(pods.len()), *least)),
        (None, Some(least)) => {
            let expected = expected(pods, scale)?;
            Ok((expected, resolved(least, expected)?))
        }
        (None, None) => Ok((0, 0)),
    }
}

/// The sum of the replicas of the pods' controllers. Pods without a controller do not count.
fn expected(
    pods: &[&Arc<Pod>],
    scale: impl Fn(&Pod) -> Option<(String, i32)>,
) -> Result<i32, String> {
    let mut by_owner: BTreeMap<String, Option<(String, i32)>> = BTreeMap::new();
    for pod in pods {
        let Some(owner) = controller_of(&pod.metadata) else { continue };
        let size = by_owner.entry(owner.uid.clone()).or_insert_with(|| scale(pod));
        if size.is_none() {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            return Err(format!("found no controllers for pod {name:?}"));
        }
    }
    // ReplicaSets of one Deployment count as one.
    let sizes: BTreeMap<String, i32> = by_owner.into_values().flatten().collect();
    Ok(sizes.into_values().fold(0, i32::saturating_add))
}

/// Pods that the API has promised away and that are not gone yet.
fn disrupted(
    old: &PodDisruptionBudgetStatus,
    pods: &[&Arc<Pod>],
    now: Timestamp,
) -> (BTreeMap<String, Time>, Option<Timestamp>) {
    let mut kept = BTreeMap::new();
    let mut again: Option<Timestamp> = None;
    let Some(promised) = &old.disrupted_pods else { return (kept, again) };
    for pod in pods.iter().filter(|pod| !is_terminating(pod)) {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let Some(time) = promised.get(name) else { continue };
        let end = later(time.0, DELETION_TIMEOUT);
        if end > now {
            again = again.into_iter().chain([end]).min();
            kept.insert(name.to_owned(), time.clone());
        }
    }
    (kept, again)
}

/// Returns the status for an error: no disruption is allowed.
fn sync_failed_status(
    budget: &PodDisruptionBudget,
    old: PodDisruptionBudgetStatus,
    problem: String,
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    let generation = budget.metadata.generation;
    let conditions =
        condition(old.conditions.clone(), "False", "SyncFailed", problem, generation, now);
    PodDisruptionBudgetStatus {
        disruptions_allowed: Some(0),
        observed_generation: generation,
        conditions: Some(conditions),
        current_healthy: old.current_healthy.or(Some(0)),
        desired_healthy: old.desired_healthy.or(Some(0)),
        expected_pods: old.expected_pods.or(Some(0)),
        ..old
    }
}

fn condition(
    old: Option<Vec<Condition>>,
    status: &str,
    reason: &str,
    message: String,
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let mut conditions = old.unwrap_or_default();
    let known = conditions.iter_mut().find(|condition| condition.type_ == ALLOWED);
    let since = known.as_ref().filter(|known| known.status == status);
    let condition = Condition {
        type_: ALLOWED.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: generation,
        last_transition_time: since.map_or(Time(now), |known| known.last_transition_time.clone()),
    };
    match known {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
    conditions
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[expect(clippy::needless_pass_by_value, reason = "tables read better so")]
    fn budget(spec: Value, status: Value) -> PodDisruptionBudget {
        serde_json::from_value(json!({
            "metadata": {"name": "b", "generation": 2}, "spec": spec, "status": status,
        }))
        .unwrap()
    }

    fn pod(name: &str, owner: &str, ready: bool) -> Arc<Pod> {
        let status = if ready { "True" } else { "False" };
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": name, "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true},
                ]},
                "status": {"conditions": [{"type": "Ready", "status": status}]},
            }))
            .unwrap(),
        )
    }

    fn of_ten(pod: &Pod) -> Option<(String, i32)> {
        let owner = controller_of(&pod.metadata)?;
        (owner.name != "job").then(|| ("deployment".to_owned(), 10))
    }

    fn numbers_of(spec: Value, pods: &[Arc<Pod>]) -> (i32, i32, i32, i32) {
        let pods: Vec<_> = pods.iter().collect();
        let (status, _) = status(&budget(spec, json!({})), &pods, of_ten, at(0));
        (
            status.expected_pods.unwrap(),
            status.desired_healthy.unwrap(),
            status.current_healthy.unwrap(),
            status.disruptions_allowed.unwrap(),
        )
    }

    #[test]
    fn counts_and_percentages_match_upstream() {
        let pods: Vec<_> = (0..9)
            .map(|n| pod(&format!("p{n}"), if n < 4 { "old" } else { "new" }, n != 0))
            .collect();
        for (case, spec, expected) in [
            ("at least 5", json!({"minAvailable": 5}), (9, 5, 8, 3)),
            ("at least half of 10", json!({"minAvailable": "50%"}), (10, 5, 8, 3)),
            ("shares are rounded up", json!({"minAvailable": "55%"}), (10, 6, 8, 2)),
            ("at most 3 missing of 10", json!({"maxUnavailable": 3}), (10, 7, 8, 1)),
            ("at most a quarter, rounded up", json!({"maxUnavailable": "25%"}), (10, 7, 8, 1)),
            ("nothing may be missing", json!({"maxUnavailable": 0}), (10, 10, 8, 0)),
            ("more than there are", json!({"maxUnavailable": "200%"}), (10, 0, 8, 8)),
            ("nothing said", json!({}), (0, 0, 8, 0)),
        ] {
            assert_eq!(numbers_of(spec, &pods), expected, "{case}");
        }
        assert_eq!(
            numbers_of(json!({"minAvailable": 0}), &[]),
            (0, 0, 0, 0),
            "no pods, no disruptions"
        );
    }

    #[test]
    fn disrupted_pods_do_not_count_until_the_deletion_timeout() {
        let promised = json!({"disruptedPods": {
            "a": "1970-01-01T00:01:40Z", "gone": "1970-01-01T00:01:40Z",
        }});
        let budget = budget(json!({"minAvailable": 1}), promised);
        let pods = [pod("a", "o", true), pod("b", "o", true), pod("c", "o", true)];
        let pods: Vec<_> = pods.iter().collect();
        let (recent, again) = status(&budget, &pods, of_ten, at(150));
        assert_eq!((recent.current_healthy, recent.disruptions_allowed), (Some(2), Some(1)));
        assert_eq!(recent.disrupted_pods.unwrap().into_keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(again, Some(at(220)));
        let (old, again) = status(&budget, &pods, of_ten, at(220));
        assert_eq!((old.current_healthy, old.disrupted_pods, again), (Some(3), None, None));
    }

    #[test]
    fn a_pod_without_a_known_controller_allows_no_disruptions() {
        let pods = [pod("a", "job", true)];
        let pods: Vec<_> = pods.iter().collect();
        let (status, _) =
            status(&budget(json!({"maxUnavailable": 1}), json!({})), &pods, of_ten, at(0));
        let condition = &status.conditions.unwrap()[0];
        assert_eq!(
            (condition.reason.as_str(), status.disruptions_allowed),
            ("SyncFailed", Some(0))
        );
        assert_eq!(condition.message, "found no controllers for pod \"a\"");
    }

    #[test]
    fn an_unchanged_status_keeps_its_transition_time() {
        let mut budget = budget(json!({"minAvailable": 1}), json!({}));
        let pods = [pod("a", "o", true), pod("b", "o", true)];
        let pods: Vec<_> = pods.iter().collect();
        let (first, _) = status(&budget, &pods, of_ten, at(1));
        assert_eq!(first.conditions.as_ref().unwrap()[0].status, "True");
        budget.status = Some(first.clone());
        assert_eq!(status(&budget, &pods, of_ten, at(2)).0, first);
    }
}
