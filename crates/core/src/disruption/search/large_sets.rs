//! Finds sets of many nodes that fewer nodes can replace (spec 30 §14.4 item 3).
//!
//! One node may not replace two where four replace six, so these sets are not grown from small
//! ones: neighbours in the order of the candidates are tried together, in several sizes.

use std::collections::BTreeMap;

use super::Candidate;
use super::best::{prune_set, was_launched_recently};
use crate::disruption::allowances::Allowances;
use crate::disruption::consolidation::{Consolidation, ConsolidationMove};
use crate::scheduling::Fuel;

/// How many nodes are tried together.
const SIZES: [usize; 10] = [3, 4, 6, 8, 12, 16, 24, 32, 48, 96];
/// The most sets of each size, of a NodePool and of all NodePools.
const SETS_PER_SIZE: usize = 4;

/// Returns sets that save more together than their nodes do alone.
/// The sets may overlap; `alone` returns the saving of one node.
pub(super) fn large_sets<'c>(
    consolidation: &mut Consolidation<'_>,
    candidates: &[&'c Candidate],
    allowances: &Allowances,
    alone: &dyn Fn(&Candidate) -> f64,
    fuel: &mut Fuel<'_>,
) -> Vec<(Vec<&'c Candidate>, ConsolidationMove)> {
    let mut found = Vec::new();
    for set in adjacent_candidates(candidates, allowances) {
        if fuel.is_used_up() {
            break;
        }
        let Ok(best) = consolidation.consider(&set, fuel) else { continue };
        let (set, best) = prune_set(consolidation, set, best, alone, fuel);
        let apart: f64 = set.iter().map(|one| alone(one)).sum();
        if best.savings > apart && !was_launched_recently(consolidation.index.context, &set, &best)
        {
            found.push((set, best));
        }
    }
    found
}

/// Returns sets of adjacent candidates within the budgets.
/// Each is of one NodePool or of all NodePools.
fn adjacent_candidates<'c>(
    candidates: &[&'c Candidate],
    allowances: &Allowances,
) -> Vec<Vec<&'c Candidate>> {
    let mut groups: BTreeMap<&str, Vec<&Candidate>> = BTreeMap::new();
    for &candidate in candidates {
        groups.entry(&candidate.pool).or_default().push(candidate);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    if groups.len() > 1 {
        groups.push(candidates.to_vec());
    }
    let mut sets = Vec::new();
    for group in &groups {
        let mut smaller = SIZES[0] - 1;
        for size in SIZES {
            // One that holds the whole group is the last.
            if smaller >= group.len() {
                break;
            }
            smaller = size;
            for set in group.chunks(size).take(SETS_PER_SIZE) {
                let mut left = allowances.clone();
                let within = set.iter().filter(|one| left.reserve(&one.pool)).copied();
                sets.push(within.collect::<Vec<_>>());
            }
        }
    }
    sets.retain(|set| set.len() >= SIZES[0]);
    sets
}
