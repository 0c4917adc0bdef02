//! Validates objects as an API server with the AWS provider's CRDs does. Of KWOK only the fields of
//! its NodeClass are known.

use std::sync::OnceLock;

use karpenter_api::crds::{CrdSet, crds};
use karpenter_api::labels;
use karpenter_apiserver::admission::{CustomKind, FieldError};
use serde_json::Value;

/// The kind of an object, if it is one of ours.
pub(crate) fn kind_of(object: &Value) -> Option<&'static CustomKind> {
    let is_kind = |kind: &&CustomKind| {
        let api_version = format!("{}/{}", kind.group(), kind.version());
        object["kind"] == kind.kind() && object["apiVersion"] == *api_version
    };
    custom_kinds().iter().find(is_kind)
}

/// Returns the paths of the fields of a Karpenter object that an API server would drop. Metadata is
/// not checked: it is not ours.
pub(crate) fn unknown_fields(object: &Value) -> Vec<String> {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    if !GROUPS.iter().any(|group| api_version.split('/').next() == Some(group)) {
        return Vec::new();
    }
    let Some(kind) = kind_of(object).or_else(|| kwok_node_class(object)) else { return Vec::new() };
    let mut fields = kind.prune(&mut object.clone());
    fields.retain(|field| !field.starts_with("metadata."));
    fields
}

/// The groups of our kinds.
const GROUPS: [&str; 3] = [labels::GROUP, labels::aws::GROUP, labels::kwok::GROUP];

/// The object as it would be stored, and what speaks against that.
pub(crate) fn admit(kind: &CustomKind, object: &Value) -> (Value, Vec<FieldError>) {
    let mut stored = object.clone();
    kind.prune(&mut stored);
    kind.apply_defaults(&mut stored);
    let errors = kind.validate_create(&stored);
    (stored, errors)
}

/// Drops the unknown fields of a custom object and fills in defaults, if its kind is one of ours.
pub(crate) fn apply_defaults(object: &mut Value) {
    if let Some(kind) = kind_of(object).or_else(|| kwok_node_class(object)) {
        kind.prune(object);
        kind.apply_defaults(object);
    }
}

/// Returns KWOK's NodeClass if `object` is one; other kinds equal AWS's.
fn kwok_node_class(object: &Value) -> Option<&'static CustomKind> {
    static KIND: OnceLock<Option<CustomKind>> = OnceLock::new();
    let find = || {
        let mut crds = crds(CrdSet::Kwok).into_iter();
        let crd = crds.find(|crd| crd["spec"]["names"]["kind"] == "KWOKNodeClass")?;
        Some(CustomKind::from_crd(&crd).expect("our own CRDs compile"))
    };
    let kind = KIND.get_or_init(find).as_ref()?;
    let api_version = format!("{}/{}", kind.group(), kind.version());
    (object["kind"] == kind.kind() && object["apiVersion"] == *api_version).then_some(kind)
}

/// Returns the kinds of the AWS CRDs, compiled once.
fn custom_kinds() -> &'static [CustomKind] {
    static KINDS: OnceLock<Vec<CustomKind>> = OnceLock::new();
    KINDS.get_or_init(|| {
        let compile = |crd| CustomKind::from_crd(crd).expect("our own CRDs compile");
        crds(CrdSet::Aws).iter().map(compile).collect()
    })
}
