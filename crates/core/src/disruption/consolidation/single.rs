//! One node for one at most: the first that works (spec 30 §6.7).

use std::collections::{BTreeMap, BTreeSet};

use super::{Consolidation, Unconsolidatable};
use crate::disruption::allowances::Allowances;
use crate::disruption::{Candidate, Command, Method};
use crate::id::NodeId;
use crate::scheduling::Fuel;

/// The result of single-node consolidation.
#[derive(Debug, Default)]
pub(in crate::disruption) struct SingleNodeResult {
    pub(in crate::disruption) command: Option<Command>,
    /// Why each evaluated node is not consolidated.
    pub(in crate::disruption) reasons: BTreeMap<NodeId, Unconsolidatable>,
    /// Whether a budget held back a candidate.
    pub(in crate::disruption) is_constrained: bool,
    /// The NodePools not reached before time ran out; none if it did not.
    pub(in crate::disruption) unseen_pools: Option<BTreeSet<String>>,
}

/// Interleaves sorted candidates: the best of each NodePool, then the second best.
/// Pools that the last search did not reach come first.
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

/// Evaluates interleaved candidates until one can be removed or replaced.
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

/// Whether removing the node without a replacement would be approved.
fn may_be_approved(consolidation: &mut Consolidation<'_>, candidate: &Candidate) -> bool {
    let index = consolidation.index;
    consolidation.totals().may_be_approved(index, candidate, candidate.price)
}
