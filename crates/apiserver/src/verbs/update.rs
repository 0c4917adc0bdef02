//! A new state of an object that is there.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use crate::api::{Answer, Body, Call, State};
use crate::kinds::Subresource;
use crate::managed;
use crate::registry::{Served, copy, prepare_resize};
use crate::status::Failure;
use crate::store::{Key, Stored};
use crate::verbs::body::{self, Expected};
use crate::verbs::create;
use crate::verbs::options::WriteOptions;

pub(crate) fn update(state: &mut State, call: &Call) -> Result<Answer, Failure> {
    let options = WriteOptions::parse(&call.request.query, "UpdateOptions")?;
    let object = body::read(&call.request, Expected::of(&call.served))?;
    let (mut object, warnings) = body::decode(&call.served, object, options.field_validation)?;
    check_name(call, &object)?;
    body::check_place(call, &mut object)?;
    let served = &call.served;
    let manager = call.request.field_manager();
    let Some(stored) = state.store.get(&served.id, &call.key()).cloned() else {
        if served.creates_on_update() && call.subresource.is_none() {
            let answer = create::create_object(state, served, object, &manager, options.dry_run);
            return Answer::warn(answer, warnings);
        }
        return Err(Failure::not_found(served.about(&call.target.name)));
    };
    let old = State::value(served, &stored);
    check_unconditional(served, &object)?;
    let write = Write {
        served,
        key: &call.key(),
        stored: &stored,
        old: &old,
        subresource: call.subresource,
        dry_run: options.dry_run,
    };
    write.check_preconditions(&object)?;
    write.manage(state, &mut object, &manager);
    Answer::warn(write.commit(state, object), warnings)
}

pub(crate) fn check_name(call: &Call, object: &Value) -> Result<(), Failure> {
    let expected = &call.target.name;
    match object["metadata"]["name"].as_str().unwrap_or_default() {
        "" => Err(nameless(expected)),
        found if found == expected => Ok(()),
        found => Err(Failure::bad_request(format!(
            "the name of the object ({found}) does not match the name on the URL ({expected})"
        ))),
    }
}

pub(crate) fn nameless(name: &str) -> Failure {
    Failure::bad_request(format!(
        "the name of the object ({name} based on URL) was undeterminable: name must be provided"
    ))
}

/// Some kinds insist on the version that the client has read.
fn check_unconditional(served: &Served, object: &Value) -> Result<(), Failure> {
    if served.updates_unconditionally()
        || object["metadata"]["resourceVersion"].as_str().is_some_and(|v| !v.is_empty())
    {
        return Ok(());
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let error = crate::admission::FieldError::invalid(
        "metadata.resourceVersion",
        0,
        "must be specified for an update",
    );
    Err(Failure::invalid(served.about(name), &[error]))
}

/// A write over a stored object: what it is, and how it was asked for.
#[derive(Debug)]
pub(crate) struct Write<'a> {
    pub(crate) served: &'a Arc<Served>,
    pub(crate) key: &'a Key,
    pub(crate) stored: &'a Arc<Stored>,
    /// The stored object, parsed.
    pub(crate) old: &'a Value,
    pub(crate) subresource: Option<Subresource>,
    pub(crate) dry_run: bool,
}

impl Write<'_> {
    /// The version and uid that the new object names must be those that are stored.
    pub(crate) fn check_preconditions(&self, new: &Value) -> Result<(), Failure> {
        let uid = new["metadata"]["uid"].as_str().unwrap_or_default();
        if !uid.is_empty() && uid != &*self.stored.uid {
            return Err(other_uid(self.served, self.key, uid, &self.stored.uid));
        }
        self.check_version(new)
    }

    /// The version that the new object names must be the one that is stored.
    pub(crate) fn check_version(&self, new: &Value) -> Result<(), Failure> {
        match new["metadata"]["resourceVersion"].as_str().unwrap_or_default() {
            "" | "0" => Ok(()),
            version if version.parse::<u64>().is_err() => {
                let message = format!("strconv.ParseUint: parsing {version:?}: invalid syntax");
                Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "", message))
            }
            version if version == self.stored.version.to_string() => Ok(()),
            _ => Err(Failure::modified(self.served.about(self.key.name()))),
        }
    }

    /// Notes that `manager` writes what has changed.
    pub(crate) fn manage(&self, state: &State, new: &mut Value, manager: &str) {
        let now = state.now();
        self.served.endpoint(self.subresource, |endpoint| {
            endpoint.update(Some(self.old), new, manager, &now);
        });
    }

    /// Stores the new object, unless nothing has changed.
    pub(crate) fn commit(&self, state: &mut State, mut new: Value) -> Result<Answer, Failure> {
        let served = self.served;
        served.admit_update(&mut new, self.old, self.subresource, state.around())?;
        keep_metadata(&mut new, self.old);
        match self.subresource {
            Some(Subresource::Status) => served.prepare_status_update(&mut new, self.old),
            Some(Subresource::Resize) => prepare_resize(&mut new, self.old),
            _ => served.prepare_update(&mut new, self.old),
        }
        new["metadata"]["resourceVersion"] = self.stored.version.to_string().into();
        let errors = match self.subresource {
            Some(Subresource::Status) => served.validate_status_update(&new, self.old),
            Some(Subresource::Resize) => served.validate_resize(&new, self.old),
            _ => served.validate_update(&new, self.old),
        };
        if !errors.is_empty() {
            return Err(Failure::invalid(served.about_kind(self.key.name()), &errors));
        }
        served.encode(&mut new);
        managed::keep_times(self.old, &mut new);
        if new == *self.old {
            return Ok(Answer::new(
                StatusCode::OK,
                Body::Stored(served.clone(), self.stored.clone()),
            ));
        }
        if self.dry_run {
            return Ok(Answer::new(StatusCode::OK, Body::Object(served.clone(), new)));
        }
        if is_finished(&new) {
            state.remove(&served.id, self.key);
            return Ok(Answer::new(StatusCode::OK, Body::Object(served.clone(), new)));
        }
        let stored = state.put(served, self.key, new);
        Ok(Answer::new(StatusCode::OK, Body::Stored(served.clone(), stored)))
    }
}

/// The answer to a write to an object that has been made anew.
pub(crate) fn other_uid(served: &Served, key: &Key, wanted: &str, found: &str) -> Failure {
    let place = format!("/registry/{}/{}", served.resource.plural, key.as_str());
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {place}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object \
         meta: {found}"
    );
    Failure::conflict(served.about(key.name()), &why)
}

/// What a client may leave out of an update, and what it may not change.
fn keep_metadata(new: &mut Value, old: &Value) {
    let (metadata, before) = (&mut new["metadata"], &old["metadata"]);
    for field in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if metadata.get(field).is_none_or(|value| value.is_null() || value == "") {
            copy(metadata, before, field);
        }
    }
    copy(metadata, before, "generation");
    copy(metadata, before, "creationTimestamp");
    crate::registry::remove(metadata, "selfLink");
}

/// Whether the last thing that kept a deleted object has gone.
pub(crate) fn is_finished(object: &Value) -> bool {
    let metadata = &object["metadata"];
    // Namespaces have finalizers of their own kind.
    let keeps_itself = object["kind"] == "Namespace"
        && object["apiVersion"] == "v1"
        && object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    !keeps_itself
        && metadata.get("deletionTimestamp").is_some()
        && metadata["finalizers"].as_array().is_none_or(Vec::is_empty)
        && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
}
