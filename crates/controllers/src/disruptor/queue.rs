//! `disruption.queue`: commands that have begun (spec 30 §9).
//!
//! ```text
//! start ──▶ Orchestration ── every second: are the replacements ready? ──▶ sources deleted
//!                                  └── a replacement is gone, or time is up ──▶ rolled back
//! ```
//!
//! Commands are in memory alone. After a restart nobody knows them: their marks are taken back by
//! the next pass, and replacements stay as nodes like any other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use karpenter_api::annotations::NODECLAIM_TERMINATION_TIMESTAMP;
use karpenter_api::condition_set::{HasConditions as _, is_true};
use karpenter_api::conditions::INITIALIZED;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_core::disruption::queue::{Awaited, Failure, POLL, Running, Sighting, Step};
use karpenter_core::disruption::{Candidate, Command, Reason};
use karpenter_core::termination::deadline;
use karpenter_operator::events::list as events;
use karpenter_operator::harness::{
    Controller, Limit, Outcome, Queue, Reconcile, Reconciled, Trouble,
};
use karpenter_operator::watch::ObjectKey;
use kube::{Api, Resource as _, ResourceExt as _};
use tracing::{debug, error};

use super::backoff::Backoffs;
use super::report::Fields;
use super::{mark, report};
use crate::Context;
use crate::displaced::Moved;
use crate::objects::{self, Deleted, Part};

#[cfg(test)]
mod tests;

/// How fast commands are tried again that had trouble.
const LIMIT: Limit = Limit {
    base: Duration::from_secs(1),
    longest: Duration::from_secs(10),
    per_second: 100.0,
    burst: 1000.0,
};

pub(super) fn controller(context: &Context, orchestration: &Orchestration) -> Controller {
    let executor = Executor { context: context.clone(), orchestration: orchestration.clone() };
    Controller::new("disruption.queue", &context.clock, executor)
        .workers(context.workers(100, 1000))
        .queue(&orchestration.0.work)
}

/// The commands that have begun. Clones share them.
#[derive(Clone)]
pub(super) struct Orchestration(Arc<Inner>);

struct Inner {
    work: Queue,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many commands there have been.
    count: u64,
    commands: BTreeMap<String, Arc<Flight>>,
    /// The command of a machine, by provider id; also while it is being started.
    by_machine: BTreeMap<String, String>,
    backoffs: Backoffs,
    /// Claims that consolidation launched, when, and what that saved.
    launched: BTreeMap<String, (Timestamp, f64)>,
}

/// How long a claim that consolidation launched is spared from a smaller saving.
const COOL_DOWN: SignedDuration = SignedDuration::from_mins(10);

/// A command that is carried out.
pub(super) struct Flight {
    pub(super) id: String,
    pub(super) command: Command,
    told: Told,
    running: Mutex<Running>,
    /// Sources that are deleted, by provider id.
    deleted: Mutex<BTreeSet<String>>,
}

/// What others have to know of a command. What it was decided on is large, so it is not kept.
pub(super) struct Told {
    pub(super) fields: Fields,
    /// The consolidation policies of its pools.
    pub(super) policies: BTreeMap<String, String>,
    /// The pods that go to its replacements, by `namespace/name`.
    pub(super) coming: BTreeSet<String>,
    /// Whose pods it displaces; empty if nobody asks.
    pub(super) moved: BTreeMap<String, Moved>,
}

impl Orchestration {
    pub(super) fn new(context: &Context) -> Self {
        let work = Queue::new(&context.clock, LIMIT);
        Self(Arc::new(Inner { work, state: Mutex::default() }))
    }

    /// Takes the sources of a command, so that no other has them, and names it. None if one of them
    /// is taken.
    pub(super) fn claim(&self, context: &Context, command: &Command) -> Option<String> {
        let mut state = self.state();
        let ids = || command.candidates.iter().map(|candidate| &candidate.provider_id);
        if ids().any(|id| state.by_machine.contains_key(id)) {
            return None;
        }
        state.count += 1;
        let mut chance = context.chance.fork("commands").fork(&state.count.to_string());
        let id = uuid(chance.u128());
        for machine in ids() {
            state.by_machine.insert(machine.clone(), id.clone());
        }
        Some(id)
    }

    /// Lets the sources of a command go.
    pub(super) fn release(&self, id: &str) {
        let mut state = self.state();
        state.commands.remove(id);
        state.by_machine.retain(|_, of| of != id);
    }

    /// Begins to look after a command, which was begun now.
    pub(super) fn add(
        &self,
        id: &str,
        command: Command,
        told: Told,
        replacements: Vec<String>,
        now: Timestamp,
    ) {
        let flight = Flight {
            id: id.to_owned(),
            running: Mutex::new(Running::new(now, replacements)),
            deleted: Mutex::default(),
            command,
            told,
        };
        let mut state = self.state();
        if flight.command.reason() == Reason::Underutilized {
            let launched = lock(&flight.running).replacements.clone();
            let noted = (now, flight.command.savings);
            state.launched.extend(launched.into_iter().map(|awaited| (awaited.name, noted)));
        }
        // Sources that could not be marked are not part of it any more.
        let ids: BTreeSet<_> = flight.ids().map(str::to_owned).collect();
        state.by_machine.retain(|machine, of| of != id || ids.contains(machine));
        state.commands.insert(id.to_owned(), Arc::new(flight));
        drop(state);
        self.0.work.add(ObjectKey::new("", id));
    }

    /// Whether a command is at work on a machine.
    pub(super) fn has(&self, provider_id: &str) -> bool {
        self.state().by_machine.contains_key(provider_id)
    }

    /// The machines that commands are at work on.
    pub(super) fn machines(&self) -> BTreeSet<String> {
        self.state().by_machine.keys().cloned().collect()
    }

    /// The pods that get a place on replacements which are not launched yet, by `namespace/name`.
    pub(super) fn coming(&self, context: &Context) -> BTreeSet<String> {
        let is_launching = |awaited: &Awaited| {
            let claim = context.cache.node_claims.get("", &awaited.name);
            claim.is_some_and(|claim| objects::provider_id(&claim).is_empty())
        };
        let state = self.state();
        let flights = state.commands.values();
        let flights =
            flights.filter(|one| lock(&one.running).replacements.iter().any(is_launching));
        flights.flat_map(|flight| flight.told.coming.iter().cloned()).collect()
    }

    /// The pools whose drift has to wait, as their last replacements failed.
    pub(super) fn backed_off(&self, now: Timestamp) -> BTreeSet<String> {
        self.state().backoffs.active(now)
    }

    /// The claims that consolidation launched a moment ago, and what that saved.
    pub(super) fn young(&self, now: Timestamp) -> BTreeMap<String, f64> {
        let mut state = self.state();
        state.launched.retain(|_, (launched, _)| now.duration_since(*launched) < COOL_DOWN);
        let young = state.launched.iter();
        young.map(|(claim, (_, savings))| (claim.clone(), *savings)).collect()
    }

    /// A command for these pools did not work, or did.
    pub(super) fn note<'a>(
        &self,
        context: &Context,
        pools: impl IntoIterator<Item = &'a str>,
        has_worked: bool,
    ) {
        let now = context.clock.now();
        let mut state = self.state();
        for pool in pools {
            if has_worked {
                state.backoffs.succeeded(pool);
            } else {
                let mut chance = context.chance.fork("drift").fork(pool).fork(&now.to_string());
                state.backoffs.failed(pool, now, chance.f64());
            }
        }
    }

    fn get(&self, id: &str) -> Option<Arc<Flight>> {
        self.state().commands.get(id).cloned()
    }

    fn len(&self) -> usize {
        self.state().by_machine.len()
    }

    #[cfg(test)]
    pub(super) fn commands(&self) -> Vec<Arc<Flight>> {
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

impl Flight {
    fn ids(&self) -> impl Iterator<Item = &str> {
        self.command.candidates.iter().map(|candidate| candidate.provider_id.as_str())
    }
}

struct Executor {
    context: Context,
    orchestration: Orchestration,
}

impl Reconcile for Executor {
    async fn reconcile(&self, key: &ObjectKey) -> Reconciled {
        let Some(flight) = self.orchestration.get(&key.name) else { return Ok(Outcome::Done) };
        let (now, in_queue) = (self.context.clock.now(), self.orchestration.len());
        let sources = self.sources(&flight).len();
        let step = lock(&flight.running).next(
            |name| self.sighting(name, &flight.command),
            sources,
            in_queue,
            now,
        );
        match step {
            Step::Wait => return Ok(Outcome::After(POLL)),
            Step::Moot => self.succeed(&flight),
            Step::Fail(failure) => self.fail(&flight, &failure).await,
            Step::Terminate => return self.terminate(&flight).await,
        }
        Ok(Outcome::Done)
    }
}

impl Executor {
    /// The sources whose claims are there, with these.
    fn sources<'a>(&self, flight: &'a Flight) -> Vec<(&'a Candidate, Arc<NodeClaim>)> {
        let claim = |candidate: &'a Candidate| {
            let claim = self.context.cache.node_claims.get("", &candidate.node_claim)?;
            // One that got its name is another.
            let is_same = objects::provider_id(&claim) == candidate.provider_id;
            is_same.then_some((candidate, claim))
        };
        flight.command.candidates.iter().filter_map(claim).collect()
    }

    fn sighting(&self, name: &str, command: &Command) -> Sighting {
        let Some(claim) = self.context.cache.node_claims.get("", name) else {
            let is_known = self.context.mirror.knows_node_claim(name);
            return if is_known { Sighting::Unseen } else { Sighting::Gone };
        };
        let (events, reference) = (&self.context.events, || claim.object_ref(&()));
        events.publish(events::disruption_launching(reference(), command.reason().name()));
        if is_true(claim.conditions(), INITIALIZED) {
            return Sighting::Initialized;
        }
        events.publish(events::disruption_waiting_readiness(reference()));
        Sighting::Starting
    }

    async fn terminate(&self, flight: &Flight) -> Reconciled {
        let sources = self.sources(flight);
        // Before the first of them is evicted.
        let (Flight { id, command, told, .. }, now) = (flight, self.context.clock.now());
        self.context.displaced.note(id, command, &told.moved, now);
        let deletions = sources.iter().map(|(candidate, claim)| async {
            let is_deleted = lock(&flight.deleted).contains(&candidate.provider_id);
            if is_deleted {
                return Ok(());
            }
            self.delete(flight, candidate, claim).await
        });
        let results = join_all(deletions).await;
        let Some(trouble) = Trouble::join(results.into_iter().filter_map(Result::err)) else {
            self.succeed(flight);
            return Ok(Outcome::Done);
        };
        let (now, in_queue) = (self.context.clock.now(), self.orchestration.len());
        let step = lock(&flight.running).after_failed_delete(&trouble.to_string(), in_queue, now);
        match step {
            Step::Fail(failure) => {
                self.fail(flight, &failure).await;
                Ok(Outcome::Done)
            }
            _ => Ok(Outcome::After(POLL)),
        }
    }

    async fn delete(
        &self,
        flight: &Flight,
        candidate: &Candidate,
        claim: &NodeClaim,
    ) -> Result<(), Trouble> {
        let (context, command) = (&self.context, &flight.command);
        let api: Api<NodeClaim> = Api::all(context.client.clone());
        let claims = &context.cache.node_claims;
        if let Some(bound) = command.drain_bound {
            // It counts from here: the time that replacements took is not part of it.
            let latest = context.clock.now().saturating_add(bound).unwrap_or(Timestamp::MAX);
            let stamp = |claim: &mut NodeClaim| {
                let present = claim.annotations().get(NODECLAIM_TERMINATION_TIMESTAMP);
                if let Some(text) = deadline::tightened(present.map(String::as_str), latest) {
                    let notes = claim.metadata.annotations.get_or_insert_default();
                    notes.insert(NODECLAIM_TERMINATION_TIMESTAMP.to_owned(), text);
                }
            };
            let name = &candidate.node_claim;
            objects::change_surely(&context.clock, &api, claims, name, Part::Main, stamp).await?;
        }
        let (node, reference) = report::references(context, candidate);
        let deleted = objects::delete_surely(&context.clock, &api, claims, claim).await?;
        lock(&flight.deleted).insert(candidate.provider_id.clone());
        if deleted == Deleted::Missing {
            return Ok(());
        }
        if let (Some(node), Some(reference)) = (node, reference) {
            let reason = command.reason().name();
            context.events.publish_all(events::disruption_terminating(node, reference, reason));
        }
        report::count_disrupted(context, &flight.told.policies, command, candidate, claim);
        Ok(())
    }

    fn succeed(&self, flight: &Flight) {
        debug!(command = flight.command.describe(&flight.id), "command succeeded");
        self.orchestration.note(&self.context, flight.command.pools(), true);
        self.orchestration.release(&flight.id);
    }

    /// Takes back what was done to the sources. Replacements that exist stay.
    async fn fail(&self, flight: &Flight, failure: &Failure) {
        let Flight { id, command, told, .. } = flight;
        let uninitialized = lock(&flight.running).uninitialized();
        report::count_failure(&self.context, command, uninitialized);
        let trouble = roll_back(&self.context, &command.candidates).await;
        let trouble = trouble.map(|trouble| format!("; {trouble}")).unwrap_or_default();
        let fields = &told.fields;
        error!(
            error = format!("{failure}{trouble}"),
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
            self.orchestration.note(&self.context, command.pools(), false);
        }
        self.orchestration.release(id);
    }
}

/// Lets nodes be as they were before a command. What fails is done by the next pass.
pub(super) async fn roll_back(context: &Context, candidates: &[Candidate]) -> Option<Trouble> {
    context.displaced.end(candidates.iter().map(|candidate| candidate.node_claim.as_str()));
    let ids = candidates.iter().map(|candidate| candidate.provider_id.as_str());
    context.mirror.unmark_for_deletion(ids, context.clock.now());
    let results = join_all(candidates.iter().map(|candidate| async {
        let untainted = mark::untaint(context, &candidate.name).await;
        let cleared = mark::clear_reason(context, &candidate.node_claim).await;
        [untainted, cleared]
    }));
    Trouble::join(results.await.into_iter().flatten().filter_map(Result::err))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while one is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
