//! Runs one scheduling decision of upstream's program or of ours. Both print the same JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::consolidation::list;
use crate::generate::{Case, Options, Types};

/// What would be launched, and what would not. Fields that only one side has are 0 on the other.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Decision {
    pub node_claims: Vec<Claim>,
    pub existing: Vec<Placement>,
    pub errors: BTreeMap<String, serde_json::Value>,
    pub total_price: f64,
    pub seconds: f64,
    pub loaded_rss_bytes: u64,
    pub peak_rss_bytes: u64,
    pub allocations: u64,
    pub allocated_bytes: u64,
}

/// A node to launch.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Claim {
    pub node_pool: String,
    #[serde(deserialize_with = "list")]
    pub pods: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub instance_types: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub requirements: Vec<String>,
}

/// What an existing node receives.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Placement {
    pub node: String,
    pub pods: Vec<String>,
}

impl Decision {
    /// Returns the pods that have a node in this decision.
    pub fn placed_pods(&self) -> impl Iterator<Item = &String> {
        let new = self.node_claims.iter().flat_map(|claim| &claim.pods);
        new.chain(self.existing.iter().flat_map(|placement| &placement.pods))
    }

    /// Returns the pods without a node in this decision. Candidates are the pods that wait in the
    /// snapshot and those with an error (a pod of a leaving node is not pending). Upstream leaves
    /// some pods out without an error, so its errors are not enough.
    pub fn unplaced_pods(&self, waiting: &BTreeSet<String>) -> BTreeSet<String> {
        let mut unplaced: BTreeSet<String> =
            waiting.iter().chain(self.errors.keys()).cloned().collect();
        for pod in self.placed_pods() {
            unplaced.remove(pod);
        }
        unplaced
    }
}

/// The files of a case, which both sides read.
#[derive(Debug)]
pub struct CaseFiles {
    pub snapshot: PathBuf,
    pub instance_types: Option<PathBuf>,
    pub types: Types,
    pub options: Options,
}

impl CaseFiles {
    /// Writes the case into a folder.
    pub fn write(case: &Case, types: Types, folder: &Path) -> Result<Self> {
        let snapshot = folder.join("snapshot.yaml");
        std::fs::write(&snapshot, case.to_yaml())?;
        let instance_types = match &case.instance_types {
            Some(types) => {
                let path = folder.join("instance-types.json");
                std::fs::write(&path, types.to_string())?;
                Some(path)
            }
            None => None,
        };
        Ok(Self { snapshot, instance_types, types, options: case.options.clone() })
    }
}

impl Options {
    /// As options of `karpenter plan`.
    pub fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        if self.ignore_preferences {
            flags.push("--preference-policy=Ignore".to_owned());
        }
        if self.best_effort_min_values {
            flags.push("--min-values-policy=BestEffort".to_owned());
        }
        let gates = [
            (self.node_overlay, "NodeOverlay=true"),
            (self.capacity_buffer, "CapacityBuffer=true"),
            (self.spot_to_spot, "SpotToSpotConsolidation=true"),
        ];
        let gates: Vec<_> = gates.iter().filter(|gate| gate.0).map(|gate| gate.1).collect();
        if !gates.is_empty() {
            flags.push(format!("--feature-gates={}", gates.join(",")));
        }
        flags
    }

    /// As options of the oracle.
    fn oracle_flags(&self) -> Vec<&'static str> {
        let all = [
            (self.ignore_preferences, "-preference-policy=Ignore"),
            (self.best_effort_min_values, "-min-values-policy=BestEffort"),
            (self.node_overlay, "-node-overlay"),
            (self.capacity_buffer, "-capacity-buffer"),
            (!self.spot_to_spot, "-spot-to-spot=false"),
        ];
        all.into_iter().filter(|(on, _)| *on).map(|(_, flag)| flag).collect()
    }
}

/// The command line of the oracle.
pub fn oracle_command(oracle: &Path, files: &CaseFiles) -> Command {
    let mut command = Command::new(oracle);
    command.args(files.options.oracle_flags());
    if files.types == Types::Fake400 {
        command.arg("-types=400");
    }
    if let Some(types) = &files.instance_types {
        command.arg("-instance-types").arg(types);
    }
    command
}

/// Runs upstream's scheduling decision `runs` times.
pub fn run_upstream(oracle: &Path, files: &CaseFiles, runs: usize) -> Result<Vec<Decision>> {
    let mut command = oracle_command(oracle, files);
    command.arg(format!("-runs={runs}")).arg(&files.snapshot);
    parse(&run_command(command, &[0])?)
}

/// Runs our scheduling decision.
pub fn run_ours(karpenter: &Path, files: &CaseFiles) -> Result<Decision> {
    let mut command = plan_command(karpenter, files);
    command.arg("-f").arg(&files.snapshot);
    // Exit code 1: pods have no node.
    parse_one(&run_command(command, &[0, 1])?)
}

pub(crate) fn plan_command(karpenter: &Path, files: &CaseFiles) -> Command {
    let mut command = Command::new(karpenter);
    command.args(["plan", "--provider", "kwok", "-o", "json"]).args(files.options.flags());
    if let Some(types) = &files.instance_types {
        command.arg("--instance-types").arg(types);
    }
    command
}

/// The one decision that was printed.
pub(crate) fn parse_one(text: &[u8]) -> Result<Decision> {
    parse(text)?.into_iter().next().context("no decision was printed")
}

fn parse(text: &[u8]) -> Result<Vec<Decision>> {
    let decisions = serde_json::Deserializer::from_slice(text).into_iter();
    decisions.collect::<Result<_, _>>().context("this is no decision")
}

/// Returns the stdout of a program that exits with an accepted code.
pub(crate) fn run_command(mut command: Command, fine: &[i32]) -> Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.code().is_some_and(|code| fine.contains(&code)) {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let start: String = complaint.lines().take(12).collect::<Vec<_>>().join("\n");
        bail!("{command:?} failed ({})\n{start}", output.status);
    }
    Ok(output.stdout)
}
