//! The product as a process: how it starts, who leads, and what it survives.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use karpenter_api::annotations;
use karpenter_api::nodepool::NodePool;
use karpenter_e2e::cluster::{ALONE, Cluster, with_crds};
use karpenter_e2e::kubelets::{self, Kubelets};
use karpenter_e2e::proxy::Proxy;
use karpenter_e2e::site::{LIMIT, Site};
use karpenter_e2e::{ControlPlane, Controller, Parts, product, wait};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use xtask::host::Stopwatch;

#[test]
fn wrong_options_end_with_2_and_one_line_that_names_them() -> Result<()> {
    let rows: [(&[&str], &[&str]); 6] = [
        (&["--log-level=loud"], &["--log-level", "loud", "debug", "info", "error"]),
        (&["--metrics-port=eighty"], &["--metrics-port", "eighty"]),
        (&["--health-probe-port=70000"], &["--health-probe-port", "70000", "65535"]),
        (&["--batch-idle-duration=soon"], &["--batch-idle-duration", "soon"]),
        (&["--no-such-option=1"], &["no-such-option"]),
        (&["--provider=gcp"], &["--provider", "gcp", "aws", "kwok"]),
    ];
    for (args, parts) in rows {
        let output = Command::new(product::binary()?)
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
async fn without_crds_it_says_so_and_goes_on_when_they_come() -> Result<()> {
    let plane = ControlPlane::start().await?;
    let mut controller =
        Controller::start("karpenter", &plane.product_kubeconfig()?, &ALONE, plane.dir()).await?;
    let live = controller.probe("/healthz").await?;
    assert_eq!(live.code, 200, "nothing is gained by killing it");
    wait::until("it says what is missing", LIMIT, async || {
        controller.check()?;
        let answer = controller.probe("/readyz").await?;
        ensure!(answer.code != 200, "it cannot be ready");
        Ok(answer.body.contains("nodeclaims: ").then_some(()))
    })
    .await?;
    let complaint = "waiting for lists of objects; is the API server there, are the CRDs installed, and may we list them?";
    wait::until("the log says so", LIMIT, async || {
        let kinds = controller.records(complaint);
        let is_named = |record: &Value| {
            let kinds = record["kind"].as_str().unwrap_or_default();
            kinds.split(", ").any(|kind| kind == "nodeclaims")
        };
        Ok(kinds.iter().any(is_named).then_some(()))
    })
    .await?;

    let crds = tokio::task::spawn_blocking(|| product::karpenter(&["crds", "--provider", "kwok"]));
    plane.apply_crds(&crds.await??).await?;
    controller.ready(LIMIT).await?;
    controller.check()?;
    works(&plane, "crds-came").await
}

#[tokio::test]
async fn another_process_takes_over_from_one_that_is_killed_and_at_once_from_one_that_ends()
-> Result<()> {
    let plane = with_crds(Parts::API).await?;
    let (config, args) = (plane.product_kubeconfig()?, ["--leader-election-namespace=default"]);
    let start = async |name| Controller::start(name, &config, &args, plane.dir()).await;
    let leads = async |controller: &Controller| {
        wait::until("it leads", LIMIT, async || {
            let master = controller.metric("leader_election_master_status", "").await?;
            Ok((master > 0.5).then_some(()))
        })
        .await
    };
    let mut first = start("first").await?;
    leads(&first).await?;
    works(&plane, "first-leads").await?;
    let mut second = start("second").await?;
    wait::until("it stands by", LIMIT, async || {
        Ok((!second.records("attempting to acquire leader lease...").is_empty()).then_some(()))
    })
    .await?;
    second.ready(LIMIT).await.context("a standby is ready, or no upgrade would get on")?;
    let held = holder(&plane).await?;

    let watch = Stopwatch::start();
    first.signal("KILL")?;
    first.ended(LIMIT).await?;
    leads(&second).await?;
    let took = watch.elapsed();
    ensure!(took > Duration::from_secs(5), "the lease of the dead was not honoured: {took:?}");
    ensure!(took < Duration::from_secs(40), "it took {took:?}");
    ensure!(held != holder(&plane).await?, "the lease has a new holder");
    works(&plane, "second-leads").await?;

    let third = start("third").await?;
    wait::until("it stands by", LIMIT, async || {
        Ok((!third.records("attempting to acquire leader lease...").is_empty()).then_some(()))
    })
    .await?;
    let watch = Stopwatch::start();
    second.signal("TERM")?;
    let status = second.ended(LIMIT).await?;
    assert_eq!(status.code(), Some(0), "40/Q10: {}", second.log());
    leads(&third).await?;
    let took = watch.elapsed();
    ensure!(took < Duration::from_secs(12), "40/Q10: the lease was not released: {took:?}");
    works(&plane, "third-leads").await
}

async fn holder(plane: &ControlPlane) -> Result<String> {
    let leases: Api<Lease> = Api::namespaced(plane.client()?, "default");
    let lease = leases.get("karpenter-leader-election").await?;
    lease.spec.and_then(|spec| spec.holder_identity).context("somebody holds it")
}

/// Whether somebody works: a new NodePool gets its hash.
async fn works(plane: &ControlPlane, name: &str) -> Result<()> {
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "requirements": [],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "none"},
        }}},
    });
    plane.objects()?.create(&pool).await?;
    let pools: Api<NodePool> = Api::all(plane.client()?);
    wait::until("a NodePool gets its hash", LIMIT, async || {
        let pool = pools.get(name).await?;
        Ok(pool.annotations().contains_key(annotations::NODEPOOL_HASH).then_some(()))
    })
    .await
}

#[tokio::test]
async fn it_survives_a_restart_of_the_api_server() -> Result<()> {
    // Alone: a lease that cannot be renewed for ten seconds ends a process, as it has to.
    let mut cluster = Cluster::start(&ALONE).await?;
    let site = Site::on(&cluster.plane, "api-restart").await?;
    site.pool(json!({})).await?;
    site.deploy(4, "1", site.apart()).await?;
    site.claim().await?; // in the middle of its work

    cluster.plane.kill_api();
    cluster.plane.start_api().await?;
    site.running(4).await?;
    assert_eq!(site.claims().await?.len(), 4, "none is there twice");
    cluster.controller.check()
}

#[tokio::test]
async fn it_survives_connections_that_are_cut() -> Result<()> {
    let plane = with_crds(Parts::ALL).await?;
    let _kubelets = Kubelets::start(plane.admin_config()?, kubelets::quick())?;
    let proxy = Proxy::start(plane.api_port()).await?;
    let kubeconfig = plane.product_kubeconfig_by_port(proxy.port())?;
    let args = [&ALONE[..], &["--log-level=debug"]].concat();
    let mut controller = Controller::start("karpenter", &kubeconfig, &args, plane.dir()).await?;
    controller.ready(LIMIT).await?;
    let site = Site::on(&plane, "cut").await?;
    site.pool(json!({})).await?;

    site.deploy(6, "1", site.apart()).await?;
    for seen in 1..=3 {
        wait::until("it goes on, and is connected", LIMIT, async || {
            Ok((site.claims().await?.len() >= seen && proxy.open() > 0).then_some(()))
        })
        .await?;
        proxy.cut();
    }
    site.running(6).await?;
    assert_eq!(site.claims().await?.len(), 6, "none is there twice");

    // What happens while nobody watches is seen afterwards.
    let claim = site.claim().await?;
    site.delete_claim(&claim).await?;
    proxy.cut();
    site.gone(std::slice::from_ref(&claim), LIMIT).await?;
    site.running(6).await?;
    controller.check()
}
