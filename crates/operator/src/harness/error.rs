//! An error from a reconcile, with context and log fields.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use crate::cloud::BoxError;

/// An error with the operation that failed, and fields for logs.
///
/// As text it is `doing, what happened (key=value, …)`, as upstream writes it.
#[derive(Debug)]
pub struct ReconcileError {
    operation: Option<String>,
    source: BoxError,
    fields: BTreeMap<&'static str, String>,
}

impl ReconcileError {
    /// Wraps an error without context.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self { operation: None, source: error.into(), fields: BTreeMap::new() }
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

    /// Several as one: `a; b`. None if there is none.
    pub fn join(errors: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut errors = errors.into_iter();
        let first = errors.next()?;
        let rest: Vec<_> = errors.map(|error| error.to_string()).collect();
        if rest.is_empty() {
            return Some(first);
        }
        Some(Self::new(format!("{first}; {}", rest.join("; "))))
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
}
