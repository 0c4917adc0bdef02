//! Classes that pods name: priorities and runtimes.

use serde_json::Value;

use super::built_in_kind::{BASE_KIND, BuiltInKind, GenerationPolicy};
use super::json_access::{flag, text};
use super::{AdmissionContext, validation};
use crate::status::{StatusDetails, StatusError};

pub(super) static PRIORITY_CLASS: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.scheduling.v1.PriorityClass",
    generation_policy: GenerationPolicy::Constant,
    admit_create: |class, context| reject_second_default(class, true, context),
    admit_update: |class, _, context| reject_second_default(class, false, context),
    validate: validation::validate_priority_class,
    validate_update: validation::validate_priority_class_update,
    ..BASE_KIND
};

pub(super) static RUNTIME_CLASS: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.node.v1.RuntimeClass",
    validate: validation::validate_runtime_class,
    validate_update: validation::validate_runtime_class_update,
    allows_create_on_update: true,
    allows_unconditional_update: false,
    ..BASE_KIND
};

fn reject_second_default(
    class: &Value,
    is_new: bool,
    context: AdmissionContext<'_>,
) -> Result<(), StatusError> {
    if !flag(class, "/globalDefault") {
        return Ok(());
    }
    let classes = context.objects.list("scheduling.k8s.io", "priorityclasses", "");
    let default = classes
        .iter()
        .filter(|class| flag(class, "/globalDefault"))
        .min_by_key(|class| super::json_access::number(class, "/value"));
    let name = text(class, "/metadata/name");
    match default.map(|class| text(class, "/metadata/name")) {
        Some(other) if is_new || other != name => Err(StatusError::forbidden(
            StatusDetails { group: "scheduling.k8s.io", kind: "priorityclasses", name },
            &format!(
                "PriorityClass {other} is already marked as default. Only one default can exist"
            ),
        )),
        _ => Ok(()),
    }
}
