//! The clusters whose consolidation pass is measured.

use crate::generate::{Profile, Recipe, Types};

/// One cluster to decide about.
#[derive(Debug)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    profile: Profile,
    nodes: usize,
    /// Whether upstream is measured, too. Where it does not come to an end it is not.
    pub(super) upstream: bool,
}

impl Workload {
    pub(super) fn recipe(&self) -> Recipe {
        let Self { profile, nodes, .. } = *self;
        Recipe { profile, types: Types::Kwok, pods: 0, nodes, seed: 42, features: None }
    }
}

const fn consolidate_workload(name: &'static str, nodes: usize) -> Workload {
    Workload { name, profile: Profile::Consolidate, nodes, upstream: true }
}

/// Everything, the quick ones first.
pub(super) const WORKLOADS: &[Workload] = &[
    consolidate_workload("consolidate-60", 60),
    consolidate_workload("consolidate-200", 200),
    consolidate_workload("consolidate-500", 500),
    consolidate_workload("consolidate-2000", 2000),
    Workload { name: "packed-500", profile: Profile::Packed, nodes: 500, upstream: true },
    // About 103,000 pods.
    Workload { name: "packed-5000", profile: Profile::Packed, nodes: 5000, upstream: false },
];
