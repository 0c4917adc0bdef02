//! Validates a command after its validation delay (spec 30 §8).
//!
//! Emptiness keeps the nodes of its command that are still empty. Consolidation is all or nothing:
//! its replacements were chosen for all of its nodes. Prices and scores are not checked again.

use std::collections::BTreeSet;
use std::fmt;

use super::allowances::Allowances;
use super::consolidation::check_consolidation_eligibility;
use super::simulation::{SimulationKind, Simulator};
use super::{
    Candidate, CandidateIndex, Command, DisruptionClass, Method, PassContext, Reason, Replacement,
    SearchMode, emptiness,
};
use crate::catalog::Catalog;
use crate::labels::ZONE;
use crate::plan::PlannedNodeClaim;
use crate::scheduling::Fuel;
use crate::snapshot::Snapshot;

/// A command that is still valid.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedCommand {
    /// The command; for emptiness, its nodes that are still valid.
    pub command: Command,
    /// How many of its nodes are no longer valid.
    pub failed_count: usize,
    /// The command by ids of this snapshot.
    /// For [`apply_command`](super::apply_command): the next command has to be valid together with
    /// it.
    pub refreshed: Command,
    /// Whether it no longer needs its replacements.
    /// Then `command`, too, is by ids of this snapshot.
    pub is_without_replacements: bool,
}

/// Why a command is no longer valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationFailure {
    /// The class of the failure.
    pub class: FailureClass,
    /// How many nodes count as failed.
    pub failed_count: usize,
    /// The message.
    pub text: String,
}

/// The class of a validation failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureClass {
    /// Nodes or pods have changed.
    Churn,
    /// A budget allows too few nodes now.
    Budget,
    /// Pods would go elsewhere now.
    Scheduling,
}

impl FailureClass {
    /// The name in events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Churn => "churn",
            Self::Budget => "budget",
            Self::Scheduling => "scheduling",
        }
    }
}

impl fmt::Display for ValidationFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Validates a command of emptiness or consolidation.
/// `planned_types` are the names of the instance types of each of its replacements.
pub fn validate(
    context: &PassContext<'_>,
    command: &Command,
    planned_types: &[BTreeSet<String>],
    fuel: &mut Fuel<'_>,
) -> Result<ValidatedCommand, ValidationFailure> {
    let index = CandidateIndex::new(context);
    if command.method == Method::Emptiness {
        return validate_emptiness(&index, command);
    }
    let found = current_candidates(&index, command)?;
    check_budgets(&index, &found)?;
    let simulated = Simulator::new(&index).simulate(&found, SimulationKind::Consolidation, fuel);
    let failed = |text: &str| {
        Err(ValidationFailure {
            class: FailureClass::Scheduling,
            failed_count: 0,
            text: text.to_owned(),
        })
    };
    if simulated.plan.was_cut_short {
        return failed("scheduling simulation took too long");
    }
    if !simulated.places_all_pods() {
        return failed(&simulated.event_text(context.snapshot));
    }
    // Pods are gone meanwhile, so that no replacement is needed. Upstream starts over.
    let is_less =
        simulated.plan.claims.is_empty() && context.settings.search != SearchMode::Upstream;
    if !is_less
        && !replacements_still_suffice(context, command, planned_types, &simulated.plan.claims)
    {
        return failed("scheduling simulation produced new results");
    }
    let replacements = simulated.plan.claims.iter().map(|claim| {
        let types = planned_types.iter().flatten().map(String::as_str).collect();
        Replacement::Planned(narrow_instance_types(context, claim, &types))
    });
    let mut refreshed = Command {
        candidates: found.into_iter().cloned().collect(),
        replacements: replacements.collect(),
        plan: simulated.plan,
        ..command.clone()
    };
    if is_less && !command.replacements.is_empty() {
        refreshed.savings = refreshed.source_price();
        return Ok(ValidatedCommand {
            command: refreshed.clone(),
            failed_count: 0,
            refreshed,
            is_without_replacements: true,
        });
    }
    Ok(ValidatedCommand {
        command: command.clone(),
        failed_count: 0,
        refreshed,
        is_without_replacements: false,
    })
}

/// Checks that the nodes of a validated command are still candidates.
/// Runs right before the start of the command: others were validated meanwhile.
pub fn recheck_candidates(
    context: &PassContext<'_>,
    command: &Command,
) -> Result<(), ValidationFailure> {
    let index = CandidateIndex::new(context);
    if command.method != Method::Emptiness {
        return current_candidates(&index, command).map(drop);
    }
    let left = emptiness::candidates(&index);
    let is_left = |one: &&Candidate| left.iter().any(|left| is_same_node(left, one));
    let (count, left) =
        (command.candidates.len(), command.candidates.iter().filter(is_left).count());
    if left == count { Ok(()) } else { Err(churn_failure(count - left, count)) }
}

fn churn_failure(gone: usize, failed: usize) -> ValidationFailure {
    let text = format!("{gone} candidates are no longer valid");
    ValidationFailure { class: FailureClass::Churn, failed_count: failed, text }
}

/// Whether the planned replacements match the needed ones, one to one.
fn replacements_still_suffice(
    context: &PassContext<'_>,
    command: &Command,
    planned_types: &[BTreeSet<String>],
    needed: &[PlannedNodeClaim],
) -> bool {
    let mut needed: Vec<&PlannedNodeClaim> = needed.iter().collect();
    let planned = command.replacements.iter().filter_map(Replacement::planned);
    let has_each = planned.zip(planned_types).all(|(planned, types)| {
        let does = needed.iter().position(|now| {
            types.is_subset(&instance_type_names(context.snapshot, context.catalog, now))
                && (context.settings.search != SearchMode::Deep || is_within_zones(planned, now))
        });
        does.map(|at| needed.remove(at)).is_some()
    });
    has_each && needed.is_empty()
}

/// Returns the claim with only the named instance types.
fn narrow_instance_types(
    context: &PassContext<'_>,
    claim: &PlannedNodeClaim,
    names: &BTreeSet<&str>,
) -> PlannedNodeClaim {
    let types = context.catalog.pools.get(&context.snapshot.pool(claim.pool).name);
    let types = types.map_or(&[][..], |types| types);
    let is_named = |at: &u32| types.get(*at as usize).is_some_and(|one| names.contains(&*one.name));
    let left = claim.instance_types.iter().copied().filter(is_named);
    PlannedNodeClaim { instance_types: left.collect(), ..claim.clone() }
}

/// Whether a node may come up wherever the planned one may, which may have been narrowed to zones.
fn is_within_zones(planned: &PlannedNodeClaim, now: &PlannedNodeClaim) -> bool {
    let Some(now) = now.requirements.get(ZONE) else { return true };
    planned.requirements.get(ZONE).is_some_and(|planned| {
        let are_named = !planned.is_complement();
        planned == now || (are_named && planned.values().iter().all(|zone| now.has(zone)))
    })
}

fn validate_emptiness(
    index: &CandidateIndex<'_>,
    command: &Command,
) -> Result<ValidatedCommand, ValidationFailure> {
    let mut left = emptiness::candidates(index);
    left.retain(|candidate| is_in_command(command, candidate));
    let count = command.candidates.len();
    if left.is_empty() {
        return Err(churn_failure(count, count));
    }
    let still = left.len();
    let mut allowances = Allowances::new(index.context, Reason::Empty);
    left.retain(|candidate| allowances.reserve(&candidate.pool));
    let failed = still - left.len();
    if left.is_empty() {
        let text = OVER_BUDGET.to_owned();
        return Err(ValidationFailure { class: FailureClass::Budget, failed_count: failed, text });
    }
    let command = emptiness::delete_command(Method::Emptiness, &left);
    Ok(ValidatedCommand {
        refreshed: command.clone(),
        command,
        failed_count: failed,
        is_without_replacements: false,
    })
}

const OVER_BUDGET: &str = "a candidate can no longer be disrupted without violating budgets";

/// Returns the current candidates of all nodes of the command.
fn current_candidates<'a>(
    index: &'a CandidateIndex<'_>,
    command: &Command,
) -> Result<Vec<&'a Candidate>, ValidationFailure> {
    let mut found = index.candidates(DisruptionClass::Graceful);
    found.retain(|candidate| {
        is_in_command(command, candidate)
            && check_consolidation_eligibility(index, candidate).is_ok()
    });
    let count = command.candidates.len();
    if found.len() < count {
        return Err(churn_failure(count - found.len(), count));
    }
    Ok(found)
}

fn is_in_command(command: &Command, candidate: &Candidate) -> bool {
    command.candidates.iter().any(|one| is_same_node(one, candidate))
}

fn is_same_node(one: &Candidate, other: &Candidate) -> bool {
    one.name == other.name && one.provider_id == other.provider_id
}

fn check_budgets(
    index: &CandidateIndex<'_>,
    candidates: &[&Candidate],
) -> Result<(), ValidationFailure> {
    let mut allowances = Allowances::new(index.context, Reason::Underutilized);
    if candidates.iter().all(|candidate| allowances.reserve(&candidate.pool)) {
        return Ok(());
    }
    let (class, failed) = (FailureClass::Budget, candidates.len());
    Err(ValidationFailure { class, failed_count: failed, text: OVER_BUDGET.to_owned() })
}

/// Returns the names of the instance types that a NodeClaim may become.
/// The claim has to be planned on this snapshot and catalog.
pub fn instance_type_names(
    snapshot: &Snapshot,
    catalog: &Catalog,
    claim: &PlannedNodeClaim,
) -> BTreeSet<String> {
    let types = catalog.pools.get(&snapshot.pool(claim.pool).name);
    let name = |at: &u32| Some(types?.get(usize::try_from(*at).ok()?)?.name.clone());
    claim.instance_types.iter().filter_map(name).collect()
}
