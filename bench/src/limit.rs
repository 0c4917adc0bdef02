//! A figure that must be reached, and whether it is.

use std::fmt;
use std::process::ExitCode;

use crate::host;

/// A figure and whether it is met.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) what: String,
    /// None where the run did not measure what it takes.
    pub(crate) found: Option<f64>,
    pub(crate) bound: Bound,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Limit {
    pub(crate) fn is_missed(&self) -> bool {
        match (self.found, self.bound) {
            (None, _) => false,
            (Some(found), Bound::AtLeast(least)) => found < least,
            (Some(found), Bound::AtMost(most)) => found > most,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.found {
            None => "not measured",
            Some(_) if self.is_missed() => "MISSED",
            Some(_) => "reached",
        };
        let found = self.found.map_or_else(|| "–".to_owned(), |found| format!("{found:.2}"));
        match self.bound {
            Bound::AtLeast(least) => {
                write!(f, "{verdict}: {}: {found} (at least {least})", self.what)
            }
            Bound::AtMost(most) => write!(f, "{verdict}: {}: {found} (at most {most})", self.what),
        }
    }
}

/// Prints the limits; the exit code says whether all were reached.
pub(crate) fn judge(limits: &[Limit]) -> ExitCode {
    for limit in limits {
        host::print(&format!("{limit}\n"));
    }
    if limits.iter().any(Limit::is_missed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
