//! What would lead to a kubelet or into a container: `exec`, `attach`, `portforward`, `log` and
//! `proxy`. Nothing is behind the objects of this API, so each is refused with the reason; to a
//! client that asks nonetheless "not found" would say something else.
//!
//! Discovery does not list them, but for `log`.

use crate::api::State;
use crate::registry::Served;
use crate::request::Target;
use crate::status::Failure;
use crate::store::Key;

/// Refuses what needs somebody behind an object that is there.
pub(crate) fn check(state: &State, served: &Served, target: &Target) -> Result<(), Failure> {
    if !leads_behind(served, &target.subresource) {
        return Ok(());
    }
    let key = Key::new(&target.namespace, &target.name);
    if state.store.get(&served.id, &key).is_none() {
        return Err(Failure::not_found(served.about(&target.name)));
    }
    Err(nothing(served, target))
}

fn leads_behind(served: &Served, subresource: &str) -> bool {
    match (&*served.resource.group, &*served.resource.plural) {
        ("", "pods") => matches!(subresource, "exec" | "attach" | "portforward" | "proxy"),
        ("", "nodes" | "services") => subresource == "proxy",
        _ => false,
    }
}

/// Why there is no such thing.
pub(super) fn nothing(served: &Served, target: &Target) -> Failure {
    let (kind, name) = (served.resource.singular.as_ref(), &target.name);
    let what = match target.subresource.as_str() {
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
    Failure::not_implemented(served.about(name), format!("{what} {kind} \"{name}\": {why}"))
}
