//! Which pods should go first when their ReplicaSets shrink (spec 45 §10; gate
//! PodDeletionCostManagement).
//!
//! Nodes that we would remove next get their pods' cost written, so that a ReplicaSet that scales
//! down empties them:
//!
//! ```text
//! leaving              the lowest cost there is
//! drifted, then others −n … −1, best saving first, as far as budgets reach
//! the rest             no cost: nothing would come of it
//! ```

use super::allowances::Allowances;
use super::candidate::Candidate;
use super::{Board, Class, Reason, World};
use crate::id::NodeId;
use crate::pod::Pod;
use crate::snapshot::Node;
use crate::taint::TaintEffect;

#[cfg(test)]
mod tests;

/// What pods on nodes get that are leaving.
pub const LEAVING: i32 = i32::MIN;

/// How many nodes are written in a cycle, those that are leaving not counted.
const NODES_PER_CYCLE: usize = 50;

const DISRUPTED: &str = "karpenter.sh/disrupted";

/// Our nodes in the order in which they would go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranking {
    /// Those that are leaving.
    pub leaving: Vec<NodeId>,
    /// Those that could be next, the first one first.
    pub ranked: Vec<NodeId>,
    /// Those that stay.
    pub rest: Vec<NodeId>,
}

/// The cost that pods of a node should have; none for no annotation.
pub type Wanted = Option<i32>;

enum Group {
    Leaving,
    Drifted,
    Other,
    Rest,
}

impl Ranking {
    /// Looks at every node that is ours.
    pub fn new(world: &World<'_>) -> Self {
        let board = Board::new(world);
        let is_managed = |node: &&NodeId| world.snapshot.node(**node).is_managed;
        let mut nodes: Vec<NodeId> = board.nodes().iter().filter(is_managed).copied().collect();
        let ratio = |node: &NodeId| board.known(*node).map_or(0.0, Candidate::savings_ratio);
        // They are in order of their names, and equal ones stay so.
        nodes.sort_by(|a, b| ratio(b).total_cmp(&ratio(a)));
        let (mut drifted, mut others) = (Vec::new(), Vec::new());
        let mut ranking = Self::default();
        for node in nodes {
            match group(world, &board, node) {
                Group::Leaving => ranking.leaving.push(node),
                Group::Drifted => drifted.push(node),
                Group::Other => others.push(node),
                Group::Rest => ranking.rest.push(node),
            }
        }
        ranking.take(world, drifted, Reason::Drifted);
        ranking.take(world, others, Reason::Underutilized);
        ranking
    }

    /// Ranks the nodes that the budgets for the reason let go.
    fn take(&mut self, world: &World<'_>, nodes: Vec<NodeId>, reason: Reason) {
        let mut allowances = Allowances::new(world, reason);
        for node in nodes {
            let pool = world.snapshot.node(node).pool.as_deref().unwrap_or_default();
            let group = if allowances.take(pool) { &mut self.ranked } else { &mut self.rest };
            group.push(node);
        }
    }

    /// The nodes to write to in this cycle, with the cost of their pods. `needs` says whether a
    /// node has a pod with another cost.
    pub fn writes(&self, mut needs: impl FnMut(NodeId, Wanted) -> bool) -> Vec<(NodeId, Wanted)> {
        let count = i32::try_from(self.ranked.len()).unwrap_or(i32::MAX);
        let rank = |index: usize| i32::try_from(index).map_or(-1, |index| index - count);
        let leaving = self.leaving.iter().map(|&node| (node, Some(LEAVING)));
        let mut writes: Vec<_> = leaving.filter(|&(node, wanted)| needs(node, wanted)).collect();
        let ranked = self.ranked.iter().enumerate().map(|(i, &node)| (node, Some(rank(i))));
        let rest = self.rest.iter().map(|&node| (node, None));
        let capped = ranked.chain(rest).filter(|&(node, wanted)| needs(node, wanted));
        writes.extend(capped.take(NODES_PER_CYCLE));
        writes
    }
}

fn group(world: &World<'_>, board: &Board<'_>, node: NodeId) -> Group {
    let value = world.snapshot.node(node);
    if value.is_deleting || is_disrupted(value) {
        return Group::Leaving;
    }
    let Ok(candidate) = board.candidate(node, Class::Graceful) else { return Group::Rest };
    // Without a price its place would say nothing.
    let is_priceless =
        candidate.instance_type.is_none() && !candidate.instance_type_label.is_empty();
    if is_priceless || board.pods_on(node).any(pins) {
        return Group::Rest;
    }
    if candidate.drifted_at.is_some() && !candidate.is_static {
        return Group::Drifted;
    }
    let pool = world.snapshot.managed_pools.get(&candidate.pool);
    let is_consolidated = pool.is_some_and(|pool| pool.pool.consolidate_after.is_some());
    if is_consolidated { Group::Other } else { Group::Rest }
}

fn is_disrupted(node: &Node) -> bool {
    let taints = node.object.iter().flat_map(|object| &object.taints);
    taints
        .into_iter()
        .any(|taint| taint.key == DISRUPTED && taint.effect == TaintEffect::NoSchedule)
}

/// Whether nobody would make the pod anew elsewhere, so that its node stays anyway. Who merely owns
/// a pod does not.
fn pins(pod: &Pod) -> bool {
    const RECREATING: [(&str, &str); 3] =
        [("apps", "ReplicaSet"), ("batch", "Job"), ("apps", "DaemonSet")];
    let is_recreated = pod.controller.as_ref().is_some_and(|controller| {
        RECREATING.contains(&(controller.group.as_str(), controller.kind.as_str()))
    });
    pod.namespace != "kube-system" && !pod.is_virtual && !is_recreated
}
