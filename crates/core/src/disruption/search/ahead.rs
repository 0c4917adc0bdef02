//! Where commands lead: what would be saved after them.
//!
//! One large step may leave nothing to improve where small ones would have gone further: seven nodes
//! go for one large one, which then is the best there is, while upstream ends with two small ones. So
//! each way is played to its end, as upstream would go on. Its own way is one of them; as the best is
//! taken in every pass, the end is never dearer than upstream's, as far as that can be foreseen.

use std::collections::{BTreeMap, BTreeSet};

use super::applied::{carry_out, leave};
use super::best::upstream;
use super::destinations::Destinations;
use super::{Board, Time, consolidatable};
use crate::disruption::consolidation::Consolidation;
use crate::disruption::{Command, Replacement, World};
use crate::snapshot::Snapshot;

/// Nobody looks ahead with more nodes than these: it takes a search for every command that is to
/// come, and what one of many nodes costs matters less.
const NODES: usize = 100;
/// It ends after so many commands, whatever is left.
const COMMANDS: usize = 100;

/// Whether it is worth looking ahead.
pub(super) fn is_small(board: &Board<'_>) -> bool {
    consolidatable(board).len() <= NODES
}

/// What upstream would save once these commands are carried out, one command after the other, if it
/// begins with the nodes of these pools each time.
pub(super) fn savings(
    board: &Board<'_>,
    commands: &[Command],
    lead: &BTreeSet<String>,
    time: &mut Time<'_>,
) -> f64 {
    let world = board.world;
    let mut snapshot = world.snapshot.clone();
    // Policy Balanced goes by what its pool costs, which falls.
    let mut costs = PoolCosts(world.pool_costs.clone());
    for node in board.nodes_by_id().filter(|&node| world.snapshot.node(node).is_deleting) {
        if let Some(going) = board.known(node) {
            costs.add(&going.pool, -going.price);
        }
        leave(&mut snapshot, node);
    }
    for command in commands {
        costs.carry_out(&snapshot, command);
        carry_out(&mut snapshot, world.catalog, command);
    }
    let mut savings = 0.0;
    for _ in 0..COMMANDS {
        let now = World {
            snapshot: &snapshot,
            // Who is too young now will not be for ever.
            young: BTreeMap::new(),
            pool_costs: costs.0.clone(),
            ..world.clone()
        };
        let board = Board::new(&now);
        let next = upstream(&mut Consolidation::new(&board), &Destinations::default(), lead, time);
        let Some(next) = next else { break };
        savings += next.savings;
        costs.carry_out(&snapshot, &next);
        carry_out(&mut snapshot, world.catalog, &next);
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

    fn carry_out(&mut self, snapshot: &Snapshot, command: &Command) {
        for candidate in &command.candidates {
            self.add(&candidate.pool, -candidate.price);
        }
        for claim in command.replacements.iter().filter_map(Replacement::planned) {
            self.add(&snapshot.pool(claim.pool).name, claim.cheapest.unwrap_or(0.0));
        }
    }
}
