//! Where commands lead: what would be saved after them.
//!
//! One large step may leave nothing to improve where small ones would have gone further: seven nodes
//! go for one large one, which then is the best there is, while upstream ends with two small ones. So
//! each way is played to its end, as upstream would go on. Its own way is one of them; as the best is
//! taken in every pass, the end is never dearer than upstream's, as far as that can be foreseen.

use std::collections::{BTreeMap, BTreeSet};

use super::best::upstream_command;
use super::command_effects::{complete_command, remove_node};
use super::destinations::Destinations;
use super::{CandidateIndex, SearchFuel, consolidation_candidates};
use crate::disruption::consolidation::Consolidation;
use crate::disruption::{Command, PassContext, Replacement};
use crate::snapshot::Snapshot;

/// Nobody looks ahead with more nodes than these: it takes a search for every command that is to
/// come, and what one of many nodes costs matters less.
const NODES_MAX: usize = 100;
/// It ends after so many commands, whatever is left.
const COMMANDS_MAX: usize = 100;

/// Whether it is worth looking ahead.
pub(super) fn is_affordable(index: &CandidateIndex<'_>) -> bool {
    consolidation_candidates(index).len() <= NODES_MAX
}

/// What upstream would save once these commands are carried out, one command after the other, if it
/// begins with the nodes of these pools each time.
pub(super) fn savings_after(
    index: &CandidateIndex<'_>,
    commands: &[Command],
    lead: &BTreeSet<String>,
    time: &mut SearchFuel<'_>,
) -> f64 {
    let context = index.context;
    let mut snapshot = context.snapshot.clone();
    // Policy Balanced goes by what its pool costs, which falls.
    let mut costs = PoolCosts(context.pool_costs.clone());
    for node in index.nodes_by_id().filter(|&node| context.snapshot.node(node).is_deleting) {
        if let Some(going) = index.unchecked_candidate(node) {
            costs.add(&going.pool, -going.price);
        }
        remove_node(&mut snapshot, node);
    }
    for command in commands {
        costs.apply(&snapshot, command);
        complete_command(&mut snapshot, context.catalog, command);
    }
    let mut savings = 0.0;
    for _ in 0..COMMANDS_MAX {
        let now = PassContext {
            snapshot: &snapshot,
            // Who is too young now will not be for ever.
            recent_launches: BTreeMap::new(),
            pool_costs: costs.0.clone(),
            ..context.clone()
        };
        let index = CandidateIndex::new(&now);
        let next =
            upstream_command(&mut Consolidation::new(&index), &Destinations::default(), lead, time);
        let Some(next) = next else { break };
        savings += next.savings;
        costs.apply(&snapshot, &next);
        complete_command(&mut snapshot, context.catalog, &next);
    }
    savings
}

/// What the nodes of each NodePool cost, where that is tracked.
struct PoolCosts(BTreeMap<String, f64>);

impl PoolCosts {
    fn add(&mut self, pool: &str, price: f64) {
        if let Some(cost) = self.0.get_mut(pool) {
            *cost += price;
        }
    }

    fn apply(&mut self, snapshot: &Snapshot, command: &Command) {
        for candidate in &command.candidates {
            self.add(&candidate.pool, -candidate.price);
        }
        for claim in command.replacements.iter().filter_map(Replacement::planned) {
            self.add(&snapshot.pool(claim.pool).name, claim.lowest_price.unwrap_or(0.0));
        }
    }
}
