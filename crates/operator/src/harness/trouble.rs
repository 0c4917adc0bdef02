//! Why a reconcile did not work.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use crate::cloud::BoxError;

/// An error with what was being done, and values that logs show as fields.
///
/// As text it is `doing, what happened (key=value, …)`, as upstream writes it.
#[derive(Debug)]
pub struct Trouble {
    doing: Option<String>,
    source: BoxError,
    values: BTreeMap<&'static str, String>,
}

impl Trouble {
    /// An error that says it all.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self { doing: None, source: error.into(), values: BTreeMap::new() }
    }

    /// An error that happened while something was done.
    pub fn while_(doing: impl Into<String>, error: impl Into<BoxError>) -> Self {
        Self { doing: Some(doing.into()), ..Self::new(error) }
    }

    /// Adds a value.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.values.insert(key, value.into());
        self
    }

    /// Several as one: `a; b`. None if there is none.
    pub fn join(troubles: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut troubles = troubles.into_iter();
        let first = troubles.next()?;
        let rest: Vec<_> = troubles.map(|trouble| trouble.to_string()).collect();
        if rest.is_empty() {
            return Some(first);
        }
        Some(Self::new(format!("{first}; {}", rest.join("; "))))
    }

    /// The values, by key.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(key, value)| (*key, value.as_str()))
    }

    /// The answer of the API server, if that was the error.
    pub fn status(&self) -> Option<&kube::core::Status> {
        let first: &(dyn Error + 'static) = self.source.as_ref();
        std::iter::successors(Some(first), |&error| error.source())
            .filter_map(|error| error.downcast_ref::<kube::Error>())
            .find_map(|error| match error {
                kube::Error::Api(status) => Some(status.as_ref()),
                _ => None,
            })
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(doing) = &self.doing {
            write!(f, "{doing}, ")?;
        }
        match self.source.downcast_ref::<kube::Error>() {
            // Its own text repeats the whole answer.
            Some(kube::Error::Api(status)) => f.write_str(&status.message)?,
            _ => write!(f, "{}", self.source)?,
        }
        let mut separator = " (";
        for (key, value) in &self.values {
            write!(f, "{separator}{key}={value}")?;
            separator = ", ";
        }
        if self.values.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}

impl Error for Trouble {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.source.as_ref())
    }
}

impl From<kube::Error> for Trouble {
    fn from(error: kube::Error) -> Self {
        Self::new(error)
    }
}

impl From<crate::cloud::CloudError> for Trouble {
    fn from(error: crate::cloud::CloudError) -> Self {
        Self::new(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_what_was_done_and_the_values_in_order() {
        let trouble = Trouble::while_("launching nodeclaim", "no subnet")
            .with("zone", "b")
            .with("NodeClaim", "web-1");
        let text = "launching nodeclaim, no subnet (NodeClaim=web-1, zone=b)";
        assert_eq!(trouble.to_string(), text);
        let both = Trouble::join([Trouble::new("a"), trouble]).unwrap();
        assert_eq!(both.to_string(), format!("a; {text}"));
        assert!(Trouble::join([]).is_none());
    }
}
