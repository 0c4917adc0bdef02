//! The steps of the script, and what is measured in each.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use karpenter_e2e::kubelets::{self, Kubelets};
use karpenter_e2e::{ControlPlane, Parts};
use serde_json::json;
use tokio::task::JoinSet;

use super::probes::Probes;
use super::process::{Process, Side};
use super::world::World;
use super::{Args, Phase};
use crate::host::{self, Stopwatch};

/// A figure with its unit; no value where a side cannot do what is measured.
pub(super) type Figure = (&'static str, Option<f64>, &'static str);

/// How long pods may take to run, before the side has failed.
const LIMIT: Duration = Duration::from_mins(10);
/// How long the last claims may take to become ready after all pods run.
const LAST: Duration = Duration::from_secs(5);
/// A scale-down has settled when no node has gone for so long.
const SETTLED: Duration = Duration::from_secs(45);
/// What a cluster may need to come to rest before it counts as idle: `consolidateAfter`, which sets a
/// condition of every NodeClaim, and some more.
const REST: Duration = Duration::from_mins(1);
/// How long an idle cluster, and one that cannot do anything, is looked at.
const LOOK: Duration = Duration::from_mins(1);
/// How many stranded pods are created at once.
const AT_ONCE: usize = 16;

struct Run<'a> {
    args: &'a Args,
    plane: ControlPlane,
    process: Process,
    world: World,
    figures: Vec<Figure>,
}

/// Runs a phase on one side, on a new control plane. Logs are kept by the name.
pub(super) async fn run(side: Side, args: &Args, phase: Phase, name: &str) -> Result<Vec<Figure>> {
    let plane = ControlPlane::start_with(Parts::ALL).await?;
    plane.apply_crds(&side.crds(args)?).await?;
    let _kubelets = Kubelets::start(plane.admin_config()?, kubelets::quick())?;
    let world = World::new(plane.client()?);
    world.prepare().await?;
    let process = side.start(args, &plane).await?;
    let mut run = Run { args, plane, process, world, figures: Vec::new() };
    let ended = run.phase(phase).await;
    if let Some(folder) = &args.logs {
        copy_logs(&run.plane, &folder.join(side.name()).join(name))?;
    }
    ended?;
    for (what, value, unit) in &run.figures {
        let value = value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"));
        host::note(&format!("  {what:<52} {value:>10} {unit}"));
    }
    Ok(run.figures)
}

fn copy_logs(plane: &ControlPlane, to: &std::path::Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(plane.dir())? {
        let path = entry?.path();
        if let Some(name) =
            path.file_name().filter(|_| path.extension().is_some_and(|e| e == "log"))
        {
            std::fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

impl Run<'_> {
    async fn phase(&mut self, phase: Phase) -> Result<()> {
        let sizes = self.args.sizes();
        match phase {
            Phase::ScaleUp => self.scale_up(sizes.pods).await,
            Phase::ScaleDown => self.scale_down(sizes.pods, sizes.pods / 4).await,
            Phase::Idle => self.idle(sizes.nodes).await,
            Phase::Pending => self.pending(sizes.pending).await,
        }
    }

    fn add(&mut self, what: &'static str, value: impl Into<Option<f64>>, unit: &'static str) {
        self.figures.push((what, value.into(), unit));
    }

    async fn scale_up(&mut self, pods: usize) -> Result<()> {
        self.process.forget_peak()?;
        let (before, asked) = (self.process.usage()?, self.plane.audit()?.len());
        let watch = Stopwatch::start();
        self.world.deploy(pods).await?;
        self.until_ready(pods).await?;
        let took = watch.elapsed();
        // What follows from it belongs to it.
        host::sleep(LAST).await;
        let after = self.process.usage()?;
        let requests = self.plane.audit()?.len() - asked;
        let nodes = self.world.nodes().await?;
        self.add("scale-up: time until all pods run", took.as_secs_f64(), "s");
        self.add("scale-up: CPU", after.cpu_seconds - before.cpu_seconds, "s");
        self.add("scale-up: peak memory", self.process.peak()?, "MB");
        self.add("scale-up: nodes", number(nodes), "");
        self.add("scale-up: API requests", number(requests), "");
        self.add("scale-up: API requests per node", number(requests) / number(nodes.max(1)), "");
        self.add("scale-up: log lines", number(after.log_lines - before.log_lines), "");
        Ok(())
    }

    async fn scale_down(&mut self, from: usize, pods: usize) -> Result<()> {
        self.world.deploy(from).await?;
        self.until_ready(from).await?;
        host::sleep(LAST).await;
        let before = self.process.usage()?;
        let nodes = self.world.nodes().await?;
        let budgets = json!([{"nodes": "100%"}]);
        self.world
            .disrupt(json!({
                "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "5s",
                "budgets": budgets,
            }))
            .await?;
        self.world.scale(pods).await?;
        let watch = Stopwatch::start();
        let (mut least, mut settled) = (nodes, Duration::ZERO);
        // Until it has gone on for some time without a node that goes, and all pods run.
        while watch.elapsed().saturating_sub(settled) < SETTLED && watch.elapsed() < LIMIT {
            host::sleep(Duration::from_millis(500)).await;
            self.process.check()?;
            let (ready, all) = self.world.ready().await?;
            let found = self.world.nodes().await?;
            if found != least || (ready, all) != (pods, pods) {
                (least, settled) = (found, watch.elapsed());
            }
        }
        let after = self.process.usage()?;
        let has_worked = least < nodes;
        let if_worked = |value: f64| has_worked.then_some(value);
        self.add("scale-down: time until it settles", if_worked(settled.as_secs_f64()), "s");
        self.add("scale-down: nodes that are left", if_worked(number(least)), "");
        let bill = self.world.bill().await?;
        self.add("scale-down: what is left costs", if_worked(bill), "$ an hour");
        let cpu = after.cpu_seconds - before.cpu_seconds;
        self.add("scale-down: CPU", if_worked(cpu), "s");
        Ok(())
    }

    async fn idle(&mut self, nodes: usize) -> Result<()> {
        self.world
            .disrupt(json!({
                "consolidationPolicy": "WhenEmpty", "consolidateAfter": "20s", "budgets": null,
            }))
            .await?;
        self.world.deploy_apart(nodes).await?;
        self.until_ready(nodes).await?;
        host::sleep(REST).await;
        let (before, asked) = (self.process.usage()?, self.plane.audit()?);
        host::sleep(LOOK).await;
        let (after, audit) = (self.process.usage()?, self.plane.audit()?);
        let asked = &audit[asked.len()..];
        let writes = asked.iter().filter(|asked| asked.is_write()).count();
        let cpu = after.cpu_seconds - before.cpu_seconds;
        self.add("idle: nodes", number(self.world.nodes().await?), "");
        self.add("idle: CPU", 100.0 * cpu / LOOK.as_secs_f64(), "% of a core");
        self.add("idle: log lines a minute", number(after.log_lines - before.log_lines), "");
        self.add("idle: API requests a minute", number(asked.len()), "");
        self.add("idle: of them writes", number(writes), "");
        self.add("idle: memory", self.process.resident()?, "MB");
        Ok(())
    }

    async fn pending(&mut self, pods: usize) -> Result<()> {
        self.process.forget_peak()?;
        let first = self.process.usage()?;
        self.create_stranded(pods).await?;
        host::sleep(REST).await;
        let mut probes = Probes::default();
        let mut resident = Vec::new();
        let mut before = first;
        for _ in 0..3 {
            before = self.process.usage()?;
            resident.push(self.process.probe(LOOK, &mut probes).await?);
        }
        self.process.check()?;
        let after = self.process.usage()?;
        let cpu = after.cpu_seconds - before.cpu_seconds;
        self.add("pending: peak memory", self.process.peak()?, "MB");
        self.add("pending: growth in the last minute", resident[2] - resident[1], "MB");
        self.add("pending: CPU", 100.0 * cpu / LOOK.as_secs_f64(), "% of a core");
        self.add("pending: 99 of 100 probes are answered within", probes.most(), "ms");
        self.add("pending: slowest answer of a probe", probes.slowest(), "ms");
        self.add("pending: latest end of a sleep meanwhile", probes.slowest_sleep(), "ms");
        self.add("pending: slowest answer beyond the latest sleep", probes.beyond(), "ms");
        self.add("pending: answers after 50 ms beyond late sleeps", probes.late(), "of 1,000");
        self.add("pending: slowest scrape of the metrics", probes.slowest_scrape(), "ms");
        self.add("pending: size of the metrics", probes.page(), "MB");
        self.add("pending: log lines a minute", number(after.log_lines - before.log_lines), "");
        let bytes = after.log_bytes - first.log_bytes;
        self.add("pending: log in all", number(bytes) / 1e6, "MB");
        Ok(())
    }

    async fn create_stranded(&self, pods: usize) -> Result<()> {
        let client = self.plane.client()?;
        let mut tasks = JoinSet::new();
        for worker in 0..AT_ONCE {
            let world = World::new(client.clone());
            tasks.spawn(async move {
                for index in (worker..pods).step_by(AT_ONCE) {
                    world.create_stranded(index).await?;
                }
                Result::<()>::Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.context("creating pods")??;
        }
        Ok(())
    }

    /// Waits until so many pods of deployments run, and there are no others.
    async fn until_ready(&mut self, pods: usize) -> Result<()> {
        let watch = Stopwatch::start();
        loop {
            let (ready, all) = self.world.ready().await?;
            if (ready, all) == (pods, pods) {
                return Ok(());
            }
            if watch.elapsed() > LIMIT {
                bail!("{ready} of {pods} pods run after {} s", LIMIT.as_secs());
            }
            self.process.check()?;
            host::sleep(Duration::from_millis(200)).await;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn number(count: usize) -> f64 {
    count as f64
}
