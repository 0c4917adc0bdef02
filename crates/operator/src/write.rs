//! Writing to the API server: patches that carry only what changed (spec 40 §0.4).
//!
//! ```text
//! read ──▶ change a copy ──▶ patch(before, after) ──▶ Written::{Unchanged, Done, Conflict, Gone}
//! ```

use std::fmt::Debug;

use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::{Map, Value, json};

use crate::harness::{Outcome, ReconcileError};

/// The result of a write.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteOutcome<K> {
    /// There was nothing to write.
    Unchanged,
    /// The write succeeded; contains the new object.
    Applied(Box<K>),
    /// Another writer was faster: read the object again.
    Conflict,
    /// The object does not exist any more.
    NotFound,
}

impl<K> WriteOutcome<K> {
    /// Converts the result of a call; conflict and not found are no errors.
    pub fn from_result(result: Result<K, kube::Error>) -> Result<Self, ReconcileError> {
        match result {
            Ok(object) => Ok(Self::Applied(Box::new(object))),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Self::Conflict),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Self::NotFound),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns how a reconcile ends that cannot continue after this write: with backoff after a
    /// conflict, and as done if the object is gone. None if it can continue.
    pub fn early_outcome(&self) -> Option<Outcome> {
        match self {
            Self::Unchanged | Self::Applied(_) => None,
            Self::Conflict => Some(Outcome::Requeue),
            Self::NotFound => Some(Outcome::Done),
        }
    }
}

/// Whether a patch is rejected if the object has changed since it was read. Lists are replaced as a
/// whole, so a patch of finalizers, taints or conditions requires it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Rejected if the object has changed.
    ResourceVersion,
    /// Accepted in any case.
    None,
}

/// Patches what differs between the object as it was read and as it should be, but for its status.
pub async fn patch<K>(
    api: &Api<K>,
    before: &K,
    after: &K,
    check: Precondition,
) -> Result<WriteOutcome<K>, ReconcileError>
where
    K: Resource + Clone + Debug + PartialEq + Serialize + DeserializeOwned,
{
    if before == after {
        return Ok(WriteOutcome::Unchanged);
    }
    let Some(body) = diff_patch(before, after, |key| key != "status", check)? else {
        return Ok(WriteOutcome::Unchanged);
    };
    let params = PatchParams::default();
    WriteOutcome::from_result(api.patch(&before.name_any(), &params, &Patch::Merge(body)).await)
}

/// The same for the status alone.
pub async fn patch_status<K>(
    api: &Api<K>,
    before: &K,
    after: &K,
    check: Precondition,
) -> Result<WriteOutcome<K>, ReconcileError>
where
    K: Resource + Clone + Debug + PartialEq + Serialize + DeserializeOwned,
{
    // Most of the time, and much cheaper to see than by writing both down.
    if before == after {
        return Ok(WriteOutcome::Unchanged);
    }
    let Some(body) = diff_patch(before, after, |key| key == "status", check)? else {
        return Ok(WriteOutcome::Unchanged);
    };
    let params = PatchParams::default();
    WriteOutcome::from_result(
        api.patch_status(&before.name_any(), &params, &Patch::Merge(body)).await,
    )
}

fn diff_patch<K: Resource + Serialize>(
    before: &K,
    after: &K,
    part: impl Fn(&str) -> bool,
    check: Precondition,
) -> Result<Option<Value>, ReconcileError> {
    let of = |object: &K| -> Result<Map<String, Value>, ReconcileError> {
        match serde_json::to_value(object).map_err(ReconcileError::new)? {
            Value::Object(mut map) => {
                map.retain(|key, _| part(key));
                Ok(map)
            }
            other => Err(ReconcileError::new(format!("not an object: {other}"))),
        }
    };
    let Some(mut patch) = merge_patch(&Value::Object(of(before)?), &Value::Object(of(after)?))
    else {
        return Ok(None);
    };
    if check == Precondition::ResourceVersion {
        patch["metadata"]["resourceVersion"] = json!(before.meta().resource_version);
    }
    Ok(Some(patch))
}

/// The JSON merge patch (RFC 7386) that makes `after` of `before`; none if they are equal.
pub fn merge_patch(before: &Value, after: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return (before != after).then(|| after.clone());
    };
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        let change = match old.get(key) {
            Some(known) => merge_patch(known, value),
            None => Some(value.clone()),
        };
        if let Some(change) = change {
            patch.insert(key.clone(), change);
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_patch_contains_only_differences() {
        let before = json!({"a": 1, "b": {"c": [1, 2], "d": "x"}, "gone": true, "same": {"e": 1}});
        let after = json!({"a": 1, "b": {"c": [1], "d": "x"}, "new": 2, "same": {"e": 1}});
        let patch = merge_patch(&before, &after);
        assert_eq!(patch, Some(json!({"gone": null, "b": {"c": [1]}, "new": 2})));
        assert_eq!(merge_patch(&after, &after), None);
    }
}
