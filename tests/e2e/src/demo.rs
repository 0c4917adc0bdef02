//! Runs `karpenter demo`, and kubectl on it.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use xtask::tools::{Tool, Toolbox};

use crate::kubectl::{self, KubectlOutput};
use crate::{product, wait};

/// How long the demo may take from its start to its kubeconfig.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A demo that ends when this is dropped.
#[derive(Debug)]
pub struct Demo {
    child: Child,
    dir: tempfile::TempDir,
    kubectl: PathBuf,
}

impl Demo {
    /// Starts the demo with these arguments, and waits until kubectl can be used on it.
    pub async fn start(args: &[&str]) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let kubectl =
            tokio::task::spawn_blocking(|| Toolbox::from_env()?.ensure(Tool::Kubectl)).await??;
        let log = File::create(dir.path().join("demo.log"))?;
        let child = Command::new(product::karpenter_binary()?)
            .args(["demo", "--kubeconfig"])
            .arg(dir.path().join("kubeconfig"))
            .args(args)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start the demo")?;
        let mut demo = Self { child, dir, kubectl };
        wait::until("the demo's kubeconfig", START_LIMIT, async || {
            if let Some(status) = demo.child.try_wait()? {
                bail!("the demo ended with {status}: {}", demo.log());
            }
            Ok(demo.kubeconfig().exists().then_some(()))
        })
        .await?;
        Ok(demo)
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// What it has printed so far.
    pub fn log(&self) -> String {
        let mut text = String::new();
        let file = File::open(self.dir.path().join("demo.log"));
        let _nothing_yet = file.and_then(|mut file| file.read_to_string(&mut text));
        text
    }

    /// Runs kubectl on the demo.
    pub async fn kubectl(&self, args: &[&str], stdin: Option<&str>) -> Result<KubectlOutput> {
        kubectl::run(&self.kubectl, &self.kubeconfig(), self.dir.path(), args, stdin).await
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
