//! Tests of the product as a process: start, leadership, and recovery.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use karpenter_api::annotations;
use karpenter_api::nodepool::NodePool;
use karpenter_e2e::cluster::{Cluster, NO_LEADER_ELECTION, start_with_crds};
use karpenter_e2e::kubelets::{self, Kubelets};
use karpenter_e2e::proxy::Proxy;
use karpenter_e2e::tenant::{STEP_TIMEOUT, TestTenant};
use karpenter_e2e::{ControlPlane, Controller, Parts, product, wait};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use xtask::host::Stopwatch;

#[test]
fn invalid_options_exit_with_2_and_name_the_option() -> Result<()> {
    let rows: [(&[&str], &[&str]); 6] = [
        (&["--log-level=loud"], &["--log-level", "loud", "debug", "info", "error"]),
        (&["--metrics-port=eighty"], &["--metrics-port", "eighty"]),
        (&["--health-probe-port=70000"], &["--health-probe-port", "70000", "65535"]),
        (&["--batch-idle-duration=soon"], &["--batch-idle-duration", "soon"]),
        (&["--no-such-option=1"], &["no-such-option"]),
        (&["--provider=gcp"], &["--provider", "gcp", "aws", "kwok"]),
    ];
    for (args, parts) in rows {
        let output = Command::new(product::karpenter_binary()?)
            .arg("controller")
            .args(args)
            .env("KUBECONFIG", "/nowhere")
            .stdin(Stdio::null())
            .output()?;
        let complaint = String::from_utf8(output.stderr)?;
        assert_eq!(output.status.code(), Some(2), "{args:?}: {complaint}");
        let first = complaint.lines().next().unwrap_or_default();
        for part in parts {
            ensure!(first.contains(part), "{args:?}: {part:?} is not in {first:?}");
        }
        assert_eq!(String::from_utf8(output.stdout)?, "", "{args:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_controller_waits_for_missing_crds_and_continues() -> Result<()> {
    let plane = ControlPlane::start().await?;
    let mut controller = Controller::start(
        "karpenter",
        &plane.product_kubeconfig()?,
        &NO_LEADER_ELECTION,
        plane.dir(),
    )
    .await?;
    let live = controller.probe("/healthz").await?;
    assert_eq!(live.code, 200, "nothing is gained by killing it");
    wait::until("it says what is missing", STEP_TIMEOUT, async || {
        controller.check_running()?;
        let answer = controller.probe("/readyz").await?;
        ensure!(answer.code != 200, "it cannot be ready");
        Ok(answer.body.contains("nodeclaims: ").then_some(()))
    })
    .await?;
    let complaint = "waiting for lists of objects; is the API server there, are the CRDs installed, and may we list them?";
    wait::until("the log says so", STEP_TIMEOUT, async || {
        let kinds = controller.log_records(complaint);
        let is_named = |record: &Value| {
            let kinds = record["kind"].as_str().unwrap_or_default();
            kinds.split(", ").any(|kind| kind == "nodeclaims")
        };
        Ok(kinds.iter().any(is_named).then_some(()))
    })
    .await?;

    let crds =
        tokio::task::spawn_blocking(|| product::run_karpenter(&["crds", "--provider", "kwok"]));
    plane.apply_crds(&crds.await??).await?;
    controller.wait_until_ready(STEP_TIMEOUT).await?;
    controller.check_running()?;
    check_reconciles(&plane, "crds-came").await
}

#[tokio::test]
async fn a_standby_leads_after_a_kill_and_at_once_after_a_shutdown() -> Result<()> {
    let plane = start_with_crds(Parts::API).await?;
    let (config, args) = (plane.product_kubeconfig()?, ["--leader-election-namespace=default"]);
    let start = async |name| Controller::start(name, &config, &args, plane.dir()).await;
    let leads = async |controller: &Controller| {
        wait::until("it leads", STEP_TIMEOUT, async || {
            let master = controller.metric_sum("leader_election_master_status", "").await?;
            Ok((master > 0.5).then_some(()))
        })
        .await
    };
    let mut first = start("first").await?;
    leads(&first).await?;
    check_reconciles(&plane, "first-leads").await?;
    let mut second = start("second").await?;
    wait::until("it stands by", STEP_TIMEOUT, async || {
        Ok((!second.log_records("attempting to acquire leader lease...").is_empty()).then_some(()))
    })
    .await?;
    second
        .wait_until_ready(STEP_TIMEOUT)
        .await
        .context("a standby is ready, or no upgrade would get on")?;
    let held = lease_holder(&plane).await?;

    let watch = Stopwatch::start();
    first.signal("KILL")?;
    first.wait_until_ended(STEP_TIMEOUT).await?;
    leads(&second).await?;
    let took = watch.elapsed();
    ensure!(took > Duration::from_secs(5), "the lease of the dead was not honoured: {took:?}");
    ensure!(took < Duration::from_secs(40), "it took {took:?}");
    ensure!(held != lease_holder(&plane).await?, "the lease has a new holder");
    check_reconciles(&plane, "second-leads").await?;

    let third = start("third").await?;
    wait::until("it stands by", STEP_TIMEOUT, async || {
        Ok((!third.log_records("attempting to acquire leader lease...").is_empty()).then_some(()))
    })
    .await?;
    let watch = Stopwatch::start();
    second.signal("TERM")?;
    let status = second.wait_until_ended(STEP_TIMEOUT).await?;
    assert_eq!(status.code(), Some(0), "40/Q10: {}", second.log());
    leads(&third).await?;
    let took = watch.elapsed();
    ensure!(took < Duration::from_secs(12), "40/Q10: the lease was not released: {took:?}");
    check_reconciles(&plane, "third-leads").await
}

async fn lease_holder(plane: &ControlPlane) -> Result<String> {
    let leases: Api<Lease> = Api::namespaced(plane.client()?, "default");
    let lease = leases.get("karpenter-leader-election").await?;
    lease.spec.and_then(|spec| spec.holder_identity).context("somebody holds it")
}

/// Checks that a controller reconciles: a new NodePool gets its hash.
async fn check_reconciles(plane: &ControlPlane, name: &str) -> Result<()> {
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "requirements": [],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "none"},
        }}},
    });
    plane.objects()?.create(&pool).await?;
    let pools: Api<NodePool> = Api::all(plane.client()?);
    wait::until("a NodePool gets its hash", STEP_TIMEOUT, async || {
        let pool = pools.get(name).await?;
        Ok(pool.annotations().contains_key(annotations::NODEPOOL_HASH).then_some(()))
    })
    .await
}

#[tokio::test]
async fn the_controller_survives_an_api_server_restart() -> Result<()> {
    // Alone: a lease that cannot be renewed for ten seconds ends a process, as it has to.
    let mut cluster = Cluster::start(&NO_LEADER_ELECTION).await?;
    let tenant = TestTenant::create_in(&cluster.plane, "api-restart").await?;
    tenant.create_pool(json!({})).await?;
    tenant.create_deployment(4, "1", tenant.one_pod_per_node()).await?;
    tenant.wait_for_claim().await?; // in the middle of its work

    cluster.plane.kill_api_server();
    cluster.plane.restart_api_server().await?;
    tenant.wait_for_running_pods(4).await?;
    assert_eq!(tenant.list_claims().await?.len(), 4, "none is there twice");
    cluster.controller.check_running()
}

#[tokio::test]
async fn the_controller_survives_cut_connections() -> Result<()> {
    let plane = start_with_crds(Parts::ALL).await?;
    let _kubelets = Kubelets::start(plane.admin_config()?, kubelets::quick_timing())?;
    let proxy = Proxy::start(plane.api_port()).await?;
    let kubeconfig = plane.product_kubeconfig_by_port(proxy.port())?;
    let args = [&NO_LEADER_ELECTION[..], &["--log-level=debug"]].concat();
    let mut controller = Controller::start("karpenter", &kubeconfig, &args, plane.dir()).await?;
    controller.wait_until_ready(STEP_TIMEOUT).await?;
    let tenant = TestTenant::create_in(&plane, "cut").await?;
    tenant.create_pool(json!({})).await?;

    tenant.create_deployment(6, "1", tenant.one_pod_per_node()).await?;
    for seen in 1..=3 {
        wait::until("it goes on, and is connected", STEP_TIMEOUT, async || {
            Ok((tenant.list_claims().await?.len() >= seen && proxy.open_connections() > 0)
                .then_some(()))
        })
        .await?;
        proxy.cut_connections();
    }
    tenant.wait_for_running_pods(6).await?;
    assert_eq!(tenant.list_claims().await?.len(), 6, "none is there twice");

    // Changes during the downtime are observed afterwards.
    let claim = tenant.wait_for_claim().await?;
    tenant.delete_claim(&claim).await?;
    proxy.cut_connections();
    tenant.wait_until_deleted(std::slice::from_ref(&claim), STEP_TIMEOUT).await?;
    tenant.wait_for_running_pods(6).await?;
    controller.check_running()
}
