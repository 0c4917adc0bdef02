//! What a manifest says, or leaves unsaid, without an effect that anybody would see: fields that
//! nobody reads, and PodDisruptionBudgets that nobody has judged.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::gather::Gathered;
use super::marked::without_positions;
use super::report::Remark;
use super::words;

/// What there is to say about an object with fields that its API does not have, each as a path. The
/// object's name and place are added by the caller.
pub(super) fn unknown_fields(kind: &str, fields: &[String]) -> Option<Remark> {
    let first = fields.first()?;
    let parent = first.rsplit_once('.').map_or("", |(parent, _)| parent);
    let explained = without_positions(&format!("{}.{parent}", kind.to_lowercase()));
    let explained = explained.trim_end_matches('.');
    let (field, problem, it) = match fields {
        [field] => {
            let problem = "its API has no such field, it counts for nothing".to_owned();
            (Some(field.clone()), problem, "it")
        }
        fields => {
            let all = words::list(fields.iter().map(String::as_str), fields.len());
            let problem = format!("its API has no such fields, they count for nothing: {all}");
            (None, problem, "them")
        }
    };
    let fix = format!("correct or drop {it}: kubectl explain {explained}");
    Some(remark(field, problem, fix))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_are_named_with_where_to_look_them_up() {
        let told = |fields: &[&str]| {
            let fields: Vec<_> = fields.iter().map(|&field| field.to_owned()).collect();
            unknown_fields("NodePool", &fields).map(|told| (told.field, told.problem, told.fix))
        };
        assert_eq!(told(&[]), None);
        for (field, explained) in [
            ("spec.disruption.consolidateafter", "nodepool.spec.disruption"),
            (
                "spec.template.spec.requirements[0].vlues",
                "nodepool.spec.template.spec.requirements",
            ),
            ("specs", "nodepool"),
        ] {
            let problem = "its API has no such field, it counts for nothing".to_owned();
            let fix = format!("correct or drop it: kubectl explain {explained}");
            assert_eq!(told(&[field]), Some((Some(field.to_owned()), problem, Some(fix))));
        }
        let many = ["spec.a", "spec.b", "spec.c", "spec.d", "spec.e", "spec.f", "spec.g"];
        let problem = "its API has no such fields, they count for nothing: spec.a, spec.b, spec.c, \
                       spec.d, spec.e, 2 more";
        let fix = "correct or drop them: kubectl explain nodepool.spec".to_owned();
        assert_eq!(told(&many), Some((None, problem.to_owned(), Some(fix))));
    }
}
