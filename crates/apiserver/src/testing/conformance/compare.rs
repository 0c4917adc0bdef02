//! Compares two transcripts of an area.

use std::fmt::Write as _;

use super::{Area, Transcript};

/// The result of the checks of one area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AreaResult {
    pub area: String,
    pub checks: usize,
    pub equal: usize,
    /// Checks that the script says may differ, and do.
    pub accepted: usize,
    /// The failed checks, one text per check.
    pub differences: Vec<String>,
}

/// Compares the checks that were `found` with the recording.
///
/// `may_differ`: checks that the script marks with `differs` have to; otherwise it is ignored.
pub fn compare(
    area: &Area,
    recorded: &Transcript,
    found: &Transcript,
    may_differ: bool,
) -> AreaResult {
    let mut outcome = AreaResult {
        area: area.name.clone(),
        checks: 0,
        equal: 0,
        accepted: 0,
        differences: Vec::new(),
    };
    for check in &area.checks {
        let Some(ours) = found.steps(&check.name) else { continue };
        outcome.checks += 1;
        let place = format!("{}: {}", area.name, check.name);
        let marked = check.differs.is_some() && may_differ;
        match recorded.steps(&check.name) {
            None => outcome.differences.push(format!("{place}: not recorded")),
            Some(real) if real == ours && marked => {
                outcome.differences.push(format!("{place}: is equal now: take its `differs` away"));
            }
            Some(real) if real == ours => outcome.equal += 1,
            Some(_) if marked => outcome.accepted += 1,
            Some(real) => outcome.differences.push(format!("{place}\n{}", difference(real, ours))),
        }
    }
    outcome
}

/// The table of all areas.
pub fn table(outcomes: &[AreaResult]) -> String {
    let mut table = format!(
        "{:<14} {:>7} {:>7} {:>10} {:>9}",
        "area", "checks", "equal", "different", "accepted"
    );
    let mut row = |name: &str, [checks, equal, different, accepted]: [usize; 4]| {
        let _ = write!(table, "\n{name:<14} {checks:>7} {equal:>7} {different:>10} {accepted:>9}");
    };
    let mut total = [0; 4];
    for outcome in outcomes {
        let counts = [outcome.checks, outcome.equal, outcome.differences.len(), outcome.accepted];
        row(&outcome.area, counts);
        total = std::array::from_fn(|n| total[n] + counts[n]);
    }
    row("total", total);
    table
}

/// The first step that differs, with the lines that do (`-` real, `+` ours).
fn difference(real: &[String], ours: &[String]) -> String {
    let same = real.iter().zip(ours).take_while(|(a, b)| a == b).count();
    let empty = String::new();
    let (real, ours) = (real.get(same).unwrap_or(&empty), ours.get(same).unwrap_or(&empty));
    let title = real.lines().chain(ours.lines()).next().unwrap_or_default();
    format!("  step {}: {title}\n{}", same + 1, lines(real, ours))
}

/// Returns a small diff, without the common lines at both ends and in between.
fn lines(real: &str, ours: &str) -> String {
    const MOST: usize = 24;
    let (real, ours): (Vec<_>, Vec<_>) = (real.lines().collect(), ours.lines().collect());
    let mut shown = Vec::new();
    let (mut r, mut o) = (0, 0);
    while r < real.len() || o < ours.len() {
        if r < real.len() && real.get(r) == ours.get(o) {
            (r, o) = (r + 1, o + 1);
            continue;
        }
        // The nearest line where both agree again.
        let (dr, d_o) = next_common_line(&real[r..], &ours[o..]);
        shown.extend(real[r..r + dr].iter().map(|line| format!("  - {line}")));
        shown.extend(ours[o..o + d_o].iter().map(|line| format!("  + {line}")));
        (r, o) = (r + dr, o + d_o);
    }
    let hidden = shown.len().saturating_sub(MOST);
    shown.truncate(MOST);
    if hidden > 0 {
        shown.push(format!("  … {hidden} more lines"));
    }
    shown.join("\n")
}

fn next_common_line(real: &[&str], ours: &[&str]) -> (usize, usize) {
    for distance in 1..real.len() + ours.len() {
        for r in 0..=distance {
            let o = distance - r;
            if r < real.len() && o < ours.len() && real[r] == ours[o] {
                return (r, o);
            }
        }
    }
    (real.len(), ours.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = r#"
checks:
- {name: a, steps: [{GET: /a}]}
- {name: b, differs: "because", steps: [{GET: /b}]}
"#;

    fn transcript(checks: [(&str, &str); 2]) -> Transcript {
        let steps = |(name, text): (&str, &str)| (name.to_owned(), vec![text.to_owned()]);
        Transcript::new(checks.map(steps).to_vec())
    }

    #[test]
    fn checks_are_counted_and_a_difference_is_shown() {
        let area = Area::parse("x", SCRIPT);
        let real = transcript([("a", "> GET /a\n1\n2\n3"), ("b", "1")]);
        let ours = transcript([("a", "> GET /a\n1\nx\n3"), ("b", "2")]);
        let outcome = compare(&area, &real, &ours, true);
        assert_eq!((outcome.checks, outcome.equal, outcome.accepted), (2, 0, 1));
        assert_eq!(outcome.differences, ["x: a\n  step 1: > GET /a\n  - 2\n  + x"]);
        assert_eq!(compare(&area, &real, &real, false).equal, 2);
    }

    #[test]
    fn stale_differs_marks_and_unrecorded_checks_fail() {
        let area = Area::parse("x", SCRIPT);
        let real = transcript([("b", "1"), ("c", "1")]);
        let ours = transcript([("a", "1"), ("b", "1")]);
        let different = compare(&area, &real, &ours, true).differences;
        assert_eq!(
            different,
            ["x: a: not recorded", "x: b: is equal now: take its `differs` away"]
        );
    }
}
