//! A figure that must be reached, and whether it was.

use std::fmt;
use std::process::ExitCode;

use crate::host;

/// A figure and whether it is met.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) metric: String,
    /// None where the run did not measure it.
    pub(crate) value: Option<f64>,
    pub(crate) bound: Bound,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Limit {
    pub(crate) fn is_missed(&self) -> bool {
        match (self.value, self.bound) {
            (None, _) => false,
            (Some(found), Bound::AtLeast(least)) => found < least,
            (Some(found), Bound::AtMost(most)) => found > most,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.value {
            None => "not measured",
            Some(_) if self.is_missed() => "MISSED",
            Some(_) => "reached",
        };
        let found = self.value.map_or_else(|| "–".to_owned(), |found| format!("{found:.2}"));
        match self.bound {
            Bound::AtLeast(least) => {
                write!(f, "{verdict}: {}: {found} (at least {least})", self.metric)
            }
            Bound::AtMost(most) => {
                write!(f, "{verdict}: {}: {found} (at most {most})", self.metric)
            }
        }
    }
}

/// Prints the limits; the exit code is failure if one is missed.
pub(crate) fn print_limits(limits: &[Limit]) -> ExitCode {
    for limit in limits {
        host::print(&format!("{limit}\n"));
    }
    if limits.iter().any(Limit::is_missed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
