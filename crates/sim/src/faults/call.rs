//! What a call is, and what happens to it. No waiting and no API here.

use std::fmt;

use http::{Method, Request, StatusCode};
use karpenter_apiserver::status::{About, Failure};
use karpenter_operator::chance::Chance;

use super::ApiFaults;

/// What a client that is told to come back later has to wait, at least.
const RETRY_AFTER_SECONDS: u32 = 1;

/// A call, as far as faults look at it.
#[derive(Debug, Clone)]
pub(super) struct Call {
    method: Method,
    path: String,
    pub(super) is_watch: bool,
    /// Whether a watch begins at a version that the server could have forgotten.
    has_version: bool,
}

impl Call {
    pub(super) fn of<B>(request: &Request<B>) -> Self {
        let pairs = || request.uri().query().unwrap_or_default().split('&');
        let value = |key: &str| {
            pairs().filter_map(|pair| pair.split_once('=')).find(|(k, _)| *k == key).map(|(_, v)| v)
        };
        Self {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            is_watch: value("watch").is_some_and(|on| matches!(on, "true" | "1")),
            has_version: value("resourceVersion").is_some_and(|v| !matches!(v, "" | "0")),
        }
    }

    /// Whether another writer could have been faster.
    fn is_update(&self) -> bool {
        matches!(self.method, Method::PUT | Method::PATCH)
    }

    /// Group, resource and name of the object, as a Status names them.
    fn about(&self) -> About<'_> {
        let mut parts: Vec<&str> = self.path.split('/').filter(|part| !part.is_empty()).collect();
        let group = match parts.first() {
            Some(&"apis") => parts.get(1).copied().unwrap_or_default(),
            _ => "",
        };
        let prefix = if group.is_empty() { 2 } else { 3 };
        parts.drain(..prefix.min(parts.len()));
        if parts.first() == Some(&"namespaces") && parts.len() > 2 {
            parts.drain(..2);
        }
        let part = |at: usize| parts.get(at).copied().unwrap_or_default();
        About { group, kind: part(0), name: part(1) }
    }
}

/// `PATCH /api/v1/nodes/a`, with `WATCH` for watches.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.is_watch { "WATCH" } else { self.method.as_str() };
        write!(f, "{verb} {}", self.path)
    }
}

/// What happens to a call.
#[derive(Debug, Default)]
pub(super) struct Fate {
    pub(super) end: End,
    pub(super) slow: Option<Slow>,
}

#[derive(Debug, Default)]
pub(super) enum End {
    /// It is answered.
    #[default]
    Answer,
    /// It is refused, and has no effect.
    Refused(&'static str, Box<Failure>),
    /// It happens, and nobody hears of it.
    Lost,
    /// It may happen, and is given up.
    Timeout { happens: bool, by: GivenUpBy },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GivenUpBy {
    Server,
    Client,
}

/// Where a slow call is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slow {
    There,
    Back,
}

impl Fate {
    /// Draws the same numbers whatever the rates are: the fate of a call under one rate does not
    /// depend on the others.
    pub(super) fn draw(call: &Call, faults: &ApiFaults, chance: &mut Chance) -> Self {
        let mut happens = |rate| chance.happens(rate);
        let is_late = happens(faults.slow.rate);
        let is_timeout = happens(faults.timeouts);
        let is_lost = happens(faults.lost_answers);
        let is_error = happens(faults.errors);
        let is_expired = happens(faults.expired) && call.is_watch && call.has_version;
        let is_conflict = happens(faults.conflicts) && call.is_update();
        let (first, second, which) = (happens(0.5), happens(0.5), chance.range(0..3));
        let end = if is_timeout {
            let by = if second { GivenUpBy::Server } else { GivenUpBy::Client };
            End::Timeout { happens: first, by }
        } else if is_lost {
            End::Lost
        } else if is_error {
            error(which)
        } else if is_expired {
            let text = "The resourceVersion for the provided watch is too old.";
            End::Refused("410", Box::new(Failure::expired(text)))
        } else if is_conflict {
            End::Refused("409", Box::new(Failure::modified(call.about())))
        } else {
            End::Answer
        };
        let slow = is_late.then_some(if first { Slow::There } else { Slow::Back });
        Self { end, slow }
    }
}

fn error(which: u64) -> End {
    let (what, failure) = match which {
        0 => {
            let text = "Too many requests, please try again later.";
            ("429", Failure::too_many_requests(text).retry_after(RETRY_AFTER_SECONDS))
        }
        1 => {
            let code = StatusCode::INTERNAL_SERVER_ERROR;
            ("500", Failure::new(code, "InternalError", "Internal error occurred: no leader"))
        }
        _ => {
            let text = "the server is currently unable to handle the request";
            ("503", Failure::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", text))
        }
    };
    End::Refused(what, Box::new(failure))
}
