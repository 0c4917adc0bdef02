//! Emptying a node, for those who end it and those who restart it.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_cluster::ingest::parts;
use karpenter_core::pod::standing::Standing;
use karpenter_core::termination::drain::{self, Mode};
use karpenter_core::termination::eviction::Entry;

use super::Evictions;
use crate::Context;

/// Sends the next pods of a node into the eviction queue. How many are left in all, or none if the
/// node is drained.
pub(crate) fn drain(
    context: &Context,
    evictions: &Evictions,
    node: &str,
    deadline: Option<Timestamp>,
    mode: Mode,
) -> Option<usize> {
    let pods = context.cache.pods_by_node.get(node);
    let standings: Vec<Standing> = pods.iter().map(|pod| parts::standing(pod)).collect();
    let draining = drain::drain(&standings, deadline, mode, context.clock.now())?;
    let entry = match (mode, deadline) {
        (Mode::Timeout, Some(deadline)) => Entry::Timeout(deadline),
        (Mode::Timeout, None) | (Mode::ForceDelete, _) => Entry::ForceDelete(deadline),
    };
    for pod in draining.forced {
        evictions.add(&pods[pod], entry, Duration::ZERO);
    }
    let tier = draining.tier.iter().map(|&pod| &pods[pod]);
    let leaving: Vec<_> = tier.clone().map(|pod| parts::leaving(pod)).collect();
    let is_there = |claim: &str| context.cache.node_claims.get("", claim).is_some();
    let is_one_of_many = context.displaced.is_many(is_there);
    for (pod, pause) in tier.zip(drain::staggered(&leaving, is_one_of_many)) {
        evictions.add(pod, entry, pause);
    }
    Some(draining.waiting)
}
