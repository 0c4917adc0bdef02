//! Converts the fields that a Provisioner and a v1beta1 NodePool share: the template of new nodes.

use karpenter_api::labels::{self, aws};
use karpenter_api::{annotations, taints};
use serde_json::{Map, Value, json};

use super::fields::{FieldValue, Section};
use super::metadata::is_removed;
use super::notes::{Note, Notes};
use crate::manifest::FieldPath;

/// The old annotations that mean [`annotations::DO_NOT_DISRUPT`] where they are `true`.
pub(super) const OLD_DO_NOT_DISRUPT: [&str; 2] =
    ["karpenter.sh/do-not-evict", "karpenter.sh/do-not-consolidate"];

/// The labels that instances no longer carry (spec 10 §16.8).
pub(super) const REMOVED_LABELS: [&str; 2] =
    ["karpenter.k8s.aws/instance-pods", "karpenter.k8s.aws/instance-ami-id"];

/// Labels and annotations of new nodes; nothing where there are none.
pub(super) fn metadata(from: &Section<'_>, notes: &mut Notes) -> Option<Value> {
    let mut metadata = Map::new();
    let labels = node_labels(&from.section("labels", notes), notes);
    if !labels.is_empty() {
        metadata.insert("labels".into(), labels.into());
    }
    let annotations = node_annotations(&from.section("annotations", notes), notes);
    if !annotations.is_empty() {
        metadata.insert("annotations".into(), annotations.into());
    }
    (!metadata.is_empty()).then_some(metadata.into())
}

fn node_labels(from: &Section<'_>, notes: &mut Notes) -> Map<String, Value> {
    let mut labels = Map::new();
    for (key, value) in from.string_entries(notes) {
        if check_label_key(key, &from.path.key(key), notes) {
            labels.insert(key.to_owned(), value.into());
        }
    }
    labels
}

fn node_annotations(from: &Section<'_>, notes: &mut Notes) -> Map<String, Value> {
    let mut kept = Map::new();
    for (key, value) in from.string_entries(notes) {
        if OLD_DO_NOT_DISRUPT.contains(&key) && value == labels::TRUE {
            kept.insert(annotations::DO_NOT_DISRUPT.into(), labels::TRUE.into());
        } else if !is_removed(key) {
            kept.insert(key.to_owned(), value.into());
        }
    }
    kept
}

/// Returns whether a label or requirement on `key` is kept; adds a finding if not.
fn check_label_key(key: &str, path: &FieldPath, notes: &mut Notes) -> bool {
    if key == labels::PROVISIONER_NAME {
        notes.add(path, Note::ProvisionerNameRestricted);
        return false;
    }
    if REMOVED_LABELS.contains(&key) {
        notes.add(path, Note::LabelRemoved { key: key.to_owned() });
        return false;
    }
    if current_key(key) != key {
        notes.add(path, Note::DeprecatedLabel);
    }
    true
}

/// Returns the key that replaces a deprecated one (spec 10 §10.1).
pub(super) fn current_key(key: &str) -> &str {
    let mut aliases = labels::ALIASES.iter().chain(&aws::ALIASES);
    aliases.find(|(old, _)| *old == key).map_or(key, |(_, new)| *new)
}

/// Copies `taints` and `startupTaints`.
pub(super) fn copy_taints(from: &Section<'_>, into: &mut Map<String, Value>, notes: &mut Notes) {
    for key in ["taints", "startupTaints"] {
        let taints: Vec<_> =
            from.list(key, notes).iter().filter_map(|at| taint(at, notes)).collect();
        if !taints.is_empty() {
            into.insert(key.into(), taints.into());
        }
    }
}

fn taint(at: &FieldValue<'_>, notes: &mut Notes) -> Option<Value> {
    let from = at.section(notes)?;
    if from.string("effect", notes).is_none_or(str::is_empty) {
        notes.add(&at.path.key("effect"), Note::TaintEffectMissing);
    }
    let mut taint = at.value.clone();
    if from.string("key", notes) == Some(taints::REMOVED_DISRUPTION) {
        notes.add(&at.path.key("key"), Note::DisruptionTaint);
        taint["key"] = taints::DISRUPTED.into();
        taint.as_object_mut()?.shift_remove("value");
    }
    Some(taint)
}

/// Copies the requirements whose keys are valid in v1, in order.
pub(super) fn copy_requirements(from: &Section<'_>, notes: &mut Notes) -> Vec<Value> {
    let mut requirements = Vec::new();
    for at in from.list("requirements", notes) {
        let Some(requirement) = at.section(notes) else { continue };
        let key = requirement.string("key", notes).unwrap_or_default();
        if check_label_key(key, &at.path.key("key"), notes) {
            requirements.push(at.value.clone());
        }
    }
    requirements
}

/// Adds the default requirements of v1alpha5's webhook for absent keys (spec 10 §16.4). Labels do
/// not count.
pub(super) fn add_default_requirements(
    requirements: &mut Vec<Value>,
    path: &FieldPath,
    notes: &mut Notes,
) {
    const INSTANCE_KEYS: [&str; 4] = [
        labels::INSTANCE_TYPE,
        aws::INSTANCE_FAMILY,
        aws::INSTANCE_CATEGORY,
        aws::INSTANCE_GENERATION,
    ];
    let given = |keys: &[&str]| {
        requirements
            .iter()
            .filter_map(|r| r["key"].as_str())
            .any(|key| keys.contains(&current_key(key)))
    };
    let mut defaults = Vec::new();
    let mut unless = |keys: &[&str], key: &str, operator: &str, values: &[&str]| {
        if !given(keys) {
            defaults.push(json!({ "key": key, "operator": operator, "values": values }));
        }
    };
    unless(&[labels::OS], labels::OS, "In", &[labels::LINUX]);
    unless(&[labels::ARCH], labels::ARCH, "In", &[labels::AMD64]);
    unless(&[labels::CAPACITY_TYPE], labels::CAPACITY_TYPE, "In", &[labels::ON_DEMAND]);
    unless(&INSTANCE_KEYS, aws::INSTANCE_CATEGORY, "In", &["c", "m", "r"]);
    unless(&INSTANCE_KEYS, aws::INSTANCE_GENERATION, "Gt", &["2"]);
    for default in defaults {
        let values: Vec<_> =
            default["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let (key, operator) = (default["key"].as_str(), default["operator"].as_str());
        let requirement = format!(
            "{} {} [{}]",
            key.unwrap_or_default(),
            operator.unwrap_or_default(),
            values.join(", ")
        );
        notes.add(path, Note::DefaultAdded { requirement });
        requirements.push(default);
    }
}

/// Quantities: a decimal fraction must be a text in v1.
pub(super) fn limits(from: &Section<'_>, notes: &mut Notes) -> Option<Value> {
    let mut limits = Map::new();
    for (resource, at) in from.entries() {
        limits.insert(resource.to_owned(), quantity(&at, notes)?);
    }
    (!limits.is_empty()).then_some(limits.into())
}

fn quantity(at: &FieldValue<'_>, notes: &mut Notes) -> Option<Value> {
    match at.value {
        Value::Number(number) if number.is_f64() => Some(number.to_string().into()),
        Value::Number(_) | Value::String(_) => Some(at.value.clone()),
        _ => at.report_unexpected_type("a quantity", notes),
    }
}
