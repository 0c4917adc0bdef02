//! `disruption`: looks for nodes to remove or replace, again and again (spec 30 §2).
//!
//! ```text
//! leftovers taken back ─▶ rested commands begun, or dropped ─▶ a look ─▶ commands begun, or rest
//! ```
//!
//! It never waits: a command that has to rest is kept, and the next pass comes when it has rested.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use karpenter_cluster::mirror::SyncProblem;
use karpenter_core::disruption::{Command, Decision, Invalid, Method, Reason, RebootHistory};
use karpenter_core::lifecycle::repair::policy::Policies;
use karpenter_operator::cloud::check_repair_policies;
use karpenter_operator::harness::{Controller, Outcome, Reconcile, Reconciled, Trouble};
use karpenter_operator::metrics::labels::{ConsolidationType, ReasonConsolidation};
use karpenter_operator::options::ConsolidationSearch;
use karpenter_operator::think::think;
use karpenter_operator::watch::ObjectKey;
use tracing::{debug, error};

use super::costs::UnreadCosts;
use super::look::{Beside, Found, Repair, look, wait};
use super::pending::{Pending, Resting};
use super::queue::Orchestration;
use super::room::Room;
use super::sight::Sight;
use super::start::start;
use super::validation::{recheck, validate};
use super::{mark, pending, reboot, report, tell};
use crate::Context;

#[cfg(test)]
mod tests;

/// How often to look when there is nothing to do.
const POLL: Duration = Duration::from_secs(10);
/// When to look again while the mirror is not complete.
const NOT_YET: Duration = Duration::from_secs(1);
/// How often it is told what annotations of pods mean.
const TELL_EVERY: SignedDuration = SignedDuration::from_mins(2);
/// A pass that comes later than this after the one before is worth a word.
const ABNORMAL: SignedDuration = SignedDuration::from_mins(15);

pub(super) fn controller(context: &Context, orchestration: &Orchestration) -> Controller {
    let disruptor = Disruptor {
        context: context.clone(),
        orchestration: orchestration.clone(),
        // A process with policies that make no sense does not start.
        policies: check_repair_policies(&context.options, &context.cloud.repair_policies())
            .unwrap_or_default()
            .map(Arc::new),
        memory: Mutex::default(),
    };
    Controller::new("disruption", &context.clock, disruptor).singleton()
}

struct Disruptor {
    context: Context,
    orchestration: Orchestration,
    /// What repair goes by; none if it is off.
    policies: Option<Arc<Policies>>,
    memory: Mutex<Memory>,
}

/// What a pass leaves to the next. A restart loses it, which costs a pass and no more.
#[derive(Default)]
struct Memory {
    /// Commands that rest.
    pending: Pending,
    /// Methods that found nothing, and in which state of the cluster.
    settled: BTreeMap<Method, Timestamp>,
    /// NodePools that single-node consolidation did not come to.
    unseen_pools: BTreeSet<String>,
    /// Methods whose command has just been dropped: the others have their turn first.
    passed_over: BTreeSet<Method>,
    /// Until when consolidation waits, as its last command was dropped or has just begun.
    quiet_until: Option<Timestamp>,
    /// Since and until when it waits for nodes that are about to become consolidatable.
    waits: Option<(Timestamp, Timestamp)>,
    /// The reboots of the last day.
    reboots: RebootHistory,
    last_run: Option<Timestamp>,
    told_annotations: Option<Timestamp>,
    /// Costs of evictions that could not be read.
    unread_costs: UnreadCosts,
    /// What was last said about budgets.
    budget_errors: String,
}

impl Reconcile for Disruptor {
    async fn reconcile(&self, _: &ObjectKey) -> Reconciled {
        let context = &self.context;
        let now = context.clock.now();
        self.tell_gap(now);
        if !self.is_complete(now) {
            return Ok(Outcome::After(NOT_YET));
        }
        mark::repair(context, |id| self.orchestration.has(id)).await?;
        let (mut state, mut sight) = self.see().await;
        self.tell_budget_errors(&sight);
        self.tell_annotations(now).await;
        let mut has_acted = self.begin_rested(&sight).await?;
        if has_acted {
            // What was begun is marked now, which a look has to see.
            (state, sight) = self.see().await;
        }
        sight.let_go(&self.memory().pending.empty());
        let found = look(context, &sight, self.beside(&sight, state)).await?;
        tell::tell(context, &sight, &found);
        self.remember(&found, state);
        has_acted |= self.act(&sight, found).await;
        Ok(Outcome::After(if has_acted { Duration::ZERO } else { self.pause() }))
    }
}

impl Disruptor {
    /// The state of the cluster, and the cluster: in this order, so that what changes in between is
    /// news to the next pass.
    async fn see(&self) -> (Timestamp, Sight) {
        let state = self.context.mirror.consolidation_state(self.context.clock.now());
        let mut sight = Sight::take(&self.context).await;
        sight.set_aside(&self.orchestration.coming(&self.context));
        (state, sight)
    }

    fn tell_gap(&self, now: Timestamp) {
        let before = self.memory().last_run.replace(now);
        let gap = before.map(|before| now.duration_since(before));
        if let Some(gap) = gap.filter(|gap| *gap > ABNORMAL) {
            let time_since = format!("{gap:#}");
            debug!(name = "disruption-loop", time_since, "abnormal time between runs");
        }
    }

    /// Whether the mirror is fit for decisions: all of it is told, and has been until now. A
    /// NodeClaim that is not launched yet is a node of which nothing is known; upstream waits for
    /// it. Here it only counts against the limits of its pool, for as much as it may become.
    fn is_complete(&self, now: Timestamp) -> bool {
        let mirror = &self.context.mirror;
        let state = mirror.sync(now);
        let is_launch = |problem: &SyncProblem| matches!(problem, SyncProblem::NotLaunched { .. });
        let is_only_launches = mirror.has_synced() && state.problems.iter().all(is_launch);
        if !self.context.cache.stale(now).is_empty() {
            return false;
        }
        state.is_synced() || (is_only_launches && self.searches())
    }

    /// Whether consolidation has a search of its own, and need not do as upstream does.
    fn searches(&self) -> bool {
        self.context.options.consolidation_search != ConsolidationSearch::Upstream
    }

    /// Says what is wrong with budgets, once. Their pools are left alone.
    fn tell_budget_errors(&self, sight: &Sight) {
        let errors = tell::budget_errors(sight);
        let is_news = self.memory().budget_errors != errors;
        if is_news && !errors.is_empty() {
            error!(error = errors, "detected disruption budget errors");
        }
        if is_news {
            self.memory().budget_errors = errors;
        }
    }

    /// Says now and then what annotations of pods mean; who has heard it needs no more. It looks at
    /// every pod, so it is not done where others wait.
    async fn tell_annotations(&self, now: Timestamp) {
        let last = self.memory().told_annotations;
        if last.is_some_and(|last| now.duration_since(last) < TELL_EVERY) {
            return;
        }
        let mut unread_costs = {
            let mut memory = self.memory();
            memory.told_annotations = Some(now);
            std::mem::take(&mut memory.unread_costs)
        };
        let context = self.context.clone();
        let told = think(self.context.thinker.as_ref(), move || {
            tell::protections(&context, now);
            unread_costs.tell(&context);
            unread_costs
        });
        self.memory().unread_costs = told.await.unwrap_or_default();
    }

    /// What the next look has to know beside the cluster, which is in that state.
    fn beside(&self, sight: &Sight, state: Timestamp) -> Beside {
        let now = sight.now;
        let mut memory = self.memory();
        let mut queued = self.orchestration.machines();
        queued.extend(memory.pending.machines().map(str::to_owned));
        memory.settled.retain(|_, at| *at == state);
        let mut settled: BTreeSet<Method> = memory.settled.keys().copied().collect();
        settled.extend(memory.pending.held());
        settled.append(&mut memory.passed_over);
        if memory.quiet_until.is_some_and(|until| until > now) {
            settled.extend([Method::MultiNode, Method::SingleNode]);
        }
        if !settled.contains(&Method::SingleNode) {
            let since = memory.waits.map_or(now, |(since, _)| since);
            let wait = wait(&self.context, sight, since);
            memory.waits = wait.map(|wait| (since, later(now, wait)));
            if wait.is_some() {
                settled.extend([Method::MultiNode, Method::SingleNode]);
            }
        }
        let unseen_pools = memory.unseen_pools.clone();
        let backed_off = self.orchestration.backed_off(now);
        let young = self.orchestration.young(now);
        let history = memory.reboots.clone();
        let repair = self.policies.clone().map(|policies| Repair { policies, history });
        let rest = if self.searches() { pending::DELAY } else { Duration::ZERO };
        Beside { queued, settled, unseen_pools, backed_off, rest, young, repair }
    }

    fn remember(&self, found: &Found, state: Timestamp) {
        let mut memory = self.memory();
        // Nodes that rest as they are empty took no pods in that look. They may stay after all.
        let is_empty = |command: &Command| command.reason() == Reason::Empty;
        let is_certain =
            memory.pending.empty().is_empty() && !found.pass.commands.iter().any(is_empty);
        let is_asked_again = |method: &Method| method.reason() == Reason::Underutilized;
        for method in found.pass.settled.iter().filter(|one| is_certain || !is_asked_again(one)) {
            memory.settled.insert(*method, state);
        }
        let has_walked =
            found.pass.eligible.iter().any(|(method, _)| *method == Method::SingleNode);
        if has_walked {
            memory.unseen_pools = found.pass.unseen_pools.iter().cloned().collect();
        }
    }

    /// Begins the commands that have rested and still hold, all of them together. Whether any began.
    async fn begin_rested(&self, sight: &Sight) -> Result<bool, Trouble> {
        let due = self.memory().pending.take_due(sight.now);
        // The cluster as if those before had been carried out.
        let mut after = sight.clone();
        let mut holding = Vec::new();
        for resting in due {
            let verdict = validate(&self.context, &after, self.others(), &resting).await?;
            let Resting { command, sight: before, began, .. } = resting;
            self.observe(command.method, began);
            match verdict {
                Ok(valid) => {
                    self.count_failed(command.method, valid.failed);
                    let before = if valid.is_less { after.clone() } else { before };
                    after.apply(&valid.refreshed);
                    holding.push((before, valid.command));
                }
                Err(invalid) => {
                    self.count_failed(command.method, invalid.failed);
                    self.drop(&command, &invalid);
                }
            }
        }
        let holding = self.within_limits(sight, self.recheck(holding).await?);
        if self.searches() && holding.iter().any(|(_, one)| one.reason() == Reason::Underutilized) {
            // All that could be found was found together; what is decided while pods move is based
            // on where they are not going to be.
            self.memory().quiet_until = Some(later(sight.now, POLL));
        }
        let starts = holding.into_iter().map(|(before, command)| {
            Box::pin(
                async move { start(&self.context, &self.orchestration, &before, command).await },
            )
        });
        Ok(begun(join_all(starts).await.into_iter().map(|result| result.map(|()| true))))
    }

    /// Those whose nodes still may go: validation takes its time.
    async fn recheck(
        &self,
        holding: Vec<(Sight, Command)>,
    ) -> Result<Vec<(Sight, Command)>, Trouble> {
        if holding.is_empty() {
            return Ok(holding);
        }
        let fresh = Sight::take(&self.context).await;
        let mut still = Vec::new();
        for (before, command) in holding {
            match recheck(&self.context, &fresh, self.others(), &command).await? {
                Ok(()) => still.push((before, command)),
                Err(invalid) => {
                    self.count_failed(command.method, invalid.failed);
                    self.drop(&command, &invalid);
                }
            }
        }
        Ok(still)
    }

    /// Those that the limits of their pools leave room for. The others are found again when nodes have
    /// gone.
    fn within_limits(
        &self,
        sight: &Sight,
        mut commands: Vec<(Sight, Command)>,
    ) -> Vec<(Sight, Command)> {
        let mut room = Room::new(&self.context, sight);
        commands.retain(|(before, command)| match room.take(before, command) {
            Ok(()) => true,
            Err(exceeded) => {
                debug!(error = %exceeded, "abandoning replacement, its nodepool has no room yet");
                false
            }
        });
        commands
    }

    /// The machines of other commands.
    fn others(&self) -> Beside {
        let mut queued = self.orchestration.machines();
        queued.extend(self.memory().pending.machines().map(str::to_owned));
        Beside { queued, ..Beside::default() }
    }

    #[expect(clippy::cast_precision_loss, reason = "a number of nodes")]
    fn count_failed(&self, method: Method, count: usize) {
        let labels = ConsolidationType { consolidation_type: method.consolidation_type() };
        let failed = &self.context.metrics.voluntary_disruption_failed_validations;
        failed.add(&labels, count as f64);
    }

    /// A command does not hold any more.
    fn drop(&self, command: &Command, invalid: &Invalid) {
        let (why, class) = (invalid.to_string(), invalid.class.name());
        if command.method == Method::Emptiness {
            debug!(
                why,
                "abandoning empty node consolidation attempt due to pod churn, command is no \
                 longer valid"
            );
            return;
        }
        debug!(why, class, "abandoning consolidation attempt, command is no longer valid");
        tell::rejected(&self.context, command, class);
        if self.searches() {
            // It looks again at once, at all nodes.
            return;
        }
        let mut memory = self.memory();
        if command.method == Method::SingleNode {
            let now = self.context.clock.now();
            memory.quiet_until = Some(later(now, POLL));
        } else {
            memory.passed_over.insert(command.method);
        }
    }

    /// Begins what was found, or lets it rest. Whether there is any of it.
    async fn act(&self, sight: &Sight, found: Found) -> bool {
        let looked = found.pass.eligible.last().map(|(method, _)| *method);
        if let Some(method) = looked {
            let scheduling =
                karpenter_operator::metrics::labels::Controller { controller: "disruption" };
            let took = self.since(sight.now);
            self.context.metrics.scheduler_scheduling_duration.observe(&scheduling, took);
            if !method.is_validated() || found.pass.commands.is_empty() {
                self.observe(method, sight.now);
            }
        }
        let (rest, at_once): (Vec<_>, Vec<_>) =
            found.pass.commands.into_iter().partition(|command| command.method.is_validated());
        let mut has_acted = !rest.is_empty();
        for command in rest {
            tell::candidates(&self.context, &command);
            let now = self.context.clock.now();
            self.memory().pending.add(command, sight.clone(), sight.now, now);
        }
        let at_once = at_once.into_iter().map(|command| (sight.clone(), command)).collect();
        let starts = self.within_limits(sight, at_once).into_iter();
        let starts = starts.map(|(_, command)| Box::pin(self.begin(sight, command)));
        has_acted |= begun(join_all(starts).await);
        has_acted
    }

    /// Begins a command that need not rest. False if there is nothing to do any more.
    async fn begin(&self, sight: &Sight, command: Command) -> Result<bool, Trouble> {
        report::tell_repair(&command);
        if command.decision() == Decision::Reboot && !self.request_reboot(sight, &command).await? {
            return Ok(false);
        }
        start(&self.context, &self.orchestration, sight, command).await?;
        Ok(true)
    }

    /// Asks for the reboot of the nodes of a command. False if there is nothing to reboot.
    async fn request_reboot(&self, sight: &Sight, command: &Command) -> Result<bool, Trouble> {
        let mut has_asked = false;
        for candidate in &command.candidates {
            let because = report::because(command);
            let (claim, bound) = (&candidate.node_claim, command.drain_bound);
            if reboot::request(&self.context, claim, bound, &because).await? {
                let uid = &sight.snapshot.node(candidate.node).standing.node_claim_uid;
                self.memory().reboots.record(uid, self.context.clock.now());
                has_asked = true;
            }
        }
        Ok(has_asked)
    }

    /// Notes how long a method took, from the look to the moment in which its command holds.
    fn observe(&self, method: Method, began: Timestamp) {
        let labels = ReasonConsolidation {
            reason: &report::lower(method.reason()),
            consolidation_type: method.consolidation_type(),
        };
        let histogram = &self.context.metrics.voluntary_disruption_decision_evaluation_duration;
        histogram.observe(&labels, self.since(began));
    }

    fn since(&self, time: Timestamp) -> f64 {
        self.context.clock.now().duration_since(time).as_secs_f64()
    }

    /// How long until there may be something to do.
    fn pause(&self) -> Duration {
        let memory = self.memory();
        let waits = memory.waits.map(|(_, until)| until);
        let due = memory.pending.next_due().into_iter().chain(waits).min();
        drop(memory);
        let rest = due.map(|due| due.duration_since(self.context.clock.now()));
        let rest = rest.map(|rest| Duration::try_from(rest).unwrap_or_default());
        rest.map_or(POLL, |rest| rest.min(POLL))
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Nothing panics while it is held.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn later(now: Timestamp, pause: Duration) -> Timestamp {
    now.saturating_add(pause).unwrap_or(Timestamp::MAX)
}

/// Whether any command has begun. One that could not is told, and is no reason for the pass to fail:
/// the loop would slow down for all pools.
fn begun(results: impl IntoIterator<Item = Result<bool, Trouble>>) -> bool {
    let mut has_begun = false;
    for result in results {
        match result {
            Ok(has) => has_begun |= has,
            Err(trouble) => {
                let trouble = Trouble::while_("disrupting candidates", trouble);
                error!(
                    error = &trouble as &(dyn std::error::Error + 'static),
                    "failed disrupting candidates"
                );
            }
        }
    }
    has_begun
}
