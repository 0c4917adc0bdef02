//! Status errors: the `Status` of a failed request, with the reasons and messages of Kubernetes.

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::admission::{FieldError, invalid_message};

/// The reason of errors that the server sends as plain text.
pub(crate) const PLAIN_TEXT: &str = "PlainText";

/// The reason for which the API rejects a request; becomes a `Status` object.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusError {
    pub code: StatusCode,
    /// `NotFound`, `AlreadyExists`, …; empty for none.
    pub reason: &'static str,
    pub message: String,
    /// `details`, if there are any.
    pub details: Option<Box<Map<String, Value>>>,
    /// For the header `Warning`.
    pub warnings: Vec<String>,
}

/// The group, kind and name in the `details` of a status error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusDetails<'a> {
    pub group: &'a str,
    /// The plural, `pods`; for `Invalid` it is the kind, `Pod`.
    pub kind: &'a str,
    pub name: &'a str,
}

impl StatusDetails<'_> {
    fn to_map(self) -> Map<String, Value> {
        let mut details = Map::new();
        for (key, value) in [("name", self.name), ("group", self.group), ("kind", self.kind)] {
            if !value.is_empty() {
                details.insert(key.to_owned(), value.into());
            }
        }
        details
    }

    /// `pods`, `nodepools.karpenter.sh`.
    fn qualified(self) -> String {
        match self.group {
            "" => self.kind.to_owned(),
            group => format!("{}.{group}", self.kind),
        }
    }
}

impl StatusError {
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, warnings: Vec::new() }
    }

    fn with_details(mut self, about: StatusDetails<'_>) -> Self {
        self.details = Some(Box::new(about.to_map()));
        self
    }

    /// Adds one entry to `details.causes`.
    #[must_use]
    pub fn with_cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        let details = self.details.get_or_insert_default();
        let causes = details.entry("causes").or_insert_with(|| json!([]));
        let mut cause = Map::new();
        for (key, value) in [("reason", reason), ("message", message), ("field", field)] {
            if !value.is_empty() {
                cause.insert(key.to_owned(), value.into());
            }
        }
        if let Some(causes) = causes.as_array_mut() {
            causes.push(Value::Object(cause));
        }
        self
    }

    /// Sets `details.retryAfterSeconds`, which also becomes the header `Retry-After`.
    #[must_use]
    pub fn with_retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().insert("retryAfterSeconds".to_owned(), seconds.into());
        self
    }

    /// Returns the error with these warnings.
    #[must_use]
    pub fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }

    pub fn not_found(about: StatusDetails<'_>) -> Self {
        let message = format!("{} \"{}\" not found", about.qualified(), about.name);
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).with_details(about)
    }

    /// Returns the response to an unknown path.
    pub fn no_such_path() -> Self {
        let message = "the server could not find the requested resource";
        let mut failure = Self::new(StatusCode::NOT_FOUND, "NotFound", message);
        failure.details = Some(Box::default());
        failure
    }

    /// Returns the response to a path in a group that is not served: plain text without a `Status`.
    pub fn page_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, PLAIN_TEXT, "404 page not found")
    }

    pub fn already_exists(about: StatusDetails<'_>) -> Self {
        let message = format!("{} \"{}\" already exists", about.qualified(), about.name);
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).with_details(about)
    }

    pub fn conflict(about: StatusDetails<'_>, why: &str) -> Self {
        let (kind, name) = (about.qualified(), about.name);
        let message = format!("Operation cannot be fulfilled on {kind} \"{name}\": {why}");
        Self::new(StatusCode::CONFLICT, "Conflict", message).with_details(about)
    }

    /// Returns the conflict for a client that has read an older version of the object.
    pub fn modified(about: StatusDetails<'_>) -> Self {
        let why = "the object has been modified; please apply your changes to the latest \
                   version and try again";
        Self::conflict(about, why)
    }

    pub fn invalid(about: StatusDetails<'_>, errors: &[FieldError]) -> Self {
        let message = invalid_message(&about.qualified(), about.name, errors);
        let mut failure =
            Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).with_details(about);
        for error in errors {
            failure = failure.with_cause(error.kind.reason(), &error.cause_message(), &error.path);
        }
        failure
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub fn forbidden(about: StatusDetails<'_>, why: &str) -> Self {
        let message = match about.name {
            "" => format!("{} is forbidden: {why}", about.qualified()),
            name => format!("{} \"{name}\" is forbidden: {why}", about.qualified()),
        };
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).with_details(about)
    }

    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        let mut failure = Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message);
        failure.details = Some(Box::default());
        failure
    }

    /// What this server cannot do, and never will.
    pub fn not_implemented(about: StatusDetails<'_>, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message).with_details(about)
    }

    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// Returns the error for a list or watch from a compacted version.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    pub fn too_many_requests(message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
    }

    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// A bug of ours.
    pub fn panicked() -> Self {
        let message = "This request caused apiserver to panic. Look in the logs for details.";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// The object that the client gets.
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            status["details"] = Value::Object((**details).clone());
        }
        status["code"] = self.code.as_u16().into();
        status
    }
}
