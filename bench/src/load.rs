//! Loads a generated snapshot into core values.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use karpenter_cluster::ingest::{self, Objects, Settings};
use karpenter_core::snapshot::Snapshot;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The time of the decisions about generated clusters, in Unix seconds.
pub(crate) const NOW_SECONDS: i64 = 1_700_100_000;

/// Loads the snapshot in a file of the generator: JSON lines between `---`.
pub(crate) fn load_snapshot(path: &Path) -> Result<Snapshot> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut objects = Objects::default();
    for line in BufReader::new(file).lines() {
        let line = line?;
        if line != "---" {
            let value = serde_json::from_str(&line).context("not a snapshot of the generator")?;
            add_object(&mut objects, value)?;
        }
    }
    let provider = karpenter_kwok::provider::facts();
    objects.fill_defaults(&provider.default_class());
    let classes: Vec<_> = provider.node_classes.iter().map(|of| (of.group, of.kind)).collect();
    let mut settings = Settings::new(provider.rules, classes, Timestamp::from_second(NOW_SECONDS)?);
    settings.assume_pools_ready = true;
    let ingested = ingest::snapshot(&objects, &settings);
    if let Some(marked) = ingested.diagnostics.first() {
        bail!("{} {}: {}", marked.kind, marked.name, marked.reason);
    }
    Ok(ingested.snapshot)
}

fn add_object(objects: &mut Objects, value: Value) -> Result<()> {
    match value["kind"].as_str().unwrap_or_default() {
        "Pod" => objects.pods.push(parse_object(value)?),
        "Node" => objects.nodes.push(parse_object(value)?),
        "NodeClaim" => objects.node_claims.push(parse_object(value)?),
        "NodePool" => objects.node_pools.push(parse_object(value)?),
        "PodDisruptionBudget" => objects.pod_disruption_budgets.push(parse_object(value)?),
        "DaemonSet" => objects.daemon_sets.push(parse_object(value)?),
        "KWOKNodeClass" => {}
        kind => bail!("measured workloads have no {kind}"),
    }
    Ok(())
}

fn parse_object<T: DeserializeOwned>(value: Value) -> Result<T> {
    let kind = value["kind"].to_string();
    serde_json::from_value(value).with_context(|| format!("cannot read a {kind}"))
}
