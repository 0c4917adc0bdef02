//! Compares an object's status with the last observed one; the pure part of condition metrics.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{NodeCondition, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

use crate::events::{Event, definitions};

/// A condition without a status, as one that is absent counts.
const UNKNOWN: &str = "Unknown";

/// The part of an object that matters here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectStatus {
    /// What it is.
    pub reference: ObjectReference,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// The deletion timestamp.
    pub deletion_timestamp: Option<Timestamp>,
    /// Its conditions by type; only those that are present.
    pub conditions: BTreeMap<String, ObservedCondition>,
}

/// A status condition as last observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedCondition {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, in one word.
    pub reason: String,
    /// Why.
    pub message: String,
    /// Since when.
    pub last_transition: Timestamp,
}

impl ObjectStatus {
    /// An object's part.
    pub fn new(
        reference: ObjectReference,
        metadata: &ObjectMeta,
        conditions: impl IntoIterator<Item = (String, ObservedCondition)>,
    ) -> Self {
        Self {
            reference,
            labels: metadata.labels.clone().unwrap_or_default(),
            finalizers: metadata.finalizers.clone().unwrap_or_default(),
            deletion_timestamp: metadata.deletion_timestamp.as_ref().map(|time| time.0),
            conditions: conditions.into_iter().collect(),
        }
    }

    pub(super) fn key(&self) -> (String, String) {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        (part(&self.reference.namespace), part(&self.reference.name))
    }
}

impl ObservedCondition {
    /// Converts a condition of a Karpenter kind; returns it with its type.
    pub fn from_condition(condition: &Condition) -> (String, Self) {
        let seen = Self {
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            last_transition: condition.last_transition_time.0,
        };
        (condition.type_.clone(), seen)
    }

    /// Converts a condition of a Node; returns it with its type.
    pub fn from_node_condition(condition: &NodeCondition) -> (String, Self) {
        let time = condition.last_transition_time.as_ref().map(|time| time.0);
        let seen = Self {
            status: condition.status.clone(),
            reason: condition.reason.clone().unwrap_or_default(),
            message: condition.message.clone().unwrap_or_default(),
            last_transition: time.unwrap_or(Timestamp::UNIX_EPOCH),
        };
        (condition.type_.clone(), seen)
    }
}

/// The last observed conditions, finalizers and labels of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedStatus {
    reference: ObjectReference,
    finalizers: Vec<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) deletion_timestamp: Option<Timestamp>,
    pub(super) conditions: BTreeMap<String, ObservedCondition>,
}

impl ObservedStatus {
    /// Whether the object is another one, which got the name of the one that was seen.
    pub(super) fn is_replaced_by(&self, object: &ObjectStatus) -> bool {
        self.reference.uid != object.reference.uid
    }

    /// Returns events for the finalizers that a deleted object still had.
    pub(super) fn finalized_events(&self) -> Vec<Event> {
        let event = |finalizer: &String| definitions::finalized(self.reference.clone(), finalizer);
        self.finalizers.iter().map(event).collect()
    }
}

/// A condition that changed its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Its type.
    pub condition_type: String,
    /// What it is now.
    pub status: String,
    /// Why.
    pub reason: String,
    /// What it was before, and for how long; none if it was not seen before.
    pub from: Option<(String, SignedDuration)>,
}

/// The result of comparing two statuses: transitions, events and the new status.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusDiff {
    /// The status to keep for the next comparison.
    pub observed: ObservedStatus,
    /// What has changed.
    pub transitions: Vec<Transition>,
    /// What to publish.
    pub events: Vec<Event>,
}

/// Compares an object with its last observed status. After a restart there is none: conditions that
/// are True or False then count as changed, but the time of the change is unknown, so they are not
/// measured and emit no event.
pub fn diff_status(before: Option<&ObservedStatus>, object: &ObjectStatus) -> StatusDiff {
    let ObjectStatus { reference, labels, finalizers, deletion_timestamp: deleted, conditions } =
        object;
    let removed = before.into_iter().flat_map(|before| &before.finalizers);
    let removed = removed.filter(|finalizer| !finalizers.contains(finalizer));
    let mut events: Vec<_> =
        removed.map(|finalizer| definitions::finalized(reference.clone(), finalizer)).collect();
    let mut transitions = Vec::new();
    for (condition_type, now) in conditions {
        let then = before.and_then(|before| before.conditions.get(condition_type));
        if then.map_or(UNKNOWN, |then| then.status.as_str()) == now.status {
            continue;
        }
        let lasted =
            |then: &ObservedCondition| now.last_transition.duration_since(then.last_transition);
        transitions.push(Transition {
            condition_type: condition_type.clone(),
            status: now.status.clone(),
            reason: now.reason.clone(),
            from: then.map(|then| (then.status.clone(), lasted(then))),
        });
        events.extend(then.map(|then| {
            let change = (then.status.as_str(), now.status.as_str());
            let ObservedCondition { reason, message, .. } = now;
            definitions::condition_transitioned(
                reference.clone(),
                condition_type,
                change,
                reason,
                message,
            )
        }));
    }
    let seen = ObservedStatus {
        reference: reference.clone(),
        finalizers: finalizers.clone(),
        labels: labels.clone(),
        // Once deleted, always deleted: that is when the end began.
        deletion_timestamp: deleted.or_else(|| before.and_then(|before| before.deletion_timestamp)),
        conditions: conditions.clone(),
    };
    StatusDiff { observed: seen, transitions, events }
}
