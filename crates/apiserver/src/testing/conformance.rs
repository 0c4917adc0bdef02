//! The conformance suite sends the same requests to this API and to a real API server.
//!
//! ```text
//! scenarios/api/<area>.yaml ── Area ── run(Target) ── Transcript ─┐
//! scenarios/api/recorded/<area>.txt ─────────────── Transcript ─┴─ compare ── table, differences
//! ```
//!
//! A script ([`script`]) is a list of checks, each a list of steps in a namespace of its own. The
//! responses become a [`Transcript`] in which everything random (uids, versions, times) has a
//! stable name ([`normalize`]). The real server's transcripts are kept as files, so that the
//! embedded API is compared without one.

pub mod compare;
mod normalize;
mod response_filter;
mod runner;
mod script;
mod transcript;
mod value_format;

use std::error::Error;
use std::future::Future;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;

pub use self::runner::run;
pub use self::script::{Area, Check};
pub use self::transcript::Transcript;

/// What a target may fail with.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The body of a response, which may be endless.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// An API to ask.
pub trait Target: Sync {
    /// Sends one request and returns as soon as there are headers.
    fn send(
        &self,
        request: Request<Bytes>,
    ) -> impl Future<Output = Result<Response<Body>, BoxError>> + Send;

    /// Waits a moment before a request is repeated.
    fn pause(&self) -> impl Future<Output = ()> + Send;
}

/// Loads the scripts of a folder, by name. An invalid script is a mistake in the test, so this
/// panics with its position.
#[track_caller]
pub fn load_areas(scripts: &Path) -> Vec<Area> {
    let entries =
        std::fs::read_dir(scripts).unwrap_or_else(|error| panic!("{}: {error}", scripts.display()));
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort_unstable();
    paths.iter().map(|path| Area::parse(&name(path), &read(path))).collect()
}

/// Returns the path of the recording of an area.
pub fn recording_path(scripts: &Path, area: &str) -> PathBuf {
    scripts.join("recorded").join(format!("{area}.txt"))
}

/// Loads the recorded responses of the real server; empty if there are none.
pub fn load_recording(scripts: &Path, area: &str) -> Transcript {
    let path = recording_path(scripts, area);
    if path.exists() { Transcript::parse(&read(&path)) } else { Transcript::default() }
}

#[track_caller]
fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn name(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}
