//! Reads the kubelet block of a pool for the node class (spec 10 §16.3.4, §16.4).

use karpenter_api::annotations::compatibility;
use karpenter_api::kubelet::MANAGED_KEYS;
use serde_json::{Map, Value};

use super::fields::Section;
use super::notes::{Note, Notes};
use crate::manifest::FieldPath;

/// The kubelet settings of one pool, and where they were written.
#[derive(Clone, Debug)]
pub(super) struct Kubelet {
    pub(super) settings: Value,
    pub(super) field: FieldPath,
}

/// Reads a legacy kubelet block; one without settings is none.
pub(super) fn read(from: &Section<'_>, notes: &mut Notes) -> Option<Kubelet> {
    const RUNTIME: &str = "containerRuntime";
    if from.string(RUNTIME, notes).is_some_and(|runtime| runtime != "containerd") {
        notes.add(&from.path.key(RUNTIME), Note::DockerdUnsupported);
    }
    let mut settings = Map::new();
    for (key, at) in from.entries() {
        // What v1alpha5 and v1beta1 knew is what the controller manages to this day.
        if MANAGED_KEYS.contains(&key) {
            let value = match key {
                "systemReserved" | "kubeReserved" => as_strings(&at.section(notes)?),
                _ => at.value.clone(),
            };
            settings.insert(key.to_owned(), value);
        } else if key != RUNTIME {
            notes.add(&at.path, Note::UnknownField);
        }
    }
    let field = from.path.clone();
    (!settings.is_empty()).then_some(Kubelet { settings: settings.into(), field })
}

/// Converts reserved quantities to texts; the old kinds also took numbers.
fn as_strings(from: &Section<'_>) -> Value {
    let text = |value: &Value| match value {
        Value::Number(number) => number.to_string().into(),
        other => other.clone(),
    };
    from.entries().into_iter().map(|(key, at)| (key.to_owned(), text(at.value))).collect()
}

/// Reads the block that the conversion webhook of v1.0 parked on a v1 NodePool (spec 10 §16.6).
pub(super) fn read_annotation(metadata: &Section<'_>, notes: &mut Notes) -> Option<Kubelet> {
    let at = metadata.section("annotations", notes).get(compatibility::V1BETA1_KUBELET)?;
    let text = at.string(notes)?;
    match serde_json::from_str(text) {
        Ok(Value::Object(settings)) => {
            notes.add(&at.path, Note::AnnotationConsumed);
            let field = at.path;
            (!settings.is_empty()).then_some(Kubelet { settings: settings.into(), field })
        }
        _ => at.report_unexpected_type("a JSON object", notes),
    }
}

/// Returns a text that is equal for equal settings, whatever their order.
pub(super) fn canonical_text(settings: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let mut keys: Vec<_> = fields.keys().collect();
                keys.sort();
                keys.into_iter().map(|key| (key.clone(), sorted(&fields[key]))).collect()
            }
            Value::Array(items) => items.iter().map(sorted).collect(),
            other => other.clone(),
        }
    }
    sorted(settings).to_string()
}
