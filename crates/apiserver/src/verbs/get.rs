//! One object.

use http::StatusCode;

use crate::api::{Answer, Body, Call, State};
use crate::request::Show;
use crate::status::Failure;
use crate::verbs::{body, options};

pub(crate) fn get(state: &State, call: &Call) -> Result<Answer, Failure> {
    if call.show == Show::MetadataList {
        let resource = &call.served.resource;
        return Err(Failure::not_acceptable(format!(
            "you requested PartialObjectMetadataList, but the requested object is not a list \
             (*{}.{})",
            body::package(&resource.group),
            resource.kind
        )));
    }
    let wanted = options::version(&call.request.query)?;
    options::check_reached(wanted, state.store.version())?;
    let stored = call.stored(state)?;
    Ok(Answer::new(StatusCode::OK, Body::Stored(call.served.clone(), stored)))
}
