//! PodDisruptionBudgets (spec 20 §2.4, spec 30 §3.4).

use k8s_openapi::api::policy::v1::PodDisruptionBudget as WireBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use karpenter_core::selector::{LabelSelector, Selector};
use karpenter_core::snapshot::PodDisruptionBudget;

use super::{Objects, Reader, selector};

/// Returns all PodDisruptionBudgets. One with an unreadable selector may select any pod of its
/// namespace, so it blocks all of them: upstream disrupts nothing at all in that case (spec 30
/// §3.4).
pub(super) fn read(objects: &Objects, reader: &mut Reader<'_>) -> Vec<PodDisruptionBudget> {
    let budgets = objects.pod_disruption_budgets.iter();
    budgets.map(|wire| budget(wire, reader)).collect()
}

/// One budget.
pub(crate) fn budget(wire: &WireBudget, reader: &mut Reader<'_>) -> PodDisruptionBudget {
    let spec = wire.spec.as_ref();
    let parts = spec.and_then(|spec| spec.selector.as_ref()).map(selector::label_selector);
    let is_unread = matches!(parts, Some(Err(_)));
    let selector = match parts {
        None => Selector::Nothing,
        Some(Ok(parts)) => Selector::Matching(parts),
        Some(Err(error)) => {
            let effect = "it holds every pod of its namespace";
            let problem = format!("spec.selector cannot be read: {error}; {effect}");
            reader.report_problems("PodDisruptionBudget", &wire.metadata, &[problem]);
            Selector::Matching(LabelSelector::default())
        }
    };
    let max_unavailable = spec.and_then(|spec| spec.max_unavailable.as_ref());
    let min_available = spec.and_then(|spec| spec.min_available.as_ref());
    PodDisruptionBudget {
        namespace: wire.metadata.namespace.clone().unwrap_or_default(),
        name: wire.metadata.name.clone().unwrap_or_default(),
        selector,
        blocks_all: max_unavailable.is_some_and(is_zero)
            || min_available.is_some_and(|least| is_text(least, "100%")),
        disruptions_allowed: wire
            .status
            .as_ref()
            .and_then(|status| status.disruptions_allowed)
            .filter(|allowed| !is_unread && *allowed > 0)
            .unwrap_or(0),
        always_evicts_unhealthy: spec
            .and_then(|spec| spec.unhealthy_pod_eviction_policy.as_deref())
            .is_some_and(|policy| policy == "AlwaysAllow" && !is_unread),
    }
}

fn is_zero(most: &IntOrString) -> bool {
    matches!(most, IntOrString::Int(0)) || is_text(most, "0%")
}

fn is_text(value: &IntOrString, text: &str) -> bool {
    matches!(value, IntOrString::String(written) if written == text)
}
