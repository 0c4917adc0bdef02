//! Drains a node, for its termination or reboot.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_cluster::ingest::conversion;
use karpenter_core::pod::drain_state::PodDrainState;
use karpenter_core::termination::drain::{self, DeadlineAction};
use karpenter_core::termination::eviction::QueueEntry;

use super::Evictions;
use crate::Context;

/// Adds the next pods of a node to the eviction queue. Returns how many are left in all, or none if
/// the node is drained.
pub(crate) fn drain(
    context: &Context,
    evictions: &Evictions,
    node: &str,
    deadline: Option<Timestamp>,
    mode: DeadlineAction,
) -> Option<usize> {
    let pods = context.cache.pods_by_node.get(node);
    let standings: Vec<PodDrainState> =
        pods.iter().map(|pod| conversion::pod_drain_state(pod)).collect();
    let draining = drain::drain(&standings, deadline, mode, context.clock.now())?;
    let entry = match (mode, deadline) {
        (DeadlineAction::Timeout, Some(deadline)) => QueueEntry::Timeout(deadline),
        (DeadlineAction::Timeout, None) | (DeadlineAction::ForceDelete, _) => {
            QueueEntry::ForceDelete(deadline)
        }
    };
    for pod in draining.forced {
        evictions.add(&pods[pod], entry, Duration::ZERO);
    }
    let tier = draining.tier.iter().map(|&pod| &pods[pod]);
    let leaving: Vec<_> = tier.clone().map(|pod| conversion::pod_to_evict(pod)).collect();
    let is_there = |claim: &str| context.cache.node_claims.get("", claim).is_some();
    let is_one_of_many = context.consolidation_tracker.is_removing_several_nodes(is_there);
    for (pod, pause) in tier.zip(drain::eviction_delays(&leaving, is_one_of_many)) {
        evictions.add(pod, entry, pause);
    }
    Some(draining.remaining_count)
}
