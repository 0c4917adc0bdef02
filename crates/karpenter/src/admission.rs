//! What an API server with the AWS provider's CRDs would say to an object.

use std::sync::OnceLock;

use karpenter_api::crds::{CrdSet, crds};
use karpenter_apiserver::admission::{CustomKind, FieldError};
use serde_json::Value;

/// The kind of an object, if it is one of ours.
pub(crate) fn kind_of(object: &Value) -> Option<&'static CustomKind> {
    let is_kind = |kind: &&CustomKind| {
        let api_version = format!("{}/{}", kind.group(), kind.version());
        object["kind"] == kind.kind() && object["apiVersion"] == *api_version
    };
    kinds().iter().find(is_kind)
}

/// The object as it would be stored, and what speaks against that.
pub(crate) fn admit(kind: &CustomKind, object: &Value) -> (Value, Vec<FieldError>) {
    let mut stored = object.clone();
    kind.prune(&mut stored);
    kind.apply_defaults(&mut stored);
    let errors = kind.validate_create(&stored);
    (stored, errors)
}

/// Compiled once.
fn kinds() -> &'static [CustomKind] {
    static KINDS: OnceLock<Vec<CustomKind>> = OnceLock::new();
    KINDS.get_or_init(|| {
        let compile = |crd| CustomKind::from_crd(crd).expect("our own CRDs compile");
        crds(CrdSet::Aws).iter().map(compile).collect()
    })
}
