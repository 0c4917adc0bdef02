//! Keeps the last-applied annotation of client-side `kubectl apply` compatible with server-side
//! apply. Client-side apply stores its configuration in this annotation. `kubectl apply
//! --server-side` can take over such an object without conflicts on those fields, and the
//! annotation is kept up to date for the way back.

use karpenter_cel::go_text;
use serde_json::{Value, json};

use super::ApiEndpoint;
use super::path::Path;
use super::set::FieldSet;
use super::typed_value::DuplicateItems;
use super::updater::{Conflict, Updater};

/// The manager of `kubectl apply --server-side`.
pub(super) const KUBECTL_MANAGER: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// All annotations of an object together.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Drops the conflicts on fields that still have their last-applied value. `Ok` if no conflict is
/// left.
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

/// Updates an existing annotation, or drops it if it becomes too large.
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
