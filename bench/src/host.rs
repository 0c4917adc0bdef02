//! The only module of these commands that uses the environment, clock and terminal.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

/// The root of the checkout that this program was built from.
pub fn repo() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}

/// Returns the path of a program in the folder of this one.
pub(crate) fn sibling_program(name: &str) -> Result<PathBuf> {
    let here = std::env::current_exe().context("where is this program?")?;
    let path = here.with_file_name(name);
    ensure!(path.exists(), "no {} (`cargo xtask` builds it)", path.display());
    Ok(path)
}

/// How many things to do at once.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[expect(clippy::disallowed_methods, reason = "this is the module that wraps the clock")]
pub(crate) fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

#[expect(clippy::disallowed_methods, reason = "this is the module that wraps the clock")]
pub(crate) async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// The date, in UTC.
pub(crate) fn today() -> String {
    now().strftime("%Y-%m-%d").to_string()
}

/// Prints one line of progress to stderr; a closed stderr is no error.
pub fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Text that is the result, on stdout.
pub fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
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
