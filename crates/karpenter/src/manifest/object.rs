//! Finds the Kubernetes objects in documents: one each, or the items of a list.

use serde_json::{Map, Value};

use super::path::{FieldPath, describe_value};
use super::{Manifests, Object, Origin, Problem, Source};
use crate::diagnostic::{Diagnostic, Location};

/// Adds every object of a source to `manifests`.
pub(super) fn extract_objects(
    source: &Source,
    number: usize,
    values: Vec<Option<Value>>,
    manifests: &mut Manifests,
) {
    let mut extraction = ObjectExtractor { source, manifests, rejected_count: 0 };
    for (document, value) in values.into_iter().enumerate() {
        let origin = Origin { source: number, document, path: FieldPath::default() };
        if let Some(value) = value {
            extraction.add(value, &origin, None);
        }
    }
    let unreported = extraction.rejected_count.saturating_sub(REPORTED_REJECTIONS_MAX);
    if unreported > 0 {
        let diagnostic =
            Diagnostic::new(format!("{unreported} more that are no Kubernetes objects"))
                .at(Location::file(&source.name))
                .fix("mend or remove them");
        let problem = Problem { source: Some(number), diagnostic: diagnostic.into() };
        manifests.problems.push(problem);
    }
}

/// How many rejections of one file are reported one by one.
const REPORTED_REJECTIONS_MAX: usize = 20;

struct ObjectExtractor<'a> {
    source: &'a Source,
    manifests: &'a mut Manifests,
    rejected_count: usize,
}

/// The type of the items of a typed list, which they may leave out.
struct ListType {
    api_version: Value,
    item_kind: String,
}

impl ObjectExtractor<'_> {
    fn add(&mut self, value: Value, origin: &Origin, list: Option<&ListType>) {
        let Value::Object(mut fields) = value else {
            return self.reject(origin, "not a Kubernetes object", describe_value(&value));
        };
        if let Some(list) = list {
            fields.entry("apiVersion").or_insert_with(|| list.api_version.clone());
            fields.entry("kind").or_insert_with(|| list.item_kind.clone().into());
        }
        let has_no_type = !fields.contains_key("apiVersion") && !fields.contains_key("kind");
        if has_no_type && self.source.is_from_directory {
            let line = self.source.line(origin.document, &origin.path);
            return self.manifests.non_objects.push(Location::file(&self.source.name).line(line));
        }
        for key in ["apiVersion", "kind"] {
            match fields.get(key) {
                Some(Value::String(text)) if !text.is_empty() => {}
                Some(other) => {
                    let summary = format!("`{key}` of a Kubernetes object must be a text");
                    return self.reject(origin, &summary, describe_value(other));
                }
                None => {
                    let summary = format!("not a Kubernetes object: `{key}` is missing");
                    return self.reject(origin, &summary, "a mapping without it".to_owned());
                }
            }
        }
        let Some((items, list)) = take_items(&mut fields) else {
            let object = Object { value: Value::Object(fields), origin: origin.clone() };
            return self.manifests.objects.push(object);
        };
        let path = origin.path.key("items");
        for (index, item) in items.into_iter().enumerate() {
            let origin = Origin { path: path.index(index), ..origin.clone() };
            self.add(item, &origin, list.as_ref());
        }
    }

    fn reject(&mut self, origin: &Origin, summary: &str, found: String) {
        self.rejected_count += 1;
        if self.rejected_count > REPORTED_REJECTIONS_MAX {
            return;
        }
        let line = self.source.line(origin.document, &origin.path);
        let mut place = Location::file(&self.source.name).line(line);
        if !origin.path.is_root() {
            place = place.field(origin.path.to_string());
        }
        let diagnostic = Diagnostic::new(summary)
            .at(place)
            .found(found)
            .fix("each document must be a mapping with `apiVersion` and `kind`, or a List of such");
        let problem = Problem { source: Some(origin.source), diagnostic: diagnostic.into() };
        self.manifests.problems.push(problem);
    }
}

/// Takes the items out of a `List` or a typed list such as `NodePoolList`.
fn take_items(fields: &mut Map<String, Value>) -> Option<(Vec<Value>, Option<ListType>)> {
    let item_kind = fields.get("kind")?.as_str()?.strip_suffix("List")?.to_owned();
    let api_version = fields.get("apiVersion")?.clone();
    let Value::Array(items) = fields.get_mut("items")? else { return None };
    let list = (!item_kind.is_empty()).then_some(ListType { api_version, item_kind });
    Some((std::mem::take(items), list))
}
