//! Starts a command (spec 30 §9.1): from here on the cluster changes.
//!
//! ```text
//! candidates marked ─▶ replacements created ─▶ candidates count as deleting ─▶ queue
//! ```
//!
//! Invariant: candidates count as deleting only when their replacements exist; else the provisioner
//! would create capacity for their pods a second time. A failure before that is rolled back.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::{BoxFuture, join_all};
use jiff::SignedDuration;
use karpenter_core::disruption::queue::{StartDecision, TIMEOUT_MAX, start_decision};
use karpenter_core::disruption::{Candidate, Command, Decision, Replacement};
use karpenter_core::plan::Plan;
use karpenter_core::resources::Resources;
use karpenter_operator::harness::ReconcileError;
use karpenter_operator::metrics::labels::NodeClaimsCreated;
use karpenter_operator::options::ConsolidationSearch;
use karpenter_operator::rng::SeededRng;
use karpenter_operator::telemetry::json;
use kube::ResourceExt as _;
use tracing::{debug, info};

use super::mark;
use super::metrics::{self, CommandLogFields};
use super::observation::Observation;
use super::queue::{CommandDetails, CommandQueue, roll_back};
use crate::failed_consolidation::{self, MovedWorkload};
use crate::provisioner::claim;
use crate::provisioner::claim_creation::{self, ClaimLogFields};
use crate::provisioner::events;
use crate::static_capacity::provisioning::{Reservation, node_limit};
use crate::{Context, objects};

/// How long a deletion mark lasts at most, if nothing removes it.
const DELETION_MARK_TTL: SignedDuration = SignedDuration::from_secs(TIMEOUT_MAX.as_secs() + 600);

/// Starts a command. After an error only created replacements stay, and its pools back off: what
/// could not start now, for a limit that is reached, could not in a moment either.
pub(super) async fn start(
    context: &Context,
    command_queue: &CommandQueue,
    observation: &Observation,
    command: Command,
) -> Result<(), ReconcileError> {
    let Some(id) = command_queue.reserve_candidates(context, &command) else {
        return Err(ReconcileError::new("candidate is being disrupted"));
    };
    log_command(&id, observation, &command);
    if command.decision() == Decision::Reboot {
        command_queue.release(&id);
        count_reboot(context, observation, &command);
        return Ok(());
    }
    let pools: Vec<String> = command.pools().into_iter().map(str::to_owned).collect();
    let result = carry_out(context, command_queue, observation, command, &id).await;
    if result.is_err() {
        command_queue.record_outcome(context, pools.iter().map(String::as_str), false);
        command_queue.release(&id);
    }
    result.map_err(|error| error.with_field("command-id", id))
}

fn log_command(id: &str, observation: &Observation, command: &Command) {
    let fields = CommandLogFields::of(observation, command);
    info!(
        command = command.describe(id),
        decision = fields.decision,
        "disrupted-node-count" = fields.disrupted_count,
        "replacement-node-count" = fields.replacement_count,
        "pod-count" = fields.pod_count,
        "disrupted-nodes" = ?fields.disrupted,
        "replacement-nodes" = ?fields.replacements,
        "disrupting node(s)"
    );
}

fn count_reboot(context: &Context, observation: &Observation, command: &Command) {
    let policies = metrics::consolidation_policies(observation, command);
    for candidate in &command.candidates {
        if let Some(claim) = context.cache.node_claims.get("", &candidate.node_claim) {
            metrics::count_disrupted(context, &policies, command, candidate, &claim);
        }
    }
    metrics::count_decision(context, command);
}

async fn carry_out(
    context: &Context,
    command_queue: &CommandQueue,
    observation: &Observation,
    mut command: Command,
    id: &str,
) -> Result<(), ReconcileError> {
    let replacements = std::mem::take(&mut command.replacements);
    let reservations = reserve(context, &replacements)?;
    let (marked, error) = mark_all(context, &command).await;
    let has_replacements = !replacements.is_empty();
    let beginning = start_decision(command.candidates.len(), marked.len(), has_replacements);
    if beginning == StartDecision::Abort {
        roll_back(context, &marked).await;
        let error = error.unwrap_or_else(|| ReconcileError::new("no node is left"));
        return Err(ReconcileError::with_context("marking disrupted", error));
    }
    command.candidates = marked;
    let reason = metrics::command_reason_label(&command);
    let places = replacements.iter().zip(reservations);
    let names = match launch(context, observation, &reason, places, id).await {
        Ok(names) => names,
        Err(error) => {
            roll_back(context, &command.candidates).await;
            return Err(ReconcileError::with_context("launching replacement nodeclaim", error));
        }
    };
    command.replacements = replacements;
    let now = context.clock.now();
    let until = now.saturating_add(DELETION_MARK_TTL).unwrap_or(jiff::Timestamp::MAX);
    let ids = command.candidates.iter().map(|candidate| candidate.provider_id.as_str());
    let moved = moved_workloads(context, observation, &command);
    if !moved.is_empty() {
        context
            .consolidation_tracker
            .track_claims(command.candidates.iter().map(|one| one.node_claim.as_str()));
    }
    context.mirror.mark_for_deletion(ids, now, until);
    events::nominate(context, &observation.snapshot, &command.plan);
    metrics::count_decision(context, &command);
    debug!(
        command = command.describe(id),
        "replacement-nodeclaims" = ?json(&names),
        "command is under way"
    );
    let details = CommandDetails {
        fields: CommandLogFields::of(observation, &command),
        policies: metrics::consolidation_policies(observation, &command),
        pods_on_replacements: pods_on_new_nodes(observation, &command.plan),
        moved_workloads: moved,
    };
    // The rest of the plan is not needed any more.
    command.plan = Plan::default();
    command_queue.add(id, command, details, names, now);
    Ok(())
}

/// Returns the pods that a plan places on new nodes, by `namespace/name`.
fn pods_on_new_nodes(observation: &Observation, plan: &Plan) -> BTreeSet<String> {
    let pods = plan.claims.iter().flat_map(|claim| &claim.pods);
    pods.map(|&pod| observation.snapshot.pod(pod).full_name()).collect()
}

/// Returns the workloads whose pods a command moves; empty with the upstream search.
fn moved_workloads(
    context: &Context,
    observation: &Observation,
    command: &Command,
) -> BTreeMap<String, MovedWorkload> {
    match context.options.consolidation_search {
        ConsolidationSearch::Upstream => BTreeMap::new(),
        _ => failed_consolidation::moved_workloads(&observation.snapshot, command, observation.now),
    }
}

/// Reserves a node under the limit of its pool for each static replacement.
fn reserve<'a>(
    context: &'a Context,
    replacements: &'a [Replacement],
) -> Result<Vec<Option<Reservation<'a>>>, ReconcileError> {
    let one = |replacement: &'a Replacement| {
        let Replacement::Template { pool } = replacement else { return Ok(None) };
        let wire = context.cache.node_pools.get("", pool);
        let wire = wire.ok_or_else(|| no_pool(pool))?;
        let place = Reservation::reserve_one(&context.mirror, pool, node_limit(&wire));
        let full =
            || ReconcileError::new("node limit is reached").with_field("NodePool", pool.clone());
        place.map(Some).ok_or_else(full)
    };
    replacements.iter().map(one).collect()
}

fn no_pool(name: &str) -> ReconcileError {
    ReconcileError::with_context("getting nodepool", "not found")
        .with_field("NodePool", name.to_owned())
}

/// Marks the candidates. Returns the marked ones, and the error of the others.
async fn mark_all(
    context: &Context,
    command: &Command,
) -> (Vec<Candidate>, Option<ReconcileError>) {
    let marks = command.candidates.iter().map(|candidate| {
        mark::mark_disrupted(context, &candidate.name, &candidate.node_claim, command.reason())
    });
    let results = join_all(marks).await;
    let (mut marked, mut errors) = (Vec::new(), Vec::new());
    for (candidate, result) in command.candidates.iter().zip(results) {
        match result {
            Ok(()) => {
                if candidate.is_static {
                    context.mirror.mark_pending_disruption(&candidate.node_claim);
                }
                marked.push(candidate.clone());
            }
            Err(error) => errors.push(error),
        }
    }
    (marked, ReconcileError::join(errors))
}

/// Creates the replacements. Returns their names, in the order of the command.
async fn launch(
    context: &Context,
    observation: &Observation,
    reason: &str,
    replacements: impl Iterator<Item = (&Replacement, Option<Reservation<'_>>)>,
    id: &str,
) -> Result<Vec<String>, ReconcileError> {
    let mut rng = context.rng.fork("replacements").fork(id);
    let mut creations: Vec<BoxFuture<'_, Result<String, ReconcileError>>> = Vec::new();
    for (replacement, reservation) in replacements {
        let made = build_replacement(observation, replacement, &mut rng)?;
        creations.push(Box::pin(async move {
            let current = context.cache.node_pools.get("", &made.pool);
            let current = current.ok_or_else(|| no_pool(&made.pool))?;
            let limits = objects::resources(current.spec.limits.as_ref());
            let labels = NodeClaimsCreated {
                reason,
                nodepool: &made.pool,
                min_values_relaxed: if made.is_relaxed { "true" } else { "false" },
            };
            let log = ClaimLogFields { requests: &made.requests, types: made.types };
            let created =
                claim_creation::create_claim(context, &limits, &made.claim, labels, &log).await?;
            // Counted before the reservation ends, so that there is no moment between.
            drop(reservation);
            Ok(created.name_any())
        }));
    }
    let results = join_all(creations).await;
    let mut names = Vec::with_capacity(results.len());
    let mut errors = Vec::new();
    for result in results {
        match result {
            Ok(name) => names.push(name),
            Err(error) => errors.push(error),
        }
    }
    match ReconcileError::join(errors) {
        None => Ok(names),
        Some(error) => Err(error),
    }
}

/// The NodeClaim to create for a replacement, with its log fields.
struct ReplacementClaim {
    pool: String,
    claim: karpenter_api::nodeclaim::NodeClaim,
    is_relaxed: bool,
    requests: Resources,
    types: String,
}

fn build_replacement(
    observation: &Observation,
    replacement: &Replacement,
    rng: &mut SeededRng,
) -> Result<ReplacementClaim, ReconcileError> {
    let pool = match replacement {
        Replacement::Planned(planned) => &observation.snapshot.pool(planned.pool).name,
        Replacement::Template { pool } => pool,
    };
    let wire = observation.pools.get(pool).ok_or_else(|| no_pool(pool))?;
    let pool = pool.clone();
    Ok(match replacement {
        Replacement::Planned(planned) => ReplacementClaim {
            claim: claim::from_plan(wire, planned, &observation.catalog, rng),
            is_relaxed: planned.min_values_relaxed,
            requests: planned.requests.clone(),
            types: claim_creation::instance_type_names(&pool, &observation.catalog, planned),
            pool,
        },
        Replacement::Template { .. } => ReplacementClaim {
            claim: claim::from_template(wire, rng, &observation.catalog),
            is_relaxed: false,
            requests: Resources::default(),
            types: String::new(),
            pool,
        },
    })
}
