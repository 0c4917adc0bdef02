//! How a demo ends: when the world is at rest, and whether everything found its place.

use std::time::Duration;

use karpenter_sim::check::{self, Checker, Facts};
use karpenter_sim::scenario::Scenario;
use karpenter_sim::view::{PodState, View};
use karpenter_sim::world::World;
use tokio::sync::watch;

/// How long nothing may move before the world counts as being at rest.
const QUIET: Duration = Duration::from_secs(20);

/// What was left at the end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Ending {
    /// Workloads with pods that found no node, with their number.
    pub(super) pending: Vec<(String, u32)>,
    /// Pods that did not come to rest in time.
    pub(super) moving: u32,
    /// What must never be, and was; and what was left behind.
    pub(super) violations: Vec<String>,
}

impl Ending {
    pub(super) fn is_fine(&self) -> bool {
        *self == Self::default()
    }

    /// One line for each thing that is wrong.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .pending
            .iter()
            .map(|(name, count)| format!("{name}: {count} pods left pending"))
            .collect();
        if self.moving > 0 {
            lines.push(format!("{} pods did not come to rest", self.moving));
        }
        lines.extend(self.violations.iter().cloned());
        lines
    }
}

/// Waits until the world is at rest, or has had its time, and looks at what is left.
pub(super) async fn ending(
    world: &World,
    scenario: &Scenario,
    views: watch::Receiver<View>,
    checker: Checker,
) -> anyhow::Result<Ending> {
    let limit = world.clock.now().checked_add(scenario.settle)?;
    loop {
        let before = views.borrow().clone();
        world.clock.sleep(QUIET).await;
        let after = views.borrow().clone();
        let rests = |view: &View| (view.nodes.clone(), view.workloads.clone());
        let is_quiet = after.is_settled() && rests(&before) == rests(&after);
        if is_quiet || world.clock.now() >= limit {
            return look(world, &after, checker).await;
        }
    }
}

async fn look(world: &World, view: &View, mut checker: Checker) -> anyhow::Result<Ending> {
    let count = |state, name: &str| {
        let of = view.workloads.iter().find(|workload| workload.name == name);
        of.and_then(|workload| workload.pods.get(&state)).copied().unwrap_or_default()
    };
    let pending = view.workloads.iter().filter_map(|workload| {
        let name = &workload.name;
        let left = count(PodState::Pending, name) + count(PodState::Unschedulable, name);
        (left > 0).then(|| (name.clone(), left))
    });
    let facts = Facts::gather(world).await?;
    checker.look(&facts);
    // What lasted is found by both.
    let mut violations: Vec<_> =
        checker.violations().cloned().chain(check::leaks(&facts)).collect();
    violations.sort();
    violations.dedup();
    Ok(Ending {
        pending: pending.collect(),
        moving: view.count(PodState::Bound) + view.count(PodState::Ending),
        violations: violations.iter().map(ToString::to_string).collect(),
    })
}
