//! Checks which candidates emptiness and consolidation may remove (spec 30 §6.1, §6.4).

use super::Unconsolidatable;
use crate::catalog::CAPACITY_TYPE;
use crate::disruption::{Candidate, CandidateIndex, ConsolidationPolicy};
use crate::labels::ZONE;

/// Rejects candidates that multi- and single-node consolidation skip.
pub(in crate::disruption) fn check_consolidation_eligibility(
    index: &CandidateIndex<'_>,
    candidate: &Candidate,
) -> Result<(), Unconsolidatable> {
    let pool = || candidate.pool.clone();
    if candidate.is_static {
        return Err(Unconsolidatable::Static);
    }
    if candidate.instance_type.is_none() {
        let label = candidate.instance_type_label.clone();
        return Err(Unconsolidatable::UnknownInstanceType { label });
    }
    if candidate.capacity_type.is_none() {
        return Err(Unconsolidatable::MissingLabel { key: CAPACITY_TYPE });
    }
    if candidate.zone.is_none() {
        return Err(Unconsolidatable::MissingLabel { key: ZONE });
    }
    let (consolidates, policy) = consolidation_policy(index, candidate);
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
    let pods = candidate.pods.iter().map(|&pod| index.context.snapshot.pod(pod));
    match index.failed_consolidations.longest_backoff(pods) {
        Some((workload, until)) => Err(Unconsolidatable::failed_consolidation(workload, until)),
        None => Ok(()),
    }
}

/// Rejects candidates that emptiness skips.
pub(in crate::disruption) fn check_emptiness_eligibility(
    index: &CandidateIndex<'_>,
    candidate: &Candidate,
) -> Result<(), Unconsolidatable> {
    if candidate.is_static {
        return Err(Unconsolidatable::Static);
    }
    if !consolidation_policy(index, candidate).0 {
        return Err(Unconsolidatable::Disabled { pool: candidate.pool.clone() });
    }
    if index.context.buffered.contains(&candidate.provider_id) {
        return Err(Unconsolidatable::HasBufferPods { node: candidate.name.clone() });
    }
    if !candidate.is_empty() {
        return Err(Unconsolidatable::NotEmpty);
    }
    if !candidate.is_consolidatable {
        return Err(Unconsolidatable::NotConsolidatable);
    }
    Ok(())
}

/// Returns whether a candidate's NodePool consolidates, and its policy.
fn consolidation_policy(
    index: &CandidateIndex<'_>,
    candidate: &Candidate,
) -> (bool, ConsolidationPolicy) {
    let pool = index.context.snapshot.managed_pools.get(&candidate.pool);
    let consolidates = pool.is_some_and(|pool| pool.pool.consolidate_after.is_some());
    (consolidates, pool.map(|pool| pool.policy).unwrap_or_default())
}
