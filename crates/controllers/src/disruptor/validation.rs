//! Whether a command that has rested still holds (spec 30 §8).

use std::collections::BTreeSet;

use karpenter_core::disruption::{
    Command, Invalid, Replacement, Valid, recheck as decide_again, type_names, validate as decide,
};
use karpenter_core::scheduling::Fuel;
use karpenter_operator::harness::Trouble;

use super::look::{Beside, on_world};
use super::pending::Resting;
use super::sight::Sight;
use crate::Context;

/// Looks again.
pub(super) async fn validate(
    context: &Context,
    sight: &Sight,
    beside: Beside,
    resting: &Resting,
) -> Result<Result<Valid, Invalid>, Trouble> {
    let types = planned_types(resting);
    let command = resting.command.clone();
    let decided = on_world(context, sight, beside, move |world| {
        decide(world, &command, &types, &mut Fuel::unlimited())
    });
    decided.await
}

/// Whether the nodes of a command still may go, right before it starts.
pub(super) async fn recheck(
    context: &Context,
    sight: &Sight,
    beside: Beside,
    command: &Command,
) -> Result<Result<(), Invalid>, Trouble> {
    let command = command.clone();
    on_world(context, sight, beside, move |world| decide_again(world, &command)).await
}

/// The instance types of each replacement, by what was known when it was planned.
fn planned_types(resting: &Resting) -> Vec<BTreeSet<String>> {
    let Resting { command, sight, .. } = resting;
    let planned = command.replacements.iter().filter_map(Replacement::planned);
    planned.map(|claim| type_names(&sight.snapshot, &sight.catalog, claim)).collect()
}
