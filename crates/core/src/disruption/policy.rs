//! The consolidation policy of a NodePool.

use std::fmt;

/// `spec.disruption.consolidationPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConsolidationPolicy {
    /// Only those without pods.
    WhenEmpty,
    /// All that cost more than they have to.
    #[default]
    WhenEmptyOrUnderutilized,
    /// The same, but only if the saving is worth the disruption.
    Balanced,
}

impl ConsolidationPolicy {
    /// All three.
    pub const ALL: [Self; 3] = [Self::WhenEmpty, Self::WhenEmptyOrUnderutilized, Self::Balanced];

    /// The name as NodePools spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::WhenEmpty => "WhenEmpty",
            Self::WhenEmptyOrUnderutilized => "WhenEmptyOrUnderutilized",
            Self::Balanced => "Balanced",
        }
    }

    /// Returns the policy with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

impl fmt::Display for ConsolidationPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
