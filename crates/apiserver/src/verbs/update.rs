//! Updates an existing object.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use crate::api::{ApiResponse, Body, ResourceRequest, State};
use crate::kinds::Subresource;
use crate::registry::{ServedResource, copy_field, prepare_for_resize};
use crate::server_side_apply;
use crate::status::StatusError;
use crate::store::{ObjectKey, StoredObject};
use crate::verbs::body::{self, ExpectedKind};
use crate::verbs::create;
use crate::verbs::options::WriteOptions;

pub(crate) fn update(
    state: &mut State,
    call: &ResourceRequest,
) -> Result<ApiResponse, StatusError> {
    let options = WriteOptions::parse(&call.request.query, "UpdateOptions")?;
    let object = body::read_object(&call.request, ExpectedKind::of_resource(&call.served))?;
    let (mut object, warnings) = body::decode(&call.served, object, options.field_validation)?;
    check_name(call, &object)?;
    body::check_namespace(call, &mut object)?;
    let served = &call.served;
    let manager = call.request.field_manager();
    let Some(stored) = state.store.get(&served.id, &call.key()).cloned() else {
        if served.allows_create_on_update() && call.subresource.is_none() {
            let answer = create::create_object(state, served, object, &manager, options.dry_run);
            return ApiResponse::with_warnings(answer, warnings);
        }
        return Err(StatusError::not_found(served.status_details(&call.target.name)));
    };
    let old = State::object(served, &stored);
    require_resource_version(served, &object)?;
    let write = ObjectUpdate {
        served,
        key: &call.key(),
        stored: &stored,
        old: &old,
        subresource: call.subresource,
        dry_run: options.dry_run,
    };
    write.check_preconditions(&object)?;
    write.update_managed_fields(state, &mut object, &manager);
    ApiResponse::with_warnings(write.commit(state, object), warnings)
}

pub(crate) fn check_name(call: &ResourceRequest, object: &Value) -> Result<(), StatusError> {
    let expected = &call.target.name;
    match object["metadata"]["name"].as_str().unwrap_or_default() {
        "" => Err(missing_name(expected)),
        found if found == expected => Ok(()),
        found => Err(StatusError::bad_request(format!(
            "the name of the object ({found}) does not match the name on the URL ({expected})"
        ))),
    }
}

pub(crate) fn missing_name(name: &str) -> StatusError {
    StatusError::bad_request(format!(
        "the name of the object ({name} based on URL) was undeterminable: name must be provided"
    ))
}

/// Rejects an update without the resource version that its kind requires.
fn require_resource_version(served: &ServedResource, object: &Value) -> Result<(), StatusError> {
    if served.allows_unconditional_update()
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
    Err(StatusError::invalid(served.status_details(name), &[error]))
}

/// An update of a stored object: the object, the subresource and the options.
#[derive(Debug)]
pub(crate) struct ObjectUpdate<'a> {
    pub(crate) served: &'a Arc<ServedResource>,
    pub(crate) key: &'a ObjectKey,
    pub(crate) stored: &'a Arc<StoredObject>,
    /// The stored object, parsed.
    pub(crate) old: &'a Value,
    pub(crate) subresource: Option<Subresource>,
    pub(crate) dry_run: bool,
}

impl ObjectUpdate<'_> {
    /// The version and uid that the new object names must be those that are stored.
    pub(crate) fn check_preconditions(&self, new: &Value) -> Result<(), StatusError> {
        let uid = new["metadata"]["uid"].as_str().unwrap_or_default();
        if !uid.is_empty() && uid != &*self.stored.uid {
            return Err(uid_conflict(self.served, self.key, uid, &self.stored.uid));
        }
        self.check_version(new)
    }

    /// The version that the new object names must be the one that is stored.
    pub(crate) fn check_version(&self, new: &Value) -> Result<(), StatusError> {
        match new["metadata"]["resourceVersion"].as_str().unwrap_or_default() {
            "" | "0" => Ok(()),
            version if version.parse::<u64>().is_err() => {
                let message = format!("strconv.ParseUint: parsing {version:?}: invalid syntax");
                Err(StatusError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message))
            }
            version if version == self.stored.version.to_string() => Ok(()),
            _ => Err(StatusError::modified(self.served.status_details(self.key.name()))),
        }
    }

    /// Records `manager` as the owner of the changed fields.
    pub(crate) fn update_managed_fields(&self, state: &State, new: &mut Value, manager: &str) {
        let now = state.now();
        self.served.with_endpoint(self.subresource, |endpoint| {
            endpoint.update(Some(self.old), new, manager, &now);
        });
    }

    /// Stores the new object, unless nothing has changed.
    pub(crate) fn commit(
        &self,
        state: &mut State,
        mut new: Value,
    ) -> Result<ApiResponse, StatusError> {
        let served = self.served;
        served.admit_update(&mut new, self.old, self.subresource, state.admission_context())?;
        restore_server_metadata(&mut new, self.old);
        match self.subresource {
            Some(Subresource::Status) => served.prepare_for_status_update(&mut new, self.old),
            Some(Subresource::Resize) => prepare_for_resize(&mut new, self.old),
            _ => served.prepare_for_update(&mut new, self.old),
        }
        new["metadata"]["resourceVersion"] = self.stored.version.to_string().into();
        let errors = match self.subresource {
            Some(Subresource::Status) => served.validate_status_update(&new, self.old),
            Some(Subresource::Resize) => served.validate_resize(&new, self.old),
            _ => served.validate_update(&new, self.old),
        };
        if !errors.is_empty() {
            return Err(StatusError::invalid(
                served.status_details_of_kind(self.key.name()),
                &errors,
            ));
        }
        served.encode(&mut new);
        server_side_apply::restore_unchanged_times(self.old, &mut new);
        if new == *self.old {
            return Ok(ApiResponse::new(
                StatusCode::OK,
                Body::Stored(served.clone(), self.stored.clone()),
            ));
        }
        if self.dry_run {
            return Ok(ApiResponse::new(StatusCode::OK, Body::Object(served.clone(), new)));
        }
        if is_fully_deleted(&new) {
            state.remove(&served.id, self.key);
            return Ok(ApiResponse::new(StatusCode::OK, Body::Object(served.clone(), new)));
        }
        let stored = state.put(served, self.key, new);
        Ok(ApiResponse::new(StatusCode::OK, Body::Stored(served.clone(), stored)))
    }
}

/// Returns the conflict for a write to an object that was recreated.
pub(crate) fn uid_conflict(
    served: &ServedResource,
    key: &ObjectKey,
    wanted: &str,
    found: &str,
) -> StatusError {
    let place = format!("/registry/{}/{}", served.resource.plural, key.as_str());
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {place}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object \
         meta: {found}"
    );
    StatusError::conflict(served.status_details(key.name()), &why)
}

/// Restores metadata that a client may omit or may not change.
fn restore_server_metadata(new: &mut Value, old: &Value) {
    let (metadata, before) = (&mut new["metadata"], &old["metadata"]);
    for field in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if metadata.get(field).is_none_or(|value| value.is_null() || value == "") {
            copy_field(metadata, before, field);
        }
    }
    copy_field(metadata, before, "generation");
    copy_field(metadata, before, "creationTimestamp");
    crate::registry::remove_field(metadata, "selfLink");
}

/// Returns whether a deleted object has nothing left that blocks its removal.
pub(crate) fn is_fully_deleted(object: &Value) -> bool {
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
