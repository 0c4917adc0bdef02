//! CustomResourceDefinitions as objects. What they define is compiled in [`crate::admission`].

use serde_json::Value;

use super::access::{flag, items, list, part, text};
use super::built_in::{BASE, BuiltIn, Generation, Status};
use super::checks;

pub(super) static DEFINITION: BuiltIn = BuiltIn {
    model: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    status: Status::Own,
    generation: Generation::Spec,
    create: note_stored_version,
    update: |new, _| note_stored_version(new),
    validate: checks::definition,
    validate_update: checks::definition_update,
    ..BASE
};

/// A version that has been stored once stays on record.
fn note_stored_version(definition: &mut Value) {
    let stored =
        list(definition, "/spec/versions").iter().find(|version| flag(version, "/storage"));
    let Some(name) = stored.map(|version| text(version, "/name").to_owned()) else { return };
    let versions = items(part(definition, "status"), "storedVersions");
    if versions.iter().all(|version| *version != name) {
        versions.push(name.into());
    }
}
