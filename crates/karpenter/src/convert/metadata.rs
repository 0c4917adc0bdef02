//! Converts `metadata`: keeps the parts that a user wrote (spec 10 §16.3.2, §9.3).

use karpenter_api::{annotations, finalizers, labels};
use serde_json::{Map, Value};

use super::fields::Section;
use super::notes::{Note, Notes};

/// The whole old object, as kubectl last applied it; kubectl writes its own.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Whether a key of a former release is to be dropped wherever it stands.
pub(super) fn is_removed(key: &str) -> bool {
    labels::REMOVED.contains(&key) || annotations::REMOVED.contains(&key)
}

/// Name, labels, annotations and finalizers; the rest was written by the API server.
pub(super) fn convert(object: &Section<'_>, notes: &mut Notes) -> Value {
    let from = object.section("metadata", notes);
    let mut metadata = Map::new();
    if !from.has("name") {
        let (expected, found) = ("a name", "nothing".to_owned());
        notes.add(&from.path.key("name"), Note::UnexpectedType { expected, found });
    }
    if let Some(name) = from.string("name", notes) {
        metadata.insert("name".into(), name.into());
    }
    for key in ["labels", "annotations"] {
        let kept: Map<_, _> = from
            .section(key, notes)
            .string_entries(notes)
            .into_iter()
            .filter(|(key, _)| !is_removed(key) && *key != LAST_APPLIED)
            .map(|(key, value)| (key.to_owned(), value.into()))
            .collect();
        if !kept.is_empty() {
            metadata.insert(key.into(), kept.into());
        }
    }
    let finalizers: Vec<_> = from
        .list("finalizers", notes)
        .into_iter()
        .filter_map(|at| at.string(notes))
        .filter(|finalizer| *finalizer != finalizers::TERMINATION)
        .map(Value::from)
        .collect();
    if !finalizers.is_empty() {
        metadata.insert("finalizers".into(), finalizers.into());
    }
    metadata.into()
}
