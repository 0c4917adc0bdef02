//! `state.sync`: logs why decisions wait for the mirror, and resyncs it.
//!
//! Upstream has no such controller. It sets these gauges only when something checks the sync; here
//! they are always current.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karpenter_cluster::mirror::{SyncProblem, SyncState};
use karpenter_operator::harness::{Controller, Outcome, Reconcile, ReconcileResult};
use karpenter_operator::metrics::NoLabels;
use karpenter_operator::watch::ObjectKey;
use tracing::{error, warn};

use crate::Context;

#[cfg(test)]
mod tests;

const REQUEUE_INTERVAL: Duration = Duration::from_secs(1);
/// How often to log that decisions wait (spec 40 §5.3).
const LOG_EVERY: SignedDuration = SignedDuration::from_secs(10);
/// How often to list Nodes and NodeClaims anew while they wait.
const REPAIR_EVERY: SignedDuration = SignedDuration::from_mins(1);
/// How many of the missing objects a log line names.
const SHOWN: usize = 5;

pub(super) fn controller(context: &Context) -> Controller {
    let reconcile = SyncReconciler { context: context.clone(), history: Mutex::default() };
    Controller::new("state.sync", &context.clock, reconcile).singleton()
}

struct SyncReconciler {
    context: Context,
    history: Mutex<SyncHistory>,
}

/// What the controller last logged and resynced.
#[derive(Default)]
struct SyncHistory {
    logged: Option<Timestamp>,
    repaired: Option<Timestamp>,
    given_up: Vec<SyncProblem>,
}

impl Reconcile for SyncReconciler {
    #[expect(clippy::cast_precision_loss, reason = "a number of nodes")]
    async fn reconcile(&self, _: &ObjectKey) -> ReconcileResult {
        let context = &self.context;
        let state = context.mirror.sync(context.clock.now());
        let metrics = &context.metrics;
        metrics.cluster_state_node_count.set(&NoLabels, context.mirror.node_count() as f64);
        metrics.cluster_state_synced.set(&NoLabels, f64::from(u8::from(state.is_synced())));
        metrics.cluster_state_unsynced_time.set(&NoLabels, state.unsynced_for().as_secs_f64());
        if self.history.lock().unwrap_or_else(PoisonError::into_inner).log_and_check_resync(&state)
        {
            context.cache.nodes.relist();
            context.cache.node_claims.relist();
            super::feed::resync_mirror(context);
        }
        Ok(Outcome::RequeueAfter(REQUEUE_INTERVAL))
    }
}

impl SyncHistory {
    /// Logs missing objects. Returns whether a resync is due.
    fn log_and_check_resync(&mut self, state: &SyncState) -> bool {
        if self.given_up != state.timed_out {
            let new = state.timed_out.iter().filter(|problem| !self.given_up.contains(problem));
            for problem in new {
                warn!(reason = %problem, "deciding without an object that does not come");
            }
            self.given_up.clone_from(&state.timed_out);
        }
        if !state.is_overdue() {
            (self.logged, self.repaired) = (None, None);
            return false;
        }
        let is_due = |last: Option<Timestamp>, every| {
            last.is_none_or(|last| state.now.duration_since(last) > every)
        };
        if is_due(self.logged, LOG_EVERY) {
            self.logged = Some(state.now);
            let duration = format!("{}s", state.unsynced_for().as_secs());
            let missing = missing(state);
            error!(
                error = "waiting on cluster sync",
                duration, missing, "cluster is waiting on sync for extended duration"
            );
        }
        let is_repair_due = is_due(self.repaired, REPAIR_EVERY);
        if is_repair_due {
            self.repaired = Some(state.now);
        }
        is_repair_due
    }
}

/// Returns the first of the missing objects as a text.
fn missing(state: &SyncState) -> String {
    let shown: Vec<_> = state.problems.iter().take(SHOWN).map(ToString::to_string).collect();
    match state.problems.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Checks the mirror for the readiness probe. An error names what has been missing for long.
pub fn ready(context: &Context) -> Result<(), String> {
    if context.mirror.is_poisoned() {
        return Err("the mirror of the cluster is broken".to_owned());
    }
    let mut state = context.mirror.sync(context.clock.now());
    // A launch that fails is no fault of this process, and another one would fare no better.
    state.problems.retain(|problem| !matches!(problem, SyncProblem::NotLaunched { .. }));
    let is_waiting = state.is_overdue() && !state.problems.is_empty();
    if is_waiting { Err(format!("waiting for {}", missing(&state))) } else { Ok(()) }
}
