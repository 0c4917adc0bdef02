//! The report of a consolidation pass: a value first, printed as JSON, YAML or a table.
//!
//! `commands`, their fields up to `savings`, and `seconds` are those that upstream's decisions are
//! recorded with, so that the two can be compared; everything else is ours.

use std::collections::BTreeSet;

use karpenter_core::catalog::Catalog;
use karpenter_core::disruption::{self, DriftStatus, PassOutcome, Replacement};
use karpenter_core::id::PodId;
use karpenter_core::pod::{OwnerKind, Pod};
use karpenter_core::snapshot::Snapshot;
use serde::Serialize;

use super::node_costs::{self, NodeCosts};
use crate::plan::expand::ExpandedWorkload;
use crate::plan::report::{self, HOURS_PER_MONTH, NodeClaimReport, Placement, Remark};

/// The report of a consolidation pass.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConsolidationReport {
    /// In the order of execution. All of them hold together.
    pub(crate) commands: Vec<CommandReport>,
    /// US dollars per hour.
    pub(crate) total_savings: f64,
    /// How long the decision took.
    pub(crate) seconds: f64,
    /// How long it took to read objects into what decisions work on.
    pub(crate) setup_seconds: f64,
    /// Every node that stays, by name, and why.
    pub(crate) kept: Vec<RetainedNode>,
    /// Nodes that have drifted, by name: consolidation leaves them, drift replaces them. Those that
    /// it cannot replace stay.
    pub(crate) drifted: Vec<RetainedNode>,

    /// US dollars per month of 730 hours.
    pub(crate) monthly_savings: f64,
    /// How many nodes there are, with those that are on their way.
    pub(crate) nodes: usize,
    /// What the nodes of the NodePools cost now, in US dollars per hour.
    pub(crate) total_price: f64,
    /// Nodes whose price is not known, by name. No sum has them.
    pub(crate) unpriced: Vec<String>,
    /// Workloads whose pods were generated.
    pub(crate) expanded: Vec<ExpandedWorkload>,
    /// Objects that were left out or could not be read whole.
    pub(crate) marked: Vec<Remark>,
    /// What to know before believing the numbers.
    pub(crate) notes: Vec<String>,
}

/// A command: its nodes, replacements, savings and pods.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommandReport {
    /// `empty`, `multi` or `single`.
    pub(crate) method: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) decision: &'static str,
    /// Names of nodes, sorted.
    pub(crate) candidates: Vec<String>,
    pub(crate) replacements: Vec<NodeClaimReport>,
    /// US dollars per hour, if the cheapest replacement is launched. At least, if some candidates
    /// are `unpriced`.
    pub(crate) savings: f64,

    pub(crate) monthly_savings: f64,
    /// Pods that lose their node and need another one, sorted.
    pub(crate) pods: Vec<String>,
    /// Those of them that find it on nodes that exist, by node.
    pub(crate) existing: Vec<Placement>,
    /// Those of them that nothing makes again when they are gone.
    pub(crate) pods_without_controller: Vec<String>,
    /// Candidates whose price is not known: what they save is not in `savings`.
    pub(crate) unpriced: Vec<String>,
    /// Candidates that have drifted, so that drift may come first.
    pub(crate) drifted: Vec<String>,
}

impl CommandReport {
    /// Whether anything is known about what it saves.
    pub(crate) fn is_priced(&self) -> bool {
        self.unpriced.len() < self.candidates.len()
    }
}

/// A node that stays, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RetainedNode {
    pub(crate) node: String,
    pub(crate) reason: &'static str,
    pub(crate) text: String,
    /// Each as `Kind namespace/name`.
    pub(crate) blocked_by: Vec<String>,
    /// Whether it has drifted: drift is kept from replacing it, too.
    pub(crate) drifted: bool,
}

/// Builds the report of a pass. The caller adds times and remarks.
pub(super) fn build_report(
    snapshot: &Snapshot,
    catalog: &Catalog,
    pass: &PassOutcome,
) -> ConsolidationReport {
    let commands: Vec<_> =
        pass.commands.iter().map(|found| command_report(snapshot, catalog, found)).collect();
    // Not sum(), which is -0 for nothing.
    let add = |sum: f64, one: f64| sum + one;
    let total_savings = commands.iter().map(|command| command.savings).fold(0.0, add);
    let NodeCosts { by_pool, unpriced } = node_costs::node_costs(snapshot, catalog);
    let all = pass.retained_nodes.iter().map(retained_node);
    let (drifted, kept) = all.partition(|kept: &RetainedNode| kept.reason == DRIFTED_REASON);
    ConsolidationReport {
        total_savings,
        monthly_savings: total_savings * HOURS_PER_MONTH,
        nodes: commands.iter().map(|command| command.candidates.len()).sum::<usize>()
            + pass.retained_nodes.len(),
        total_price: by_pool.into_values().fold(0.0, add),
        unpriced,
        kept,
        drifted,
        commands,
        ..ConsolidationReport::default()
    }
}

fn command_report(
    snapshot: &Snapshot,
    catalog: &Catalog,
    found: &disruption::Command,
) -> CommandReport {
    let names = |is_listed: fn(&disruption::Candidate) -> bool| {
        let listed = found.candidates.iter().filter(|one| is_listed(one));
        let mut names: Vec<_> = listed.map(|one| one.name.clone()).collect();
        names.sort();
        names
    };
    let moved = found.candidates.iter().flat_map(|candidate| &candidate.pods);
    let moved: BTreeSet<PodId> = moved.copied().collect();
    let lost = moved.iter().copied().filter(|pod| is_not_recreated(snapshot.pod(*pod)));
    let planned = found.replacements.iter().filter_map(Replacement::planned);
    CommandReport {
        method: found.method.consolidation_type(),
        reason: found.reason().name(),
        decision: found.decision().name(),
        candidates: names(|_| true),
        replacements: planned
            .map(|claim| report::node_claim_report(snapshot, catalog, claim))
            .collect(),
        savings: found.savings,
        monthly_savings: found.savings * HOURS_PER_MONTH,
        pods: report::pod_names(snapshot, moved.iter().copied()),
        existing: existing_placements(snapshot, found, &moved),
        pods_without_controller: report::pod_names(snapshot, lost),
        unpriced: names(|one| !one.is_priced()),
        drifted: names(|one| one.drifted_at.is_some()),
    }
}

/// Returns whether no controller creates the pod again. The scheduler places it all the same (spec
/// 30 §3.3), as it cannot know which pods will be created.
fn is_not_recreated(pod: &Pod) -> bool {
    pod.controller.is_none() && pod.owner == OwnerKind::Other
}

/// Returns the moved pods by existing node. Pending pods move there as well, but not because of the
/// command.
fn existing_placements(
    snapshot: &Snapshot,
    found: &disruption::Command,
    moved: &BTreeSet<PodId>,
) -> Vec<Placement> {
    let placed = found.plan.existing_nodes.iter().filter_map(|(node, pods)| {
        let node = snapshot.nodes.get(node.index())?.name.clone();
        let pods = pods.iter().copied().filter(|pod| moved.contains(pod));
        Some(Placement { node, pods: report::pod_names(snapshot, pods) })
    });
    let mut placed: Vec<_> = placed.filter(|placement| !placement.pods.is_empty()).collect();
    placed.sort_by(|a, b| a.node.cmp(&b.node));
    placed
}

/// The reason of nodes that drift replaces.
pub(super) const DRIFTED_REASON: &str = "Drifted";
/// The reason of nodes that nothing may or can replace.
const BLOCKED_REASON: &str = "Blocked";

fn retained_node(kept: &disruption::RetainedNode) -> RetainedNode {
    let node = kept.node.clone();
    match &kept.drift {
        Some(DriftStatus::Due { text }) => {
            let (text, blocked_by) = (text.clone(), Vec::new());
            RetainedNode { node, reason: DRIFTED_REASON, text, blocked_by, drifted: true }
        }
        Some(DriftStatus::CannotReplace { text, blocked_by }) => {
            let (text, blocked_by) = (text.clone(), blocked_by.clone());
            RetainedNode { node, reason: BLOCKED_REASON, text, blocked_by, drifted: true }
        }
        drift => RetainedNode {
            node,
            reason: kept.reason,
            text: kept.text.clone(),
            blocked_by: kept.blocked_by.clone(),
            drifted: drift.is_some(),
        },
    }
}
