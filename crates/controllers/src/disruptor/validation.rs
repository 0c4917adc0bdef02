//! Validates a command after its validation delay (spec 30 §8).

use std::collections::BTreeSet;

use karpenter_core::disruption::{
    Command, Replacement, ValidatedCommand, ValidationFailure, instance_type_names,
    recheck_candidates as decide_again, validate as decide,
};
use karpenter_core::scheduling::Fuel;
use karpenter_operator::harness::ReconcileError;

use super::evaluate::{PassInput, with_pass_context};
use super::observation::Observation;
use super::pending_commands::PendingCommand;
use crate::Context;
use crate::plan_check::InvalidCommand;

/// The result of a validation.
#[derive(Debug)]
pub(super) enum Verdict {
    Valid(Box<ValidatedCommand>),
    Invalid(ValidationFailure),
    /// The command is valid, and where its pods go now breaks a rule.
    Violates(Box<InvalidCommand>),
}

/// Validates a command on a new observation, and verifies where its pods go now.
pub(super) async fn validate(
    context: &Context,
    observation: &Observation,
    input: PassInput,
    pending: &PendingCommand,
) -> Result<Verdict, ReconcileError> {
    let types = planned_types(pending);
    let (command, check) = (pending.command.clone(), context.plan_check.clone());
    let decided = with_pass_context(context, observation, input, move |world| {
        match decide(world, &command, &types, &mut Fuel::unlimited()) {
            Ok(valid) => {
                let (_, mut invalid) = check.verify_commands(world, vec![valid.refreshed.clone()]);
                match invalid.pop() {
                    None => Verdict::Valid(Box::new(valid)),
                    Some(invalid) => Verdict::Violates(Box::new(invalid)),
                }
            }
            Err(failure) => Verdict::Invalid(failure),
        }
    });
    decided.await
}

/// Whether the nodes of a command still may go, right before it starts.
pub(super) async fn recheck(
    context: &Context,
    observation: &Observation,
    input: PassInput,
    command: &Command,
) -> Result<Result<(), ValidationFailure>, ReconcileError> {
    let command = command.clone();
    with_pass_context(context, observation, input, move |world| decide_again(world, &command)).await
}

/// The instance types of each replacement, by what was known when it was planned.
fn planned_types(pending: &PendingCommand) -> Vec<BTreeSet<String>> {
    let PendingCommand { command, observation, .. } = pending;
    let planned = command.replacements.iter().filter_map(Replacement::planned);
    planned
        .map(|claim| instance_type_names(&observation.snapshot, &observation.catalog, claim))
        .collect()
}
