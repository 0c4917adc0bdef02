//! `pods/eviction`: deletes a pod if its PodDisruptionBudgets allow it.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use crate::api::{ApiResponse, Body, ResourceRequest, State};
use crate::kinds::ObjectReader as _;
use crate::label_selector;
use crate::registry::ServedResource;
use crate::status::StatusError;
use crate::store::{ObjectKey, ResourceId};
use crate::verbs::body::{self, ExpectedKind};
use crate::verbs::create::success_status;
use crate::verbs::delete::{check_preconditions, delete_object};
use crate::verbs::options::{DeleteOptions, WriteOptions};

/// As many disrupted pods as a budget may remember at once.
const MAX_DISRUPTED_PODS: usize = 2000;

pub(super) fn evict(state: &mut State, call: &ResourceRequest) -> Result<ApiResponse, StatusError> {
    let write = WriteOptions::parse(&call.request.query, "CreateOptions")?;
    let eviction =
        body::read_object(&call.request, ExpectedKind::built_in("policy", "v1", "Eviction"))?.value;
    let name = eviction["metadata"]["name"].as_str().unwrap_or_default();
    if !name.is_empty() && name != call.target.name {
        return Err(StatusError::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut options = DeleteOptions::parse(&call.request.query, Some(&eviction["deleteOptions"]))?;
    options.dry_run |= write.dry_run;
    let served = &call.served;
    let key = call.key();
    let stored = call.stored_object(state)?;
    let pod = State::object(served, &stored);
    if !ignores_budgets(&pod) {
        consume_disruption(state, call, &pod, options.dry_run)?;
    }
    check_preconditions(served, &key, &stored, &options)?;
    if !options.dry_run {
        set_disruption_target(state, served, &key);
    }
    // The client read the pod before the condition was written to it.
    options.resource_version = None;
    delete_object(state, served, &key, &options)?;
    let mut status = success_status();
    status["code"] = 201.into();
    Ok(ApiResponse::new(StatusCode::CREATED, Body::Value(status)))
}

/// Sets the condition `DisruptionTarget` in the status of the pod.
fn set_disruption_target(state: &mut State, served: &Arc<ServedResource>, key: &ObjectKey) {
    let Some(stored) = state.store.get(&served.id, key).cloned() else {
        return;
    };
    let mut pod = State::object(served, &stored);
    let now = state.now();
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": now, "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    });
    if set_condition(&mut pod["status"], condition) {
        state.put(served, key, pod);
    }
}

/// Sets the condition, unless its status is unchanged. Returns whether it did.
fn set_condition(status: &mut Value, condition: Value) -> bool {
    let conditions = &mut status["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return false };
    match conditions.iter_mut().find(|other| other["type"] == condition["type"]) {
        Some(old) if old["status"] == condition["status"] => false,
        Some(old) => {
            *old = condition;
            true
        }
        None => {
            conditions.push(condition);
            true
        }
    }
}

/// Pods that do no work any more, or none yet, may always go.
fn ignores_budgets(pod: &Value) -> bool {
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    matches!(phase, "Succeeded" | "Failed" | "Pending")
        || pod["metadata"].get("deletionTimestamp").is_some()
}

/// Subtracts one disruption from the budget of the pod.
fn consume_disruption(
    state: &mut State,
    call: &ResourceRequest,
    pod: &Value,
    dry_run: bool,
) -> Result<(), StatusError> {
    let namespace = &call.target.namespace;
    let id = ResourceId::new("policy", "poddisruptionbudgets");
    let budgets: Vec<Value> = state
        .list("policy", "poddisruptionbudgets", namespace)
        .into_iter()
        .filter(|budget| {
            label_selector::matches(&budget["spec"]["selector"], &pod["metadata"]["labels"])
        })
        .collect();
    let budget = match budgets.as_slice() {
        [] => return Ok(()),
        [budget] => budget,
        _ => {
            return Err(StatusError::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "",
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
    };
    let name = budget["metadata"]["name"].as_str().unwrap_or_default();
    if !is_ready(pod) && allows_unhealthy_eviction(budget) {
        return Ok(());
    }
    check_budget(budget, name)?;
    if dry_run {
        return Ok(());
    }
    let key = ObjectKey::new(namespace, name);
    let Some(served) = state.registry.any_version(&id).cloned() else {
        return Ok(());
    };
    record_disruption(state, &served, &key, &call.target.name);
    Ok(())
}

fn record_disruption(state: &mut State, served: &Arc<ServedResource>, key: &ObjectKey, pod: &str) {
    let Some(stored) = state.store.get(&served.id, key).cloned() else {
        return;
    };
    let now = state.now();
    let mut budget = State::object(served, &stored);
    let status = &mut budget["status"];
    let left = status["disruptionsAllowed"].as_i64().unwrap_or_default() - 1;
    status["disruptionsAllowed"] = left.into();
    status["disruptedPods"][pod] = now.as_str().into();
    let (is_allowed, reason) =
        if left > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let observed = budget["metadata"]["generation"].clone();
    let condition = json!({
        "type": "DisruptionAllowed", "status": is_allowed, "observedGeneration": observed,
        "lastTransitionTime": now, "reason": reason, "message": "",
    });
    set_condition(&mut budget["status"], condition);
    state.put(served, key, budget);
}

/// Rejects the eviction if the budget allows none, with a time to retry.
fn check_budget(budget: &Value, name: &str) -> Result<(), StatusError> {
    let status = &budget["status"];
    let observed = status["observedGeneration"].as_i64().unwrap_or_default();
    if observed < budget["metadata"]["generation"].as_i64().unwrap_or_default() {
        let message =
            format!("The disruption budget {name} is still being processed by the server.");
        return Err(eviction_rejection(&message).with_retry_after(10));
    }
    let allowed = status["disruptionsAllowed"].as_i64().unwrap_or_default();
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MAX_DISRUPTED_PODS)
        || allowed < 0
    {
        let why = "pdb disruptions allowed is negative";
        return Err(StatusError::forbidden(
            crate::status::StatusDetails { group: "policy", kind: "poddisruptionbudgets", name },
            why,
        ));
    }
    if allowed > 0 {
        return Ok(());
    }
    let number = |field: &str| status[field].as_i64().unwrap_or_default();
    let message = format!(
        "The disruption budget {name} needs {} healthy pods and has {} currently",
        number("desiredHealthy"),
        number("currentHealthy"),
    );
    Err(eviction_rejection(&message))
}

fn eviction_rejection(cause: &str) -> StatusError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    StatusError::too_many_requests(message).with_cause("DisruptionBudget", cause, "")
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.is_some_and(|list| {
        list.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    })
}

/// Returns whether unhealthy pods may be evicted regardless of the budget.
fn allows_unhealthy_eviction(budget: &Value) -> bool {
    let status = &budget["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or_default();
    match budget["spec"]["unhealthyPodEvictionPolicy"].as_str() {
        Some("AlwaysAllow") => true,
        _ => number("desiredHealthy") > 0 && number("currentHealthy") >= number("desiredHealthy"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exhausted_budget_reports_desired_and_current_healthy_pods() {
        let budget = json!({
            "metadata": {"generation": 1},
            "status": {"observedGeneration": 1, "disruptionsAllowed": 0, "desiredHealthy": 2, "currentHealthy": 2},
        });
        let failure = check_budget(&budget, "web").unwrap_err();
        assert_eq!(failure.code, StatusCode::TOO_MANY_REQUESTS);
        let causes = &failure.to_value()["details"]["causes"];
        assert_eq!(
            causes[0]["message"],
            "The disruption budget web needs 2 healthy pods and has 2 currently"
        );
    }
}
