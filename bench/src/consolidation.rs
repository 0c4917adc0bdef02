//! Runs one consolidation pass of upstream's program or of ours. Both print the same JSON.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Deserializer, Serialize};

use crate::decision::{CaseFiles, Placement, oracle_command, plan_command, run_command};

/// The commands of a consolidation pass. Fields that only one side has are 0 on the other.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsolidationDecision {
    #[serde(deserialize_with = "list")]
    pub commands: Vec<Command>,
    pub seconds: f64,
    pub loaded_rss_bytes: u64,
    pub peak_rss_bytes: u64,
}

/// Nodes that go together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Command {
    pub method: String,
    pub decision: String,
    #[serde(deserialize_with = "list")]
    pub candidates: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub replacements: Vec<Replacement>,
    /// The pods that move to existing nodes; the others go to the replacement. Not kept with
    /// recorded answers, which are about nodes.
    #[serde(deserialize_with = "list", skip_serializing)]
    pub existing: Vec<Placement>,
    pub savings: f64,
}

/// A node that comes first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Replacement {
    pub node_pool: String,
    #[serde(deserialize_with = "list")]
    pub instance_types: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub requirements: Vec<String>,
}

/// Upstream writes nothing as null.
pub(crate) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// The consolidation search of our side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    Best,
    Upstream,
}

impl Search {
    /// Returns the value of the option `--consolidation-search`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Best => "best",
            Self::Upstream => "upstream",
        }
    }
}

impl ConsolidationDecision {
    /// US dollars per hour of all commands together.
    pub fn savings(&self) -> f64 {
        // Not `sum`, which is -0 for nothing.
        self.commands.iter().fold(0.0, |sum, command| sum + command.savings)
    }

    /// Returns how many nodes the commands remove and how many they launch.
    pub fn node_counts(&self) -> (usize, usize) {
        let sum = |count: fn(&Command) -> usize| self.commands.iter().map(count).sum();
        (sum(|command| command.candidates.len()), sum(|command| command.replacements.len()))
    }

    /// Returns the nodes that the commands remove.
    pub fn removed_nodes(&self) -> BTreeSet<&str> {
        self.commands.iter().flat_map(|one| &one.candidates).map(String::as_str).collect()
    }
}

/// Runs upstream's consolidation pass `runs` times.
pub fn run_upstream(
    oracle: &Path,
    files: &CaseFiles,
    runs: usize,
) -> Result<Vec<ConsolidationDecision>> {
    let mut command = oracle_command(oracle, files);
    command.args(["-mode=consolidate", &format!("-runs={runs}")]).arg(&files.snapshot);
    parse(&run_command(command, &[0])?)
}

/// Runs our consolidation pass.
pub fn run_ours(
    karpenter: &Path,
    files: &CaseFiles,
    search: Search,
) -> Result<ConsolidationDecision> {
    let mut command = plan_command(karpenter, files);
    command.args(["--consolidate", "--consolidation-search", search.name()]);
    command.arg("-f").arg(&files.snapshot);
    // Exit code 1: an object was left out.
    let mut decisions = parse(&run_command(command, &[0, 1])?)?;
    decisions.pop().context("no decision was printed")
}

fn parse(text: &[u8]) -> Result<Vec<ConsolidationDecision>> {
    let decisions = serde_json::Deserializer::from_slice(text).into_iter();
    decisions.collect::<Result<_, _>>().context("this is no decision")
}
