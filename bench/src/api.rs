//! `cargo xtask bench api`: the embedded API with a large cluster in it.
//!
//! Every request goes through the service of a `kube::Client` in this process: it creates, binds
//! and reports as running 5,000 nodes and 100,000 pods, then lists, then changes pods while many
//! watchers listen. The memory figure is the resident memory when all objects exist.

mod client;
mod objects;
mod results;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use karpenter_apiserver::Api;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::client::{Client, WallClock};
use crate::host::{self, Stopwatch};
use crate::limit;
use crate::measure::resident_bytes;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many nodes there are. Results are kept only with the numbers that are not given.
    #[arg(long, default_value_t = NODES, value_name = "N")]
    nodes: usize,
    /// How many pods there are.
    #[arg(long, default_value_t = PODS, value_name = "N")]
    pods: usize,
    /// How often something is changed to see when it arrives.
    #[arg(long, default_value_t = 200, value_name = "N")]
    changes: usize,
}

const NODES: usize = 5_000;
const PODS: usize = 100_000;
const NAMESPACES: usize = 50;
/// A controller's watches, and far more than any real cluster has.
const WATCHERS: [usize; 2] = [50, 10_000];

/// One figure.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    #[serde(rename = "what")]
    pub metric: String,
    pub value: f64,
    pub unit: &'static str,
}

/// Fills an API, measures it, and keeps the result.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let rows = runtime.block_on(measure(args))?;
    let limits = results::limits(&rows);
    let verdict = limit::print_limits(&limits);
    if (args.nodes, args.pods) == (NODES, PODS) {
        results::save(&rows, &limits)?;
    }
    Ok(verdict)
}

async fn measure(args: &Args) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut add = |metric: &str, value: f64, unit| {
        let row = Row { metric: metric.to_owned(), value, unit };
        host::print(&results::line(&row));
        rows.push(row);
    };
    let before = resident_bytes();
    let client = Client::new(Api::new(Arc::new(WallClock::new())).service());
    create_objects(&client, args, &mut add).await?;
    add("resident memory with all of them", mebibytes(resident_bytes() - before), "MiB");
    measure_lists(&client, &mut add).await?;
    for watchers in WATCHERS {
        measure_watchers(&client, watchers, args, &mut add).await?;
    }
    add("resident memory at the end", mebibytes(resident_bytes() - before), "MiB");
    Ok(rows)
}

type AddRow<'a> = dyn FnMut(&str, f64, &'static str) + Send + 'a;

/// Creates namespaces, nodes and running pods, and reports the rates.
async fn create_objects(client: &Client, args: &Args, add: &mut AddRow<'_>) -> Result<()> {
    for index in 0..NAMESPACES {
        client.post("/api/v1/namespaces", &objects::namespace(index)).await?;
    }
    let watch = Stopwatch::start();
    for index in 0..args.nodes {
        client.post("/api/v1/nodes", &objects::node(index)).await?;
    }
    add("nodes created", rate(args.nodes, watch.elapsed()), "per second");

    let watch = Stopwatch::start();
    for index in 0..args.pods {
        client.post(&objects::pods_path(index, NAMESPACES), &objects::pod(index)).await?;
    }
    add("pods created", rate(args.pods, watch.elapsed()), "per second");

    let watch = Stopwatch::start();
    for index in 0..args.pods {
        let path = objects::pod_path(index, NAMESPACES, "binding");
        client.post(&path, &objects::binding(index, args.nodes)).await?;
    }
    add("pods bound", rate(args.pods, watch.elapsed()), "per second");

    let watch = Stopwatch::start();
    for index in 0..args.pods {
        let path = objects::pod_path(index, NAMESPACES, "status");
        client.patch(&path, "kubelet", &objects::running_status(index)).await?;
    }
    add("pods set to running", rate(args.pods, watch.elapsed()), "per second");
    Ok(())
}

async fn measure_lists(client: &Client, add: &mut AddRow<'_>) -> Result<()> {
    let all = client.timed_get("/api/v1/pods", "").await?;
    add("list of all pods", mebibytes(all.bytes), "MiB");
    add("list of all pods, time", millis(all.took), "ms");
    for (metric, path, accept) in [
        ("list of one namespace", "/api/v1/namespaces/team-7/pods", ""),
        ("list by a label that 1 % have", "/api/v1/pods?labelSelector=app%3Dapp-7", ""),
        ("list by a node", "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-00007", ""),
        ("first page of 500, as a table", "/api/v1/pods?limit=500", client::TABLE_MEDIA_TYPE),
        ("all pods as a table", "/api/v1/pods", client::TABLE_MEDIA_TYPE),
    ] {
        let got = client.timed_get(path, accept).await?;
        add(metric, millis(got.took), "ms");
    }
    Ok(())
}

/// Measures how long until every watcher of pods has received a change.
async fn measure_watchers(
    client: &Client,
    watchers: usize,
    args: &Args,
    add: &mut AddRow<'_>,
) -> Result<()> {
    let (seen, mut arrived) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    let list = client.get("/api/v1/pods?limit=1").await?;
    let version = list["metadata"]["resourceVersion"].as_str().context("a list has a version")?;
    for _ in 0..watchers {
        let path = format!("/api/v1/pods?watch=true&resourceVersion={version}");
        let mut events = client.watch(&path).await?;
        let seen = seen.clone();
        tasks.spawn(async move {
            while events.next().await.is_some() {
                if seen.send(()).is_err() {
                    return;
                }
            }
        });
    }
    let held = resident_bytes();
    let mut took = Vec::with_capacity(args.changes);
    let changes = if watchers > 1_000 { args.changes.div_ceil(10) } else { args.changes };
    for change in 0..changes {
        let path = objects::pod_path(change % args.pods.max(1), NAMESPACES, "");
        let annotation = objects::annotation(watchers, change);
        let watch = Stopwatch::start();
        client.patch(&path, "bench", &annotation).await?;
        for _ in 0..watchers {
            arrived.recv().await.context("a watch has ended")?;
        }
        took.push(watch.elapsed());
    }
    took.sort_unstable();
    let at = |share: usize| took.get(took.len() * share / 100).copied().unwrap_or_default();
    add(&format!("a change until {watchers} watchers have it, median"), millis(at(50)), "ms");
    add(&format!("a change until {watchers} watchers have it, 99 of 100"), millis(at(99)), "ms");
    let more = resident_bytes().saturating_sub(held);
    add(&format!("memory that {watchers} watchers took meanwhile"), mebibytes(more), "MiB");
    tasks.shutdown().await;
    Ok(())
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[expect(clippy::cast_precision_loss, reason = "sizes of memory, for people")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(1e-9)
}
