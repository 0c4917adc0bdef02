//! Runs `karpenter controller` as a process, as on a cluster.

use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::component::Component;
use crate::{product, wait};

/// What every controller here is started with. Ports are any that are free.
const ARGS: [&str; 4] =
    ["controller", "--provider=kwok", "--metrics-port=0", "--health-probe-port=0"];

/// How long a process may take from its start until it answers.
const START_LIMIT: Duration = Duration::from_secs(30);

/// How long a response may take before it counts as missing.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// A controller that ends when this is dropped, as by `kill -9`.
#[derive(Debug)]
pub struct Controller {
    component: Component,
    probes: String,
    metrics: String,
}

/// A response of the probe or metrics port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpResponse {
    pub code: u16,
    pub body: String,
}

impl Controller {
    /// Starts a controller on the cluster of the kubeconfig, with `args` added, and waits until its
    /// probes answer. Its log is `<dir>/<name>.log`.
    pub async fn start(
        name: &'static str,
        kubeconfig: &Path,
        args: &[&str],
        dir: &Path,
    ) -> Result<Self> {
        let binary = tokio::task::spawn_blocking(product::karpenter_binary).await??;
        let mut words = vec![format!("KUBECONFIG={}", kubeconfig.display())];
        words.push(binary.to_str().context("a path of ours is text")?.to_owned());
        words.extend(ARGS.iter().chain(args).map(|arg| (*arg).to_owned()));
        let component = Component::spawn(name, Path::new("env"), &words, dir)?;
        let mut controller = Self { component, probes: String::new(), metrics: String::new() };
        let addresses = wait::until("the controller's ports", START_LIMIT, async || {
            if let Some(status) = controller.component.exit_status() {
                bail!("{name} ended with {status}; {}", controller.component.log_tail());
            }
            Ok(controller.listen_address("probes").zip(controller.listen_address("metrics")))
        });
        let (probes, metrics) = addresses.await?;
        (controller.probes, controller.metrics) = (probes, metrics);
        Ok(controller)
    }

    fn listen_address(&self, name: &str) -> Option<String> {
        let record =
            self.log_records("starting server").into_iter().find(|line| line["name"] == name)?;
        let address = record["address"].as_str()?;
        let port = address.rsplit_once(':')?.1;
        Some(format!("127.0.0.1:{port}"))
    }

    pub fn pid(&self) -> u32 {
        self.component.pid()
    }

    /// All that it has logged so far.
    pub fn log(&self) -> String {
        self.component.log()
    }

    /// Returns the log records with this message.
    pub fn log_records(&self, message: &str) -> Vec<Value> {
        let log = self.log();
        let records = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        records.filter(|record| record["message"] == message).collect()
    }

    /// Sends it a signal, such as `TERM` or `KILL`.
    pub fn signal(&self, signal: &str) -> Result<()> {
        self.component.signal(signal)
    }

    /// Returns the exit status if the process has ended.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.component.exit_status()
    }

    /// Waits until the process has ended.
    pub async fn wait_until_ended(&mut self, limit: Duration) -> Result<ExitStatus> {
        let pid = self.pid();
        wait::until(&format!("process {pid} ends"), limit, async || Ok(self.exit_status())).await
    }

    /// Fails if the process has ended or panicked.
    pub fn check_running(&mut self) -> Result<()> {
        if let Some(status) = self.exit_status() {
            bail!("the controller ended with {status}; {}", self.component.log_tail());
        }
        ensure!(!self.log().contains("panicked"), "{}", self.component.log_tail());
        Ok(())
    }

    /// Requests a probe, such as `/readyz`.
    pub async fn probe(&self, path: &str) -> Result<HttpResponse> {
        http_get(&self.probes, path).await
    }

    /// Waits until the readiness probe succeeds.
    pub async fn wait_until_ready(&self, limit: Duration) -> Result<()> {
        wait::until("the controller is ready", limit, async || {
            Ok((self.probe("/readyz").await?.code == 200).then_some(()))
        })
        .await
    }

    /// Returns the sum of a metric over all label sets that contain `labels`, such as `code="429"`.
    pub async fn metric_sum(&self, name: &str, labels: &str) -> Result<f64> {
        let page = http_get(&self.metrics, "/metrics").await?;
        ensure!(page.code == 200, "metrics: {}", page.code);
        let values = page.body.lines().filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let of_metric = series.split('{').next() == Some(name) && series.contains(labels);
            of_metric.then(|| value.parse::<f64>().ok())?
        });
        Ok(values.sum())
    }
}

/// Sends one HTTP/1.1 request on its own connection.
async fn http_get(address: &str, path: &str) -> Result<HttpResponse> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let answer = tokio::time::timeout(RESPONSE_TIMEOUT, exchange).await;
    let answer = answer.with_context(|| format!("no answer to {path}"))??;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer has a head")?;
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok(HttpResponse { code: code.context("an answer has a code")?, body: body.to_owned() })
}
