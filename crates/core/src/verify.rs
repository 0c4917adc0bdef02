//! Whether a plan can be carried out: an independent check against the rules of Kubernetes, not
//! against the way a solver finds plans.
//!
//! It raises no false alarm: each violation would go wrong in a cluster. It does not check the
//! following, which a correct plan may contain:
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

mod fit;
mod limits;
mod planned_cluster;
#[cfg(test)]
mod tests;
mod topology;
mod violation;

use planned_cluster::PlannedCluster;
pub use violation::{Target, Violation};

/// Returns the violations of a plan for the request; empty if it is correct.
pub fn check_plan(request: &Request<'_>, plan: &Plan) -> Vec<Violation> {
    let mut found = check_pod_accounting(request, plan);
    // What follows looks things up by id.
    found.extend(planned_cluster::check_ids(request, plan));
    if found.iter().any(Violation::is_unknown_id) {
        return found;
    }
    let places = PlannedCluster::new(request, plan);
    for place in places.targets() {
        fit::check(&places, place, &mut found);
    }
    limits::check(&places, plan, &mut found);
    topology::check_anti_affinity(&places, &mut found);
    let was_dropped = |refusal: &std::sync::Arc<PodRejection>| {
        matches!(**refusal, PodRejection::MinValuesMissedAfterTruncation { .. })
    };
    if !plan.rejected.values().any(was_dropped) {
        topology::check_affinity(&places, &mut found);
        topology::check_spread(&places, &mut found);
    }
    let mut distinct: Vec<Violation> = Vec::new();
    for violation in found {
        if !distinct.contains(&violation) {
            distinct.push(violation);
        }
    }
    distinct
}

/// Checks that each requested pod, and no other pod, has exactly one answer.
fn check_pod_accounting(request: &Request<'_>, plan: &Plan) -> Vec<Violation> {
    let is_known = |pod: &PodId| pod.index() < request.snapshot.pods.len();
    let requested: BTreeSet<PodId> = request.pods.iter().copied().filter(is_known).collect();
    let on_nodes = plan.existing_nodes.iter().flat_map(|(_, pods)| pods);
    let on_claims = plan.claims.iter().flat_map(|claim| &claim.pods);
    let mut placed: BTreeMap<PodId, usize> = BTreeMap::new();
    for &pod in on_nodes.chain(on_claims) {
        *placed.entry(pod).or_insert(0) += 1;
    }
    let answered: BTreeSet<PodId> = placed.keys().chain(plan.rejected.keys()).copied().collect();
    let mut found = Vec::new();
    for &pod in &answered {
        if pod.index() >= request.snapshot.pods.len() {
            found.push(Violation::UnknownPod(pod));
        } else if !requested.contains(&pod) {
            found.push(Violation::NotRequested { pod: name(request, pod) });
        }
    }
    for (&pod, _) in placed.iter().filter(|&(pod, &times)| times > 1 && requested.contains(pod)) {
        found.push(Violation::PlacedTwice { pod: name(request, pod) });
    }
    for &pod in
        plan.rejected.keys().filter(|&pod| placed.contains_key(pod) && requested.contains(pod))
    {
        found.push(Violation::PlacedAndRefused { pod: name(request, pod) });
    }
    if !plan.was_cut_short {
        for &pod in requested.difference(&answered) {
            found.push(Violation::Forgotten { pod: name(request, pod) });
        }
    }
    found
}

fn name(request: &Request<'_>, pod: PodId) -> String {
    request.snapshot.pod(pod).full_name()
}
