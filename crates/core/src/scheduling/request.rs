//! The request of one solve.

use std::collections::BTreeSet;

use super::Options;
use crate::catalog::Catalog;
use crate::id::{NodeId, PodId};
use crate::snapshot::Snapshot;

/// The input of `solve`: a snapshot, a catalog and the pods to place.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The cluster.
    pub snapshot: &'a Snapshot,
    /// The instance types that can be launched.
    pub catalog: &'a Catalog,
    /// The pods to place, in any order. Bound pods are placed as if they were unbound, and unknown
    /// ids are ignored.
    pub pods: &'a [PodId],
    /// Nodes that the solve treats as removed, besides deleting ones. The snapshot is not copied.
    pub excluded_nodes: &'a BTreeSet<NodeId>,
    /// Options of the solve.
    pub options: &'a Options,
}
