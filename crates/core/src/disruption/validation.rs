//! Whether a command still holds after its rest (spec 30 §8).
//!
//! Emptiness keeps what is still good of its command. Consolidation is all or nothing: its
//! replacements were chosen for all of its nodes. Neither prices nor scores are looked at again.

use std::collections::BTreeSet;
use std::fmt;

use super::allowances::Allowances;
use super::consolidation::is_eligible;
use super::simulate::{Question, Simulator};
use super::{
    Board, Candidate, Class, Command, Method, Reason, Replacement, Search, World, emptiness,
};
use crate::catalog::Catalog;
use crate::labels::ZONE;
use crate::plan::PlannedClaim;
use crate::scheduling::Fuel;
use crate::snapshot::Snapshot;

/// A command that holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Valid {
    /// The command; of an empty set, what is left of it.
    pub command: Command,
    /// How many of its nodes were left out.
    pub failed: usize,
    /// The same by ids of this cluster, for [`apply`](super::apply): what is looked at next has to
    /// hold together with it.
    pub refreshed: Command,
    /// Whether it needs no replacement any more: then the command, too, is by ids of this cluster.
    pub is_less: bool,
}

/// A command that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// In one word.
    pub class: FailureClass,
    /// How many nodes count as failed.
    pub failed: usize,
    /// In a sentence.
    pub text: String,
}

/// Why a command does not hold, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureClass {
    /// Nodes or pods have changed.
    Churn,
    /// A budget, or a pod that was promised the node, forbids it now.
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

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether a command of emptiness or consolidation still holds. `planned_types` are the names of
/// the instance types of each of its replacements.
pub fn validate(
    world: &World<'_>,
    command: &Command,
    planned_types: &[BTreeSet<String>],
    fuel: &mut Fuel<'_>,
) -> Result<Valid, Invalid> {
    let board = Board::new(world);
    if command.method == Method::Emptiness {
        return still_empty(&board, command);
    }
    let found = refreshed(&board, command)?;
    spend(&board, &found)?;
    let simulated = Simulator::new(&board).simulate(&found, Question::Consolidation, fuel);
    let failed = |text: &str| {
        Err(Invalid { class: FailureClass::Scheduling, failed: 0, text: text.to_owned() })
    };
    if simulated.plan.ran_dry {
        return failed("scheduling simulation took too long");
    }
    if !simulated.places_all() {
        return failed(&simulated.text(world.snapshot));
    }
    // Pods have gone meanwhile, so that less does. Upstream begins anew.
    let is_less = simulated.plan.claims.is_empty() && world.settings.search != Search::Upstream;
    if !is_less && !still_do(world, command, planned_types, &simulated.plan.claims) {
        return failed("scheduling simulation produced new results");
    }
    let replacements = simulated.plan.claims.iter().map(|claim| {
        let types = planned_types.iter().flatten().map(String::as_str).collect();
        Replacement::Planned(narrowed(world, claim, &types))
    });
    let mut refreshed = Command {
        candidates: found.into_iter().cloned().collect(),
        replacements: replacements.collect(),
        plan: simulated.plan,
        ..command.clone()
    };
    if is_less && !command.replacements.is_empty() {
        refreshed.savings = refreshed.source_price();
        return Ok(Valid { command: refreshed.clone(), failed: 0, refreshed, is_less: true });
    }
    Ok(Valid { command: command.clone(), failed: 0, refreshed, is_less: false })
}

/// Whether the nodes of a command that has been validated still are candidates. For a moment right
/// before its start: others were validated meanwhile.
pub fn recheck(world: &World<'_>, command: &Command) -> Result<(), Invalid> {
    let board = Board::new(world);
    if command.method != Method::Emptiness {
        return refreshed(&board, command).map(drop);
    }
    let left = emptiness::candidates(&board);
    let is_left = |one: &&Candidate| left.iter().any(|left| is_same(left, one));
    let (count, left) =
        (command.candidates.len(), command.candidates.iter().filter(is_left).count());
    if left == count { Ok(()) } else { Err(no_longer_valid(count - left, count)) }
}

fn no_longer_valid(gone: usize, failed: usize) -> Invalid {
    let text = format!("{gone} candidates are no longer valid");
    Invalid { class: FailureClass::Churn, failed, text }
}

/// Whether what was planned does for what is needed now: each for another one.
fn still_do(
    world: &World<'_>,
    command: &Command,
    planned_types: &[BTreeSet<String>],
    needed: &[PlannedClaim],
) -> bool {
    let mut needed: Vec<&PlannedClaim> = needed.iter().collect();
    let planned = command.replacements.iter().filter_map(Replacement::planned);
    let has_each = planned.zip(planned_types).all(|(planned, types)| {
        let does = needed.iter().position(|now| {
            types.is_subset(&type_names(world.snapshot, world.catalog, now))
                && (world.settings.search != Search::Deep || is_within_zones(planned, now))
        });
        does.map(|at| needed.remove(at)).is_some()
    });
    has_each && needed.is_empty()
}

/// A claim with only those of its instance types that have one of these names.
fn narrowed(world: &World<'_>, claim: &PlannedClaim, names: &BTreeSet<&str>) -> PlannedClaim {
    let types = world.catalog.pools.get(&world.snapshot.pool(claim.pool).name);
    let types = types.map_or(&[][..], |types| types);
    let is_named = |at: &u32| types.get(*at as usize).is_some_and(|one| names.contains(&*one.name));
    let left = claim.instance_types.iter().copied().filter(is_named);
    PlannedClaim { instance_types: left.collect(), ..claim.clone() }
}

/// Whether a node may come up wherever the planned one may, which may have been narrowed to zones.
fn is_within_zones(planned: &PlannedClaim, now: &PlannedClaim) -> bool {
    let Some(now) = now.requirements.get(ZONE) else { return true };
    planned.requirements.get(ZONE).is_some_and(|planned| {
        let are_named = !planned.is_complement();
        planned == now || (are_named && planned.values().iter().all(|zone| now.has(zone)))
    })
}

fn still_empty(board: &Board<'_>, command: &Command) -> Result<Valid, Invalid> {
    let mut left = emptiness::candidates(board);
    left.retain(|candidate| is_of(command, candidate));
    let count = command.candidates.len();
    if left.is_empty() {
        return Err(no_longer_valid(count, count));
    }
    let still = left.len();
    let mut allowances = Allowances::new(board.world, Reason::Empty);
    left.retain(|candidate| allowances.take(&candidate.pool));
    let failed = still - left.len();
    if left.is_empty() {
        let text = OVER_BUDGET.to_owned();
        return Err(Invalid { class: FailureClass::Budget, failed, text });
    }
    let command = emptiness::deletion(Method::Emptiness, &left);
    Ok(Valid { refreshed: command.clone(), command, failed, is_less: false })
}

const OVER_BUDGET: &str = "a candidate can no longer be disrupted without violating budgets";

/// The candidates of the command as they are now, all of them.
fn refreshed<'a>(board: &'a Board<'_>, command: &Command) -> Result<Vec<&'a Candidate>, Invalid> {
    let mut found = board.candidates(Class::Graceful);
    found.retain(|candidate| is_of(command, candidate) && is_eligible(board, candidate).is_ok());
    let count = command.candidates.len();
    if found.len() < count {
        return Err(no_longer_valid(count - found.len(), count));
    }
    Ok(found)
}

fn is_of(command: &Command, candidate: &Candidate) -> bool {
    command.candidates.iter().any(|one| is_same(one, candidate))
}

fn is_same(one: &Candidate, other: &Candidate) -> bool {
    one.name == other.name && one.provider_id == other.provider_id
}

fn spend(board: &Board<'_>, candidates: &[&Candidate]) -> Result<(), Invalid> {
    let mut allowances = Allowances::new(board.world, Reason::Underutilized);
    if candidates.iter().all(|candidate| allowances.take(&candidate.pool)) {
        return Ok(());
    }
    let (class, failed) = (FailureClass::Budget, candidates.len());
    Err(Invalid { class, failed, text: OVER_BUDGET.to_owned() })
}

/// The names of the instance types that a claim may become, which was planned on this cluster.
pub fn type_names(
    snapshot: &Snapshot,
    catalog: &Catalog,
    claim: &PlannedClaim,
) -> BTreeSet<String> {
    let types = catalog.pools.get(&snapshot.pool(claim.pool).name);
    let name = |at: &u32| Some(types?.get(usize::try_from(*at).ok()?)?.name.clone());
    claim.instance_types.iter().filter_map(name).collect()
}
