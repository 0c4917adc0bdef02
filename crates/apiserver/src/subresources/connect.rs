//! Rejects the subresources that connect to a kubelet or a container: `exec`, `attach`,
//! `portforward`, `log` and `proxy`. The pods and nodes of this API are simulated, so each request
//! gets an error with that reason; "not found" would mislead the client.
//!
//! Discovery does not list them, but for `log`.

use crate::api::State;
use crate::registry::ServedResource;
use crate::request::Target;
use crate::status::StatusError;
use crate::store::ObjectKey;

/// Rejects a connect request for an existing object, or reports `NotFound`.
pub(crate) fn reject_connect(
    state: &State,
    served: &ServedResource,
    target: &Target,
) -> Result<(), StatusError> {
    if !is_connect(served, &target.subresource) {
        return Ok(());
    }
    let key = ObjectKey::new(&target.namespace, &target.name);
    if state.store.get(&served.id, &key).is_none() {
        return Err(StatusError::not_found(served.status_details(&target.name)));
    }
    Err(not_implemented(served, target))
}

fn is_connect(served: &ServedResource, subresource: &str) -> bool {
    match (&*served.resource.group, &*served.resource.plural) {
        ("", "pods") => matches!(subresource, "exec" | "attach" | "portforward" | "proxy"),
        ("", "nodes" | "services") => subresource == "proxy",
        _ => false,
    }
}

/// Returns the error for connect requests to simulated objects.
pub(super) fn not_implemented(served: &ServedResource, target: &Target) -> StatusError {
    let (kind, name) = (served.resource.singular.as_ref(), &target.name);
    let action = match target.subresource.as_str() {
        "exec" => "cannot run a command in",
        "attach" => "cannot attach to",
        "portforward" => "cannot forward ports to",
        "log" => "there are no logs of",
        _ => "cannot connect to",
    };
    let why = match kind {
        "node" => "it is simulated, without a kubelet or a machine",
        "service" => "its pods are simulated, and nothing runs in their containers",
        _ => "its node is simulated, and nothing runs in its containers",
    };
    StatusError::not_implemented(
        served.status_details(name),
        format!("{action} {kind} \"{name}\": {why}"),
    )
}
