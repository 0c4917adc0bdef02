//! An error from a reconcile, with context and log fields.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use crate::cloud::BoxError;

/// An error with the operation that failed, and fields for logs.
///
/// As text it is `doing, what happened (key=value, …)`, as upstream writes it.
///
/// A terminal error is one that a retry cannot repair, for example an invalid field of the
/// reconciled object. The harness logs and counts it, and reconciles the object again when the
/// object changes.
#[derive(Debug)]
pub struct ReconcileError {
    operation: Option<String>,
    source: BoxError,
    fields: BTreeMap<&'static str, String>,
    is_terminal: bool,
}

/// The text of several errors.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct JoinedErrors {
    text: String,
    is_terminal: bool,
}

impl ReconcileError {
    /// Wraps an error without context.
    pub fn new(error: impl Into<BoxError>) -> Self {
        let (source, fields) = (error.into(), BTreeMap::new());
        Self { operation: None, source, fields, is_terminal: false }
    }

    /// Wraps an error that the harness does not retry until the object changes.
    ///
    /// The text is `terminal error: what happened`, as in controller-runtime.
    pub fn terminal(error: impl Into<BoxError>) -> Self {
        Self { is_terminal: true, ..Self::new(error) }
    }

    /// Wraps an error with the operation that failed.
    pub fn with_context(doing: impl Into<String>, error: impl Into<BoxError>) -> Self {
        Self { operation: Some(doing.into()), ..Self::new(error) }
    }

    /// Adds a log field.
    #[must_use]
    pub fn with_field(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.fields.insert(key, value.into());
        self
    }

    /// Joins several errors to one: `a; b`. None if there is none.
    ///
    /// The result is terminal if one of the errors is.
    pub fn join(errors: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut errors: Vec<_> = errors.into_iter().collect();
        if errors.len() < 2 {
            return errors.pop();
        }
        let is_terminal = errors.iter().any(Self::is_terminal);
        let texts: Vec<_> = errors.iter().map(Self::to_string).collect();
        Some(Self::new(JoinedErrors { text: texts.join("; "), is_terminal }))
    }

    /// Whether this error, or one that it wraps, is terminal.
    pub fn is_terminal(&self) -> bool {
        let first: &(dyn Error + 'static) = self;
        std::iter::successors(Some(first), |&error| error.source()).any(|error| {
            let own = error.downcast_ref::<Self>().map(|error| error.is_terminal);
            let joined = error.downcast_ref::<JoinedErrors>().map(|error| error.is_terminal);
            own.or(joined).unwrap_or(false)
        })
    }

    /// Returns the log fields by key.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.fields.iter().map(|(key, value)| (*key, value.as_str()))
    }

    /// Returns the API server's status, if the error is from it.
    pub fn api_status(&self) -> Option<&kube::core::Status> {
        let first: &(dyn Error + 'static) = self.source.as_ref();
        std::iter::successors(Some(first), |&error| error.source())
            .filter_map(|error| error.downcast_ref::<kube::Error>())
            .find_map(|error| match error {
                kube::Error::Api(status) => Some(status.as_ref()),
                _ => None,
            })
    }
}

impl fmt::Display for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(doing) = &self.operation {
            write!(f, "{doing}, ")?;
        }
        if self.is_terminal {
            f.write_str("terminal error: ")?;
        }
        match self.source.downcast_ref::<kube::Error>() {
            // Its own text repeats the whole answer.
            Some(kube::Error::Api(status)) => f.write_str(&status.message)?,
            _ => write!(f, "{}", self.source)?,
        }
        let mut separator = " (";
        for (key, value) in &self.fields {
            write!(f, "{separator}{key}={value}")?;
            separator = ", ";
        }
        if self.fields.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}

impl Error for ReconcileError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.source.as_ref())
    }
}

impl From<kube::Error> for ReconcileError {
    fn from(error: kube::Error) -> Self {
        Self::new(error)
    }
}

impl From<crate::cloud::CloudError> for ReconcileError {
    fn from(error: crate::cloud::CloudError) -> Self {
        Self::new(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_message_has_its_operation_and_sorted_fields() {
        let error = ReconcileError::with_context("launching nodeclaim", "no subnet")
            .with_field("zone", "b")
            .with_field("NodeClaim", "web-1");
        let text = "launching nodeclaim, no subnet (NodeClaim=web-1, zone=b)";
        assert_eq!(error.to_string(), text);
        let both = ReconcileError::join([ReconcileError::new("a"), error]).unwrap();
        assert_eq!(both.to_string(), format!("a; {text}"));
        assert!(ReconcileError::join([]).is_none());
    }

    #[test]
    fn an_error_is_terminal_if_any_of_its_causes_is() {
        let terminal = || ReconcileError::terminal("invalid tags");
        assert_eq!(terminal().to_string(), "terminal error: invalid tags");
        let outer = ReconcileError::with_context("reconciling nodeclass", terminal());
        assert_eq!(outer.to_string(), "reconciling nodeclass, terminal error: invalid tags");
        let joined = ReconcileError::join([ReconcileError::new("throttled"), terminal()]).unwrap();
        assert_eq!(joined.to_string(), "throttled; terminal error: invalid tags");
        let rejoined = ReconcileError::join([joined, ReconcileError::new("a")]).unwrap();
        assert!(outer.is_terminal() && rejoined.is_terminal(), "50 §2.1 step 5");
        let others = [ReconcileError::new("a"), ReconcileError::new("b")];
        assert!(!ReconcileError::join(others).unwrap().is_terminal());
    }
}
