//! Tests of the control plane itself: it starts, it is a real one, and it leaves nothing behind.

use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use karpenter_e2e::component::Component;
use karpenter_e2e::{ControlPlane, Parts, SharedControlPlane, parse_manifest, wait};
use kube::Api;
use kube::api::{ListParams, PostParams};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use xtask::tools::Tool;

static API: SharedControlPlane = SharedControlPlane::new(Parts::API);
static ALL: SharedControlPlane = SharedControlPlane::new(Parts::ALL);

const LIMIT: Duration = Duration::from_mins(1);

#[tokio::test]
async fn kubectl_and_the_api_server_are_of_the_pinned_version() -> Result<()> {
    let printed =
        API.get().await?.kubectl(&["version", "-o", "json"], None).await?.into_stdout()?;
    let version = parse_manifest(&printed);
    for side in ["clientVersion", "serverVersion"] {
        assert_eq!(version[side]["gitVersion"], Tool::KubeApiserver.version(), "{side}");
    }
    Ok(())
}

#[tokio::test]
async fn a_failing_kubectl_returns_its_error() -> Result<()> {
    let output = API.get().await?.kubectl(&["get", "widgets"], None).await?;
    assert_eq!(output.status.code(), Some(1));
    let error = output.into_stdout().unwrap_err().to_string();
    assert!(error.contains("the server doesn't have a resource type \"widgets\""), "{error}");
    Ok(())
}

#[tokio::test]
async fn the_api_server_rejects_clients_without_permission() -> Result<()> {
    let plane = API.get().await?;
    let cases = [
        (plane.client()?, None),
        (plane.client_without_permissions()?, Some(403)),
        (plane.client_with_token("forged")?, Some(401)),
    ];
    for (client, expected) in cases {
        let refused = match Api::<Node>::all(client).list(&ListParams::default()).await {
            Ok(_) => None,
            Err(kube::Error::Api(status)) => Some(status.code),
            Err(error) => return Err(error.into()),
        };
        assert_eq!(refused, expected);
    }
    Ok(())
}

#[tokio::test]
async fn namespaces_and_pods_can_be_created_without_controllers() -> Result<()> {
    let plane = API.get().await?;
    let client = plane.client()?;
    let namespace = parse_manifest("{metadata: {name: harness-pods}}");
    Api::<Namespace>::all(client.clone())
        .create(&PostParams::default(), &serde_json::from_value(namespace)?)
        .await?;
    let pod = "{metadata: {name: web}, spec: {containers: [{name: web, image: web}]}}";
    let pods = Api::<Pod>::namespaced(client, "harness-pods");
    let pod =
        pods.create(&PostParams::default(), &serde_json::from_value(parse_manifest(pod))?).await?;
    assert_eq!(pod.status.and_then(|status| status.phase).as_deref(), Some("Pending"));
    Ok(())
}

#[tokio::test]
async fn the_scheduler_binds_a_pod_to_a_ready_node() -> Result<()> {
    let plane = ALL.get().await?;
    let objects = plane.objects()?;
    // As a kubelet registers: the taint goes when the node controller sees it ready.
    let mut node = parse_manifest(
        "
        apiVersion: v1
        kind: Node
        metadata: {name: harness-bound}
        spec:
          taints: [{key: node.kubernetes.io/not-ready, effect: NoSchedule}]
        ",
    );
    objects.create(&node).await?;
    node["status"] = parse_manifest(
        "
        capacity: &all {cpu: '2', memory: 4Gi, pods: '10'}
        allocatable: *all
        conditions:
          - {type: Ready, status: 'True', reason: KubeletReady, message: fine}
        ",
    );
    objects.update_status(&node).await?;

    let pod = parse_manifest(
        "
        apiVersion: v1
        kind: Pod
        metadata: {name: harness-bound}
        spec:
          containers: [{name: web, image: web, resources: {requests: {cpu: '1'}}}]
        ",
    );
    // The API server rejects the pod until the default service account exists.
    wait::until("the pod is admitted", LIMIT, async || Ok(objects.create(&pod).await.ok())).await?;
    let bound = wait::until("the pod is bound", LIMIT, async || {
        let pod = objects.get(&pod).await?;
        Ok(pod["spec"]["nodeName"].as_str().map(str::to_owned))
    });
    assert_eq!(bound.await?, "harness-bound");
    Ok(())
}

#[test]
fn a_panicking_test_leaves_nothing_behind() -> Result<()> {
    let (sender, receiver) = mpsc::channel();
    let test = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let plane = ControlPlane::start().await.expect("it starts");
            let pids: Vec<_> = plane.components().iter().map(Component::pid).collect();
            sender.send((pids, plane.dir().to_owned())).expect("somebody listens");
            panic!("on purpose");
        });
    });
    assert!(test.join().is_err());
    let (pids, dir) = receiver.recv()?;
    assert_eq!(pids.len(), 2, "etcd and kube-apiserver");
    for pid in pids {
        assert!(!is_alive(pid), "{pid} still runs");
    }
    assert!(!dir.exists(), "{} is still there", dir.display());
    Ok(())
}

#[tokio::test]
async fn a_killed_test_process_leaves_nothing_behind() -> Result<()> {
    let mut process = tokio::process::Command::new(env!("CARGO_BIN_EXE_control-plane"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(process.stderr.take().context("its stderr")?).lines();
    let (mut pids, mut dir, mut output) = (Vec::new(), None, String::new());
    while let Some(line) = lines.next_line().await? {
        if let Some((_, pid)) = line.split_once(" pid ") {
            pids.push(pid.parse()?);
        } else if let Some(path) = line.strip_prefix("logs in ") {
            dir = Some(std::path::PathBuf::from(path));
        } else if line.starts_with("ready") {
            break;
        }
        output += &line;
    }
    let dir = dir.with_context(|| format!("it did not start: {output}"))?;
    assert_eq!(pids.len(), 4, "{output}");
    for pid in &pids {
        assert!(is_alive(*pid), "{pid} does not run");
    }

    process.kill().await?; // SIGKILL: it cannot clean up

    wait::until("its programs end", LIMIT, async || {
        Ok(pids.iter().all(|pid| !is_alive(*pid)).then_some(()))
    })
    .await?;
    wait::until("its files are gone", LIMIT, async || Ok((!dir.exists()).then_some(()))).await
}

/// Returns whether a process runs. A zombie, which its parent has not waited for, does not.
fn is_alive(pid: u32) -> bool {
    if let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The state follows the program's name, which is in parentheses.
        return !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'));
    }
    let kill = format!("kill -0 {pid} 2>/dev/null");
    std::process::Command::new("sh").args(["-c", &kill]).status().is_ok_and(|s| s.success())
}
