//! Deletes objects: at once, after a grace period, or when the last finalizer is removed.

use std::sync::Arc;

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::api::{ApiResponse, Body, ResourceRequest, State};
use crate::environment::rfc3339;
use crate::registry::ServedResource;
use crate::status::StatusError;
use crate::store::{ObjectKey, StoredObject};
use crate::verbs::list::{self, ObjectList};
use crate::verbs::options::{DeleteOptions, Propagation};
use crate::verbs::{body, create};

pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";

/// The result of a delete.
#[derive(Debug)]
pub(crate) enum DeleteOutcome {
    /// The object was removed; this is its last state.
    Removed(Arc<StoredObject>),
    /// The object stays until its grace period ends or its finalizers are removed.
    Terminating(Arc<StoredObject>),
    /// The object that would stay after a real delete.
    DryRun(Value),
}

pub(crate) fn delete(
    state: &mut State,
    call: &ResourceRequest,
) -> Result<ApiResponse, StatusError> {
    let (options, warnings) = delete_options(call)?;
    let served = &call.served;
    if let Some(why) = deletion_forbidden_reason(served, &call.target.name) {
        return Err(StatusError::forbidden(served.status_details(&call.target.name), why));
    }
    let deleted = delete_object(state, served, &call.key(), &options)?;
    let shows_object = matches!(
        &*served.resource.plural,
        "pods"
            | "persistentvolumeclaims"
            | "persistentvolumes"
            | "services"
            | "serviceaccounts"
            | "resourcequotas"
            | "podtemplates"
            | "storageclasses"
            | "volumeattachments"
            | "csinodes"
            | "csidrivers"
            | "resourceclaims"
            | "resourceclaimtemplates"
            | "resourceslices"
            | "deviceclasses"
    ) && served.custom().is_none();
    let body = match deleted {
        DeleteOutcome::Removed(stored) if !shows_object => {
            Body::Value(deleted_status(served, call.target.name.as_str(), &stored))
        }
        DeleteOutcome::Removed(stored) | DeleteOutcome::Terminating(stored) => {
            Body::Stored(served.clone(), stored)
        }
        DeleteOutcome::DryRun(object) => Body::Object(served.clone(), object),
    };
    ApiResponse::with_warnings(Ok(ApiResponse::new(StatusCode::OK, body)), warnings)
}

/// Returns the reason why an object may never be deleted.
fn deletion_forbidden_reason(served: &ServedResource, name: &str) -> Option<&'static str> {
    if served.custom().is_some() {
        return None;
    }
    match (&*served.resource.plural, name) {
        ("namespaces", "default" | "kube-system" | "kube-public") => {
            Some("this namespace may not be deleted")
        }
        ("priorityclasses", "system-node-critical" | "system-cluster-critical") => {
            Some("this is a system priority class and cannot be deleted")
        }
        _ => None,
    }
}

pub(crate) fn delete_collection(
    state: &mut State,
    call: &ResourceRequest,
) -> Result<ApiResponse, StatusError> {
    let (options, warnings) = delete_options(call)?;
    let selection = list::parse_selector(call)?;
    let served = &call.served;
    let table = state.store.table(&served.id);
    let selected = table
        .range(&call.target.namespace, None)
        .filter(|(key, stored)| selection.matches(key, stored));
    let (keys, items): (Vec<ObjectKey>, Vec<Arc<StoredObject>>) =
        selected.map(|(key, stored)| (key.clone(), stored.clone())).unzip();
    for key in keys {
        match delete_object(state, served, &key, &options) {
            // Gone meanwhile, as a dependent of another.
            Err(failure) if failure.code == StatusCode::NOT_FOUND => {}
            Err(failure) => return Err(failure),
            Ok(_) => {}
        }
    }
    let metadata = json!({"resourceVersion": state.store.version().to_string()});
    let list = ObjectList { served: served.clone(), items, metadata };
    ApiResponse::with_warnings(Ok(ApiResponse::new(StatusCode::OK, Body::List(list))), warnings)
}

/// Returns the options of the request, with warnings about them.
fn delete_options(call: &ResourceRequest) -> Result<(DeleteOptions, Vec<String>), StatusError> {
    let body = body::read_delete_options(&call.request)?;
    let mut options = DeleteOptions::parse(&call.request.query, body.as_ref())?;
    let resource = &call.served.resource;
    let mut warnings = Vec::new();
    if (&*resource.group, &*resource.kind) == ("batch", "Job") && options.propagation.is_none() {
        options.propagation = Some(Propagation::Orphan);
        warnings.push(
            "child pods are preserved by default when jobs are deleted; set \
             propagationPolicy=Background to remove them or set propagationPolicy=Orphan to \
             suppress this warning"
                .to_owned(),
        );
    }
    Ok((options, warnings))
}

fn deleted_status(served: &ServedResource, name: &str, stored: &StoredObject) -> Value {
    let mut status = create::success_status();
    let mut details = json!({"name": name});
    if !served.resource.group.is_empty() {
        details["group"] = (*served.resource.group).into();
    }
    details["kind"] = (*served.resource.plural).into();
    details["uid"] = (*stored.uid).into();
    status["details"] = details;
    status
}

/// Deletes one object, or marks it.
pub(crate) fn delete_object(
    state: &mut State,
    served: &Arc<ServedResource>,
    key: &ObjectKey,
    options: &DeleteOptions,
) -> Result<DeleteOutcome, StatusError> {
    let about = || served.status_details(key.name());
    let stored =
        state.store.get(&served.id, key).cloned().ok_or_else(|| StatusError::not_found(about()))?;
    check_preconditions(served, key, &stored, options)?;
    let now = state.environment.now();
    let mut object = State::object(served, &stored);
    let grace = remaining_grace_period(served, &object, options);
    if grace == GracePeriod::AlreadyTerminating {
        return Ok(DeleteOutcome::Terminating(stored));
    }
    set_propagation_finalizers(&mut object, options.propagation);
    let has_finalizers = object["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
    // A namespace waits for its objects.
    let is_namespace = &*served.resource.plural == "namespaces"
        && object["spec"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
    let stays = has_finalizers || is_namespace || matches!(grace, GracePeriod::Seconds(1..));
    match grace {
        GracePeriod::Seconds(seconds) => mark_terminating(&mut object, now, seconds),
        _ if has_finalizers || is_namespace => mark_terminating(&mut object, now, 0),
        _ => {
            if options.dry_run {
                return Ok(DeleteOutcome::Removed(stored));
            }
            let gone = state.remove(&served.id, key).unwrap_or(stored);
            return Ok(DeleteOutcome::Removed(gone));
        }
    }
    if is_namespace {
        object["status"]["phase"] = "Terminating".into();
        crate::registry::remove_field(&mut object["metadata"], "deletionGracePeriodSeconds");
    }
    if is_crd(served) {
        add_terminating_condition(&mut object, &rfc3339(now));
    }
    if options.dry_run {
        return Ok(DeleteOutcome::DryRun(object));
    }
    object["metadata"]["resourceVersion"] = stored.version.to_string().into();
    if object == State::object(served, &stored) {
        return Ok(DeleteOutcome::Terminating(stored));
    }
    let stored = state.put(served, key, object);
    if stays {
        return Ok(DeleteOutcome::Terminating(stored));
    }
    // Marked first, so that watchers see that it was meant.
    Ok(DeleteOutcome::Removed(state.remove(&served.id, key).unwrap_or(stored)))
}

fn is_crd(served: &ServedResource) -> bool {
    &*served.resource.plural == "customresourcedefinitions" && served.custom().is_none()
}

/// Adds the condition `Terminating` to the status of a CRD.
fn add_terminating_condition(definition: &mut Value, now: &str) {
    let conditions = &mut definition["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    if let Some(conditions) = conditions.as_array_mut()
        && !conditions.iter().any(|condition| condition["type"] == "Terminating")
    {
        conditions.push(json!({
            "type": "Terminating", "status": "True", "lastTransitionTime": now,
            "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion \
                        will begin soon",
        }));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GracePeriod {
    /// Nothing to wait for.
    None,
    Seconds(i64),
    /// The object is already terminating, and this request does not shorten its deadline.
    AlreadyTerminating,
}

fn remaining_grace_period(
    served: &ServedResource,
    object: &Value,
    options: &DeleteOptions,
) -> GracePeriod {
    let metadata = &object["metadata"];
    let Some(wanted) = served.grace_period(object, options.grace_period) else {
        return GracePeriod::None;
    };
    if metadata.get("deletionTimestamp").is_none() {
        return GracePeriod::Seconds(wanted.max(0));
    }
    let left = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    match options.grace_period {
        _ if left == 0 => GracePeriod::None,
        Some(requested) if requested < left => GracePeriod::Seconds(requested.max(0)),
        _ => GracePeriod::AlreadyTerminating,
    }
}

/// Sets the deletion timestamp and grace period. A change of them counts in the generation.
fn mark_terminating(object: &mut Value, now: Timestamp, seconds: i64) {
    let metadata = &mut object["metadata"];
    let old =
        metadata["deletionTimestamp"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let old_grace = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    // A shorter grace period counts from the first delete on.
    let start = old
        .map_or(now, |end| end.saturating_sub(SignedDuration::from_secs(old_grace)).unwrap_or(end));
    let end = start.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(start);
    if old.is_some() && seconds == 0 && old_grace == 0 {
        return;
    }
    metadata["deletionTimestamp"] = rfc3339(end).into();
    metadata["deletionGracePeriodSeconds"] = seconds.into();
    if old.is_none()
        && let Some(generation) = metadata["generation"].as_i64().filter(|g| *g > 0)
    {
        metadata["generation"] = (generation + 1).into();
    }
}

/// Sets the finalizers by which the garbage collector handles dependents.
fn set_propagation_finalizers(object: &mut Value, propagation: Option<Propagation>) {
    let Some(propagation) = propagation else {
        return;
    };
    let metadata = &mut object["metadata"];
    let old = metadata["finalizers"].as_array().cloned().unwrap_or_default();
    let mut finalizers: Vec<Value> =
        old.iter().filter(|name| *name != FOREGROUND && *name != ORPHAN).cloned().collect();
    match propagation {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push(FOREGROUND.into()),
        Propagation::Orphan => finalizers.push(ORPHAN.into()),
    }
    if finalizers == old {
        return;
    }
    if finalizers.is_empty() {
        crate::registry::remove_field(metadata, "finalizers");
    } else {
        metadata["finalizers"] = finalizers.into();
    }
}

pub(crate) fn check_preconditions(
    served: &ServedResource,
    key: &ObjectKey,
    stored: &StoredObject,
    options: &DeleteOptions,
) -> Result<(), StatusError> {
    let failed = |field: &str, wanted: &str, found: &str, perhaps: &str| {
        let why = format!(
            "the {field} in the precondition ({wanted}) does not match the {field} in record \
             ({found}). The object might have been {perhaps}"
        );
        Err(StatusError::conflict(served.status_details_of_kind(key.name()), &why))
    };
    if let Some(uid) = options.uid.as_deref().filter(|uid| **uid != *stored.uid) {
        return failed("UID", uid, &stored.uid, "deleted and then recreated");
    }
    let version = stored.version.to_string();
    match options.resource_version.as_deref() {
        Some(wanted) if wanted != version => {
            failed("ResourceVersion", wanted, &version, "modified")
        }
        _ => Ok(()),
    }
}
