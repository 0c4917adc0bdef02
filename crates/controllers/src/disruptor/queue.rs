//! `disruption.queue`: carries out started commands (spec 30 §9).
//!
//! ```text
//! start ──▶ CommandQueue ── every second: are the replacements ready? ──▶ candidates deleted
//!                                 └── a replacement is gone, or time is up ──▶ rolled back
//! ```
//!
//! Commands exist in memory only. After a restart the next pass removes their marks, and their
//! replacements stay as ordinary nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use karpenter_api::annotations::NODECLAIM_TERMINATION_TIMESTAMP;
use karpenter_api::condition_set::{HasConditions as _, is_true};
use karpenter_api::conditions::INITIALIZED;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_core::disruption::queue::{
    Failure, POLL_INTERVAL, PendingReplacement, ReplacementState, RunningCommand, Step,
};
use karpenter_core::disruption::{Candidate, Command, Reason};
use karpenter_core::termination::deadline;
use karpenter_operator::events::definitions as events;
use karpenter_operator::harness::{
    Controller, Outcome, RateLimit, Reconcile, ReconcileError, ReconcileResult, WorkQueue,
};
use karpenter_operator::watch::ObjectKey;
use kube::{Api, Resource as _, ResourceExt as _};
use tracing::{debug, error};

use super::backoff::PoolBackoffs;
use super::metrics::CommandLogFields;
use super::{mark, metrics};
use crate::Context;
use crate::failed_consolidation::MovedWorkload;
use crate::objects::{self, DeleteResult, ObjectPart};

#[cfg(test)]
mod tests;

/// The rate limit of retries after a reconcile error.
const LIMIT: RateLimit = RateLimit {
    base_delay: Duration::from_secs(1),
    max_delay: Duration::from_secs(10),
    per_second: 100.0,
    burst: 1000.0,
};

pub(super) fn controller(context: &Context, command_queue: &CommandQueue) -> Controller {
    let reconciler =
        QueueReconciler { context: context.clone(), command_queue: command_queue.clone() };
    Controller::new("disruption.queue", &context.clock, reconciler)
        .workers(context.workers(100, 1000))
        .queue(&command_queue.0.work)
}

/// The started commands. Clones share them.
#[derive(Clone)]
pub(super) struct CommandQueue(Arc<Inner>);

struct Inner {
    work: WorkQueue,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many commands there have been.
    count: u64,
    commands: BTreeMap<String, Arc<ActiveCommand>>,
    /// The command of each node, by provider id; also while the command is starting.
    by_provider_id: BTreeMap<String, String>,
    backoffs: PoolBackoffs,
    /// NodeClaims that consolidation launched, with the time and the savings.
    recent_launches: BTreeMap<String, (Timestamp, f64)>,
}

/// How long a claim that consolidation launched is spared from a smaller saving.
const COOL_DOWN: SignedDuration = SignedDuration::from_mins(10);

/// A command that has started.
pub(super) struct ActiveCommand {
    pub(super) id: String,
    pub(super) command: Command,
    details: CommandDetails,
    running: Mutex<RunningCommand>,
    /// Provider ids of the deleted candidates.
    deleted: Mutex<BTreeSet<String>>,
}

/// The facts of a command that its metrics and other components need. Its observation is large, so
/// it is not kept.
pub(super) struct CommandDetails {
    pub(super) fields: CommandLogFields,
    /// The consolidation policies of its pools.
    pub(super) policies: BTreeMap<String, String>,
    /// The pods placed on its replacements, by `namespace/name`.
    pub(super) pods_on_replacements: BTreeSet<String>,
    /// The workloads whose pods it moves; empty with the upstream search.
    pub(super) moved_workloads: BTreeMap<String, MovedWorkload>,
}

impl CommandQueue {
    pub(super) fn new(context: &Context) -> Self {
        let work = WorkQueue::new(&context.clock, LIMIT);
        Self(Arc::new(Inner { work, state: Mutex::default() }))
    }

    /// Reserves the candidates of a command and returns the command's id. None if another command
    /// has one of them.
    pub(super) fn reserve_candidates(
        &self,
        context: &Context,
        command: &Command,
    ) -> Option<String> {
        let mut state = self.state();
        let ids = || command.candidates.iter().map(|candidate| &candidate.provider_id);
        if ids().any(|id| state.by_provider_id.contains_key(id)) {
            return None;
        }
        state.count += 1;
        let mut rng = context.rng.fork("commands").fork(&state.count.to_string());
        let id = uuid(rng.u128());
        for provider_id in ids() {
            state.by_provider_id.insert(provider_id.clone(), id.clone());
        }
        Some(id)
    }

    /// Removes a command and releases its candidates.
    pub(super) fn release(&self, id: &str) {
        let mut state = self.state();
        state.commands.remove(id);
        state.by_provider_id.retain(|_, of| of != id);
    }

    /// Adds a command that started at `now`.
    pub(super) fn add(
        &self,
        id: &str,
        command: Command,
        details: CommandDetails,
        replacements: Vec<String>,
        now: Timestamp,
    ) {
        let active = ActiveCommand {
            id: id.to_owned(),
            running: Mutex::new(RunningCommand::new(now, replacements)),
            deleted: Mutex::default(),
            command,
            details,
        };
        let mut state = self.state();
        if active.command.reason() == Reason::Underutilized {
            let launched = lock(&active.running).replacements.clone();
            let noted = (now, active.command.savings);
            state.recent_launches.extend(launched.into_iter().map(|awaited| (awaited.name, noted)));
        }
        // Candidates that could not be marked are not part of it any more.
        let ids: BTreeSet<_> = active.provider_ids().map(str::to_owned).collect();
        state.by_provider_id.retain(|provider_id, of| of != id || ids.contains(provider_id));
        state.commands.insert(id.to_owned(), Arc::new(active));
        drop(state);
        self.0.work.add(ObjectKey::new("", id));
    }

    /// Returns whether a command has the node with this provider id.
    pub(super) fn is_queued(&self, provider_id: &str) -> bool {
        self.state().by_provider_id.contains_key(provider_id)
    }

    /// Returns the provider ids of the nodes that commands have.
    pub(super) fn provider_ids(&self) -> BTreeSet<String> {
        self.state().by_provider_id.keys().cloned().collect()
    }

    /// Returns the pods of commands with an unlaunched replacement, by `namespace/name`.
    pub(super) fn pods_on_launching_replacements(&self, context: &Context) -> BTreeSet<String> {
        let is_launching = |awaited: &PendingReplacement| {
            let claim = context.cache.node_claims.get("", &awaited.name);
            claim.is_some_and(|claim| objects::provider_id(&claim).is_empty())
        };
        let state = self.state();
        let active_commands = state.commands.values();
        let active_commands =
            active_commands.filter(|one| lock(&one.running).replacements.iter().any(is_launching));
        active_commands
            .flat_map(|active| active.details.pods_on_replacements.iter().cloned())
            .collect()
    }

    /// Returns the pools whose drift backs off after a failed command.
    pub(super) fn backed_off(&self, now: Timestamp) -> BTreeSet<String> {
        self.state().backoffs.active_pools(now)
    }

    /// Returns the NodeClaims that consolidation launched recently, with the savings.
    pub(super) fn recent_launches(&self, now: Timestamp) -> BTreeMap<String, f64> {
        let mut state = self.state();
        state.recent_launches.retain(|_, (launched, _)| now.duration_since(*launched) < COOL_DOWN);
        let launches = state.recent_launches.iter();
        launches.map(|(claim, (_, savings))| (claim.clone(), *savings)).collect()
    }

    /// Records for these pools whether a command has succeeded.
    pub(super) fn record_outcome<'a>(
        &self,
        context: &Context,
        pools: impl IntoIterator<Item = &'a str>,
        has_worked: bool,
    ) {
        let now = context.clock.now();
        let mut state = self.state();
        for pool in pools {
            if has_worked {
                state.backoffs.record_success(pool);
            } else {
                let mut rng = context.rng.fork("drift").fork(pool).fork(&now.to_string());
                state.backoffs.record_failure(pool, now, rng.f64());
            }
        }
    }

    fn get(&self, id: &str) -> Option<Arc<ActiveCommand>> {
        self.state().commands.get(id).cloned()
    }

    fn node_count(&self) -> usize {
        self.state().by_provider_id.len()
    }

    #[cfg(test)]
    pub(super) fn commands(&self) -> Vec<Arc<ActiveCommand>> {
        self.state().commands.values().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The text of a random uuid (version 4).
fn uuid(bits: u128) -> String {
    let bits = (bits & !(0xf000 << 64) & !(0xc000 << 48)) | (0x4000 << 64) | (0x8000 << 48);
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

impl ActiveCommand {
    fn provider_ids(&self) -> impl Iterator<Item = &str> {
        self.command.candidates.iter().map(|candidate| candidate.provider_id.as_str())
    }
}

struct QueueReconciler {
    context: Context,
    command_queue: CommandQueue,
}

impl Reconcile for QueueReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let Some(active) = self.command_queue.get(&key.name) else { return Ok(Outcome::Done) };
        let (now, in_queue) = (self.context.clock.now(), self.command_queue.node_count());
        let sources = self.sources(&active).len();
        let step = lock(&active.running).next_step(
            |name| self.observe_replacement(name, &active.command),
            sources,
            in_queue,
            now,
        );
        match step {
            Step::Wait => return Ok(Outcome::RequeueAfter(POLL_INTERVAL)),
            Step::Finish => self.succeed(&active),
            Step::Fail(failure) => self.fail(&active, &failure).await,
            Step::Terminate => return self.terminate(&active).await,
        }
        Ok(Outcome::Done)
    }
}

impl QueueReconciler {
    /// Returns the candidates whose NodeClaims exist, with the NodeClaims.
    fn sources<'a>(&self, active: &'a ActiveCommand) -> Vec<(&'a Candidate, Arc<NodeClaim>)> {
        let claim = |candidate: &'a Candidate| {
            let claim = self.context.cache.node_claims.get("", &candidate.node_claim)?;
            // A NodeClaim recreated under the name is another one.
            let is_same = objects::provider_id(&claim) == candidate.provider_id;
            is_same.then_some((candidate, claim))
        };
        active.command.candidates.iter().filter_map(claim).collect()
    }

    fn observe_replacement(&self, name: &str, command: &Command) -> ReplacementState {
        let Some(claim) = self.context.cache.node_claims.get("", name) else {
            let is_known = self.context.mirror.has_node_claim(name);
            return if is_known { ReplacementState::NotInCache } else { ReplacementState::Deleted };
        };
        let (events, reference) = (&self.context.events, || claim.object_ref(&()));
        events.publish(events::disruption_launching(reference(), command.reason().name()));
        if is_true(claim.conditions(), INITIALIZED) {
            return ReplacementState::Initialized;
        }
        events.publish(events::disruption_waiting_readiness(reference()));
        ReplacementState::Starting
    }

    async fn terminate(&self, active: &ActiveCommand) -> ReconcileResult {
        let sources = self.sources(active);
        // Before the first of them is evicted.
        let (ActiveCommand { id, command, details, .. }, now) = (active, self.context.clock.now());
        self.context.consolidation_tracker.record_deletion(
            id,
            command,
            &details.moved_workloads,
            now,
        );
        let deletions = sources.iter().map(|(candidate, claim)| async {
            let is_deleted = lock(&active.deleted).contains(&candidate.provider_id);
            if is_deleted {
                return Ok(());
            }
            self.delete(active, candidate, claim).await
        });
        let results = join_all(deletions).await;
        let Some(error) = ReconcileError::join(results.into_iter().filter_map(Result::err)) else {
            self.succeed(active);
            return Ok(Outcome::Done);
        };
        let (now, in_queue) = (self.context.clock.now(), self.command_queue.node_count());
        let step = lock(&active.running).after_failed_delete(&error.to_string(), in_queue, now);
        match step {
            Step::Fail(failure) => {
                self.fail(active, &failure).await;
                Ok(Outcome::Done)
            }
            _ => Ok(Outcome::RequeueAfter(POLL_INTERVAL)),
        }
    }

    async fn delete(
        &self,
        active: &ActiveCommand,
        candidate: &Candidate,
        claim: &NodeClaim,
    ) -> Result<(), ReconcileError> {
        let (context, command) = (&self.context, &active.command);
        let api: Api<NodeClaim> = Api::all(context.client.clone());
        let claims = &context.cache.node_claims;
        if let Some(bound) = command.drain_bound {
            // It counts from here: the time that replacements took is not part of it.
            let latest = context.clock.now().saturating_add(bound).unwrap_or(Timestamp::MAX);
            let stamp = |claim: &mut NodeClaim| {
                let present = claim.annotations().get(NODECLAIM_TERMINATION_TIMESTAMP);
                if let Some(text) = deadline::tighten(present.map(String::as_str), latest) {
                    let notes = claim.metadata.annotations.get_or_insert_default();
                    notes.insert(NODECLAIM_TERMINATION_TIMESTAMP.to_owned(), text);
                }
            };
            let name = &candidate.node_claim;
            objects::patch_with_retries(
                &context.clock,
                &api,
                claims,
                name,
                ObjectPart::Main,
                stamp,
            )
            .await?;
        }
        let (node, reference) = metrics::references(context, candidate);
        let deleted = objects::delete_with_retries(&context.clock, &api, claims, claim).await?;
        lock(&active.deleted).insert(candidate.provider_id.clone());
        if deleted == DeleteResult::Missing {
            return Ok(());
        }
        if let (Some(node), Some(reference)) = (node, reference) {
            let reason = command.reason().name();
            context.events.publish_all(events::disruption_terminating(node, reference, reason));
        }
        metrics::count_disrupted(context, &active.details.policies, command, candidate, claim);
        Ok(())
    }

    fn succeed(&self, active: &ActiveCommand) {
        debug!(command = active.command.describe(&active.id), "command succeeded");
        self.command_queue.record_outcome(&self.context, active.command.pools(), true);
        self.command_queue.release(&active.id);
    }

    /// Rolls the candidates back. Existing replacements stay.
    async fn fail(&self, active: &ActiveCommand, failure: &Failure) {
        let ActiveCommand { id, command, details, .. } = active;
        let uninitialized = lock(&active.running).uninitialized_count();
        metrics::count_failure(&self.context, command, uninitialized);
        let error = roll_back(&self.context, &command.candidates).await;
        let error = error.map(|error| format!("; {error}")).unwrap_or_default();
        let fields = &details.fields;
        error!(
            error = format!("{failure}{error}"),
            command = command.describe(id),
            decision = fields.decision,
            "disrupted-node-count" = fields.disrupted_count,
            "replacement-node-count" = fields.replacement_count,
            "pod-count" = fields.pod_count,
            "disrupted-nodes" = ?fields.disrupted,
            "replacement-nodes" = ?fields.replacements,
            "failed terminating nodes while executing a disruption command"
        );
        if command.method.consolidation_type().is_empty() {
            self.command_queue.record_outcome(&self.context, command.pools(), false);
        }
        self.command_queue.release(id);
    }
}

/// Removes the marks of a command from its nodes. The next pass retries failures.
pub(super) async fn roll_back(
    context: &Context,
    candidates: &[Candidate],
) -> Option<ReconcileError> {
    context
        .consolidation_tracker
        .untrack_claims(candidates.iter().map(|candidate| candidate.node_claim.as_str()));
    let ids = candidates.iter().map(|candidate| candidate.provider_id.as_str());
    context.mirror.unmark_for_deletion(ids, context.clock.now());
    let results = join_all(candidates.iter().map(|candidate| async {
        let untainted = mark::untaint(context, &candidate.name).await;
        let cleared = mark::clear_reason(context, &candidate.node_claim).await;
        [untainted, cleared]
    }));
    ReconcileError::join(results.await.into_iter().flatten().filter_map(Result::err))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while one is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
