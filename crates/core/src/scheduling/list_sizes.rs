//! Where a solve cuts its lists.

/// How long parts of lists are. Only tests choose: small ones, so that small worlds cross every
/// border.
#[derive(Clone, Copy, Debug)]
pub struct ListSizes {
    /// Existing nodes that share one bound of what is left. Does not change what is decided.
    pub nodes_per_block: usize,
    /// In-flight NodeClaims that share one. Does not change what is decided.
    pub claims_per_run: usize,
    /// How many instance types a NodeClaim lists at most (spec 20 §3.24).
    pub listed_types: usize,
}

impl Default for ListSizes {
    fn default() -> Self {
        Self { nodes_per_block: 32, claims_per_run: 64, listed_types: 600 }
    }
}
