//! Why a node is disrupted, as budgets name it.

use std::fmt;

/// Why a node is disrupted (spec 10 §2.2, spec 45 §1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Its pods fit elsewhere, or on something cheaper.
    Underutilized,
    /// It has no pods that count.
    Empty,
    /// It no longer is what its NodePool or NodeClass asks for.
    Drifted,
    /// Node repair found it broken.
    Unhealthy,
}

impl Reason {
    /// All four, in the order of the CRD's enum.
    pub const ALL: [Self; 4] = [Self::Underutilized, Self::Empty, Self::Drifted, Self::Unhealthy];

    /// The name as budgets spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Underutilized => "Underutilized",
            Self::Empty => "Empty",
            Self::Drifted => "Drifted",
            Self::Unhealthy => "Unhealthy",
        }
    }

    /// Returns the reason with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
