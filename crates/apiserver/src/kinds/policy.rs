//! Pod disruption budgets.

use super::built_in_kind::{BASE_KIND, BuiltInKind, GenerationPolicy, StatusPolicy};
use super::validation;

pub(super) static POD_DISRUPTION_BUDGET: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.policy.v1.PodDisruptionBudget",
    status_policy: StatusPolicy::Subresource,
    generation_policy: GenerationPolicy::OnSpecChange,
    validate: validation::validate_pod_disruption_budget,
    validate_update: |new, _| validation::validate_pod_disruption_budget(new),
    validate_status_update: |new, _| validation::validate_pod_disruption_budget_status(new),
    allows_unconditional_update: false,
    ..BASE_KIND
};
