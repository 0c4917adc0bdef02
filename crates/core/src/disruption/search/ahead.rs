//! Where commands lead: what would be saved after them.
//!
//! One large step may leave nothing to improve where small ones would have gone further: seven nodes
//! go for one large one, which then is the best there is, while upstream ends with two small ones. So
//! each way is played to its end, as upstream would go on. Its own way is one of them; as the best is
//! taken in every pass, the end is never dearer than upstream's, as far as that can be foreseen.

use std::collections::BTreeMap;

use super::applied::carry_out;
use super::best::upstream;
use super::destinations::Destinations;
use super::{Board, Time, consolidatable};
use crate::disruption::consolidation::Consolidation;
use crate::disruption::{Command, World};

/// Nobody looks ahead with more nodes than these: it takes a search for every command that is to
/// come, and what one of many nodes costs matters less.
const NODES: usize = 100;
/// It ends after so many commands, whatever is left.
const COMMANDS: usize = 100;

/// Whether it is worth looking ahead.
pub(super) fn is_small(board: &Board<'_>) -> bool {
    consolidatable(board).len() <= NODES
}

/// What upstream would save once these commands are carried out, one command after the other.
pub(super) fn savings(world: &World<'_>, commands: &[Command], time: &mut Time<'_>) -> f64 {
    let mut snapshot = world.snapshot.clone();
    for command in commands {
        carry_out(&mut snapshot, world.catalog, command);
    }
    let mut savings = 0.0;
    for _ in 0..COMMANDS {
        // Who is too young now will not be for ever.
        let now = World { snapshot: &snapshot, young: BTreeMap::new(), ..world.clone() };
        let board = Board::new(&now);
        let next = upstream(&mut Consolidation::new(&board), &Destinations::default(), time);
        let Some(next) = next else { break };
        savings += next.savings;
        carry_out(&mut snapshot, world.catalog, &next);
    }
    savings
}
