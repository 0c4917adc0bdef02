//! A control plane with kubelets and the controller on it.

use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::sync::OnceCell;

use crate::control_plane::{ControlPlane, Parts};
use crate::controller::Controller;
use crate::kubelets::{self, Kubelets};
use crate::product;

/// How long the product may take from its start until it is ready.
const READY_LIMIT: Duration = Duration::from_mins(1);

/// The arguments of a controller without leader election.
pub const NO_LEADER_ELECTION: [&str; 1] = ["--disable-leader-election"];

/// A cluster that the product works on.
#[derive(Debug)]
pub struct Cluster {
    /// First, so that it is dropped first.
    pub controller: Controller,
    pub plane: ControlPlane,
    _kubelets: Kubelets,
}

impl Cluster {
    /// Starts everything, the controller with these arguments.
    pub async fn start(args: &[&str]) -> Result<Self> {
        let plane = start_with_crds(Parts::ALL).await?;
        let kubelets = Kubelets::start(plane.admin_config()?, kubelets::quick_timing())?;
        let (config, dir) = (plane.product_kubeconfig()?, plane.dir().to_owned());
        let controller = Controller::start("karpenter", &config, args, &dir).await?;
        controller.wait_until_ready(READY_LIMIT).await?;
        Ok(Self { controller, plane, _kubelets: kubelets })
    }

    /// One cluster for all tests of a test binary: each uses names of its own, see [`TestTenant`].
    ///
    /// [`TestTenant`]: crate::TestTenant
    pub async fn shared() -> Result<&'static Self> {
        static CLUSTER: OnceCell<Result<Cluster, String>> = OnceCell::const_new();
        let start = || async {
            // Tests read its log, and a debug log helps to explain a failed test.
            let args = [&NO_LEADER_ELECTION[..], &["--log-level=debug"]].concat();
            Cluster::start(&args).await.map_err(|error| format!("{error:#}"))
        };
        let started = Box::pin(CLUSTER.get_or_init(start)).await;
        started.as_ref().map_err(|error| anyhow!("{error}"))
    }
}

/// Starts a control plane with the CRDs of the KWOK provider.
pub async fn start_with_crds(parts: Parts) -> Result<ControlPlane> {
    let crds =
        tokio::task::spawn_blocking(|| product::run_karpenter(&["crds", "--provider", "kwok"]));
    let crds = crds.await??;
    let plane = ControlPlane::start_with(parts).await?;
    plane.apply_crds(&crds).await?;
    Ok(plane)
}
