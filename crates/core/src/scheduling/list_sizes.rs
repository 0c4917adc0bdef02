//! Sizes of the lists that a solve keeps.

/// The sizes of lists in a solve.
///
/// Only tests change them: with small sizes, small clusters cross every boundary.
#[derive(Clone, Copy, Debug)]
pub struct ListSizes {
    /// Existing nodes that share one bound of their remaining resources. No effect on decisions.
    pub nodes_per_block: usize,
    /// In-flight NodeClaims that share one such bound. No effect on decisions.
    pub claims_per_run: usize,
    /// The most instance types that a NodeClaim lists (spec 20 §3.24).
    pub listed_types: usize,
}

impl Default for ListSizes {
    fn default() -> Self {
        Self { nodes_per_block: 32, claims_per_run: 64, listed_types: 600 }
    }
}
