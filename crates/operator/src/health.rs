//! The HTTP endpoints: probes on one port, metrics on another (spec 40 §7.5).
//!
//! ```text
//! health port     /healthz /readyz            ok, or 500 with the failed checks
//!                 /healthz/<name> /readyz/<name>   one check alone; ?verbose shows all
//! metrics port    /metrics                    Prometheus' text format
//!                 /debug/pprof/profile heap   with --enable-profiling: how to get them
//! ```
//!
//! Probes have a thread of their own ([`Server::run_on_thread`]) and return the last results that
//! the runtime evaluated ([`HealthChecks`]), so nothing blocks them, and they fail if the runtime
//! hangs. Metrics are written where decisions are made. Connections are bounded in number and time.

use std::fmt::Write as _;

use http::{Method, StatusCode};

use crate::metrics::Registry;

mod health_checks;
mod server;
#[cfg(test)]
mod tests;

pub use health_checks::HealthChecks;
pub use server::{ServeError, Server, ServerThread};

/// What a server answers about.
#[derive(Clone, Debug)]
pub enum Routes {
    /// Probes.
    Health {
        /// Whether the process should go on.
        healthz: HealthChecks,
        /// Whether it can do its work.
        readyz: HealthChecks,
    },
    /// Metrics.
    Metrics {
        /// What to show.
        registry: Registry,
        /// Whether /debug/pprof is there.
        profiling: bool,
    },
}

/// A plain text response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainResponse {
    /// The status.
    pub status: StatusCode,
    /// The body.
    pub body: String,
}

impl PlainResponse {
    fn ok(body: impl Into<String>) -> Self {
        Self { status: StatusCode::OK, body: body.into() }
    }

    fn not_found() -> Self {
        Self { status: StatusCode::NOT_FOUND, body: "404 page not found\n".to_owned() }
    }

    /// Returns the response of a handler that panicked.
    fn internal_error() -> Self {
        server_error("internal server error: a bug; see the log\n".to_owned())
    }
}

impl Routes {
    /// Returns the response to a request.
    pub fn respond(&self, method: &Method, path: &str, query: &str) -> PlainResponse {
        if method != Method::GET && method != Method::HEAD {
            let body = "only GET is allowed\n".to_owned();
            return PlainResponse { status: StatusCode::METHOD_NOT_ALLOWED, body };
        }
        match self {
            Self::Health { healthz, readyz } => {
                let probe = |root: &str, checks: &HealthChecks| {
                    let rest = path.strip_prefix(root)?;
                    let is_root = rest.is_empty() || rest.starts_with('/');
                    is_root.then(|| probe(checks, rest.trim_start_matches('/'), query))
                };
                probe("/healthz", healthz)
                    .or_else(|| probe("/readyz", readyz))
                    .unwrap_or_else(PlainResponse::not_found)
            }
            Self::Metrics { registry, profiling } => match path {
                "/metrics" => PlainResponse::ok(registry.text()),
                "/debug/pprof/profile" if *profiling => {
                    not_implemented("a CPU profile", &profile_hint())
                }
                "/debug/pprof/heap" if *profiling => {
                    not_implemented("a heap profile", &heap_hint())
                }
                _ => PlainResponse::not_found(),
            },
        }
    }
}

/// One check, or all of them when no name is given.
fn probe(checks: &HealthChecks, name: &str, query: &str) -> PlainResponse {
    let mut results = checks.results();
    if !name.is_empty() {
        return match results.get(name) {
            None => PlainResponse::not_found(),
            Some(Ok(())) => PlainResponse::ok("ok"),
            Some(Err(why)) => server_error(format!("internal server error: {why}\n")),
        };
    }
    let parameters = || query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let is_verbose = parameters().any(|(key, _)| key == "verbose");
    for (_, excluded) in parameters().filter(|(key, _)| *key == "exclude") {
        results.remove(excluded);
    }
    let is_well = results.values().all(Result::is_ok);
    let mut lines = String::new();
    for (name, result) in results {
        let _ = match result {
            Ok(()) => writeln!(lines, "[+]{name} ok"),
            Err(why) => writeln!(lines, "[-]{name} failed: {why}"),
        };
    }
    match (is_well, is_verbose) {
        (true, false) => PlainResponse::ok("ok"),
        (true, true) => PlainResponse::ok(format!("{lines}healthz check passed\n")),
        (false, _) => server_error(format!("{lines}healthz check failed\n")),
    }
}

fn server_error(body: String) -> PlainResponse {
    PlainResponse { status: StatusCode::INTERNAL_SERVER_ERROR, body }
}

fn not_implemented(profile: &str, instead: &str) -> PlainResponse {
    let body = format!("This process cannot take {profile} of itself. {instead}\n");
    PlainResponse { status: StatusCode::NOT_IMPLEMENTED, body }
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
