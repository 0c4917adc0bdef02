//! `kubectl apply` without `--server-side` keeps what it applied in an annotation. Objects that
//! have it can be taken over by `kubectl apply --server-side` without conflicts on those fields,
//! and the annotation is kept up to date for the way back.

use serde_json::{Value, json};

use super::ApiEndpoint;
use super::path::Path;
use super::set::FieldSet;
use super::typed_value::DuplicateItems;
use super::updater::{Conflict, Updater};
use crate::admission::go_text;

/// The manager of `kubectl apply --server-side`.
pub(super) const KUBECTL_MANAGER: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// All annotations of an object together.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// The conflicts that stay when those on fields that the annotation holds, and that nobody has
/// changed since, do not count. `Ok` when none does.
pub(super) fn remaining_conflicts(
    endpoint: &ApiEndpoint<'_>,
    live: &Value,
    conflicts: Vec<Conflict>,
) -> Result<(), Vec<Conflict>> {
    let Some(allowed) = unchanged_last_applied_fields(endpoint, live) else {
        return Err(conflicts);
    };
    let is_left = |conflict: &Conflict| !allowed.contains(&Path::clone(&conflict.path));
    let left: Vec<_> = conflicts.into_iter().filter(is_left).collect();
    if left.is_empty() { Ok(()) } else { Err(left) }
}

fn unchanged_last_applied_fields(endpoint: &ApiEndpoint<'_>, live: &Value) -> Option<FieldSet> {
    let text = annotation(live)?;
    let updater = Updater { endpoint };
    updater.typed_value(live).validate(DuplicateItems::Rejected).ok()?;
    let last: Value = serde_json::from_str(text).ok()?;
    if last["apiVersion"].as_str() != Some(endpoint.api_version)
        || last["kind"].as_str() != Some(endpoint.kind)
    {
        return None;
    }
    updater.typed_value(&last).validate(DuplicateItems::Rejected).ok()?;
    let compare = updater.compare(&last, live);
    let set = updater.typed_value(&last).to_field_set();
    let set = set.difference(&compare.modified).difference(&compare.added);
    Some(set.difference(&compare.removed))
}

fn annotation(object: &Value) -> Option<&str> {
    let text = object.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str()?;
    (!text.is_empty()).then_some(text)
}

/// Writes the annotation anew, where there is one; drops it where it does not fit.
pub(super) fn refresh_annotation(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let text = encode(config);
    let Some(annotations) = object["metadata"]["annotations"].as_object_mut() else { return };
    annotations.insert(ANNOTATION.to_owned(), text.into());
    let size =
        annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len));
    if size.sum::<usize>() > ANNOTATIONS_BYTES_MAX {
        annotations.shift_remove(ANNOTATION);
    }
}

fn encode(config: &Value) -> String {
    let mut config = config.clone();
    if let Some(metadata) = config.get_mut("metadata").and_then(Value::as_object_mut)
        && let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
    {
        annotations.shift_remove(ANNOTATION);
        if annotations.is_empty() {
            metadata.insert("annotations".to_owned(), json!({}));
        }
    }
    go_text::json(&config) + "\n"
}
