//! What a client can do with a resource.

pub(crate) mod body;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod options;
pub(crate) mod patch;
pub(crate) mod review;
pub(crate) mod update;
pub(crate) mod watch;

use std::sync::Arc;

use http::Method;

use crate::api::{ApiResponse, ResourceRequest, SharedState, State};
use crate::kinds::Subresource;
use crate::status::StatusError;
use crate::subresources;

/// Finds the verb by method, name and query.
pub(crate) fn dispatch(
    shared: &Arc<SharedState>,
    state: &mut State,
    call: &ResourceRequest,
) -> Result<ApiResponse, StatusError> {
    if call.served.is_review() {
        return review::review(state, call);
    }
    let named = !call.target.name.is_empty();
    let not_allowed = || StatusError::method_not_allowed();
    if let Some(subresource) = call.subresource
        && subresource != Subresource::Status
    {
        return subresources::dispatch(state, call, subresource);
    }
    if call.target.watch && call.request.method == Method::GET {
        return watch::watch(shared, state, call);
    }
    let in_namespace = !call.served.resource.namespaced || !call.target.namespace.is_empty();
    match (&call.request.method, named) {
        (&Method::GET, false) if call.request.query.flag("watch") => {
            watch::watch(shared, state, call)
        }
        (&Method::GET, false) => list::list(state, call),
        (&Method::GET, true) => get::get(state, call),
        (&Method::POST, false) if in_namespace => create::create(state, call),
        (&Method::PUT, true) => update::update(state, call),
        (&Method::PATCH, true) => patch::patch(state, call),
        (&Method::DELETE, true) if call.subresource.is_none() => delete::delete(state, call),
        // All namespaces cannot be deleted at once.
        (&Method::DELETE, false) if in_namespace && &*call.served.resource.kind != "Namespace" => {
            delete::delete_collection(state, call)
        }
        _ => Err(not_allowed()),
    }
}
