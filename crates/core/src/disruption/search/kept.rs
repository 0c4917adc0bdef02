//! Every node that stays, and why.

use std::collections::{BTreeMap, BTreeSet};

use super::{Board, Class, Kept, NodeId, Unconsolidatable, is_eligible, is_eligible_empty};
use crate::disruption::{Candidate, Command};

/// Every node that no command removes, by name.
pub(super) fn kept(
    board: &Board<'_>,
    commands: &[Command],
    reasons: &BTreeMap<NodeId, Unconsolidatable>,
) -> Vec<Kept> {
    let gone: BTreeSet<NodeId> =
        commands.iter().flat_map(|command| &command.candidates).map(|one| one.node).collect();
    let staying = board.nodes().iter().filter(|node| !gone.contains(node));
    staying.map(|&node| of_node(board, node, reasons)).collect()
}

fn of_node(board: &Board<'_>, node: NodeId, reasons: &BTreeMap<NodeId, Unconsolidatable>) -> Kept {
    let name = board.world.snapshot.node(node).name.clone();
    let because =
        |reason, text: String, blocked_by| Kept { node: name.clone(), reason, text, blocked_by };
    let candidate = match board.candidate(node, Class::Graceful) {
        Ok(candidate) => candidate,
        Err(why) => return because("Blocked", why.to_string(), why.blocked_by()),
    };
    let snapshot = board.world.snapshot;
    match ineligible(board, candidate).or_else(|| reasons.get(&node).cloned()) {
        Some(why) => because(why.reason(), why.to_string(), why.blocked_by(snapshot)),
        None if candidate.is_empty() => {
            let why = Unconsolidatable::Budget { pool: candidate.pool.clone() };
            because(why.reason(), why.to_string(), why.blocked_by(snapshot))
        }
        None => {
            let text = "Another command comes first, the node was not looked at".to_owned();
            because("NotEvaluated", text, Vec::new())
        }
    }
}

/// Why neither emptiness nor consolidation looks at it.
fn ineligible(board: &Board<'_>, candidate: &Candidate) -> Option<Unconsolidatable> {
    if candidate.is_empty() {
        is_eligible_empty(board, candidate).err()
    } else {
        is_eligible(board, candidate).err()
    }
}
