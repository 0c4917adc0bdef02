//! Carries commands out on a snapshot until there are none.
//!
//! Pods of a removed node move to the node that the command planned for them, a new node is the
//! cheapest of its claim, and the side's own provisioning places the pods that wait when there is
//! no command.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};
use serde_json::Value;

use super::Search;
use crate::consolidation::{self, Command, ConsolidationDecision, Replacement};
use crate::decision::{self, CaseFiles, Decision};
use crate::generate::{Case, Types};

mod mutable_snapshot;

use mutable_snapshot::MutableSnapshot;

/// More rounds than any cluster here needs.
const ROUNDS_MAX: usize = 60;

/// The side that decides.
pub(super) enum Side<'a> {
    Ours(&'a Path),
    Upstream(&'a Path),
}

/// The cluster after the last round.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SettledCluster {
    /// US dollars per hour.
    pub(super) price: f64,
    pub(super) nodes: usize,
    /// How many rounds carried something out.
    pub(super) rounds: usize,
    /// Whether the last round found nothing to do.
    pub(super) is_settled: bool,
    /// The pods that have no node at the end.
    pub(super) pods_without_node: BTreeSet<String>,
}

impl fmt::Display for SettledCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.4} with {} nodes in {} rounds", self.price, self.nodes, self.rounds)
    }
}

impl Side<'_> {
    fn consolidate(&self, files: &CaseFiles) -> Result<ConsolidationDecision> {
        match self {
            Self::Ours(karpenter) => consolidation::run_ours(karpenter, files, Search::Best),
            Self::Upstream(oracle) => {
                let mut runs = consolidation::run_upstream(oracle, files, 1)?;
                Ok(runs.pop().unwrap_or_default())
            }
        }
    }

    fn schedule(&self, files: &CaseFiles) -> Result<Decision> {
        match self {
            Self::Ours(karpenter) => decision::run_ours(karpenter, files),
            Self::Upstream(oracle) => {
                Ok(decision::run_upstream(oracle, files, 1)?.pop().unwrap_or_default())
            }
        }
    }
}

/// Carries out what a side decides until it decides nothing.
pub(super) fn settle(case: &Case, side: &Side<'_>) -> Result<SettledCluster> {
    let folder = tempfile::tempdir()?;
    let mut snapshot = MutableSnapshot::new(case.objects.clone());
    let write = |snapshot: &MutableSnapshot| {
        let objects = snapshot.objects().cloned().collect();
        let case = Case { objects, instance_types: None, options: case.options.clone() };
        CaseFiles::write(&case, Types::Kwok, folder.path())
    };
    let mut rounds = 0;
    let mut is_at_rest = false;
    while rounds < ROUNDS_MAX {
        if snapshot.has_pending_pods() {
            let decision = side.schedule(&write(&snapshot)?)?;
            apply_placements(&mut snapshot, &decision)?;
        }
        let decided = side.consolidate(&write(&snapshot)?)?;
        if decided.commands.is_empty() {
            is_at_rest = true;
            break;
        }
        for command in &decided.commands {
            apply_command(&mut snapshot, command)?;
        }
        rounds += 1;
    }
    Ok(SettledCluster {
        price: snapshot.hourly_price(),
        nodes: snapshot.nodes().count(),
        rounds,
        is_settled: is_at_rest,
        pods_without_node: snapshot.pending_pods(),
    })
}

/// Replaces the nodes of a command. A consolidation has one replacement at most.
fn apply_command(snapshot: &mut MutableSnapshot, command: &Command) -> Result<()> {
    let mut launched = None;
    for replacement in &command.replacements {
        launched = Some(snapshot.launch_node(replacement)?);
    }
    for node in &command.candidates {
        for pod in snapshot.remove_node(node) {
            let seen = command.existing.iter().find(|placement| placement.pods.contains(&pod));
            let home = seen.map(|placement| &placement.node).or(launched.as_ref());
            if let Some(home) = home {
                snapshot.bind_pod(&pod, home);
            }
        }
    }
    Ok(())
}

fn apply_placements(snapshot: &mut MutableSnapshot, decision: &Decision) -> Result<()> {
    for placement in &decision.existing {
        for pod in &placement.pods {
            snapshot.bind_pod(pod, &placement.node);
        }
    }
    for claim in &decision.node_claims {
        let node = snapshot.launch_node(&Replacement {
            node_pool: claim.node_pool.clone(),
            instance_types: claim.instance_types.clone(),
            requirements: claim.requirements.clone(),
        })?;
        for pod in &claim.pods {
            snapshot.bind_pod(pod, &node);
        }
    }
    Ok(())
}

/// A field that has to be a text.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Whether the requirement `key` in text form (`key In [a b]`) allows `value`.
fn requirement_allows(requirements: &[String], key: &str, value: &str) -> Result<bool> {
    let Some(rest) = requirements.iter().find_map(|text| text.strip_prefix(key)?.strip_prefix(' '))
    else {
        return Ok(true);
    };
    let (operator, values) = rest.split_once(' ').unwrap_or((rest, ""));
    let listed = values.trim_matches(['[', ']']).split([' ', ',']).any(|one| one == value);
    Ok(match operator {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => true,
        "DoesNotExist" => false,
        other => bail!("cannot read the requirement {key} {other} {values}"),
    })
}
