//! Computes the status of a Deployment; `kubectl rollout status` waits for it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet, ReplicaSetStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::int_or_percent::nonzero;
use super::super::queue::later;
use super::Rollout;

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const FAILURE: &str = "ReplicaFailure";

const FINISHED: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

/// The status, and when it will change by the passing of time.
pub(super) fn status(
    rollout: &Rollout<'_>,
    created: Option<&ReplicaSet>,
    now: Timestamp,
) -> (DeploymentStatus, Option<Timestamp>) {
    let deployment = rollout.deployment;
    let old = deployment.status.clone().unwrap_or_default();
    let sum = |count: fn(&ReplicaSetStatus) -> i32| -> i32 {
        rollout.sets.iter().filter_map(|set| set.status.as_ref()).map(count).sum()
    };
    let new = rollout.new.map(|new| &rollout.sets[new]);
    let updated = new.and_then(|new| new.status.as_ref()).map_or(0, |status| status.replicas);
    let available = sum(|status| status.available_replicas.unwrap_or_default());
    let created_size = created.map_or(0, super::spec_replicas);
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: nonzero(sum(|status| status.replicas)),
        updated_replicas: nonzero(updated),
        ready_replicas: nonzero(sum(|status| status.ready_replicas.unwrap_or_default())),
        available_replicas: nonzero(available),
        unavailable_replicas: nonzero((rollout.total() + created_size - available).max(0)),
        terminating_replicas: Some(sum(|status| status.terminating_replicas.unwrap_or_default())),
        collision_count: old.collision_count,
        conditions: None,
    };
    let mut conditions = Conditions { list: old.conditions.clone().unwrap_or_default(), now };
    let is_available = available >= rollout.replicas() - rollout.max_unavailable();
    let (value, reason, message) = if is_available {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    conditions.set(AVAILABLE, value, reason, message.to_owned());
    let again = update_progress(rollout, created, &old, &status, &mut conditions);
    copy_failure(rollout, &mut conditions);
    status.conditions = Some(conditions.list);
    (status, again)
}

/// Whether all pods are of the present template and available.
pub(super) fn is_complete(rollout: &Rollout<'_>, status: &DeploymentStatus) -> bool {
    let all = nonzero(rollout.replicas());
    status.updated_replicas == all
        && status.replicas == all
        && status.available_replicas == all
        && status.observed_generation >= rollout.deployment.metadata.generation
}

/// Whether the rollout is further than it was.
fn has_progressed(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    let left = |status: &DeploymentStatus| {
        status.replicas.unwrap_or_default() - status.updated_replicas.unwrap_or_default()
    };
    new.updated_replicas > old.updated_replicas
        || left(new) < left(old)
        || new.ready_replicas > old.ready_replicas
        || new.available_replicas > old.available_replicas
}

fn update_progress(
    rollout: &Rollout<'_>,
    created: Option<&ReplicaSet>,
    old: &DeploymentStatus,
    status: &DeploymentStatus,
    conditions: &mut Conditions,
) -> Option<Timestamp> {
    let deadline = rollout.spec.progress_deadline_seconds.unwrap_or(600);
    if deadline == i32::MAX {
        conditions.remove(PROGRESSING);
        return None;
    }
    let is_paused = rollout.spec.paused == Some(true);
    let reason = conditions.reason(PROGRESSING);
    match reason.as_deref() {
        Some(TIMED_OUT) => {}
        Some(PAUSED) if !is_paused => conditions.set(
            PROGRESSING,
            "Unknown",
            "DeploymentResumed",
            "Deployment is resumed".to_owned(),
        ),
        _ if is_paused => {
            conditions.set(PROGRESSING, "Unknown", PAUSED, "Deployment is paused".to_owned());
        }
        _ => {}
    }
    if is_paused {
        return None;
    }
    if let Some(created) = created {
        let message = format!("Created new replica set {}", quoted(created));
        conditions.set(PROGRESSING, "True", "NewReplicaSetCreated", message);
    }
    let new = rollout.new.map(|new| &rollout.sets[new]);
    let subject = match new.or(created) {
        Some(set) => format!("ReplicaSet {}", quoted(set)),
        None => format!("Deployment {}", name_of(rollout.deployment)),
    };
    if reason.is_none()
        && created.is_none()
        && let Some(new) = new
    {
        let message = format!("Found new replica set {}", quoted(new));
        conditions.set(PROGRESSING, "True", "FoundNewReplicaSet", message);
    }
    let was_finished = status.replicas == status.updated_replicas
        && conditions.reason(PROGRESSING).as_deref() == Some(FINISHED);
    if was_finished {
        return None;
    }
    let deadline = Duration::from_secs(u64::try_from(deadline).unwrap_or_default());
    if created.is_none() && is_complete(rollout, status) {
        let message = format!("{subject} has successfully progressed.");
        conditions.set(PROGRESSING, "True", FINISHED, message);
        return None;
    }
    if has_progressed(old, status) {
        conditions.renew(PROGRESSING, "ReplicaSetUpdated", format!("{subject} is progressing."));
    } else if conditions.has_timed_out(PROGRESSING, deadline) {
        conditions.set(
            PROGRESSING,
            "False",
            TIMED_OUT,
            format!("{subject} has timed out progressing."),
        );
        return None;
    }
    conditions.updated(PROGRESSING).map(|time| later(time, deadline + Duration::from_secs(1)))
}

/// Copies the ReplicaFailure condition of a ReplicaSet to the Deployment.
/// The new ReplicaSet goes first.
fn copy_failure(rollout: &Rollout<'_>, conditions: &mut Conditions) {
    let failure = |set: &ReplicaSet| {
        let set_conditions = set.status.as_ref()?.conditions.as_ref()?;
        set_conditions.iter().find(|condition| condition.type_ == FAILURE).cloned()
    };
    let new = rollout.new.and_then(|new| failure(&rollout.sets[new]));
    let failure = new.or_else(|| rollout.old().find_map(|index| failure(&rollout.sets[index])));
    match failure {
        None => conditions.remove(FAILURE),
        Some(failure) => conditions.set(
            FAILURE,
            &failure.status,
            failure.reason.as_deref().unwrap_or_default(),
            failure.message.unwrap_or_default(),
        ),
    }
}

fn quoted(set: &ReplicaSet) -> String {
    format!("{:?}", set.metadata.name.as_deref().unwrap_or_default())
}

fn name_of(deployment: &Deployment) -> String {
    format!("{:?}", deployment.metadata.name.as_deref().unwrap_or_default())
}

struct Conditions {
    list: Vec<DeploymentCondition>,
    now: Timestamp,
}

impl Conditions {
    fn get(&self, kind: &str) -> Option<&DeploymentCondition> {
        self.list.iter().find(|condition| condition.type_ == kind)
    }

    fn reason(&self, kind: &str) -> Option<String> {
        self.get(kind)?.reason.clone()
    }

    fn updated(&self, kind: &str) -> Option<Timestamp> {
        self.get(kind)?.last_update_time.as_ref().map(|time| time.0)
    }

    /// Returns whether the condition is older than the deadline or already timed out.
    fn has_timed_out(&self, kind: &str, deadline: Duration) -> bool {
        self.reason(kind).as_deref() == Some(TIMED_OUT)
            || self.updated(kind).is_some_and(|time| later(time, deadline) < self.now)
    }

    fn remove(&mut self, kind: &str) {
        self.list.retain(|condition| condition.type_ != kind);
    }

    /// Does nothing if the condition has this status for this reason.
    fn set(&mut self, kind: &str, status: &str, reason: &str, message: String) {
        let known = self.get(kind);
        let is_same_status = known.is_some_and(|known| known.status == status);
        if is_same_status && known.is_some_and(|known| known.reason.as_deref() == Some(reason)) {
            return;
        }
        let since =
            known.filter(|_| is_same_status).and_then(|known| known.last_transition_time.clone());
        let condition = DeploymentCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_update_time: Some(Time(self.now)),
            last_transition_time: Some(since.unwrap_or(Time(self.now))),
        };
        self.remove(kind);
        self.list.push(condition);
    }

    /// Sets the condition to true for this reason, with a new update time even if unchanged.
    fn renew(&mut self, kind: &str, reason: &str, message: String) {
        if let Some(known) = self.list.iter_mut().find(|condition| condition.type_ == kind) {
            // Another reason, so that it is replaced and its time of update is new.
            known.reason = None;
        }
        self.set(kind, "True", reason, message);
    }
}
