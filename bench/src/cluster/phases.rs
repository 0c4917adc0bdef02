//! Runs the phases of the cluster benchmark and measures each.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use karpenter_e2e::kubelets::{self, Kubelets};
use karpenter_e2e::{ControlPlane, Parts};
use serde_json::json;
use tokio::task::JoinSet;

use super::client::ClusterClient;
use super::probes::ProbeTimes;
use super::process::{ControllerProcess, Side};
use super::{Args, Phase};
use crate::host::{self, Stopwatch};

/// A figure with its unit; no value where a side cannot do this.
pub(super) type Figure = (&'static str, Option<f64>, &'static str);

/// The longest wait for pods to run before the side has failed.
const PODS_TIMEOUT: Duration = Duration::from_mins(10);
/// The longest wait for the last claims after all pods run.
const LAST_CLAIMS_WAIT: Duration = Duration::from_secs(5);
/// How long the node count must not fall before a scale-down has settled.
const SETTLED_AFTER: Duration = Duration::from_secs(45);
/// How long the cluster settles before it counts as idle: it includes `consolidateAfter`, which
/// sets a condition of every NodeClaim.
const IDLE_WAIT: Duration = Duration::from_mins(1);
/// How long the idle phase and the pending phase are measured.
const OBSERVATION_TIME: Duration = Duration::from_mins(1);
/// How many workers create stranded pods in parallel.
const CREATE_WORKERS: usize = 16;

struct PhaseRun<'a> {
    args: &'a Args,
    plane: ControlPlane,
    process: ControllerProcess,
    client: ClusterClient,
    figures: Vec<Figure>,
}

/// Runs a phase of one side on a new control plane. Saves its logs under `name`.
pub(super) async fn run_phase(
    side: Side,
    args: &Args,
    phase: Phase,
    name: &str,
) -> Result<Vec<Figure>> {
    let plane = ControlPlane::start_with(Parts::ALL).await?;
    plane.apply_crds(&side.crds(args)?).await?;
    let _kubelets = Kubelets::start(plane.admin_config()?, kubelets::quick_timing())?;
    let client = ClusterClient::new(plane.client()?);
    client.create_base_objects().await?;
    let process = side.start(args, &plane).await?;
    let mut run = PhaseRun { args, plane, process, client, figures: Vec::new() };
    let ended = run.run_steps(phase).await;
    if let Some(folder) = &args.logs {
        copy_logs(&run.plane, &folder.join(side.name()).join(name))?;
    }
    ended?;
    for (metric, value, unit) in &run.figures {
        let value = value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"));
        host::note(&format!("  {metric:<52} {value:>10} {unit}"));
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

impl PhaseRun<'_> {
    async fn run_steps(&mut self, phase: Phase) -> Result<()> {
        let sizes = self.args.sizes();
        match phase {
            Phase::ScaleUp => self.scale_up(sizes.pods).await,
            Phase::ScaleDown => self.scale_down(sizes.pods, sizes.pods / 4).await,
            Phase::Idle => self.idle(sizes.nodes).await,
            Phase::Pending => self.pending(sizes.pending).await,
        }
    }

    fn add_figure(
        &mut self,
        metric: &'static str,
        value: impl Into<Option<f64>>,
        unit: &'static str,
    ) {
        self.figures.push((metric, value.into(), unit));
    }

    async fn scale_up(&mut self, pods: usize) -> Result<()> {
        self.process.reset_peak()?;
        let (before, requests) = (self.process.usage()?, self.plane.audited_requests()?.len());
        let watch = Stopwatch::start();
        self.client.create_deployments(pods).await?;
        self.wait_until_ready(pods).await?;
        let took = watch.elapsed();
        // What follows from it belongs to it.
        host::sleep(LAST_CLAIMS_WAIT).await;
        let after = self.process.usage()?;
        let requests = self.plane.audited_requests()?.len() - requests;
        let nodes = self.client.count_nodes().await?;
        self.add_figure("scale-up: time until all pods run", took.as_secs_f64(), "s");
        self.add_figure("scale-up: CPU", after.cpu_seconds - before.cpu_seconds, "s");
        self.add_figure("scale-up: peak memory", self.process.peak_megabytes()?, "MB");
        self.add_figure("scale-up: nodes", as_f64(nodes), "");
        self.add_figure("scale-up: API requests", as_f64(requests), "");
        self.add_figure(
            "scale-up: API requests per node",
            as_f64(requests) / as_f64(nodes.max(1)),
            "",
        );
        self.add_figure("scale-up: log lines", as_f64(after.log_lines - before.log_lines), "");
        Ok(())
    }

    async fn scale_down(&mut self, from: usize, pods: usize) -> Result<()> {
        self.client.create_deployments(from).await?;
        self.wait_until_ready(from).await?;
        host::sleep(LAST_CLAIMS_WAIT).await;
        let before = self.process.usage()?;
        let nodes = self.client.count_nodes().await?;
        let budgets = json!([{"nodes": "100%"}]);
        self.client
            .set_disruption(json!({
                "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "5s",
                "budgets": budgets,
            }))
            .await?;
        self.client.scale_deployments(pods).await?;
        let watch = Stopwatch::start();
        let (mut least, mut settled) = (nodes, Duration::ZERO);
        // Until it has gone on for some time without a node that goes, and all pods run.
        while watch.elapsed().saturating_sub(settled) < SETTLED_AFTER
            && watch.elapsed() < PODS_TIMEOUT
        {
            host::sleep(Duration::from_millis(500)).await;
            self.process.check_running()?;
            let (ready, all) = self.client.count_ready_pods().await?;
            let found = self.client.count_nodes().await?;
            if found != least || (ready, all) != (pods, pods) {
                (least, settled) = (found, watch.elapsed());
            }
        }
        let after = self.process.usage()?;
        let has_worked = least < nodes;
        let if_worked = |value: f64| has_worked.then_some(value);
        self.add_figure("scale-down: time until it settles", if_worked(settled.as_secs_f64()), "s");
        self.add_figure("scale-down: nodes that are left", if_worked(as_f64(least)), "");
        let bill = self.client.hourly_price().await?;
        self.add_figure("scale-down: what is left costs", if_worked(bill), "$ an hour");
        let cpu = after.cpu_seconds - before.cpu_seconds;
        self.add_figure("scale-down: CPU", if_worked(cpu), "s");
        Ok(())
    }

    async fn idle(&mut self, nodes: usize) -> Result<()> {
        self.client
            .set_disruption(json!({
                "consolidationPolicy": "WhenEmpty", "consolidateAfter": "20s", "budgets": null,
            }))
            .await?;
        self.client.create_one_pod_per_node_deployment(nodes).await?;
        self.wait_until_ready(nodes).await?;
        host::sleep(IDLE_WAIT).await;
        let (before, requests) = (self.process.usage()?, self.plane.audited_requests()?);
        host::sleep(OBSERVATION_TIME).await;
        let (after, audit) = (self.process.usage()?, self.plane.audited_requests()?);
        let requests = &audit[requests.len()..];
        let writes = requests.iter().filter(|requests| requests.is_write()).count();
        let cpu = after.cpu_seconds - before.cpu_seconds;
        self.add_figure("idle: nodes", as_f64(self.client.count_nodes().await?), "");
        self.add_figure("idle: CPU", 100.0 * cpu / OBSERVATION_TIME.as_secs_f64(), "% of a core");
        self.add_figure("idle: log lines a minute", as_f64(after.log_lines - before.log_lines), "");
        self.add_figure("idle: API requests a minute", as_f64(requests.len()), "");
        self.add_figure("idle: of them writes", as_f64(writes), "");
        self.add_figure("idle: memory", self.process.resident()?, "MB");
        Ok(())
    }

    async fn pending(&mut self, pods: usize) -> Result<()> {
        self.process.reset_peak()?;
        let first = self.process.usage()?;
        self.create_unschedulable_pods(pods).await?;
        host::sleep(IDLE_WAIT).await;
        let mut probes = ProbeTimes::default();
        let mut resident = Vec::new();
        let mut before = first;
        for _ in 0..3 {
            before = self.process.usage()?;
            resident.push(self.process.probe(OBSERVATION_TIME, &mut probes).await?);
        }
        self.process.check_running()?;
        let after = self.process.usage()?;
        let cpu = after.cpu_seconds - before.cpu_seconds;
        self.add_figure("pending: peak memory", self.process.peak_megabytes()?, "MB");
        self.add_figure("pending: growth in the last minute", resident[2] - resident[1], "MB");
        self.add_figure(
            "pending: CPU",
            100.0 * cpu / OBSERVATION_TIME.as_secs_f64(),
            "% of a core",
        );
        self.add_figure(
            "pending: 99 of 100 probes are answered within",
            probes.response_99th_percentile(),
            "ms",
        );
        self.add_figure("pending: slowest answer of a probe", probes.slowest_response(), "ms");
        self.add_figure("pending: latest end of a sleep meanwhile", probes.slowest_sleep(), "ms");
        self.add_figure(
            "pending: slowest answer beyond the latest sleep",
            probes.slowest_beyond_sleep(),
            "ms",
        );
        self.add_figure(
            "pending: answers after 50 ms beyond late sleeps",
            probes.late_per_thousand(),
            "of 1,000",
        );
        self.add_figure("pending: slowest scrape of the metrics", probes.slowest_scrape(), "ms");
        self.add_figure("pending: size of the metrics", probes.largest_page_megabytes(), "MB");
        self.add_figure(
            "pending: log lines a minute",
            as_f64(after.log_lines - before.log_lines),
            "",
        );
        let bytes = after.log_bytes - first.log_bytes;
        self.add_figure("pending: log in all", as_f64(bytes) / 1e6, "MB");
        Ok(())
    }

    async fn create_unschedulable_pods(&self, pods: usize) -> Result<()> {
        let client = self.plane.client()?;
        let mut tasks = JoinSet::new();
        for worker in 0..CREATE_WORKERS {
            let client = ClusterClient::new(client.clone());
            tasks.spawn(async move {
                for index in (worker..pods).step_by(CREATE_WORKERS) {
                    client.create_unschedulable_pod(index).await?;
                }
                Result::<()>::Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.context("creating pods")??;
        }
        Ok(())
    }

    /// Waits until exactly `pods` pods of Deployments exist and are ready.
    async fn wait_until_ready(&mut self, pods: usize) -> Result<()> {
        let watch = Stopwatch::start();
        loop {
            let (ready, all) = self.client.count_ready_pods().await?;
            if (ready, all) == (pods, pods) {
                return Ok(());
            }
            if watch.elapsed() > PODS_TIMEOUT {
                bail!("{ready} of {pods} pods run after {} s", PODS_TIMEOUT.as_secs());
            }
            self.process.check_running()?;
            host::sleep(Duration::from_millis(200)).await;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn as_f64(count: usize) -> f64 {
    count as f64
}
