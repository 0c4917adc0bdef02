//! Pod disruption budgets.

use super::built_in::{BASE, BuiltIn, Generation, Status};
use super::checks;

pub(super) static BUDGET: BuiltIn = BuiltIn {
    model: "io.k8s.api.policy.v1.PodDisruptionBudget",
    status: Status::Own,
    generation: Generation::Spec,
    validate: checks::budget,
    validate_update: |new, _| checks::budget(new),
    validate_status: |new, _| checks::budget_status(new),
    updates_unconditionally: false,
    ..BASE
};
