//! What the budgets of all NodePools allow for one reason (spec 30 §4.2, spec 45 §9.2).

use std::collections::BTreeMap;

use super::budget::{Allowance, BudgetNode, NodeCounts, allowance};
use super::{PassContext, Reason};

/// What the budgets of all NodePools still allow for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowances {
    pools: BTreeMap<String, PoolAllowance>,
}

/// What the budgets of one NodePool allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolAllowance {
    /// The nodes that the budgets count, and how many are disrupted already.
    pub node_counts: NodeCounts,
    /// The result of the budgets, before any [`Allowances::reserve`].
    pub allowance: Allowance,
    /// How many more nodes may be disrupted.
    pub remaining: u32,
}

impl PoolAllowance {
    /// Whether it is worth an event that nothing is allowed.
    pub fn is_blocked(&self) -> bool {
        self.node_counts.total != 0 && self.allowance.allowed == 0
    }
}

impl Allowances {
    /// Evaluates the budgets of all NodePools for one reason.
    pub fn new(context: &PassContext<'_>, reason: Reason) -> Self {
        let mut nodes: BTreeMap<&str, Vec<BudgetNode>> = BTreeMap::new();
        for node in &context.snapshot.nodes {
            let Some(pool) = node.pool.as_deref() else { continue };
            nodes.entry(pool).or_default().push(BudgetNode {
                managed: node.is_managed,
                initialized: node.is_initialized,
                rebooting: node.disruption_state.is_rebooting,
                instance_terminating: node.disruption_state.is_instance_terminating,
                ready: node.disruption_state.is_ready,
                // What a command is about to remove has spent its share, marked yet or not.
                marked_for_deletion: node.is_deleting || context.queued.contains(&node.provider_id),
            });
        }
        let pools = context.snapshot.managed_pools.iter().map(|(name, pool)| {
            let of_pool = nodes.remove(name.as_str()).unwrap_or_default();
            let counts = NodeCounts::of(of_pool, reason);
            let allowance = allowance(&pool.budgets, reason, context.now, counts);
            let left = allowance.remaining;
            (name.clone(), PoolAllowance { node_counts: counts, allowance, remaining: left })
        });
        Self { pools: pools.collect() }
    }

    /// Returns the allowance of a NodePool; none for an unknown pool.
    pub fn get(&self, pool: &str) -> Option<&PoolAllowance> {
        self.pools.get(pool)
    }

    /// Returns how many more nodes of a NodePool may be disrupted.
    pub fn remaining(&self, pool: &str) -> u32 {
        self.pools.get(pool).map_or(0, |pool| pool.remaining)
    }

    /// Takes one node from a pool's allowance; returns false if none remains.
    pub fn reserve(&mut self, pool: &str) -> bool {
        let Some(pool) = self.pools.get_mut(pool).filter(|pool| pool.remaining > 0) else {
            return false;
        };
        pool.remaining -= 1;
        true
    }

    /// All pools, by name.
    pub fn pools(&self) -> impl Iterator<Item = (&str, &PoolAllowance)> {
        self.pools.iter().map(|(name, pool)| (name.as_str(), pool))
    }
}
