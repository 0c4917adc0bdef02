//! `serviceaccounts/token`: returns a token that names its ServiceAccount. The API never verifies
//! it.

use http::StatusCode;
use jiff::SignedDuration;

use crate::api::{ApiResponse, Body, ResourceRequest, State};
use crate::environment::{rfc3339, uuid};
use crate::status::StatusError;
use crate::verbs::body::{self, ExpectedKind};

const DEFAULT_SECONDS: i64 = 3600;

pub(super) fn token(state: &State, call: &ResourceRequest) -> Result<ApiResponse, StatusError> {
    let mut request = body::read_object(
        &call.request,
        ExpectedKind::built_in("authentication.k8s.io", "v1", "TokenRequest"),
    )?
    .value;
    let served = &call.served;
    if state.store.get(&served.id, &call.key()).is_none() {
        return Err(StatusError::not_found(served.status_details(&call.target.name)));
    }
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(DEFAULT_SECONDS);
    let end = state.environment.now().saturating_add(SignedDuration::from_secs(seconds));
    request["kind"] = "TokenRequest".into();
    request["apiVersion"] = "authentication.k8s.io/v1".into();
    request["spec"]["expirationSeconds"] = seconds.into();
    request["status"]["token"] = uuid(state.environment.random()).into();
    request["status"]["expirationTimestamp"] = end.map_or_else(|_| state.now(), rfc3339).into();
    Ok(ApiResponse::new(StatusCode::CREATED, Body::Value(request)))
}
