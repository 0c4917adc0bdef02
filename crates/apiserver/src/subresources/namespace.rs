//! `namespaces/finalize`: takes the finalizers of the spec off.

use http::StatusCode;

use crate::api::{ApiResponse, Body, ResourceRequest, State};
use crate::registry::copy_field;
use crate::status::StatusError;
use crate::verbs::body::{self, ExpectedKind};

pub(super) fn finalize(
    state: &mut State,
    call: &ResourceRequest,
) -> Result<ApiResponse, StatusError> {
    let wanted = body::read_object(&call.request, ExpectedKind::of_resource(&call.served))?.value;
    let served = &call.served;
    let key = call.key();
    let stored = call.stored_object(state)?;
    let mut namespace = State::object(served, &stored);
    copy_field(&mut namespace, &wanted, "spec");
    let empty = namespace["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty);
    let kept = namespace["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
    if empty && !kept && namespace["metadata"].get("deletionTimestamp").is_some() {
        let gone = state.remove(&served.id, &key).unwrap_or(stored);
        return Ok(ApiResponse::new(StatusCode::OK, Body::Stored(served.clone(), gone)));
    }
    let stored = state.put(served, &key, namespace);
    Ok(ApiResponse::new(StatusCode::OK, Body::Stored(served.clone(), stored)))
}
