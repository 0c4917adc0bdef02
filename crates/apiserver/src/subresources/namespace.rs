//! `namespaces/finalize`: takes the finalizers of the spec off.

use http::StatusCode;

use crate::api::{Answer, Body, Call, State};
use crate::registry::copy;
use crate::status::Failure;
use crate::verbs::body::{self, Expected};

pub(super) fn finalize(state: &mut State, call: &Call) -> Result<Answer, Failure> {
    let wanted = body::read(&call.request, Expected::of(&call.served))?.value;
    let served = &call.served;
    let key = call.key();
    let stored = call.stored(state)?;
    let mut namespace = State::value(served, &stored);
    copy(&mut namespace, &wanted, "spec");
    let empty = namespace["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty);
    let kept = namespace["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
    if empty && !kept && namespace["metadata"].get("deletionTimestamp").is_some() {
        let gone = state.remove(&served.id, &key).unwrap_or(stored);
        return Ok(Answer::new(StatusCode::OK, Body::Stored(served.clone(), gone)));
    }
    let stored = state.put(served, &key, namespace);
    Ok(Answer::new(StatusCode::OK, Body::Stored(served.clone(), stored)))
}
