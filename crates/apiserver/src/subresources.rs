//! What an object offers beside itself. Its status is an ordinary update: see [`crate::verbs`].

pub(crate) mod behind;
pub(crate) mod binding;
mod eviction;
mod namespace;
mod scale;
mod token;

use http::Method;

use crate::api::{Answer, Call, State};
use crate::kinds::Subresource;
use crate::registry::Served;
use crate::status::Failure;

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

/// The subresource that the path names, if the resource has it.
pub(crate) fn named(served: &Served, text: &str) -> Result<Option<Subresource>, Failure> {
    if text.is_empty() {
        return Ok(None);
    }
    let found = served.resource.subresources.iter().find(|other| name(**other) == text);
    found.map(|subresource| Some(*subresource)).ok_or_else(Failure::no_such_path)
}

pub(crate) fn dispatch(
    state: &mut State,
    call: &Call,
    subresource: Subresource,
) -> Result<Answer, Failure> {
    let not_allowed = || Failure::method_not_allowed();
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
            Err(behind::nothing(&call.served, &call.target))
        }
        _ => Err(not_allowed()),
    }
}
