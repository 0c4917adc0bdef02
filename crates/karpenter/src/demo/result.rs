//! Waits until a demo has settled and collects its result.

mod unsettled;

use std::time::Duration;

use karpenter_api::nodepool::NodePool;
use karpenter_sim::check::{self, Checker, WorldSnapshot};
use karpenter_sim::scenario::Scenario;
use karpenter_sim::view::View;
use karpenter_sim::world::World;
use kube::Api;
use kube::api::ListParams;
use tokio::sync::watch;

use crate::diagnostic::printable;

/// How long nothing may change before the world has settled.
const SETTLE_TIME: Duration = Duration::from_secs(20);
/// The additional wait where nodes have a `consolidateAfter`: consolidation has to evaluate them
/// and to validate its command.
const CONSOLIDATION_TIME: Duration = Duration::from_secs(40);
/// A longer `consolidateAfter` is not waited for.
const CONSOLIDATE_AFTER_MAX: Duration = Duration::from_mins(5);

/// The pods, nodes and violations left at the end, as texts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct DemoResult {
    /// Pods without a node, or not settled in time, with the reason.
    pub(super) unsettled_pods: Vec<String>,
    /// Nodes and claims that are not ready yet, for which such pods may wait.
    pub(super) unsettled_nodes: Vec<String>,
    /// Broken invariants and leaked objects.
    pub(super) violations: Vec<String>,
}

impl DemoResult {
    pub(super) fn is_success(&self) -> bool {
        self.unsettled_pods.is_empty() && self.violations.is_empty()
    }

    /// One line for each thing that is wrong.
    pub(super) fn lines(&self) -> Vec<String> {
        if self.is_success() {
            return Vec::new();
        }
        let rows = [
            ("left over", &self.unsettled_pods),
            ("waits for", &self.unsettled_nodes),
            ("left over", &self.violations),
        ];
        let line = |(head, texts): (&str, &Vec<String>)| -> Vec<String> {
            texts.iter().map(|text| format!("{head}: {}", printable(text))).collect()
        };
        rows.into_iter().flat_map(line).collect()
    }
}

/// Waits until the world has settled or `settle` has passed; returns the result.
pub(super) async fn wait_until_settled(
    world: &World,
    scenario: &Scenario,
    views: watch::Receiver<View>,
    checker: Checker,
) -> anyhow::Result<DemoResult> {
    let limit = world.clock.now().checked_add(scenario.settle)?;
    loop {
        let before = views.borrow().clone();
        let quiet = SETTLE_TIME + time_until_consolidation(world).await?;
        world.clock.sleep(quiet.min(scenario.settle)).await;
        let after = views.borrow().clone();
        let rests = |view: &View| (view.nodes.clone(), view.workloads.clone());
        let is_quiet = after.is_settled() && rests(&before) == rests(&after);
        if is_quiet || world.clock.now() >= limit {
            return collect_result(world, checker).await;
        }
    }
}

/// Returns how long it may take until an unused node is consolidated.
async fn time_until_consolidation(world: &World) -> anyhow::Result<Duration> {
    let pools = Api::<NodePool>::all(world.client()).list(&ListParams::default()).await?;
    let after = |pool: &NodePool| {
        let after = pool.spec.disruption.as_ref()?.consolidate_after.as_ref()?.value().ok()??;
        Duration::try_from(after).ok()
    };
    let waits = |after: &Duration| !after.is_zero() && *after <= CONSOLIDATE_AFTER_MAX;
    let longest = pools.iter().filter_map(after).filter(waits).max();
    Ok(longest.map_or(Duration::ZERO, |after| after + CONSOLIDATION_TIME))
}

async fn collect_result(world: &World, mut checker: Checker) -> anyhow::Result<DemoResult> {
    let facts = WorldSnapshot::gather(world).await?;
    checker.check(&facts);
    // What lasted is found by both.
    let mut violations: Vec<_> =
        checker.violations().cloned().chain(check::leaks(&facts)).collect();
    violations.sort();
    violations.dedup();
    Ok(DemoResult {
        unsettled_pods: unsettled::unsettled_pods(&facts),
        unsettled_nodes: unsettled::unsettled_nodes_and_claims(&facts),
        violations: violations.iter().map(ToString::to_string).collect(),
    })
}
