//! Runs a controller as a process and measures its cost.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use karpenter_e2e::ControlPlane;
use karpenter_e2e::component::Component;

use super::Args;
use super::probes::ProbeTimes;
use crate::host::{self, Stopwatch};

/// How long a controller may take from its start until it is ready.
const READY_LIMIT: Duration = Duration::from_mins(2);
/// How long a response to a probe may take.
const PROBE_LIMIT: Duration = Duration::from_secs(5);
/// How often its metrics are scraped meanwhile, and how long a response may take.
const SCRAPE_EVERY: Duration = Duration::from_secs(15);
const SCRAPE_LIMIT: Duration = Duration::from_secs(10);
/// The pause between two probes: many probes fall into each decision about 15,000 pods that would
/// delay them, and all of them cost next to nothing.
const PROBE_PAUSE: Duration = Duration::from_millis(20);

/// The controller that a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Upstream,
    Ours,
}

impl Side {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::Ours => "ours",
        }
    }

    /// The CRDs of this side, as YAML documents.
    pub(super) fn crds(self, args: &Args) -> Result<String> {
        if self == Self::Ours {
            let crds = std::process::Command::new(self.program(args)?)
                .args(["crds", "--provider", "kwok"])
                .output()
                .context("cannot start karpenter")?;
            return String::from_utf8(crds.stdout).context("CRDs are text");
        }
        let source = args.upstream_source.as_deref().context("--upstream-source is missing")?;
        let mut documents = Vec::new();
        for folder in ["kwok/charts/crds", "kwok/apis/crds"] {
            let folder = source.join(folder);
            let files = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
            for file in files {
                documents.push(fs::read_to_string(file?.path())?);
            }
        }
        Ok(documents.join("\n---\n"))
    }

    fn program(self, args: &Args) -> Result<PathBuf> {
        match self {
            Self::Upstream => args.upstream.clone().context("--upstream is missing"),
            Self::Ours => host::sibling_program("karpenter"),
        }
    }

    /// Starts the controller with the same options on both sides, and waits until it is ready.
    pub(super) async fn start(
        self,
        args: &Args,
        plane: &ControlPlane,
    ) -> Result<ControllerProcess> {
        let (metrics, probes) = (free_port()?, free_port()?);
        let program = self.program(args)?;
        let mut words = vec![
            format!("KUBECONFIG={}", plane.product_kubeconfig()?.display()),
            program.to_str().context("a path of ours is text")?.to_owned(),
        ];
        if self == Self::Ours {
            words.extend(["controller", "--provider=kwok"].map(str::to_owned));
        }
        words.extend([
            format!("--metrics-port={metrics}"),
            format!("--health-probe-port={probes}"),
            "--disable-leader-election=true".to_owned(),
            "--log-level=info".to_owned(),
        ]);
        let component = Component::spawn(self.name(), Path::new("env"), &words, plane.dir())?;
        let [probes, metrics] = [probes, metrics].map(|port| format!("127.0.0.1:{port}"));
        let mut process = ControllerProcess { component, probes, metrics };
        let mut waited = Duration::ZERO;
        while !process.is_ready().await {
            process.check_running()?;
            if waited > READY_LIMIT {
                bail!("{} is not ready; {}", self.name(), process.component.log_tail());
            }
            let pause = Duration::from_millis(200);
            host::sleep(pause).await;
            waited += pause;
        }
        Ok(process)
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A running controller process. Dropping it ends the process.
#[derive(Debug)]
pub(super) struct ControllerProcess {
    component: Component,
    /// Where it answers probes.
    probes: String,
    /// Where it shows metrics.
    metrics: String,
}

/// Sends a GET request and returns the whole response with its status line.
async fn http_get(address: &str, path: &str) -> std::io::Result<Vec<u8>> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(answer)
}

fn is_status_ok(answer: &[u8]) -> bool {
    answer.split(|byte| *byte == b' ').nth(1) == Some(b"200")
}

/// What a process has used so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) cpu_seconds: f64,
    pub(super) log_lines: usize,
    pub(super) log_bytes: usize,
}

impl ControllerProcess {
    /// Fails if the process has ended.
    pub(super) fn check_running(&mut self) -> Result<()> {
        if let Some(status) = self.component.exit_status() {
            bail!("{} ended: {status}; {}", self.component.name(), self.component.log_tail());
        }
        Ok(())
    }

    /// Returns whether the readiness probe succeeds in time.
    async fn is_ready(&self) -> bool {
        let probed = tokio::time::timeout(PROBE_LIMIT, http_get(&self.probes, "/readyz")).await;
        matches!(probed, Ok(Ok(answer)) if is_status_ok(&answer))
    }

    /// Probes readiness until `during` has passed, and scrapes the metrics now and then. A missing
    /// or other response counts as the longest wait. Returns the resident memory between solves and
    /// scrapes, which come and go, in megabytes: nine tenths of the time it is more.
    pub(super) async fn probe(&self, during: Duration, probes: &mut ProbeTimes) -> Result<f64> {
        let watch = Stopwatch::start();
        let (mut round, mut scraped) = (ProbeTimes::default(), ProbeTimes::default());
        let mut resident = Vec::new();
        let probe_loop = async {
            while watch.elapsed() < during {
                let slept = Stopwatch::start();
                host::sleep(PROBE_PAUSE).await;
                let late = slept.elapsed().saturating_sub(PROBE_PAUSE);
                let began = Stopwatch::start();
                let took = if self.is_ready().await { began.elapsed() } else { PROBE_LIMIT };
                round.add_response(took, late);
                resident.push(self.resident());
            }
        };
        let scrape = async {
            while watch.elapsed() + SCRAPE_EVERY < during {
                host::sleep(SCRAPE_EVERY).await;
                let began = Stopwatch::start();
                let page =
                    tokio::time::timeout(SCRAPE_LIMIT, http_get(&self.metrics, "/metrics")).await;
                match page {
                    Ok(Ok(page)) if is_status_ok(&page) => {
                        scraped.add_scrape(began.elapsed(), page.len());
                    }
                    _ => scraped.add_scrape(SCRAPE_LIMIT, 0),
                }
            }
        };
        tokio::join!(probe_loop, scrape);
        probes.extend(round);
        probes.extend(scraped);
        let mut resident = resident.into_iter().collect::<Result<Vec<_>>>()?;
        resident.sort_by(f64::total_cmp);
        resident.get(resident.len() / 10).copied().context("it was not round")
    }

    pub(super) fn usage(&self) -> Result<Usage> {
        let stat = fs::read_to_string(self.proc_path("stat"))?;
        // The program's name, in parentheses, may hold spaces.
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let ticks = |field: usize| fields.get(field).and_then(|text| text.parse::<f64>().ok());
        // User and system, the 14th and 15th, in hundredths of a second on every Linux.
        let ticks = ticks(11).zip(ticks(12)).context("/proc says how much CPU was used")?;
        let log = self.component.log();
        Ok(Usage {
            cpu_seconds: (ticks.0 + ticks.1) / 100.0,
            log_lines: log.lines().count(),
            log_bytes: log.len(),
        })
    }

    /// Returns the resident memory, in megabytes.
    pub(super) fn resident(&self) -> Result<f64> {
        self.memory("VmRSS:")
    }

    /// Returns the peak resident memory since [`Self::reset_peak`], in megabytes.
    pub(super) fn peak_megabytes(&self) -> Result<f64> {
        self.memory("VmHWM:")
    }

    pub(super) fn reset_peak(&self) -> Result<()> {
        Ok(fs::write(self.proc_path("clear_refs"), "5")?)
    }

    fn memory(&self, field: &str) -> Result<f64> {
        let status = fs::read_to_string(self.proc_path("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        Ok(kibibytes.context("/proc says how much memory is used")? * 1024.0 / 1e6)
    }

    fn proc_path(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.component.pid())
    }
}
