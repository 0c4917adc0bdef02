//! Validates the result as v1 does: with the schema and CEL rules of its CRDs, then with the checks
//! that the controller makes at run time (spec 10 §16.3.5).

use karpenter_api::ec2_nodeclass::Ec2NodeClassSpec;
use karpenter_api::kubelet;
use karpenter_api::nodepool::NodePoolSpec;
use karpenter_api::validation::{ProviderRules, ec2_nodeclass, nodepool};
use karpenter_apiserver::admission::FieldError;
use serde::Deserialize as _;
use serde_json::Value;

use super::draft::{Draft, DraftKind, failed_inputs};
use super::notes::Note;
use super::{EC2_NODE_CLASS, NODE_POOL};
use crate::admission;
use crate::manifest::FieldPath;

/// Adds an error to each pool whose kubelet settings are invalid (E99): the class that they move
/// to, and the other pools that share it, are not at fault.
pub(super) fn validate_kubelet_settings(drafts: &mut [Draft]) {
    for draft in drafts {
        let Some(kubelet) = draft.kubelet() else { continue };
        let Some(settings) = kubelet.settings.as_object() else { continue };
        let checked = kubelet::check_structure(settings)
            .and_then(|()| kubelet::check_expressions(settings, false));
        if let Err(invalid) = checked {
            let field = kubelet.field.clone();
            draft.notes.add(&field, Note::Invalid { message: invalid.message });
        }
    }
}

/// Adds an error to each draft that v1 would reject (E99).
pub(super) fn validate_drafts(drafts: &mut [Draft]) {
    let failed = failed_inputs(drafts);
    for draft in drafts {
        let is_ours = !matches!(draft.kind, DraftKind::Workload);
        if is_ours && !failed.contains(&draft.input) {
            drop_unknown_fields(draft);
            for (field, message) in v1_violations(&draft.object) {
                draft.add_validation_error(field, message);
            }
        }
    }
}

/// Drops the fields that the API server would drop silently, or reject with kubectl's strict
/// validation.
fn drop_unknown_fields(draft: &mut Draft) {
    let Some(kind) = admission::kind_of(&draft.object) else { return };
    for path in kind.prune(&mut draft.object) {
        draft.notes.add(&FieldPath::parse(&path), Note::UnknownField);
    }
}

/// Returns every violation of the v1 API in an object: field and message.
pub(super) fn v1_violations(object: &Value) -> Vec<(FieldPath, String)> {
    let Some(kind) = admission::kind_of(object) else { return Vec::new() };
    let (stored, errors) = admission::admit(kind, object);
    if !errors.is_empty() {
        let errors = errors.iter().filter(|error| error.path != NO_FIELD);
        return errors.map(|error| violation_of(error, &stored)).collect();
    }
    match kind.kind() {
        NODE_POOL => pool_runtime_violations(&stored["spec"]),
        EC2_NODE_CLASS => class_runtime_violations(&stored["spec"]),
        _ => Vec::new(),
    }
}

/// Returns what would keep a pool from becoming Ready.
fn pool_runtime_violations(spec: &Value) -> Vec<(FieldPath, String)> {
    let errors = match NodePoolSpec::deserialize(spec) {
        Ok(spec) => nodepool(&spec, &ProviderRules::aws()).errors,
        Err(error) => vec![error.to_string()],
    };
    errors.into_iter().map(|error| (FieldPath::parse("spec"), error)).collect()
}

/// Returns what would keep a class from becoming Ready, without a cluster.
fn class_runtime_violations(spec: &Value) -> Vec<(FieldPath, String)> {
    let errors = match Ec2NodeClassSpec::deserialize(spec) {
        Ok(spec) => ec2_nodeclass(&spec, false).errors,
        Err(error) => vec![error.to_string()],
    };
    // Errors about kubelet settings begin with their path.
    let place =
        |error: &str| if error.starts_with("spec.kubelet") { "spec.kubelet" } else { "spec" };
    errors.into_iter().map(|error| (FieldPath::parse(place(&error)), error)).collect()
}

/// The path of a remark without a field: some rules were not evaluated, because of the other
/// errors.
const NO_FIELD: &str = "<nil>";

fn violation_of(error: &FieldError, object: &Value) -> (FieldPath, String) {
    let line = error.to_string();
    let text = line.strip_prefix(&format!("{}: ", error.path)).unwrap_or(&line).to_owned();
    (FieldPath::parse_in_object(&error.path, object), text)
}
