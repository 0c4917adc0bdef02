//! Describes an API call and draws its fault, without waiting or sending anything.

use std::fmt;

use http::{Method, Request, StatusCode};
use karpenter_apiserver::status::{StatusDetails, StatusError};
use karpenter_operator::rng::SeededRng;

use super::ApiFaults;

/// The seconds of Retry-After in a rejection.
const RETRY_AFTER_SECONDS: u32 = 1;

/// An API call with the fields that faults depend on.
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
    fn about(&self) -> StatusDetails<'_> {
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
        StatusDetails { group, kind: part(0), name: part(1) }
    }
}

/// `PATCH /api/v1/nodes/a`, with `WATCH` for watches.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.is_watch { "WATCH" } else { self.method.as_str() };
        write!(f, "{verb} {}", self.path)
    }
}

/// The fault drawn for one call.
#[derive(Debug, Default)]
pub(super) struct DrawnFault {
    pub(super) result: CallResult,
    pub(super) slow: Option<DelayPoint>,
}

#[derive(Debug, Default)]
pub(super) enum CallResult {
    /// The call returns its response.
    #[default]
    Respond,
    /// The call is rejected without any effect.
    Reject(&'static str, Box<StatusError>),
    /// The call takes effect, but its response is lost.
    LoseResponse,
    /// The call times out; it may have taken effect.
    Timeout { is_executed: bool, by: TimeoutSide },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeoutSide {
    Server,
    Client,
}

/// The side on which a slow call is delayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DelayPoint {
    Request,
    Response,
}

impl DrawnFault {
    /// Draws the fault of a call.
    /// It draws the same numbers whatever the rates are, so that one rate does not change the
    /// faults of the others.
    pub(super) fn draw(call: &Call, faults: &ApiFaults, rng: &mut SeededRng) -> Self {
        let mut happens = |rate| rng.random_bool(rate);
        let is_late = happens(faults.slow.rate);
        let is_timeout = happens(faults.timeouts);
        let is_lost = happens(faults.lost_answers);
        let is_error = happens(faults.errors);
        let is_expired = happens(faults.expired) && call.is_watch && call.has_version;
        let is_conflict = happens(faults.conflicts) && call.is_update();
        let (first, second, which) = (happens(0.5), happens(0.5), rng.range(0..3));
        let result = if is_timeout {
            let by = if second { TimeoutSide::Server } else { TimeoutSide::Client };
            CallResult::Timeout { is_executed: first, by }
        } else if is_lost {
            CallResult::LoseResponse
        } else if is_error {
            random_rejection(which)
        } else if is_expired {
            let text = "The resourceVersion for the provided watch is too old.";
            CallResult::Reject("410", Box::new(StatusError::expired(text)))
        } else if is_conflict {
            CallResult::Reject("409", Box::new(StatusError::modified(call.about())))
        } else {
            CallResult::Respond
        };
        let slow =
            is_late.then_some(if first { DelayPoint::Request } else { DelayPoint::Response });
        Self { result, slow }
    }
}

fn random_rejection(which: u64) -> CallResult {
    let (fault, failure) = match which {
        0 => {
            let text = "Too many requests, please try again later.";
            ("429", StatusError::too_many_requests(text).with_retry_after(RETRY_AFTER_SECONDS))
        }
        1 => {
            let code = StatusCode::INTERNAL_SERVER_ERROR;
            ("500", StatusError::new(code, "InternalError", "Internal error occurred: no leader"))
        }
        _ => {
            let text = "the server is currently unable to handle the request";
            ("503", StatusError::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", text))
        }
    };
    CallResult::Reject(fault, Box::new(failure))
}
