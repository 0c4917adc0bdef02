//! Which candidates emptiness and consolidation look at (spec 30 §6.1, §6.4).

use super::Unconsolidatable;
use crate::catalog::CAPACITY_TYPE;
use crate::disruption::{Board, Candidate, ConsolidationPolicy};
use crate::labels::ZONE;

/// Whether multi- and single-node consolidation look at a candidate.
pub(in crate::disruption) fn is_eligible(
    board: &Board<'_>,
    candidate: &Candidate,
) -> Result<(), Unconsolidatable> {
    let pool = || candidate.pool.clone();
    if candidate.is_static {
        return Err(Unconsolidatable::Static);
    }
    if candidate.instance_type.is_none() {
        let label = candidate.instance_type_label.clone();
        return Err(Unconsolidatable::UnknownType { label });
    }
    if candidate.capacity_type.is_none() {
        return Err(Unconsolidatable::NoLabel { key: CAPACITY_TYPE });
    }
    if candidate.zone.is_none() {
        return Err(Unconsolidatable::NoLabel { key: ZONE });
    }
    let (consolidates, policy) = disruption_of(board, candidate);
    if !consolidates {
        return Err(Unconsolidatable::Disabled { pool: pool() });
    }
    if candidate.is_empty() {
        return Err(Unconsolidatable::Empty);
    }
    if policy == ConsolidationPolicy::WhenEmpty {
        return Err(Unconsolidatable::WhenEmpty { pool: pool() });
    }
    if !candidate.is_consolidatable {
        return Err(Unconsolidatable::NotConsolidatable);
    }
    let pods = candidate.pods.iter().map(|&pod| board.world.snapshot.pod(pod));
    match board.relapses.last(pods) {
        Some((workload, until)) => Err(Unconsolidatable::relapsed(workload, until)),
        None => Ok(()),
    }
}

/// Whether emptiness looks at a candidate.
pub(in crate::disruption) fn is_eligible_empty(
    board: &Board<'_>,
    candidate: &Candidate,
) -> Result<(), Unconsolidatable> {
    if candidate.is_static {
        return Err(Unconsolidatable::Static);
    }
    if !disruption_of(board, candidate).0 {
        return Err(Unconsolidatable::Disabled { pool: candidate.pool.clone() });
    }
    if board.world.buffered.contains(&candidate.provider_id) {
        return Err(Unconsolidatable::Buffered { node: candidate.name.clone() });
    }
    if !candidate.is_empty() {
        return Err(Unconsolidatable::NotEmpty);
    }
    if !candidate.is_consolidatable {
        return Err(Unconsolidatable::NotConsolidatable);
    }
    Ok(())
}

/// Whether the NodePool of a candidate consolidates, and how.
fn disruption_of(board: &Board<'_>, candidate: &Candidate) -> (bool, ConsolidationPolicy) {
    let pool = board.world.snapshot.managed_pools.get(&candidate.pool);
    let consolidates = pool.is_some_and(|pool| pool.pool.consolidate_after.is_some());
    (consolidates, pool.map(|pool| pool.policy).unwrap_or_default())
}
