//! Verifies plans before the controllers act on them, against the rules of Kubernetes.
//!
//! ```text
//! solve ─▶ Plan ─▶ check_plan: violations ─▶ verify_plan: the plan without what breaks a rule
//! ```
//!
//! The checks share nothing with the solvers. They raise no false alarm: each violation would go
//! wrong in a cluster. They do not check the following, which a correct plan may contain:
//!
//! - Preferences of any kind, and PreferNoSchedule taints: they may be given up.
//! - Pods that match the selector of a spread constraint without having it themselves: they may
//!   come after those that have it, and exceed its skew.
//! - Spread of pods with several required node-affinity terms: which nodes count depends on the
//!   terms that were given up by then.
//! - Affinity and spread as a whole when a NodeClaim was dropped at the end: its pods were counted.
//! - Whether the pod that starts an affinity group had to be the first, unless matching pods were
//!   there before the solve.
//! - How many `values` a limit allows beyond the first new one: upstream overshoots by a batch.
//! - Prices, order of instance types, dynamic resources, `consolidateAfter`.
//!
//! A node selector and a required term on one key are taken together, as everywhere here: if they
//! contradict each other, a node without the label is fine.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::PodId;
use crate::plan::Plan;
use crate::rejection::PodRejection;
use crate::scheduling::Request;

mod affected;
mod amounts;
mod fit;
mod limits;
mod planned_cluster;
#[cfg(test)]
mod tests;
mod topology;
mod verified_plan;
mod violation;

use fit::FitCheck;
use planned_cluster::PlannedCluster;
pub use planned_cluster::PodsByNode;
pub use verified_plan::{DroppedPlacement, VerifiedPlan, verify_plan};
pub use violation::{Target, Violation};

/// How many of the rules are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The rules whose check costs little compared with the solve.
    ///
    /// Each pod has one answer. Its node exists, stays, and has the taints, labels, resources,
    /// ports and volumes for it. Reservations stay within their limits.
    Essential,
    /// Also spread and pod affinity, missing daemons, offerings, minValues and NodePool limits.
    Complete,
}

impl Level {
    /// Returns the level of this build: complete with debug assertions, else essential.
    pub const fn of_build() -> Self {
        if cfg!(debug_assertions) { Self::Complete } else { Self::Essential }
    }
}

/// What the caller knows about a plan that it checks.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanFacts<'a> {
    /// The pods by node; collected from the snapshot if it is missing.
    pub pods_by_node: Option<&'a PodsByNode>,
    /// Whether NodeClaims of requested pods were dropped, so that affinity and spread may miss
    /// them.
    pub has_dropped_claims: bool,
}

/// Returns the violations of a plan for the request; empty if it is correct.
pub fn check_plan(request: &Request<'_>, plan: &Plan, level: Level) -> Vec<Violation> {
    check_plan_with(request, plan, level, PlanFacts::default())
}

/// The same as [`check_plan`], with facts that the caller knows already.
pub fn check_plan_with(
    request: &Request<'_>,
    plan: &Plan,
    level: Level,
    facts: PlanFacts<'_>,
) -> Vec<Violation> {
    let mut found = check_pod_accounting(request, plan);
    // What follows looks things up by id.
    found.extend(planned_cluster::check_ids(request, plan));
    if found.iter().any(Violation::is_unknown_id) {
        return found;
    }
    let places = PlannedCluster::new(request, plan, level, facts.pods_by_node);
    let mut fit = FitCheck::new(&places, level);
    for place in places.targets() {
        fit.check(place, &mut found);
    }
    limits::check(&places, plan, level, &mut found);
    if level == Level::Complete {
        topology::check_anti_affinity(&places, &mut found);
        if !facts.has_dropped_claims && !plan.rejected.values().any(|why| was_dropped(why)) {
            topology::check_affinity(&places, &mut found);
            topology::check_spread(&places, &mut found);
        }
    }
    let mut known = BTreeSet::new();
    found.retain(|violation| known.insert(violation.clone()));
    found
}

/// Returns whether the pod's NodeClaim was dropped after the other pods were placed.
fn was_dropped(rejection: &PodRejection) -> bool {
    matches!(
        rejection,
        PodRejection::MinValuesMissedAfterTruncation { .. } | PodRejection::PlanViolation(_)
    )
}

/// The answer of a plan for one pod.
#[derive(Clone, Copy, Default)]
struct PodAnswer {
    is_requested: bool,
    is_rejected: bool,
    placements: u32,
}

/// Checks that each requested pod, and no other pod, has exactly one answer.
fn check_pod_accounting(request: &Request<'_>, plan: &Plan) -> Vec<Violation> {
    let mut answers = vec![PodAnswer::default(); request.snapshot.pods.len()];
    for pod in request.pods {
        if let Some(answer) = answers.get_mut(pod.index()) {
            answer.is_requested = true;
        }
    }
    let mut found = Vec::new();
    for pod in plan.placed_pods() {
        match answers.get_mut(pod.index()) {
            Some(answer) => answer.placements = answer.placements.saturating_add(1),
            None => found.push(Violation::UnknownPod(pod)),
        }
    }
    for &pod in plan.rejected.keys() {
        match answers.get_mut(pod.index()) {
            Some(answer) => answer.is_rejected = true,
            None => found.push(Violation::UnknownPod(pod)),
        }
    }
    for (position, answer) in answers.iter().enumerate() {
        let name = || request.snapshot.pod(PodId::new(position)).full_name();
        let is_answered = answer.placements > 0 || answer.is_rejected;
        if !answer.is_requested {
            if is_answered {
                found.push(Violation::NotRequested { pod: name() });
            }
            continue;
        }
        if answer.placements > 1 {
            found.push(Violation::PlacedTwice { pod: name() });
        }
        if answer.placements > 0 && answer.is_rejected {
            found.push(Violation::PlacedAndRefused { pod: name() });
        }
        if !is_answered && !plan.was_cut_short {
            found.push(Violation::Forgotten { pod: name() });
        }
    }
    found
}

/// Counts violations by rule, for metrics.
pub fn count_by_rule<'v>(
    violations: impl IntoIterator<Item = &'v Violation>,
) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for violation in violations {
        *counts.entry(violation.rule()).or_insert(0) += 1;
    }
    counts
}
