//! The only module of these commands that uses the environment, clock and terminal.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// An environment variable, where empty counts as unset.
pub fn var(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the variables that cargo sets about the program's own package.
pub(crate) fn package_variables() -> impl Iterator<Item = OsString> {
    std::env::vars_os().map(|(name, _)| name).filter(|name| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    })
}

/// Whether this is an unattended run, where a skipped check would go unseen.
pub fn is_ci() -> bool {
    var("CI").is_some()
}

/// The root of the checkout that this program was built from.
pub fn repo() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}

/// Where things that are built once and used by every checkout are kept.
pub fn cache_dir() -> anyhow::Result<PathBuf> {
    if let Some(dir) = var("KARPENTER_RS_CACHE") {
        return Ok(dir.into());
    }
    let base = var("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| var("HOME").map(|home| Path::new(&home).join(".cache")));
    match base {
        Some(base) => Ok(base.join("karpenter-rs")),
        None => anyhow::bail!("no place for built tools: set KARPENTER_RS_CACHE to a directory"),
    }
}

/// Prints one line of progress to stderr.
///
/// Not `eprintln!`: the test runner hides that until a test fails, and a build that takes minutes
/// has to show why. A closed stderr is no reason to stop.
pub fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// One line of data, on stdout.
pub fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Bytes of another program's output, on stdout as they came.
pub(crate) fn relay(bytes: &[u8]) {
    let _ = std::io::stdout().write_all(bytes);
}

/// Measures how long something took.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "this is the module that wraps the clock")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
