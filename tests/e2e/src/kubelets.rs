//! Simulates kubelets for the nodes that the KWOK provider creates.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use karpenter_operator::clock::SystemClock;
use karpenter_operator::rng::SeededRng;
use karpenter_sim::kubelet::{self, Pace};
use kube::{Client, Config};
use tokio::sync::oneshot;

/// Kubelets that stop when this is dropped. They run on a thread of their own, since the tests that
/// share them come and go with theirs.
#[derive(Debug)]
pub struct Kubelets {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Returns a pace with short starts and stops of nodes and pods.
pub fn quick_timing() -> Pace {
    let millis = |from, to| Duration::from_millis(from)..Duration::from_millis(to);
    Pace {
        node_ready: millis(200, 800),
        pod_start: millis(100, 400),
        pod_stop: millis(100, 400),
        concurrency: 16,
        ..Pace::default()
    }
}

impl Kubelets {
    /// Starts them on the cluster of the configuration.
    pub fn start(config: Config, pace: Pace) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let work = move || {
            runtime.block_on(async {
                let Ok(client) = Client::try_from(config) else { return };
                let run = kubelet::run(pace, client, Arc::new(SystemClock), SeededRng::new(1));
                tokio::select! {
                    never = run => match never {},
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("kubelets".to_owned()).spawn(work);
        Ok(Self { stop: Some(stop), thread: Some(thread.context("cannot start a thread")?) })
    }
}

impl Drop for Kubelets {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
