//! The end of objects: at once, after a grace period, or when the last finalizer has gone.

use std::sync::Arc;

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::api::{Answer, Body, Call, State};
use crate::environment::rfc3339;
use crate::registry::Served;
use crate::status::Failure;
use crate::store::{Key, Stored};
use crate::verbs::list::{self, List};
use crate::verbs::options::{DeleteOptions, Propagation};
use crate::verbs::{body, create};

pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";

/// What a delete left behind.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// The object is gone; this was its last state.
    Gone(Arc<Stored>),
    /// It stays until its grace period or its finalizers are over.
    Waiting(Arc<Stored>),
    /// What would stay, had this not been a dry run.
    Dry(Value),
}

pub(crate) fn delete(state: &mut State, call: &Call) -> Result<Answer, Failure> {
    let (options, warnings) = options(call)?;
    let served = &call.served;
    if let Some(why) = protection(served, &call.target.name) {
        return Err(Failure::forbidden(served.about(&call.target.name), why));
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
        Deleted::Gone(stored) if !shows_object => {
            Body::Value(gone_status(served, call.target.name.as_str(), &stored))
        }
        Deleted::Gone(stored) | Deleted::Waiting(stored) => Body::Stored(served.clone(), stored),
        Deleted::Dry(object) => Body::Object(served.clone(), object),
    };
    Answer::warn(Ok(Answer::new(StatusCode::OK, body)), warnings)
}

/// Why an object may never be deleted, if it is one of those.
fn protection(served: &Served, name: &str) -> Option<&'static str> {
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

pub(crate) fn delete_collection(state: &mut State, call: &Call) -> Result<Answer, Failure> {
    let (options, warnings) = options(call)?;
    let selection = list::selection(call)?;
    let served = &call.served;
    let table = state.store.table(&served.id);
    let selected = table
        .range(&call.target.namespace, None)
        .filter(|(key, stored)| selection.selects(key, stored));
    let (keys, items): (Vec<Key>, Vec<Arc<Stored>>) =
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
    let list = List { served: served.clone(), items, metadata };
    Answer::warn(Ok(Answer::new(StatusCode::OK, Body::List(list))), warnings)
}

/// The options of the request, and warnings about them.
fn options(call: &Call) -> Result<(DeleteOptions, Vec<String>), Failure> {
    let body = body::delete_options(&call.request)?;
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

fn gone_status(served: &Served, name: &str, stored: &Stored) -> Value {
    let mut status = create::success();
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
    served: &Arc<Served>,
    key: &Key,
    options: &DeleteOptions,
) -> Result<Deleted, Failure> {
    let about = || served.about(key.name());
    let stored =
        state.store.get(&served.id, key).cloned().ok_or_else(|| Failure::not_found(about()))?;
    check_preconditions(served, key, &stored, options)?;
    let now = state.environment.now();
    let mut object = State::value(served, &stored);
    let grace = grace(served, &object, options);
    if grace == Grace::AlreadyWaiting {
        return Ok(Deleted::Waiting(stored));
    }
    set_finalizers(&mut object, options.propagation);
    let has_finalizers = object["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
    // A namespace waits for what is in it.
    let is_namespace = &*served.resource.plural == "namespaces"
        && object["spec"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
    let stays = has_finalizers || is_namespace || matches!(grace, Grace::Seconds(1..));
    match grace {
        Grace::Seconds(seconds) => mark(&mut object, now, seconds),
        _ if has_finalizers || is_namespace => mark(&mut object, now, 0),
        _ => {
            if options.dry_run {
                return Ok(Deleted::Gone(stored));
            }
            let gone = state.remove(&served.id, key).unwrap_or(stored);
            return Ok(Deleted::Gone(gone));
        }
    }
    if is_namespace {
        object["status"]["phase"] = "Terminating".into();
        crate::registry::remove(&mut object["metadata"], "deletionGracePeriodSeconds");
    }
    if is_definition(served) {
        add_terminating(&mut object, &rfc3339(now));
    }
    if options.dry_run {
        return Ok(Deleted::Dry(object));
    }
    object["metadata"]["resourceVersion"] = stored.version.to_string().into();
    if object == State::value(served, &stored) {
        return Ok(Deleted::Waiting(stored));
    }
    let stored = state.put(served, key, object);
    if stays {
        return Ok(Deleted::Waiting(stored));
    }
    // Marked first, so that watchers see that it was meant.
    Ok(Deleted::Gone(state.remove(&served.id, key).unwrap_or(stored)))
}

fn is_definition(served: &Served) -> bool {
    &*served.resource.plural == "customresourcedefinitions" && served.custom().is_none()
}

/// Tells that the objects of a definition go before it.
fn add_terminating(definition: &mut Value, now: &str) {
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
enum Grace {
    /// Nothing to wait for.
    None,
    Seconds(i64),
    /// It is on its way out already, and not sooner for this request.
    AlreadyWaiting,
}

fn grace(served: &Served, object: &Value, options: &DeleteOptions) -> Grace {
    let metadata = &object["metadata"];
    let Some(wanted) = served.grace_period(object, options.grace_period) else {
        return Grace::None;
    };
    if metadata.get("deletionTimestamp").is_none() {
        return Grace::Seconds(wanted.max(0));
    }
    let left = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    match options.grace_period {
        _ if left == 0 => Grace::None,
        Some(asked) if asked < left => Grace::Seconds(asked.max(0)),
        _ => Grace::AlreadyWaiting,
    }
}

/// Says when the object is to end. Its generation counts that as a change.
fn mark(object: &mut Value, now: Timestamp, seconds: i64) {
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

/// The garbage collector finds out by finalizers what to do with dependents.
fn set_finalizers(object: &mut Value, propagation: Option<Propagation>) {
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
        crate::registry::remove(metadata, "finalizers");
    } else {
        metadata["finalizers"] = finalizers.into();
    }
}

pub(crate) fn check_preconditions(
    served: &Served,
    key: &Key,
    stored: &Stored,
    options: &DeleteOptions,
) -> Result<(), Failure> {
    let failed = |what: &str, wanted: &str, found: &str, perhaps: &str| {
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record \
             ({found}). The object might have been {perhaps}"
        );
        Err(Failure::conflict(served.about_kind(key.name()), &why))
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
