//! One node for one at most: the first that works (spec 30 §6.7).

use std::collections::{BTreeMap, BTreeSet};

use super::{Consolidation, Unconsolidatable};
use crate::disruption::allowances::Allowances;
use crate::disruption::{Candidate, Command, Method};
use crate::id::NodeId;
use crate::scheduling::Fuel;

/// What came of the walk.
#[derive(Debug, Default)]
pub(in crate::disruption) struct SingleNodeResult {
    pub(in crate::disruption) command: Option<Command>,
    /// Why the nodes stay that were looked at.
    pub(in crate::disruption) reasons: BTreeMap<NodeId, Unconsolidatable>,
    /// Whether a budget held some back.
    pub(in crate::disruption) is_constrained: bool,
    /// The NodePools that it did not come to before the time was over; none if it was not.
    pub(in crate::disruption) unseen_pools: Option<BTreeSet<String>>,
}

/// The best of each NodePool, then the second best and so on, where pools that the last walk did not
/// come to are first. Expects them sorted.
pub(in crate::disruption) fn interleave_by_pool<'c>(
    candidates: &[&'c Candidate],
    unseen: &BTreeSet<String>,
) -> Vec<&'c Candidate> {
    let mut by_pool: BTreeMap<(bool, &str), Vec<&Candidate>> = BTreeMap::new();
    for candidate in candidates {
        let was_seen = !unseen.contains(&candidate.pool);
        by_pool.entry((was_seen, &candidate.pool)).or_default().push(candidate);
    }
    let longest = by_pool.values().map(Vec::len).max().unwrap_or(0);
    (0..longest)
        .flat_map(|rank| by_pool.values().filter_map(move |of_pool| of_pool.get(rank).copied()))
        .collect()
}

/// Walks over candidates that are interleaved.
pub(in crate::disruption) fn search(
    consolidation: &mut Consolidation<'_>,
    candidates: &[&Candidate],
    allowances: &Allowances,
    fuel: &mut Fuel<'_>,
) -> SingleNodeResult {
    let mut found = SingleNodeResult::default();
    let mut unseen: BTreeSet<String> = candidates.iter().map(|one| one.pool.clone()).collect();
    for candidate in candidates {
        if !fuel.may_continue() {
            found.unseen_pools = Some(unseen);
            return found;
        }
        unseen.remove(&candidate.pool);
        let pool = candidate.pool.clone();
        let result = if allowances.remaining(&pool) == 0 {
            found.is_constrained = true;
            Err(Unconsolidatable::Budget { pool })
        } else if may_be_approved(consolidation, candidate) {
            consolidation.consider(&[candidate], &mut Fuel::unlimited())
        } else {
            let score =
                consolidation.totals().score(&pool, candidate.price, candidate.reschedule_cost);
            Err(Unconsolidatable::ScoreTooLow { scores: vec![score] })
        };
        match result {
            Ok(moved) => {
                let command = Consolidation::command(Method::SingleNode, &[candidate], moved);
                found.command = Some(command);
                return found;
            }
            Err(reason) => {
                found.reasons.insert(candidate.node, reason);
            }
        }
    }
    found
}

/// Whether the mere removal of the node would be worth it.
fn may_be_approved(consolidation: &mut Consolidation<'_>, candidate: &Candidate) -> bool {
    let index = consolidation.index;
    consolidation.totals().may_be_approved(index, candidate, candidate.price)
}
