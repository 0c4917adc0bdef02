//! Estimates what upstream would still save after some commands.
//!
//! One large step may leave nothing to improve where small ones would have gone further: seven
//! nodes are replaced by one large node, which nothing can improve then, while upstream ends with
//! two small ones. So the search follows each alternative to its end, as upstream would continue.
//! Upstream's own choice is one of them; as every pass takes the best one, the final price is never
//! higher than upstream's, as far as that can be foreseen.

use std::collections::{BTreeMap, BTreeSet};

use super::best::upstream_command;
use super::command_effects::{complete_command, remove_node};
use super::destinations::Destinations;
use super::{CandidateIndex, SearchFuel, consolidation_candidates};
use crate::disruption::consolidation::Consolidation;
use crate::disruption::{Command, PassContext, Replacement};
use crate::snapshot::Snapshot;

/// The most candidates with which the search looks ahead.
/// Looking ahead takes a search for every later command, and the price of one of many nodes matters
/// less.
const NODES_MAX: usize = 100;
/// The most commands of one lookahead.
const COMMANDS_MAX: usize = 100;

/// Whether there are few enough candidates to look ahead.
pub(super) fn is_affordable(index: &CandidateIndex<'_>) -> bool {
    consolidation_candidates(index).len() <= NODES_MAX
}

/// Returns what upstream would save after these commands.
/// It applies one command after the other; each search starts with the nodes of these pools.
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
            // Launches that are recent now are not recent later.
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
