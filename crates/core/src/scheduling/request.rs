//! What a solve is asked.

use std::collections::BTreeSet;

use super::Options;
use crate::catalog::Catalog;
use crate::id::{NodeId, PodId};
use crate::snapshot::Snapshot;

/// A question to `solve`: where do these pods go?
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The cluster.
    pub snapshot: &'a Snapshot,
    /// What can be launched.
    pub catalog: &'a Catalog,
    /// The pods to place, in any order. Bound ones are taken as if they were not where they are, and
    /// ids that point nowhere are left out.
    pub pods: &'a [PodId],
    /// Nodes that are treated as gone, beside those that are deleting: a view without copying.
    pub excluded_nodes: &'a BTreeSet<NodeId>,
    /// Switches.
    pub options: &'a Options,
}
