//! Ranks nodes to set the pod deletion cost of their pods (spec 45 §10; gate
//! PodDeletionCostManagement).
//!
//! Pods get a lower cost on nodes that disruption would remove sooner, so that a ReplicaSet that
//! scales down empties these nodes:
//!
//! ```text
//! deleting             the lowest cost there is
//! drifted, then others −n … −1, best saving first, as far as budgets allow
//! the rest             no cost: it would have no effect
//! ```

use super::allowances::Allowances;
use super::candidate::Candidate;
use super::{CandidateIndex, DisruptionClass, PassContext, Reason};
use crate::id::NodeId;
use crate::pod::Pod;
use crate::snapshot::StateNode;
use crate::taint::TaintEffect;

#[cfg(test)]
mod tests;

/// The deletion cost of pods on deleting nodes.
pub const DELETING_NODE_COST: i32 = i32::MIN;

/// The most nodes that a cycle updates, without deleting nodes.
const NODES_PER_CYCLE: usize = 50;

const DISRUPTED_TAINT: &str = "karpenter.sh/disrupted";

/// Managed nodes in the order in which disruption would remove them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRanking {
    /// Nodes that are deleting or tainted as disrupted.
    pub deleting: Vec<NodeId>,
    /// Nodes that disruption could remove next, the first one first.
    pub ranked: Vec<NodeId>,
    /// Nodes whose pods get no cost.
    pub unranked: Vec<NodeId>,
}

/// The deletion cost for pods of a node; none for no annotation.
pub type DesiredCost = Option<i32>;

enum RankGroup {
    Deleting,
    Drifted,
    Other,
    Unranked,
}

impl NodeRanking {
    /// Ranks all managed nodes.
    pub fn new(context: &PassContext<'_>) -> Self {
        let index = CandidateIndex::new(context);
        let is_managed = |node: &&NodeId| context.snapshot.node(**node).is_managed;
        let mut nodes: Vec<NodeId> = index.nodes().iter().filter(is_managed).copied().collect();
        let ratio =
            |node: &NodeId| index.unchecked_candidate(*node).map_or(0.0, Candidate::savings_ratio);
        // They are in order of their names, and equal ones stay so.
        nodes.sort_by(|a, b| ratio(b).total_cmp(&ratio(a)));
        let (mut drifted, mut others) = (Vec::new(), Vec::new());
        let mut ranking = Self::default();
        for node in nodes {
            match rank_group(context, &index, node) {
                RankGroup::Deleting => ranking.deleting.push(node),
                RankGroup::Drifted => drifted.push(node),
                RankGroup::Other => others.push(node),
                RankGroup::Unranked => ranking.unranked.push(node),
            }
        }
        ranking.rank_within_budgets(context, drifted, Reason::Drifted);
        ranking.rank_within_budgets(context, others, Reason::Underutilized);
        ranking
    }

    /// Ranks the nodes that the budgets for a reason allow to disrupt.
    fn rank_within_budgets(
        &mut self,
        context: &PassContext<'_>,
        nodes: Vec<NodeId>,
        reason: Reason,
    ) {
        let mut allowances = Allowances::new(context, reason);
        for node in nodes {
            let pool = context.snapshot.node(node).pool.as_deref().unwrap_or_default();
            let group =
                if allowances.reserve(pool) { &mut self.ranked } else { &mut self.unranked };
            group.push(node);
        }
    }

    /// Returns the nodes to update in this cycle, with the cost of their pods.
    /// `needs` returns whether a node has a pod with another cost.
    pub fn pending_updates(
        &self,
        mut needs: impl FnMut(NodeId, DesiredCost) -> bool,
    ) -> Vec<(NodeId, DesiredCost)> {
        let count = i32::try_from(self.ranked.len()).unwrap_or(i32::MAX);
        let rank = |index: usize| i32::try_from(index).map_or(-1, |index| index - count);
        let leaving = self.deleting.iter().map(|&node| (node, Some(DELETING_NODE_COST)));
        let mut writes: Vec<_> = leaving.filter(|&(node, wanted)| needs(node, wanted)).collect();
        let ranked = self.ranked.iter().enumerate().map(|(i, &node)| (node, Some(rank(i))));
        let rest = self.unranked.iter().map(|&node| (node, None));
        let capped = ranked.chain(rest).filter(|&(node, wanted)| needs(node, wanted));
        writes.extend(capped.take(NODES_PER_CYCLE));
        writes
    }
}

fn rank_group(context: &PassContext<'_>, index: &CandidateIndex<'_>, node: NodeId) -> RankGroup {
    let value = context.snapshot.node(node);
    if value.is_deleting || is_disrupted(value) {
        return RankGroup::Deleting;
    }
    let Ok(candidate) = index.candidate(node, DisruptionClass::Graceful) else {
        return RankGroup::Unranked;
    };
    // Without a price its place would say nothing.
    let is_priceless =
        candidate.instance_type.is_none() && !candidate.instance_type_label.is_empty();
    if is_priceless || index.pods_on(node).any(is_not_recreated) {
        return RankGroup::Unranked;
    }
    if candidate.drifted_at.is_some() && !candidate.is_static {
        return RankGroup::Drifted;
    }
    let pool = context.snapshot.managed_pools.get(&candidate.pool);
    let is_consolidated = pool.is_some_and(|pool| pool.pool.consolidate_after.is_some());
    if is_consolidated { RankGroup::Other } else { RankGroup::Unranked }
}

fn is_disrupted(node: &StateNode) -> bool {
    let taints = node.object.iter().flat_map(|object| &object.taints);
    taints
        .into_iter()
        .any(|taint| taint.key == DISRUPTED_TAINT && taint.effect == TaintEffect::NoSchedule)
}

/// Whether no controller recreates the pod elsewhere, so that its node stays.
/// An owner that is not the controller of the pod does not count.
fn is_not_recreated(pod: &Pod) -> bool {
    const RECREATING: [(&str, &str); 3] =
        [("apps", "ReplicaSet"), ("batch", "Job"), ("apps", "DaemonSet")];
    let is_recreated = pod.controller.as_ref().is_some_and(|controller| {
        RECREATING.contains(&(controller.group.as_str(), controller.kind.as_str()))
    });
    pod.namespace != "kube-system" && !pod.is_virtual && !is_recreated
}
