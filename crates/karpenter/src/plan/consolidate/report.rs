//! What is told about a pass: a value first, printed as JSON, YAML or a table.
//!
//! `commands`, their fields up to `savings`, and `seconds` are those that upstream's decisions are
//! recorded with, so that the two can be compared; everything else is ours.

use karpenter_core::catalog::Catalog;
use karpenter_core::disruption::{self, Pass, Replacement};
use karpenter_core::snapshot::Snapshot;
use serde::Serialize;

use super::bill;
use crate::plan::expand::Expanded;
use crate::plan::report::{self, Claim, HOURS_PER_MONTH, Remark};

/// Everything that is told.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Consolidation {
    /// In the order of execution. All of them hold together.
    pub(crate) commands: Vec<Command>,
    /// US dollars per hour.
    pub(crate) total_savings: f64,
    /// How long the decision took.
    pub(crate) seconds: f64,
    /// How long it took to read objects into what decisions work on.
    pub(crate) setup_seconds: f64,
    /// Every node that stays, by name, and why.
    pub(crate) kept: Vec<Kept>,

    /// US dollars per month of 730 hours.
    pub(crate) monthly_savings: f64,
    /// How many nodes there are, with those that are on their way.
    pub(crate) nodes: usize,
    /// What the nodes of the NodePools cost now, in US dollars per hour.
    pub(crate) total_price: f64,
    /// Workloads whose pods were made up.
    pub(crate) expanded: Vec<Expanded>,
    /// Objects that were left out or could not be read whole.
    pub(crate) marked: Vec<Remark>,
    /// What to know before believing the numbers.
    pub(crate) notes: Vec<String>,
}

/// Nodes that go together.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Command {
    /// `empty`, `multi` or `single`.
    pub(crate) method: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) decision: &'static str,
    /// Names of nodes, sorted.
    pub(crate) candidates: Vec<String>,
    pub(crate) replacements: Vec<Claim>,
    /// US dollars per hour, if the cheapest replacement is launched.
    pub(crate) savings: f64,

    pub(crate) monthly_savings: f64,
    /// Pods that move, sorted.
    pub(crate) pods: Vec<String>,
}

/// A node that stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Kept {
    pub(crate) node: String,
    pub(crate) reason: &'static str,
    pub(crate) text: String,
    /// Each as `Kind namespace/name`.
    pub(crate) blocked_by: Vec<String>,
}

/// Puts a pass into words. Times and remarks are added by the caller.
pub(super) fn report(snapshot: &Snapshot, catalog: &Catalog, pass: &Pass) -> Consolidation {
    let commands: Vec<_> =
        pass.commands.iter().map(|found| command(snapshot, catalog, found)).collect();
    // Not sum(), which is -0 for nothing.
    let add = |sum: f64, one: f64| sum + one;
    let total_savings = commands.iter().map(|command| command.savings).fold(0.0, add);
    Consolidation {
        total_savings,
        monthly_savings: total_savings * HOURS_PER_MONTH,
        nodes: commands.iter().map(|command| command.candidates.len()).sum::<usize>()
            + pass.kept.len(),
        total_price: bill::by_pool(snapshot, catalog).into_values().fold(0.0, add),
        kept: pass.kept.iter().map(kept).collect(),
        commands,
        ..Consolidation::default()
    }
}

fn command(snapshot: &Snapshot, catalog: &Catalog, found: &disruption::Command) -> Command {
    let mut candidates: Vec<_> = found.candidates.iter().map(|one| one.name.clone()).collect();
    candidates.sort();
    let moved = found.candidates.iter().flat_map(|candidate| &candidate.pods);
    let mut pods: Vec<_> = moved.map(|pod| report::name(snapshot, *pod)).collect();
    pods.sort();
    let planned = found.replacements.iter().filter_map(Replacement::planned);
    Command {
        method: found.method.consolidation_type(),
        reason: found.reason().name(),
        decision: found.decision().name(),
        candidates,
        replacements: planned.map(|claim| report::claim(snapshot, catalog, claim)).collect(),
        savings: found.savings,
        monthly_savings: found.savings * HOURS_PER_MONTH,
        pods,
    }
}

fn kept(kept: &disruption::Kept) -> Kept {
    Kept {
        node: kept.node.clone(),
        reason: kept.reason,
        text: kept.text.clone(),
        blocked_by: kept.blocked_by.clone(),
    }
}
