//! CustomResourceDefinitions as objects. What they define is compiled in [`crate::admission`].

use serde_json::Value;

use super::built_in_kind::{BASE_KIND, BuiltInKind, GenerationPolicy, StatusPolicy};
use super::json_access::{ensure_list, ensure_object, flag, list, text};
use super::validation;

pub(super) static CUSTOM_RESOURCE_DEFINITION: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    status_policy: StatusPolicy::Subresource,
    generation_policy: GenerationPolicy::OnSpecChange,
    prepare_for_create: record_stored_version,
    prepare_for_update: |new, _| record_stored_version(new),
    validate: validation::validate_custom_resource_definition,
    validate_update: validation::validate_custom_resource_definition_update,
    ..BASE_KIND
};

/// Adds the storage version to `status.storedVersions`.
///
/// A version that has been stored once stays there.
fn record_stored_version(definition: &mut Value) {
    let stored =
        list(definition, "/spec/versions").iter().find(|version| flag(version, "/storage"));
    let Some(name) = stored.map(|version| text(version, "/name").to_owned()) else { return };
    let versions = ensure_list(ensure_object(definition, "status"), "storedVersions");
    if versions.iter().all(|version| *version != name) {
        versions.push(name.into());
    }
}
