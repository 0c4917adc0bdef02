//! Warns about input that has no effect: unknown fields, and PodDisruptionBudgets without a status.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::cluster_objects::ClusterObjects;
use super::ingest_remark::without_indexes;
use super::rejection_text;
use super::report::Remark;

/// Returns the remark about an object with these unknown fields. The caller adds the name and place
/// of the object.
pub(super) fn unknown_fields_remark(kind: &str, fields: &[String]) -> Option<Remark> {
    let first = fields.first()?;
    let parent = first.rsplit_once('.').map_or("", |(parent, _)| parent);
    let explained = without_indexes(&format!("{}.{parent}", kind.to_lowercase()));
    let explained = explained.trim_end_matches('.');
    let (field, problem, it) = match fields {
        [field] => {
            let problem = "its API has no such field, it counts for nothing".to_owned();
            (Some(field.clone()), problem, "it")
        }
        fields => {
            let all = rejection_text::join_first(fields.iter().map(String::as_str), fields.len());
            let problem = format!("its API has no such fields, they count for nothing: {all}");
            (None, problem, "them")
        }
    };
    let fix = format!("correct or drop {it}: kubectl explain {explained}");
    Some(input_remark(field, problem, fix))
}

/// Returns remarks about PodDisruptionBudgets without a status, which a cluster would have set. A
/// budget that never allows a disruption needs no status.
pub(crate) fn budgets_without_status(gathered: &ClusterObjects) -> Vec<Remark> {
    let budgets = gathered.objects.pod_disruption_budgets.iter();
    let unjudged =
        budgets.filter(|budget| has_no_status(budget) && !forbids_all_disruptions(budget));
    let remarks = unjudged.map(|budget| {
        let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
        let name = budget.metadata.name.as_deref().unwrap_or_default();
        let problem = "is not there, so it is taken to allow no disruption".to_owned();
        let fix = "read it from the cluster (kubectl get pdb -A -o yaml), or plan the cluster \
                   itself (without -f)";
        Remark {
            object: format!("PodDisruptionBudget {namespace}/{name}"),
            place: gathered.location("PodDisruptionBudget", namespace, name),
            ..input_remark(Some("status".to_owned()), problem, fix.to_owned())
        }
    });
    remarks.collect()
}

fn has_no_status(budget: &PodDisruptionBudget) -> bool {
    budget.status.as_ref().is_none_or(|status| status.disruptions_allowed.is_none())
}

fn forbids_all_disruptions(budget: &PodDisruptionBudget) -> bool {
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

fn input_remark(field: Option<String>, problem: String, fix: String) -> Remark {
    let object = String::new();
    Remark { object, place: None, field, problem, fix: Some(fix), left_out: false, broken: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_are_reported_with_a_kubectl_explain_path() {
        let remark_parts = |fields: &[&str]| {
            let fields: Vec<_> = fields.iter().map(|&field| field.to_owned()).collect();
            unknown_fields_remark("NodePool", &fields)
                .map(|remark_parts| (remark_parts.field, remark_parts.problem, remark_parts.fix))
        };
        assert_eq!(remark_parts(&[]), None);
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
            assert_eq!(remark_parts(&[field]), Some((Some(field.to_owned()), problem, Some(fix))));
        }
        let many = ["spec.a", "spec.b", "spec.c", "spec.d", "spec.e", "spec.f", "spec.g"];
        let problem = "its API has no such fields, they count for nothing: spec.a, spec.b, spec.c, \
                       spec.d, spec.e, 2 more";
        let fix = "correct or drop them: kubectl explain nodepool.spec".to_owned();
        assert_eq!(remark_parts(&many), Some((None, problem.to_owned(), Some(fix))));
    }
}
