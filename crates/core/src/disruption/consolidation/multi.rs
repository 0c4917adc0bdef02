//! Several nodes for one at most: the longest prefix of the candidates that works, found by halving
//! as upstream does (spec 30 §6.6).

use super::{Consolidation, ConsolidationMove, Unconsolidatable};
use crate::disruption::{Candidate, Command, Method};
use crate::scheduling::Fuel;

/// The most nodes of one command, less one as upstream counts.
const NODES_MAX: usize = 100;

/// The result of multi-node consolidation.
#[derive(Debug)]
pub(in crate::disruption) struct MultiNodeResult {
    pub(in crate::disruption) command: Option<Command>,
    pub(in crate::disruption) has_timed_out: bool,
}

/// Searches the longest prefix of the candidates that can be removed.
/// Expects candidates that are sorted and within the budgets.
pub(in crate::disruption) fn search(
    consolidation: &mut Consolidation<'_>,
    candidates: &[&Candidate],
    fuel: &mut Fuel<'_>,
) -> MultiNodeResult {
    let mut best: Option<(usize, ConsolidationMove)> = None;
    let mut has_timed_out = false;
    // Lengths of prefixes less one, as upstream counts: so it tries 101 nodes at most.
    let (mut low, mut high) = (1, NODES_MAX.min(candidates.len().saturating_sub(1)));
    while low <= high {
        let mid = usize::midpoint(low, high);
        match consolidation.consider(&candidates[..=mid], fuel) {
            Ok(found) => {
                best = Some((mid, found));
                low = mid + 1;
            }
            Err(Unconsolidatable::TimedOut) => {
                has_timed_out = true;
                break;
            }
            Err(_) => high = mid - 1,
        }
    }
    let command = best.map(|(last, found)| {
        Consolidation::command(Method::MultiNode, &candidates[..=last], found)
    });
    MultiNodeResult { command, has_timed_out }
}
