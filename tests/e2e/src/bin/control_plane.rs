//! Runs a control plane in the foreground until Ctrl-C; `cargo xtask control-plane` starts it.
//!
//! Prints one line `KUBECONFIG=…` on stdout when it can be used; everything else is on stderr.

use std::process::ExitCode;

use clap::Parser;
use karpenter_e2e::{ControlPlane, Parts};
use xtask::host::{Stopwatch, note, print};

/// Runs a Kubernetes control plane on loopback until Ctrl-C.
#[derive(Debug, Parser)]
struct Args {
    /// Only etcd and kube-apiserver: nothing schedules pods or runs controllers.
    #[arg(long)]
    api_only: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> anyhow::Result<()> {
    let watch = Stopwatch::start();
    let parts = if args.api_only { Parts::API } else { Parts::ALL };
    let plane = ControlPlane::start_with(parts).await?;
    for component in plane.components() {
        note(&format!("{:<24} pid {}", component.name(), component.pid()));
    }
    note(&format!("logs in {}", plane.dir().display()));
    note(&format!("ready after {:.1} s; Ctrl-C stops it", watch.elapsed().as_secs_f64()));
    print(&format!("KUBECONFIG={}", plane.kubeconfig().display()));
    tokio::signal::ctrl_c().await?;
    drop(plane);
    Ok(())
}
