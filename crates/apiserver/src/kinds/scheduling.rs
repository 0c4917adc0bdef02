//! Classes that pods name: priorities and runtimes.

use serde_json::Value;

use super::access::{flag, text};
use super::built_in::{BASE, BuiltIn, Generation};
use super::{Around, checks};
use crate::status::{About, Failure};

pub(super) static PRIORITY_CLASS: BuiltIn = BuiltIn {
    model: "io.k8s.api.scheduling.v1.PriorityClass",
    generation: Generation::One,
    admit_create: |class, around| one_default(class, true, around),
    admit_update: |class, _, around| one_default(class, false, around),
    validate: checks::priority_class,
    validate_update: checks::priority_class_update,
    ..BASE
};

pub(super) static RUNTIME_CLASS: BuiltIn = BuiltIn {
    model: "io.k8s.api.node.v1.RuntimeClass",
    validate: checks::runtime_class,
    validate_update: checks::runtime_class_update,
    creates_on_update: true,
    updates_unconditionally: false,
    ..BASE
};

fn one_default(class: &Value, is_new: bool, around: Around<'_>) -> Result<(), Failure> {
    if !flag(class, "/globalDefault") {
        return Ok(());
    }
    let classes = around.objects.list("scheduling.k8s.io", "priorityclasses", "");
    let default = classes
        .iter()
        .filter(|class| flag(class, "/globalDefault"))
        .min_by_key(|class| super::access::number(class, "/value"));
    let name = text(class, "/metadata/name");
    match default.map(|class| text(class, "/metadata/name")) {
        Some(other) if is_new || other != name => Err(Failure::forbidden(
            About { group: "scheduling.k8s.io", kind: "priorityclasses", name },
            &format!(
                "PriorityClass {other} is already marked as default. Only one default can exist"
            ),
        )),
        _ => Ok(()),
    }
}
