//! Reports the violations of a plan as errors.

use karpenter_core::verify::Violation;

use super::report::Remark;

/// The most violations that a report names.
const NAMED_MAX: usize = 20;

/// Returns a remark for each violation, and one for those beyond the limit.
pub(super) fn remarks(violations: &[Violation]) -> Vec<Remark> {
    let named = violations.iter().take(NAMED_MAX).map(ToString::to_string);
    let more = violations.len().saturating_sub(NAMED_MAX);
    let more = (more > 0).then(|| format!("{more} more violations"));
    let remark = |problem: String| Remark {
        object: "plan".to_owned(),
        place: None,
        field: None,
        problem: format!("breaks a rule: {problem}"),
        fix: Some("this is a bug, please report it".to_owned()),
        left_out: true,
        broken: true,
    };
    named.chain(more).map(remark).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_are_errors_and_limited() {
        let of = |count: usize| {
            let pods = (0..count).map(|n| format!("default/web-{n}"));
            remarks(&pods.map(|pod| Violation::PlacedTwice { pod }).collect::<Vec<_>>())
        };
        assert_eq!(of(0), []);
        let [one] = &of(1)[..] else { panic!("one remark") };
        assert!(one.broken && one.left_out, "the exit code is that of an incomplete plan");
        assert_eq!(one.problem, "breaks a rule: default/web-0 is placed twice");
        let many = of(25);
        assert_eq!(many.len(), NAMED_MAX + 1);
        assert_eq!(many[NAMED_MAX].problem, "breaks a rule: 5 more violations");
    }
}
