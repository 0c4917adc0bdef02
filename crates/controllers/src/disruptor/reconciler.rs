//! `disruption`: finds nodes to remove or replace, pass by pass (spec 30 §2).
//!
//! ```text
//! clear orphaned marks ─▶ start or drop due commands ─▶ evaluate ─▶ start or delay commands
//! ```
//!
//! A pass never waits: it keeps a command in its validation delay, and a later pass validates it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use karpenter_cluster::mirror::SyncProblem;
use karpenter_core::disruption::{
    Command, Decision, Method, Reason, RebootHistory, ValidationFailure,
};
use karpenter_core::lifecycle::repair::policy::Policies;
use karpenter_operator::cloud::check_repair_policies;
use karpenter_operator::compute::run;
use karpenter_operator::harness::{
    Controller, Outcome, Reconcile, ReconcileError, ReconcileResult,
};
use karpenter_operator::metrics::labels::{ConsolidationType, ReasonConsolidation};
use karpenter_operator::options::ConsolidationSearch;
use karpenter_operator::watch::ObjectKey;
use tracing::{debug, error};

use super::cost_annotations::CostAnnotationErrors;
use super::evaluate::{PassInput, PassResult, Repair, consolidation_wait, evaluate};
use super::limits::PassLimits;
use super::observation::Observation;
use super::pending_commands::{PendingCommand, PendingCommands};
use super::queue::CommandQueue;
use super::start::start;
use super::validation::{Verdict, recheck, validate};
use super::{events, mark, metrics, pending_commands, reboot};
use crate::Context;
use crate::plan_check::{DroppedObjects, InvalidCommand, report_violations};

#[cfg(test)]
mod tests;

/// The name of the controller, also in metrics.
const DISRUPTION: &str = "disruption";
/// The time between passes when there is nothing to do.
const POLL: Duration = Duration::from_secs(10);
/// The retry interval while the mirror is not synced.
const UNSYNCED_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How often pod annotations are reported.
const ANNOTATION_REPORT_INTERVAL: SignedDuration = SignedDuration::from_mins(2);
/// The gap between two passes above which it is logged.
const ABNORMAL_GAP: SignedDuration = SignedDuration::from_mins(15);

pub(super) fn controller(context: &Context, command_queue: &CommandQueue) -> Controller {
    let disruptor = Disruptor {
        context: context.clone(),
        command_queue: command_queue.clone(),
        // A process with policies that make no sense does not start.
        policies: check_repair_policies(&context.options, &context.repair_policies)
            .unwrap_or_default()
            .map(Arc::new),
        loop_state: Mutex::default(),
    };
    Controller::new(DISRUPTION, &context.clock, disruptor).singleton()
}

struct Disruptor {
    context: Context,
    command_queue: CommandQueue,
    /// The repair policies; none if repair is off.
    policies: Option<Arc<Policies>>,
    loop_state: Mutex<LoopState>,
}

/// The state that one pass leaves to the next. A restart loses it, which costs one pass.
#[derive(Default)]
struct LoopState {
    /// Commands in their validation delay.
    pending_commands: PendingCommands,
    /// Methods that found nothing, with the consolidation state that they evaluated.
    settled: BTreeMap<Method, Timestamp>,
    /// NodePools that single-node consolidation did not reach.
    unseen_pools: BTreeSet<String>,
    /// Methods that the next pass skips, as their command was just dropped. The other methods go
    /// first.
    skipped_methods: BTreeSet<Method>,
    /// Until when consolidation pauses, after it dropped or started a command.
    consolidation_paused_until: Option<Timestamp>,
    /// Since and until when consolidation waits for nodes about to become consolidatable.
    consolidatable_wait: Option<(Timestamp, Timestamp)>,
    /// The reboots of the last day.
    reboots: RebootHistory,
    last_run: Option<Timestamp>,
    annotations_reported_at: Option<Timestamp>,
    /// The logged cost annotations that could not be parsed.
    cost_annotation_errors: CostAnnotationErrors,
    /// The budget errors that were logged last.
    budget_errors: String,
}

impl Reconcile for Disruptor {
    async fn reconcile(&self, _: &ObjectKey) -> ReconcileResult {
        let context = &self.context;
        let now = context.clock.now();
        self.log_abnormal_gap(now);
        if !self.is_ready_to_decide(now) {
            return Ok(Outcome::RequeueAfter(UNSYNCED_RETRY_INTERVAL));
        }
        mark::clear_orphaned_marks(context, |id| self.command_queue.is_queued(id)).await?;
        let (mut state, mut observation) = self.collect_observation().await;
        self.log_budget_errors(&observation);
        self.report_pod_annotations(now).await;
        let mut has_acted = self.start_pending_commands(&observation).await?;
        if has_acted {
            // The evaluation has to see the marks of the started commands.
            (state, observation) = self.collect_observation().await;
        }
        observation.mark_empty_nodes_deleting(
            &self.loop_state().pending_commands.provider_ids_of_empty_nodes(),
        );
        let found = evaluate(context, &observation, self.pass_input(&observation, state)).await?;
        events::record_pass_result(context, &observation, &found);
        found.invalid.iter().for_each(|invalid| self.drop_invalid_command(invalid));
        self.store_pass_result(&found, state);
        has_acted |= self.start_or_delay_commands(&observation, found).await;
        Ok(Outcome::RequeueAfter(if has_acted { Duration::ZERO } else { self.requeue_after() }))
    }
}

impl Disruptor {
    /// Returns the consolidation state and the observation. The state is read first, so that the
    /// next pass evaluates what changes in between.
    async fn collect_observation(&self) -> (Timestamp, Observation) {
        let state = self.context.mirror.consolidation_state(self.context.clock.now());
        let mut observation = Observation::collect(&self.context).await;
        observation
            .exclude_placed_pods(&self.command_queue.pods_on_launching_replacements(&self.context));
        (state, observation)
    }

    fn log_abnormal_gap(&self, now: Timestamp) {
        let before = self.loop_state().last_run.replace(now);
        let gap = before.map(|before| now.duration_since(before));
        if let Some(gap) = gap.filter(|gap| *gap > ABNORMAL_GAP) {
            let time_since = format!("{gap:#}");
            debug!(name = "disruption-loop", time_since, "abnormal time between runs");
        }
    }

    /// Returns whether the mirror is synced and no kind is stale. A NodeClaim that is not launched
    /// yet is a node of which nothing is known; upstream waits for it. Our own search only counts
    /// it against the limits of its pool, for as much as it may become.
    fn is_ready_to_decide(&self, now: Timestamp) -> bool {
        let mirror = &self.context.mirror;
        let state = mirror.sync(now);
        let is_launch = |problem: &SyncProblem| matches!(problem, SyncProblem::NotLaunched { .. });
        let is_only_launches = mirror.has_synced() && state.problems.iter().all(is_launch);
        if !self.context.cache.stale_kinds(now).is_empty() {
            return false;
        }
        state.is_synced() || (is_only_launches && self.uses_own_search())
    }

    /// Returns whether consolidation uses our search instead of upstream's.
    fn uses_own_search(&self) -> bool {
        self.context.options.consolidation_search != ConsolidationSearch::Upstream
    }

    /// Logs new errors in budgets. Their pools are not disrupted.
    fn log_budget_errors(&self, observation: &Observation) {
        let errors = events::budget_errors(observation);
        let has_changed = self.loop_state().budget_errors != errors;
        if has_changed && !errors.is_empty() {
            error!(error = errors, "detected disruption budget errors");
        }
        if has_changed {
            self.loop_state().budget_errors = errors;
        }
    }

    /// Publishes events and logs about pod annotations, at intervals. It reads every pod, so it
    /// runs on the executor.
    async fn report_pod_annotations(&self, now: Timestamp) {
        let last = self.loop_state().annotations_reported_at;
        if last.is_some_and(|last| now.duration_since(last) < ANNOTATION_REPORT_INTERVAL) {
            return;
        }
        let mut cost_errors = {
            let mut memory = self.loop_state();
            memory.annotations_reported_at = Some(now);
            std::mem::take(&mut memory.cost_annotation_errors)
        };
        let context = self.context.clone();
        let report = run(self.context.executor.as_ref(), move || {
            events::publish_pod_protections(&context, now);
            cost_errors.log_new(&context);
            cost_errors
        });
        self.loop_state().cost_annotation_errors = report.await.unwrap_or_default();
    }

    /// Returns the inputs of the next pass, for this consolidation state.
    fn pass_input(&self, observation: &Observation, state: Timestamp) -> PassInput {
        let now = observation.now;
        let mut memory = self.loop_state();
        let mut queued = self.command_queue.provider_ids();
        queued.extend(memory.pending_commands.provider_ids().map(str::to_owned));
        memory.settled.retain(|_, at| *at == state);
        let mut settled: BTreeSet<Method> = memory.settled.keys().copied().collect();
        settled.extend(memory.pending_commands.blocked_methods());
        settled.append(&mut memory.skipped_methods);
        if memory.consolidation_paused_until.is_some_and(|until| until > now) {
            settled.extend([Method::MultiNode, Method::SingleNode]);
        }
        if !settled.contains(&Method::SingleNode) {
            let since = memory.consolidatable_wait.map_or(now, |(since, _)| since);
            let wait = consolidation_wait(&self.context, observation, since);
            memory.consolidatable_wait = wait.map(|wait| (since, later(now, wait)));
            if wait.is_some() {
                settled.extend([Method::MultiNode, Method::SingleNode]);
            }
        }
        let unseen_pools = memory.unseen_pools.clone();
        let backed_off = self.command_queue.backed_off(now);
        let recent_launches = self.command_queue.recent_launches(now);
        let history = memory.reboots.clone();
        let repair = self.policies.clone().map(|policies| Repair { policies, history });
        let validation_delay = if self.uses_own_search() {
            pending_commands::VALIDATION_DELAY
        } else {
            Duration::ZERO
        };
        PassInput {
            queued,
            settled,
            unseen_pools,
            backed_off,
            validation_delay,
            recent_launches,
            repair,
        }
    }

    fn store_pass_result(&self, found: &PassResult, state: Timestamp) {
        let mut memory = self.loop_state();
        // Nodes pending deletion as empty took no pods in this pass. They may stay after all.
        let is_empty = |command: &Command| command.reason() == Reason::Empty;
        let is_certain = memory.pending_commands.provider_ids_of_empty_nodes().is_empty()
            && !found.pass.commands.iter().any(is_empty);
        let is_evaluated_again = |method: &Method| method.reason() == Reason::Underutilized;
        for method in found.pass.settled.iter().filter(|one| is_certain || !is_evaluated_again(one))
        {
            memory.settled.insert(*method, state);
        }
        let has_walked =
            found.pass.eligible_counts.iter().any(|(method, _)| *method == Method::SingleNode);
        if has_walked {
            memory.unseen_pools = found.pass.unseen_pools.iter().cloned().collect();
        }
    }

    /// Validates the due commands and starts the valid ones together. Returns whether any started.
    async fn start_pending_commands(
        &self,
        observation: &Observation,
    ) -> Result<bool, ReconcileError> {
        let due = self.loop_state().pending_commands.pop_due(observation.now);
        // The observation as if the earlier commands had been carried out.
        let mut after = observation.clone();
        let mut holding = Vec::new();
        for pending in due {
            let verdict =
                validate(&self.context, &after, self.validation_input(), &pending).await?;
            let PendingCommand { command, observation: before, evaluation_started, .. } = pending;
            self.record_evaluation_duration(command.method, evaluation_started);
            match verdict {
                Verdict::Valid(valid) => {
                    self.count_failed(command.method, valid.failed_count);
                    let before = if valid.is_without_replacements { after.clone() } else { before };
                    after.apply(&valid.refreshed);
                    holding.push((before, valid.command));
                }
                Verdict::Invalid(failure) => {
                    self.count_failed(command.method, failure.failed_count);
                    self.drop_command(&command, &failure);
                }
                Verdict::Violates(invalid) => self.drop_invalid_command(&invalid),
            }
        }
        let holding = self.within_limits(observation, self.recheck(holding).await?);
        if self.uses_own_search()
            && holding.iter().any(|(_, one)| one.reason() == Reason::Underutilized)
        {
            // This pass has found all commands that it could. A decision made while pods move would
            // count them on nodes that they leave.
            self.loop_state().consolidation_paused_until = Some(later(observation.now, POLL));
        }
        let starts = holding.into_iter().map(|(before, command)| {
            Box::pin(
                async move { start(&self.context, &self.command_queue, &before, command).await },
            )
        });
        Ok(any_started(join_all(starts).await.into_iter().map(|result| result.map(|()| true))))
    }

    /// Returns the commands whose nodes may still be disrupted: validation takes time.
    async fn recheck(
        &self,
        holding: Vec<(Observation, Command)>,
    ) -> Result<Vec<(Observation, Command)>, ReconcileError> {
        if holding.is_empty() {
            return Ok(holding);
        }
        let fresh = Observation::collect(&self.context).await;
        let mut still = Vec::new();
        for (before, command) in holding {
            match recheck(&self.context, &fresh, self.validation_input(), &command).await? {
                Ok(()) => still.push((before, command)),
                Err(invalid) => {
                    self.count_failed(command.method, invalid.failed_count);
                    self.drop_command(&command, &invalid);
                }
            }
        }
        Ok(still)
    }

    /// Returns the commands that the limits of their pools allow. Later passes find the others
    /// again.
    fn within_limits(
        &self,
        observation: &Observation,
        mut commands: Vec<(Observation, Command)>,
    ) -> Vec<(Observation, Command)> {
        let mut limits = PassLimits::new(&self.context, observation);
        commands.retain(|(before, command)| match limits.reserve(before, command) {
            Ok(()) => true,
            Err(exceeded) => {
                debug!(error = %exceeded, "abandoning replacement, its nodepool has no room yet");
                false
            }
        });
        commands
    }

    /// Returns the inputs of a validation: the nodes of the other commands.
    fn validation_input(&self) -> PassInput {
        let mut queued = self.command_queue.provider_ids();
        queued.extend(self.loop_state().pending_commands.provider_ids().map(str::to_owned));
        PassInput { queued, ..PassInput::default() }
    }

    #[expect(clippy::cast_precision_loss, reason = "a number of nodes")]
    fn count_failed(&self, method: Method, count: usize) {
        let labels = ConsolidationType { consolidation_type: method.consolidation_type() };
        let failed = &self.context.metrics.voluntary_disruption_failed_validations;
        failed.add(&labels, count as f64);
    }

    /// Logs and reports a command that is no longer valid.
    fn drop_command(&self, command: &Command, invalid: &ValidationFailure) {
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
        events::publish_rejection(&self.context, command, class);
        if self.uses_own_search() {
            // The next pass evaluates all nodes at once.
            return;
        }
        let mut memory = self.loop_state();
        if command.method == Method::SingleNode {
            let now = self.context.clock.now();
            memory.consolidation_paused_until = Some(later(now, POLL));
        } else {
            memory.skipped_methods.insert(command.method);
        }
    }

    /// Reports a command that breaks a rule. The other methods go first in the next pass.
    fn drop_invalid_command(&self, invalid: &InvalidCommand) {
        let InvalidCommand { command, violations } = invalid;
        let objects = DroppedObjects::of_command(command);
        report_violations(&self.context, DISRUPTION, violations, &objects);
        if !self.uses_own_search() {
            self.loop_state().skipped_methods.insert(command.method);
        }
    }

    /// Starts the commands of a pass, or delays them for validation. Returns whether it did any of
    /// it.
    async fn start_or_delay_commands(&self, observation: &Observation, found: PassResult) -> bool {
        let last_method = found.pass.eligible_counts.last().map(|(method, _)| *method);
        if let Some(method) = last_method {
            let scheduling =
                karpenter_operator::metrics::labels::Controller { controller: DISRUPTION };
            let took = self.since(observation.now);
            self.context.metrics.scheduler_scheduling_duration.observe(&scheduling, took);
            if !method.is_validated() || found.pass.commands.is_empty() {
                self.record_evaluation_duration(method, observation.now);
            }
        }
        let (rest, at_once): (Vec<_>, Vec<_>) =
            found.pass.commands.into_iter().partition(|command| command.method.is_validated());
        let mut has_acted = !rest.is_empty();
        for command in rest {
            events::publish_candidates(&self.context, &command);
            let now = self.context.clock.now();
            self.loop_state().pending_commands.add(
                command,
                observation.clone(),
                observation.now,
                now,
            );
        }
        let at_once = at_once.into_iter().map(|command| (observation.clone(), command)).collect();
        let starts = self.within_limits(observation, at_once).into_iter();
        let starts = starts.map(|(_, command)| Box::pin(self.start_command(observation, command)));
        has_acted |= any_started(join_all(starts).await);
        has_acted
    }

    /// Starts a command without validation delay. Returns false if nothing is left to do.
    async fn start_command(
        &self,
        observation: &Observation,
        command: Command,
    ) -> Result<bool, ReconcileError> {
        metrics::log_repair(&command);
        if command.decision() == Decision::Reboot
            && !self.request_reboot(observation, &command).await?
        {
            return Ok(false);
        }
        start(&self.context, &self.command_queue, observation, command).await?;
        Ok(true)
    }

    /// Requests the reboot of a command's nodes. Returns false if there is nothing to reboot.
    async fn request_reboot(
        &self,
        observation: &Observation,
        command: &Command,
    ) -> Result<bool, ReconcileError> {
        let mut has_requested = false;
        for candidate in &command.candidates {
            let because = metrics::repair_cause(command);
            let (claim, bound) = (&candidate.node_claim, command.drain_bound);
            if reboot::request(&self.context, claim, bound, &because).await? {
                let uid =
                    &observation.snapshot.node(candidate.node).disruption_state.node_claim_uid;
                self.loop_state().reboots.record(uid, self.context.clock.now());
                has_requested = true;
            }
        }
        Ok(has_requested)
    }

    /// Records how long a method took since its evaluation started.
    fn record_evaluation_duration(&self, method: Method, began: Timestamp) {
        let labels = ReasonConsolidation {
            reason: &metrics::reason_label(method.reason()),
            consolidation_type: method.consolidation_type(),
        };
        let histogram = &self.context.metrics.voluntary_disruption_decision_evaluation_duration;
        histogram.observe(&labels, self.since(began));
    }

    fn since(&self, time: Timestamp) -> f64 {
        self.context.clock.now().duration_since(time).as_secs_f64()
    }

    /// Returns how long until the next pass.
    fn requeue_after(&self) -> Duration {
        let memory = self.loop_state();
        let waits = memory.consolidatable_wait.map(|(_, until)| until);
        let due = memory.pending_commands.next_due().into_iter().chain(waits).min();
        drop(memory);
        let rest = due.map(|due| due.duration_since(self.context.clock.now()));
        let rest = rest.map(|rest| Duration::try_from(rest).unwrap_or_default());
        rest.map_or(POLL, |rest| rest.min(POLL))
    }

    fn loop_state(&self) -> MutexGuard<'_, LoopState> {
        // Nothing panics while it is held.
        self.loop_state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn later(now: Timestamp, pause: Duration) -> Timestamp {
    now.saturating_add(pause).unwrap_or(Timestamp::MAX)
}

/// Returns whether any command has started. Logs failed starts; they must not fail the pass, or the
/// loop would slow down for all pools.
fn any_started(results: impl IntoIterator<Item = Result<bool, ReconcileError>>) -> bool {
    let mut has_begun = false;
    for result in results {
        match result {
            Ok(has) => has_begun |= has,
            Err(error) => {
                let error = ReconcileError::with_context("disrupting candidates", error);
                error!(
                    error = &error as &(dyn std::error::Error + 'static),
                    "failed disrupting candidates"
                );
            }
        }
    }
    has_begun
}
