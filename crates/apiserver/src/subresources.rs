//! Resolves the subresources of an object. A status write is an ordinary update: see
//! [`crate::verbs`].

pub(crate) mod binding;
pub(crate) mod connect;
mod eviction;
mod namespace;
mod scale;
mod token;

use http::Method;

use crate::api::{ApiResponse, ResourceRequest, State};
use crate::kinds::Subresource;
use crate::registry::ServedResource;
use crate::status::StatusError;

/// As it stands in a path, and in managed fields.
pub(crate) fn name(subresource: Subresource) -> &'static str {
    match subresource {
        Subresource::Status => "status",
        Subresource::Scale => "scale",
        Subresource::Binding => "binding",
        Subresource::Eviction => "eviction",
        Subresource::Finalize => "finalize",
        Subresource::Resize => "resize",
        Subresource::Token => "token",
        Subresource::EphemeralContainers => "ephemeralcontainers",
        Subresource::Log => "log",
    }
}

/// Returns the subresource that the path names, if the resource has it.
pub(crate) fn resolve(
    served: &ServedResource,
    text: &str,
) -> Result<Option<Subresource>, StatusError> {
    if text.is_empty() {
        return Ok(None);
    }
    let found = served.resource.subresources.iter().find(|other| name(**other) == text);
    found.map(|subresource| Some(*subresource)).ok_or_else(StatusError::no_such_path)
}

pub(crate) fn dispatch(
    state: &mut State,
    call: &ResourceRequest,
    subresource: Subresource,
) -> Result<ApiResponse, StatusError> {
    let not_allowed = || StatusError::method_not_allowed();
    match (subresource, &call.request.method) {
        (Subresource::Scale, _) => scale::scale(state, call),
        (Subresource::Binding, &Method::POST) => binding::bind(state, call),
        (Subresource::Eviction, &Method::POST) => eviction::evict(state, call),
        (Subresource::Finalize, &Method::PUT) => namespace::finalize(state, call),
        (Subresource::Token, &Method::POST) => token::token(state, call),
        (Subresource::Resize | Subresource::EphemeralContainers, &Method::GET) => {
            crate::verbs::get::get(state, call)
        }
        (Subresource::Resize | Subresource::EphemeralContainers, &Method::PUT) => {
            crate::verbs::update::update(state, call)
        }
        (Subresource::Resize | Subresource::EphemeralContainers, &Method::PATCH) => {
            crate::verbs::patch::patch(state, call)
        }
        (Subresource::Log, &Method::GET) => {
            crate::verbs::get::get(state, call)?;
            Err(connect::not_implemented(&call.served, &call.target))
        }
        _ => Err(not_allowed()),
    }
}
