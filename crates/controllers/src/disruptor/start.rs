//! The start of a command (spec 30 §9.1): from here on the cluster changes.
//!
//! ```text
//! sources tainted, with the reason ─▶ replacements created ─▶ sources count as going away ─▶ queue
//! ```
//!
//! Invariant: sources count as going away only when their replacements exist; else the provisioner
//! would make capacity for their pods a second time. What fails before that is taken back.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::{BoxFuture, join_all};
use jiff::SignedDuration;
use karpenter_core::disruption::queue::{Beginning, LONGEST, begin};
use karpenter_core::disruption::{Candidate, Command, Decision, Replacement};
use karpenter_core::plan::Plan;
use karpenter_core::resources::Resources;
use karpenter_operator::chance::Chance;
use karpenter_operator::harness::Trouble;
use karpenter_operator::metrics::labels::NodeClaimsCreated;
use karpenter_operator::options::ConsolidationSearch;
use karpenter_operator::telemetry::json;
use kube::ResourceExt as _;
use tracing::{debug, info};

use super::mark;
use super::queue::{Orchestration, Told, roll_back};
use super::report::{self, Fields};
use super::sight::Sight;
use crate::displaced::{self, Moved};
use crate::provisioner::act::{self, Log};
use crate::provisioner::claim;
use crate::provisioner::record;
use crate::static_capacity::provisioning::{Reservation, node_limit};
use crate::{Context, objects};

/// For how long nodes count as going away at most, if nobody takes that back.
const MARK: SignedDuration = SignedDuration::from_secs(LONGEST.as_secs() + 600);

/// Begins a command. After an error nothing of it is left but replacements that were made, and its
/// pools wait: what could not begin now, for a limit that is reached, could not in a moment either.
pub(super) async fn start(
    context: &Context,
    orchestration: &Orchestration,
    sight: &Sight,
    command: Command,
) -> Result<(), Trouble> {
    let Some(id) = orchestration.claim(context, &command) else {
        return Err(Trouble::new("candidate is being disrupted"));
    };
    tell(&id, sight, &command);
    if command.decision() == Decision::Reboot {
        orchestration.release(&id);
        count_reboot(context, sight, &command);
        return Ok(());
    }
    let pools: Vec<String> = command.pools().into_iter().map(str::to_owned).collect();
    let result = carry_out(context, orchestration, sight, command, &id).await;
    if result.is_err() {
        orchestration.note(context, pools.iter().map(String::as_str), false);
        orchestration.release(&id);
    }
    result.map_err(|trouble| trouble.with("command-id", id))
}

fn tell(id: &str, sight: &Sight, command: &Command) {
    let fields = Fields::of(sight, command);
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

fn count_reboot(context: &Context, sight: &Sight, command: &Command) {
    let policies = report::policies(sight, command);
    for candidate in &command.candidates {
        if let Some(claim) = context.cache.node_claims.get("", &candidate.node_claim) {
            report::count_disrupted(context, &policies, command, candidate, &claim);
        }
    }
    report::count_decision(context, command);
}

async fn carry_out(
    context: &Context,
    orchestration: &Orchestration,
    sight: &Sight,
    mut command: Command,
    id: &str,
) -> Result<(), Trouble> {
    let replacements = std::mem::take(&mut command.replacements);
    let reservations = reserve(context, &replacements)?;
    let (marked, trouble) = mark_all(context, &command).await;
    let has_replacements = !replacements.is_empty();
    let beginning = begin(command.candidates.len(), marked.len(), has_replacements);
    if beginning == Beginning::Abort {
        roll_back(context, &marked).await;
        let trouble = trouble.unwrap_or_else(|| Trouble::new("no node is left"));
        return Err(Trouble::while_("marking disrupted", trouble));
    }
    command.candidates = marked;
    let reason = report::reason(&command);
    let places = replacements.iter().zip(reservations);
    let names = match launch(context, sight, &reason, places, id).await {
        Ok(names) => names,
        Err(trouble) => {
            roll_back(context, &command.candidates).await;
            return Err(Trouble::while_("launching replacement nodeclaim", trouble));
        }
    };
    command.replacements = replacements;
    let now = context.clock.now();
    let until = now.saturating_add(MARK).unwrap_or(jiff::Timestamp::MAX);
    let ids = command.candidates.iter().map(|candidate| candidate.provider_id.as_str());
    let moved = moved(context, sight, &command);
    if !moved.is_empty() {
        context.displaced.begin(command.candidates.iter().map(|one| one.node_claim.as_str()));
    }
    context.mirror.mark_for_deletion(ids, now, until);
    record::nominate(context, &sight.snapshot, &command.plan);
    report::count_decision(context, &command);
    debug!(
        command = command.describe(id),
        "replacement-nodeclaims" = ?json(&names),
        "command is under way"
    );
    let told = Told {
        fields: Fields::of(sight, &command),
        policies: report::policies(sight, &command),
        coming: coming(sight, &command.plan),
        moved,
    };
    // Where else pods go is not asked any more.
    command.plan = Plan::default();
    orchestration.add(id, command, told, names, now);
    Ok(())
}

/// The pods that a plan puts on new nodes, by `namespace/name`.
fn coming(sight: &Sight, plan: &Plan) -> BTreeSet<String> {
    let pods = plan.claims.iter().flat_map(|claim| &claim.pods);
    pods.map(|&pod| sight.snapshot.pod(pod).full_name()).collect()
}

/// Whose pods a command displaces. As upstream searches, nobody asks.
fn moved(context: &Context, sight: &Sight, command: &Command) -> BTreeMap<String, Moved> {
    match context.options.consolidation_search {
        ConsolidationSearch::Upstream => BTreeMap::new(),
        _ => displaced::moved(&sight.snapshot, command, sight.now),
    }
}

/// A place under the limit of its pool for each replacement that is a static one.
fn reserve<'a>(
    context: &'a Context,
    replacements: &'a [Replacement],
) -> Result<Vec<Option<Reservation<'a>>>, Trouble> {
    let one = |replacement: &'a Replacement| {
        let Replacement::Template { pool } = replacement else { return Ok(None) };
        let wire = context.cache.node_pools.get("", pool);
        let wire = wire.ok_or_else(|| no_pool(pool))?;
        let place = Reservation::one(&context.mirror, pool, node_limit(&wire));
        let full = || Trouble::new("node limit is reached").with("NodePool", pool.clone());
        place.map(Some).ok_or_else(full)
    };
    replacements.iter().map(one).collect()
}

fn no_pool(name: &str) -> Trouble {
    Trouble::while_("getting nodepool", "not found").with("NodePool", name.to_owned())
}

/// Marks the sources. Returns those that are, and what went wrong with others.
async fn mark_all(context: &Context, command: &Command) -> (Vec<Candidate>, Option<Trouble>) {
    let marks = command.candidates.iter().map(|candidate| {
        mark::mark(context, &candidate.name, &candidate.node_claim, command.reason())
    });
    let results = join_all(marks).await;
    let (mut marked, mut troubles) = (Vec::new(), Vec::new());
    for (candidate, result) in command.candidates.iter().zip(results) {
        match result {
            Ok(()) => {
                if candidate.is_static {
                    context.mirror.mark_pending_disruption(&candidate.node_claim);
                }
                marked.push(candidate.clone());
            }
            Err(trouble) => troubles.push(trouble),
        }
    }
    (marked, Trouble::join(troubles))
}

/// Creates the replacements. Returns their names, in the order of the command.
async fn launch(
    context: &Context,
    sight: &Sight,
    reason: &str,
    replacements: impl Iterator<Item = (&Replacement, Option<Reservation<'_>>)>,
    id: &str,
) -> Result<Vec<String>, Trouble> {
    let mut chance = context.chance.fork("replacements").fork(id);
    let mut creations: Vec<BoxFuture<'_, Result<String, Trouble>>> = Vec::new();
    for (replacement, reservation) in replacements {
        let made = make(sight, replacement, &mut chance)?;
        creations.push(Box::pin(async move {
            let current = context.cache.node_pools.get("", &made.pool);
            let current = current.ok_or_else(|| no_pool(&made.pool))?;
            let limits = objects::resources(current.spec.limits.as_ref());
            let labels = NodeClaimsCreated {
                reason,
                nodepool: &made.pool,
                min_values_relaxed: if made.is_relaxed { "true" } else { "false" },
            };
            let log = Log { requests: &made.requests, types: made.types };
            let created = act::post(context, &limits, &made.claim, labels, &log).await?;
            // Counted before the reservation ends, so that there is no moment between.
            drop(reservation);
            Ok(created.name_any())
        }));
    }
    let results = join_all(creations).await;
    let mut names = Vec::with_capacity(results.len());
    let mut troubles = Vec::new();
    for result in results {
        match result {
            Ok(name) => names.push(name),
            Err(trouble) => troubles.push(trouble),
        }
    }
    match Trouble::join(troubles) {
        None => Ok(names),
        Some(trouble) => Err(trouble),
    }
}

/// A replacement that is to be created.
struct Made {
    pool: String,
    claim: karpenter_api::nodeclaim::NodeClaim,
    is_relaxed: bool,
    requests: Resources,
    types: String,
}

fn make(sight: &Sight, replacement: &Replacement, chance: &mut Chance) -> Result<Made, Trouble> {
    let pool = match replacement {
        Replacement::Planned(planned) => &sight.snapshot.pool(planned.pool).name,
        Replacement::Template { pool } => pool,
    };
    let wire = sight.pools.get(pool).ok_or_else(|| no_pool(pool))?;
    let pool = pool.clone();
    Ok(match replacement {
        Replacement::Planned(planned) => Made {
            claim: claim::planned(wire, planned, &sight.catalog, chance),
            is_relaxed: planned.min_values_relaxed,
            requests: planned.requests.clone(),
            types: act::names(&pool, &sight.catalog, planned),
            pool,
        },
        Replacement::Template { .. } => Made {
            claim: claim::fixed(wire, chance, &sight.catalog),
            is_relaxed: false,
            requests: Resources::default(),
            types: String::new(),
            pool,
        },
    })
}
