//! One object.

use http::StatusCode;

use crate::api::{ApiResponse, Body, ResourceRequest, State};
use crate::request::Projection;
use crate::status::StatusError;
use crate::verbs::{body, options};

pub(crate) fn get(state: &State, call: &ResourceRequest) -> Result<ApiResponse, StatusError> {
    if call.projection == Projection::MetadataList {
        let resource = &call.served.resource;
        return Err(StatusError::not_acceptable(format!(
            "you requested PartialObjectMetadataList, but the requested object is not a list \
             (*{}.{})",
            body::go_package(&resource.group),
            resource.kind
        )));
    }
    let wanted = options::version(&call.request.query)?;
    options::check_version_reached(wanted, state.store.version())?;
    let stored = call.stored_object(state)?;
    Ok(ApiResponse::new(StatusCode::OK, Body::Stored(call.served.clone(), stored)))
}
