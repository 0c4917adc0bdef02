//! What a manifest leaves unsaid without an effect that anybody would see: PodDisruptionBudgets that
//! nobody has judged.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::gather::Gathered;
use super::report::Remark;

/// PodDisruptionBudgets that say what they want and not what they allow now, which a cluster would
/// have added. Those that never allow anything need no cluster for it.
pub(crate) fn unjudged_budgets(gathered: &Gathered) -> Vec<Remark> {
    let budgets = gathered.objects.pod_disruption_budgets.iter();
    let unjudged = budgets.filter(|budget| is_unjudged(budget) && !never_allows(budget));
    let remarks = unjudged.map(|budget| {
        let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
        let name = budget.metadata.name.as_deref().unwrap_or_default();
        let problem = "is not there, so it is taken to allow no disruption".to_owned();
        let fix = "read it from the cluster (kubectl get pdb -A -o yaml), or plan the cluster \
                   itself (without -f)";
        Remark {
            object: format!("PodDisruptionBudget {namespace}/{name}"),
            place: gathered.place("PodDisruptionBudget", namespace, name),
            ..remark(Some("status".to_owned()), problem, fix.to_owned())
        }
    });
    remarks.collect()
}

fn is_unjudged(budget: &PodDisruptionBudget) -> bool {
    budget.status.as_ref().is_none_or(|status| status.disruptions_allowed.is_none())
}

fn never_allows(budget: &PodDisruptionBudget) -> bool {
    let is = |value: Option<&IntOrString>, text: &str| match value {
        Some(IntOrString::Int(number)) => number.to_string() == text,
        Some(IntOrString::String(written)) => written == text,
        None => false,
    };
    budget.spec.as_ref().is_some_and(|spec| {
        let (most, least) = (spec.max_unavailable.as_ref(), spec.min_available.as_ref());
        is(most, "0") || is(most, "0%") || is(least, "100%")
    })
}

fn remark(field: Option<String>, problem: String, fix: String) -> Remark {
    let object = String::new();
    Remark { object, place: None, field, problem, fix: Some(fix), left_out: false, broken: false }
}
