//! The HTTP that everybody asks: probes on one port, metrics on another (spec 40 §7.5).
//!
//! ```text
//! health port     /healthz /readyz            ok, or 500 with what is wrong
//!                 /healthz/<name> /readyz/<name>   one check alone; ?verbose shows all
//! metrics port    /metrics                    Prometheus' text format
//!                 /debug/pprof/profile heap   with --enable-profiling: how to get them
//! ```
//!
//! Checks look at what others have left for them and never wait, so an answer takes no longer than
//! a page takes to write. Connections are bounded in number and time.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError, RwLock};

use http::{Method, StatusCode};

use crate::metrics::Registry;

mod serve;
#[cfg(test)]
mod tests;

pub use serve::{ServeError, Server};

/// Says that something is well, or what is not. It must not wait.
type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Named checks, of which some may come later. Clones are handles to the same ones.
#[derive(Clone, Default)]
pub struct Checks(Arc<RwLock<BTreeMap<&'static str, Check>>>);

impl Checks {
    /// One check of this name, which is always well: somebody answers.
    pub fn new(name: &'static str) -> Self {
        let checks = Self::default();
        checks.add(name, || Ok(()));
        checks
    }

    /// Adds a check, or replaces the one of the same name.
    pub fn add(
        &self,
        name: &'static str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        let mut checks = self.0.write().unwrap_or_else(PoisonError::into_inner);
        checks.insert(name, Arc::new(check));
    }

    fn all(&self) -> BTreeMap<&'static str, Check> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.all().keys()).finish()
    }
}

/// What a server answers about.
#[derive(Clone, Debug)]
pub enum Routes {
    /// Probes.
    Health {
        /// Whether the process should go on.
        healthz: Checks,
        /// Whether it can do its work.
        readyz: Checks,
    },
    /// Metrics.
    Metrics {
        /// What to show.
        registry: Registry,
        /// Whether /debug/pprof is there.
        profiling: bool,
    },
}

/// An answer of plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The body.
    pub body: String,
}

impl Answer {
    fn ok(body: impl Into<String>) -> Self {
        Self { status: StatusCode::OK, body: body.into() }
    }

    fn not_found() -> Self {
        Self { status: StatusCode::NOT_FOUND, body: "404 page not found\n".to_owned() }
    }
}

impl Routes {
    /// The answer to a request.
    pub fn answer(&self, method: &Method, path: &str, query: &str) -> Answer {
        if method != Method::GET && method != Method::HEAD {
            let body = "only GET is allowed\n".to_owned();
            return Answer { status: StatusCode::METHOD_NOT_ALLOWED, body };
        }
        match self {
            Self::Health { healthz, readyz } => {
                let probe = |root: &str, checks: &Checks| {
                    let rest = path.strip_prefix(root)?;
                    let is_root = rest.is_empty() || rest.starts_with('/');
                    is_root.then(|| probe(checks, rest.trim_start_matches('/'), query))
                };
                probe("/healthz", healthz)
                    .or_else(|| probe("/readyz", readyz))
                    .unwrap_or_else(Answer::not_found)
            }
            Self::Metrics { registry, profiling } => match path {
                "/metrics" => Answer::ok(registry.text()),
                "/debug/pprof/profile" if *profiling => {
                    no_profiler("a CPU profile", &profile_hint())
                }
                "/debug/pprof/heap" if *profiling => no_profiler("a heap profile", &heap_hint()),
                _ => Answer::not_found(),
            },
        }
    }
}

/// One check, or all of them when no name is given.
fn probe(checks: &Checks, name: &str, query: &str) -> Answer {
    let mut checks = checks.all();
    if !name.is_empty() {
        return match checks.get(name).map(|check| check()) {
            None => Answer::not_found(),
            Some(Ok(())) => Answer::ok("ok"),
            Some(Err(why)) => failed(format!("internal server error: {why}\n")),
        };
    }
    let parameters = || query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let is_verbose = parameters().any(|(key, _)| key == "verbose");
    for (_, excluded) in parameters().filter(|(key, _)| *key == "exclude") {
        checks.remove(excluded);
    }
    let (mut lines, mut is_well) = (String::new(), true);
    for (name, check) in &checks {
        let result = check();
        is_well &= result.is_ok();
        let _ = match result {
            Ok(()) => writeln!(lines, "[+]{name} ok"),
            Err(why) => writeln!(lines, "[-]{name} failed: {why}"),
        };
    }
    match (is_well, is_verbose) {
        (true, false) => Answer::ok("ok"),
        (true, true) => Answer::ok(format!("{lines}healthz check passed\n")),
        (false, _) => failed(format!("{lines}healthz check failed\n")),
    }
}

fn failed(body: String) -> Answer {
    Answer { status: StatusCode::INTERNAL_SERVER_ERROR, body }
}

fn no_profiler(what: &str, instead: &str) -> Answer {
    let body = format!("This process cannot take {what} of itself. {instead}\n");
    Answer { status: StatusCode::NOT_IMPLEMENTED, body }
}

fn profile_hint() -> String {
    let id = std::process::id();
    format!(
        "On its node, or in a debug container that shares its processes: perf record -g -p {id} -- sleep 30"
    )
}

/// With what the kernel knows about the memory, where there is such a thing.
fn heap_hint() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lines: Vec<_> = status.lines().filter(|line| line.starts_with("Vm")).collect();
    format!(
        "Run it under heaptrack for one. What the kernel says about its memory:\n{}",
        lines.join("\n")
    )
}
