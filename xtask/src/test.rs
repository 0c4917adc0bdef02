//! `cargo xtask test`: every check, in one order, each timed.
//!
//! The steps are the table in [`Step::action`]; this module runs them, skips those that cannot run
//! here, and prints at the end how long each took.

mod slow_tests;

use std::time::Duration;

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::host::{self, Stopwatch};
use crate::tools::Toolbox;
use crate::{codegen, process, spec, tidy};

use self::slow_tests::SlowTests;

/// A check that can be run alone. The order here is the order in which they run: the quick ones
/// that fail most often first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    /// Formatting
    Fmt,
    /// Names, head comments, words and Markdown lines
    Tidy,
    /// Citations of the specification, and the list of its cases without a test
    Spec,
    /// Lints
    Clippy,
    /// Generated files are up to date
    Codegen,
    /// Tests of the workspace, but for the end-to-end ones
    Test,
    /// Documentation builds, and its links lead somewhere
    Doc,
    /// Licences, sources and duplicates of dependencies (needs cargo-deny)
    Deny,
    /// Builds the programs that the end-to-end tests start (needs Go the first time)
    Tools,
    /// End-to-end tests on a real control plane (need Go the first time)
    E2e,
}

/// The action of a step.
enum StepAction {
    /// A cargo command. What resolves dependencies does so `--locked`: a stale `Cargo.lock` is a
    /// failure, and not rewritten in passing.
    Cargo(&'static [&'static str]),
    /// A cargo command that runs tests.
    Tests(&'static [&'static str]),
    /// A Rust function.
    Function(fn() -> Result<()>),
}

/// Why a step cannot run here.
struct Unavailable {
    reason: String,
    /// Neither users nor CI need it.
    optional: bool,
}

enum StepOutcome {
    Passed(Duration),
    Failed(Duration),
    Skipped,
}

impl Step {
    #[rustfmt::skip]
    fn action(self) -> StepAction {
        match self {
            // Only the names of the files: the cure is always the same.
            Self::Fmt => StepAction::Cargo(&["fmt", "--all", "--check", "--", "-l"]),
            Self::Tidy => StepAction::Function(|| tidy::run(false)),
            Self::Spec => StepAction::Function(|| spec::run(None)),
            Self::Clippy => StepAction::Cargo(&[
                "clippy", "--locked", "--workspace", "--all-targets", "--no-default-features", "--", "-D", "warnings",
            ]),
            Self::Codegen => StepAction::Function(codegen::check),
            Self::Test => StepAction::Tests(&[
                "test", "--locked", "--workspace", "--no-default-features", "--exclude", "karpenter-e2e",
            ]),
            Self::Doc => StepAction::Cargo(&["doc", "--locked", "--workspace", "--no-deps", "--no-default-features"]),
            // Not its advisories: a new one must not fail an unrelated change.
            Self::Deny => StepAction::Cargo(&["deny", "check", "bans", "licenses", "sources"]),
            Self::Tools => StepAction::Function(build_tools),
            Self::E2e => StepAction::Tests(&["test", "--locked", "-p", "karpenter-e2e"]),
        }
    }

    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    fn unavailable(self) -> Option<Unavailable> {
        match self {
            Self::Fmt => unavailable_cargo("fmt", "install it with `rustup component add rustfmt`"),
            Self::Clippy => {
                unavailable_cargo("clippy", "install it with `rustup component add clippy`")
            }
            Self::Deny => {
                let absent =
                    unavailable_cargo("deny", "install it with `cargo install cargo-deny`")?;
                Some(Unavailable { optional: true, ..absent })
            }
            Self::Tools | Self::E2e => {
                let error = Toolbox::from_env().and_then(|tools| tools.check_can_build()).err()?;
                Some(Unavailable { reason: format!("{error:#}"), optional: false })
            }
            Self::Tidy | Self::Spec | Self::Codegen | Self::Test | Self::Doc => None,
        }
    }

    fn run(self, slow: &mut SlowTests) -> Result<()> {
        match self.action() {
            StepAction::Function(step) => step(),
            StepAction::Cargo(args) => {
                let mut command = process::cargo(args);
                if self == Self::Doc {
                    command.env("RUSTDOCFLAGS", "-D warnings");
                }
                process::run(command)
            }
            StepAction::Tests(args) => {
                process::relay(process::cargo(args), |line| slow.read_line(line))
            }
        }
    }
}

/// Runs the steps in `only` (all, if empty) but those in `skip`.
pub(crate) fn run(only: &[Step], skip: &[Step]) -> Result<()> {
    let total = Stopwatch::start();
    let steps: Vec<_> =
        selected_steps(only, skip).into_iter().map(|step| (step, step.unavailable())).collect();
    // Before the first step: the last one is minutes away.
    check_all_can_run(&steps, only, host::is_ci())?;
    let mut outcomes = Vec::new();
    let mut slow = SlowTests::default();
    let mut result = Ok(());
    for (step, absent) in steps {
        if let Some(Unavailable { reason: why, .. }) = absent {
            host::note(&format!("== {}: skipped: {why}", step.name()));
            outcomes.push((step, StepOutcome::Skipped));
            continue;
        }
        result = run_step(step, &mut slow, &mut outcomes);
        if result.is_err() {
            break;
        }
    }
    for line in slow.report() {
        host::note(&line);
    }
    if only.len() != 1 {
        host::note(&result_table(&outcomes, total.elapsed()));
    }
    result
}

fn selected_steps(only: &[Step], skip: &[Step]) -> Vec<Step> {
    let skipped = |step| skip.contains(&step) || (step == Step::Tools && skip.contains(&Step::E2e));
    let selected = |step| only.is_empty() || only.contains(&step);
    Step::value_variants()
        .iter()
        .copied()
        .filter(|step| selected(*step) && !skipped(*step))
        .collect()
}

/// Fails if a selected step cannot run, or one that CI must not skip.
fn check_all_can_run(steps: &[(Step, Option<Unavailable>)], only: &[Step], ci: bool) -> Result<()> {
    for (step, absent) in steps {
        if let Some(Unavailable { reason: why, optional }) = absent
            && (only.contains(step) || (ci && !optional))
        {
            bail!("step `{}` cannot run: {why}", step.name());
        }
    }
    Ok(())
}

fn run_step(
    step: Step,
    slow: &mut SlowTests,
    outcomes: &mut Vec<(Step, StepOutcome)>,
) -> Result<()> {
    let name = step.name();
    host::note(&format!("== {name}"));
    let watch = Stopwatch::start();
    let result = step.run(slow);
    let took = watch.elapsed();
    outcomes
        .push((step, if result.is_ok() { StepOutcome::Passed } else { StepOutcome::Failed }(took)));
    let cure = if step == Step::Fmt { "cure: `cargo fmt --all`; " } else { "" };
    result.map_err(|error| {
        let again = format!("{cure}again: `cargo xtask test --only {name}`");
        error.context(format!("step `{name}` failed ({again})"))
    })
}

fn build_tools() -> Result<()> {
    Toolbox::from_env()?.ensure_all().map(drop)
}

fn unavailable_cargo(subcommand: &str, fix: &str) -> Option<Unavailable> {
    if process::succeeds(process::cargo(&[subcommand, "--version"])) {
        return None;
    }
    Some(Unavailable {
        reason: format!("there is no `cargo {subcommand}`; {fix}"),
        optional: false,
    })
}

/// Formats one line per step, and the total.
fn result_table(outcomes: &[(Step, StepOutcome)], total: Duration) -> String {
    let row = |name: &str, took: Duration, remark: &str| {
        format!("{name:<8} {:>7.1} s{remark}", took.as_secs_f64())
    };
    let mut lines = vec![String::new()];
    for (step, outcome) in outcomes {
        lines.push(match outcome {
            StepOutcome::Passed(took) => row(&step.name(), *took, ""),
            StepOutcome::Failed(took) => row(&step.name(), *took, "  FAILED"),
            StepOutcome::Skipped => row(&step.name(), Duration::ZERO, "  skipped"),
        });
    }
    lines.push(row("total", total, ""));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::{
        Duration, Step, StepOutcome, Unavailable, check_all_can_run, result_table, selected_steps,
    };

    #[test]
    fn selected_steps_run_in_order_and_tools_only_with_e2e() {
        use Step::{Clippy, Codegen, Deny, Doc, E2e, Fmt, Spec, Test, Tidy, Tools};
        assert_eq!(
            selected_steps(&[], &[]),
            [Fmt, Tidy, Spec, Clippy, Codegen, Test, Doc, Deny, Tools, E2e]
        );
        assert_eq!(selected_steps(&[Test, Fmt], &[]), [Fmt, Test]);
        assert_eq!(
            selected_steps(&[], &[E2e, Doc, Deny]),
            [Fmt, Tidy, Spec, Clippy, Codegen, Test]
        );
        assert_eq!(selected_steps(&[Tools], &[]), [Tools]);
    }

    #[test]
    fn an_unavailable_step_fails_if_selected_or_in_ci() {
        let absent = |optional| Some(Unavailable { reason: "no".to_owned(), optional });
        let (fmt, deny, e2e) =
            ((Step::Fmt, None), (Step::Deny, absent(true)), (Step::E2e, absent(false)));
        let steps = [fmt, deny, e2e];
        let cases: [(&[Step], bool, Option<&str>); 4] = [
            (&[], false, None),
            (&[], true, Some("step `e2e` cannot run: no")),
            (&[Step::Deny], false, Some("step `deny` cannot run: no")),
            (&[Step::Fmt], false, None),
        ];
        for (only, ci, expected) in cases {
            let error = check_all_can_run(&steps, only, ci).err().map(|error| error.to_string());
            assert_eq!(error.as_deref(), expected, "{only:?}, CI {ci}");
        }
    }

    #[test]
    fn the_result_table_marks_skipped_and_failed_steps() {
        let outcomes = [
            (Step::Fmt, StepOutcome::Passed(Duration::from_millis(740))),
            (Step::Deny, StepOutcome::Skipped),
            (Step::E2e, StepOutcome::Failed(Duration::from_secs(1203))),
        ];
        assert_eq!(
            result_table(&outcomes, Duration::from_secs(1204)),
            "
fmt          0.7 s
deny         0.0 s  skipped
e2e       1203.0 s  FAILED
total     1204.0 s"
        );
    }
}
