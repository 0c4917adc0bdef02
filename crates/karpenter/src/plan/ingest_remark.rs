//! Converts ingest diagnostics to remarks about objects, with the field where there is one and with
//! a fix.

use karpenter_cluster::ingest::{IngestDiagnostic, constraint_limits};

use super::cluster_objects::ClusterObjects;
use super::report::Remark;

/// Returns the remark about an ingest diagnostic.
pub(super) fn ingest_remark(marked: &IngestDiagnostic, gathered: &ClusterObjects) -> Remark {
    let IngestDiagnostic {
        kind,
        namespace,
        name,
        is_excluded: is_left_out,
        is_invalid: is_broken,
        reason,
    } = marked;
    let object = if namespace.is_empty() {
        format!("{kind} {name}")
    } else {
        format!("{kind} {namespace}/{name}")
    };
    let (field, problem) = split_field(reason);
    let field = field.map(str::to_owned).or_else(|| condition_field(kind, reason));
    // A live state has nothing to open and mend.
    let place =
        || gathered.field_location(kind, namespace, name, field.as_deref().unwrap_or_default());
    Remark {
        object,
        place: if *is_broken { place() } else { None },
        problem: problem.to_owned(),
        fix: is_broken.then(|| suggest_fix(kind, field.as_deref(), problem)),
        field,
        left_out: *is_left_out,
        broken: *is_broken,
    }
}

/// Splits a reason into its leading field, if any, and the problem.
fn split_field(reason: &str) -> (Option<&str>, &str) {
    let is_path = |text: &str| {
        let begins = ["metadata.", "spec.", "status."].iter().any(|head| text.starts_with(head));
        // A key with a space in it ends too early.
        begins && text.matches('[').count() == text.matches(']').count()
    };
    match reason.split_once(' ') {
        Some((head, rest)) if is_path(head) => (Some(head.trim_end_matches(':')), rest),
        _ => (None, reason),
    }
}

/// The field of a NodePool in the text of a condition, which ends in its last name only:
/// `invalid value: ... in consolidateAfter`. Of several the first.
fn condition_field(kind: &str, reason: &str) -> Option<String> {
    if kind != "NodePool" {
        return None;
    }
    let first = reason.split("; ").next()?;
    let (_, last) = first.rsplit_once(" in ")?;
    let name = last.split(',').next()?;
    let parent = match name.split('[').next()? {
        "consolidateAfter" | "budgets" => "spec.disruption",
        "limits" => "spec",
        "labels" => "spec.template.metadata",
        "expireAfter" | "requirements" | "startupTaints" | "taints" | "terminationGracePeriod" => {
            "spec.template.spec"
        }
        _ => return None,
    };
    Some(format!("{parent}.{name}"))
}

/// Returns the fix of a problem of an object of `kind`.
fn suggest_fix(kind: &str, field: Option<&str>, problem: &str) -> String {
    if problem.starts_with("another ") {
        return "remove one of the two".to_owned();
    }
    if problem.ends_with(" is not there") {
        return "add it, or name one that is there".to_owned();
    }
    if let Some(fix) = constraint_limits::suggest_fix(problem) {
        return fix;
    }
    let kind = kind.to_lowercase();
    match field {
        Some(field) => {
            format!("write it as its API has it: kubectl explain {kind}.{}", without_indexes(field))
        }
        None => format!("write it as its API has it: kubectl explain {kind}"),
    }
}

/// Returns a path for `kubectl explain`: `spec.limits[cpu]` is `spec.limits`.
pub(super) fn without_indexes(field: &str) -> String {
    let mut parts = field.split('[');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |path, part| path + part.split_once(']').map_or("", |(_, after)| after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_at_the_start_of_a_reason_is_split_off() {
        for (reason, field, problem) in [
            (
                "spec.weight must be 1 to 100, is 101",
                Some("spec.weight"),
                "must be 1 to 100, is 101",
            ),
            ("spec.limits[a.b/c]: is none", Some("spec.limits[a.b/c]"), "is none"),
            ("spec.limits[a b]: is none", None, "spec.limits[a b]: is none"),
            ("is not ready", None, "is not ready"),
            ("spec.weight", None, "spec.weight"),
        ] {
            assert_eq!(split_field(reason), (field, problem), "{reason}");
        }
    }

    #[test]
    fn the_field_at_the_end_of_a_condition_is_found() {
        for (reason, field) in [
            ("invalid value: x in consolidateAfter", Some("spec.disruption.consolidateAfter")),
            ("invalid value: x in limits[a.b/c]; more", Some("spec.limits[a.b/c]")),
            (
                "invalid value: in Y in requirements, restricted",
                Some("spec.template.spec.requirements"),
            ),
            ("invalid value: x in doubt", None),
            ("is not ready", None),
        ] {
            assert_eq!(condition_field("NodePool", reason).as_deref(), field, "{reason}");
        }
        assert_eq!(condition_field("Pod", "invalid value: x in limits"), None);
    }

    #[test]
    fn every_problem_has_a_fix() {
        let explain = "write it as its API has it: kubectl explain nodepool";
        for (field, problem, wanted) in [
            (None, "another pool has the same name", "remove one of the two"),
            (None, "PodTemplate a/b is not there", "add it, or name one that is there"),
            (None, "invalid", explain),
            (Some("spec.weight"), "invalid", &format!("{explain}.spec.weight")),
            (Some("spec.a[0].b[c.d/e]"), "invalid", &format!("{explain}.spec.a.b")),
        ] {
            assert_eq!(suggest_fix("NodePool", field, problem), wanted);
        }
        let excess = "pod has 1101 scheduling terms; at most 1100 are supported";
        let fix = suggest_fix("Pod", None, excess);
        assert!(fix.starts_with("use at most 1100 terms: merge affinity terms"), "{fix}");
    }
}
