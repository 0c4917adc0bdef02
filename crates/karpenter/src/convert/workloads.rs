//! Converts old keys in Pods and in the Pod templates of workloads (spec 10 §16.8).
//!
//! Touches only what it knows and leaves objects of an unexpected shape alone: checking workloads
//! is the API server's business.

use karpenter_api::{annotations, labels, taints};
use serde_json::{Map, Value};

use super::notes::{Note, Notes};
use super::template::{OLD_DO_NOT_DISRUPT, REMOVED_LABELS, current_key};
use crate::manifest::FieldPath;

type Fields = Map<String, Value>;

/// Where a kind keeps its Pod template; nothing for other kinds.
pub(super) fn template_path(group: &str, kind: &str) -> Option<&'static [&'static str]> {
    match (group, kind) {
        ("", "Pod") => Some(&[]),
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") | ("batch", "Job") => {
            Some(&["spec", "template"])
        }
        ("batch", "CronJob") => Some(&["spec", "jobTemplate", "spec", "template"]),
        _ => None,
    }
}

/// Renames the keys in the Pod template of `object`.
pub(super) fn convert(object: &mut Value, template_path: &[&str], notes: &mut Notes) {
    let mut template = object;
    let mut path = FieldPath::default();
    for key in template_path {
        let Some(inner) = template.get_mut(*key) else { return };
        template = inner;
        path = path.key(key);
    }
    if let Some(annotations) = object_at(template, &["metadata", "annotations"]) {
        rename_annotations(annotations);
    }
    let path = path.key("spec");
    if let Some(selector) = object_at(template, &["spec", "nodeSelector"]) {
        rename_selector(selector, &path.key("nodeSelector"), notes);
    }
    if let Some(affinity) = object_at(template, &["spec", "affinity"]) {
        rename_affinity(affinity, &path.key("affinity"), notes);
    }
    if let Some(constraints) = value_at(template, &["spec", "topologySpreadConstraints"]) {
        rename_topology(constraints, &[], &path.key("topologySpreadConstraints"), notes);
    }
    for (index, toleration) in items_at(template, &["spec", "tolerations"]) {
        rename_toleration(toleration, &path.key("tolerations").index(index), notes);
    }
}

fn value_at<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, key| value.get_mut(*key))
}

fn object_at<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Fields> {
    value_at(value, path)?.as_object_mut()
}

fn items_at<'a>(
    value: &'a mut Value,
    path: &[&str],
) -> impl Iterator<Item = (usize, &'a mut Value)> {
    value_at(value, path).and_then(Value::as_array_mut).into_iter().flatten().enumerate()
}

fn rename_annotations(given: &mut Fields) {
    for old in OLD_DO_NOT_DISRUPT {
        if given.get(old).and_then(Value::as_str) == Some(labels::TRUE) {
            given.shift_remove(old);
            given.insert(annotations::DO_NOT_DISRUPT.into(), labels::TRUE.into());
        }
    }
}

fn rename_selector(selector: &mut Fields, path: &FieldPath, notes: &mut Notes) {
    let old = std::mem::take(selector);
    for (key, value) in old {
        match label_change(&key, path, notes) {
            LabelChange::Keep => selector.insert(key, value),
            LabelChange::Rename(new) => selector.insert(new.to_owned(), value),
            LabelChange::Drop => None,
        };
    }
}

fn rename_affinity(affinity: &mut Fields, path: &FieldPath, notes: &mut Notes) {
    if let Some(node) = affinity.get_mut("nodeAffinity").and_then(Value::as_object_mut) {
        rename_node_affinity(node, &path.key("nodeAffinity"), notes);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = affinity.get_mut(kind) else { continue };
        let path = path.key(kind);
        for (list, term) in [(REQUIRED, &[][..]), (PREFERRED, &["podAffinityTerm"])] {
            if let Some(terms) = pods.get_mut(list) {
                rename_topology(terms, term, &path.key(list), notes);
            }
        }
    }
}

/// Renames the `topologyKey` of each item, which is at `inner` in it. An item about a label that is
/// gone goes with it: no node could ever satisfy it.
fn rename_topology(list: &mut Value, inner: &[&str], path: &FieldPath, notes: &mut Notes) {
    let Some(list) = list.as_array_mut() else { return };
    let mut index = 0;
    list.retain_mut(|item| {
        let path = path.index(index);
        index += 1;
        let holder = value_at(item, inner);
        holder.is_none_or(|holder| rename_key_field(holder, "topologyKey", &path, notes))
    });
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn rename_node_affinity(node: &mut Fields, path: &FieldPath, notes: &mut Notes) {
    let terms = node.get_mut(REQUIRED).and_then(|required| required.get_mut("nodeSelectorTerms"));
    if let Some(terms) = terms.and_then(Value::as_array_mut) {
        let path = path.key(REQUIRED).key("nodeSelectorTerms");
        let (before, mut index) = (terms.len(), 0);
        // The terms are alternatives. A term without requirements would match no node, and the
        // requirements of the others must stay.
        terms.retain_mut(|term| {
            let path = path.index(index);
            index += 1;
            !rename_expressions(term, &path, notes)
        });
        if before > 0 && terms.is_empty() {
            node.shift_remove(REQUIRED);
        }
    }
    if let Some(preferred) = node.get_mut(PREFERRED).and_then(Value::as_array_mut) {
        let path = path.key(PREFERRED);
        let mut index = 0;
        preferred.retain_mut(|weighted| {
            let path = path.index(index).key("preference");
            index += 1;
            weighted
                .get_mut("preference")
                .is_none_or(|term| !rename_expressions(term, &path, notes))
        });
    }
}

/// Renames the keys of a node selector term. Returns whether nothing is left of it.
fn rename_expressions(term: &mut Value, path: &FieldPath, notes: &mut Notes) -> bool {
    let Some(term) = term.as_object_mut() else { return false };
    let Some(expressions) = term.get_mut("matchExpressions").and_then(Value::as_array_mut) else {
        return false;
    };
    let before = expressions.len();
    let mut index = 0;
    expressions.retain_mut(|expression| {
        let path = path.key("matchExpressions").index(index);
        index += 1;
        rename_key_field(expression, "key", &path, notes)
    });
    let emptied = before > 0 && expressions.is_empty();
    if emptied {
        term.shift_remove("matchExpressions");
    }
    emptied && !term.contains_key("matchFields")
}

/// Renames the label key in a field. Returns whether the key still exists.
fn rename_key_field(holder: &mut Value, field: &str, path: &FieldPath, notes: &mut Notes) -> bool {
    let Some(value) = holder.get_mut(field) else { return true };
    let Some(key) = value.as_str() else { return true };
    match label_change(key, &path.key(field), notes) {
        LabelChange::Keep => true,
        LabelChange::Rename(new) => {
            *value = new.into();
            true
        }
        LabelChange::Drop => false,
    }
}

fn rename_toleration(toleration: &mut Value, path: &FieldPath, notes: &mut Notes) {
    let Some(toleration) = toleration.as_object_mut() else { return };
    if toleration.get("key").and_then(Value::as_str) == Some(taints::REMOVED_DISRUPTION) {
        toleration.insert("key".into(), taints::DISRUPTED.into());
        toleration.shift_remove("value");
        notes.add(&path.key("key"), Note::DisruptionTaint);
    }
}

/// The conversion of a node label key.
enum LabelChange {
    Keep,
    Rename(&'static str),
    Drop,
}

fn label_change(key: &str, path: &FieldPath, notes: &mut Notes) -> LabelChange {
    if key == labels::PROVISIONER_NAME {
        return LabelChange::Rename(labels::NODEPOOL);
    }
    if REMOVED_LABELS.contains(&key) {
        notes.add(path, Note::LabelRemoved { key: key.to_owned() });
        return LabelChange::Drop;
    }
    if current_key(key) != key {
        notes.add(path, Note::DeprecatedLabel);
    }
    LabelChange::Keep
}
