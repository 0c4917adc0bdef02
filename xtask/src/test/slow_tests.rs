//! Finds slow test binaries in the output of `cargo test`.
//!
//! Binaries, not single tests: the time of each test is only known to a nightly test runner.

use std::time::Duration;

/// The longest time of a test binary that is not reported.
const SLOW_AFTER: Duration = Duration::from_secs(1);

/// Collects slow test binaries from the output of `cargo test`.
#[derive(Debug, Default)]
pub(super) struct SlowTests {
    running_binary: String,
    slow_binaries: Vec<(Duration, String)>,
}

impl SlowTests {
    /// Reads one line of output.
    pub(super) fn read_line(&mut self, line: &str) {
        let line = strip_colors(line);
        let line = line.trim();
        if let Some(binary) = line.strip_prefix("Running ") {
            self.running_binary = binary_label(binary);
        } else if let Some(library) = line.strip_prefix("Doc-tests ") {
            self.running_binary = format!("{library} doc-tests");
        } else if let Some(took) = parse_duration(line)
            && took > SLOW_AFTER
        {
            self.slow_binaries.push((took, self.running_binary.clone()));
        }
    }

    /// One line per slow binary, slowest first, under a heading; nothing if all were quick.
    pub(super) fn report(mut self) -> Vec<String> {
        self.slow_binaries.sort_by_key(|(took, _)| std::cmp::Reverse(*took));
        let rows = self
            .slow_binaries
            .iter()
            .map(|(took, binary)| format!("{:>7.1} s  {binary}", took.as_secs_f64()));
        let heading = (!self.slow_binaries.is_empty())
            .then(|| format!("\ntest binaries over {} s:", SLOW_AFTER.as_secs()));
        heading.into_iter().chain(rows).collect()
    }
}

/// Returns `karpenter_api src/lib.rs` for `unittests src/lib.rs
/// (target/debug/deps/karpenter_api-0123)`.
fn binary_label(binary: &str) -> String {
    let (source, path) = binary.split_once(" (").unwrap_or((binary, ""));
    let source = source.trim_start_matches("unittests ");
    let file = path.trim_end_matches(')').rsplit('/').next().unwrap_or_default();
    let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
    format!("{name} {source}").trim().to_owned()
}

/// Parses the time at the end of `test result: ok. 3 passed; …; finished in 1.25s`.
fn parse_duration(line: &str) -> Option<Duration> {
    let (_, took) = line.strip_prefix("test result: ")?.rsplit_once("finished in ")?;
    Duration::try_from_secs_f64(took.strip_suffix('s')?.parse().ok()?).ok()
}

/// Returns the line without colours, which CI systems like to force on.
fn strip_colors(line: &str) -> String {
    let mut parts = line.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::SlowTests;

    #[test]
    fn binaries_over_a_second_are_reported_slowest_first() {
        let mut slow = SlowTests::default();
        for line in [
            "\x1b[1m\x1b[92m     Running\x1b[0m unittests src/lib.rs (target/debug/deps/karpenter_api-0af)",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.25s",
            "     Running tests/prop.rs (/elsewhere/target/debug/deps/prop-0af)",
            "test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 62.00s",
            "     Running tests/quick.rs (target/debug/deps/quick-0af)",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.25s",
            "   Doc-tests karpenter_core",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 2.00s",
        ] {
            slow.read_line(line);
        }
        assert_eq!(
            slow.report(),
            [
                "\ntest binaries over 1 s:",
                "   62.0 s  prop tests/prop.rs",
                "    2.0 s  karpenter_core doc-tests",
                "    1.2 s  karpenter_api src/lib.rs",
            ]
        );
    }

    #[test]
    fn quick_test_binaries_are_not_reported() {
        assert!(SlowTests::default().report().is_empty());
    }
}
