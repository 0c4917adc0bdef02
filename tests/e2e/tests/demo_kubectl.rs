//! The demo as a user meets it: the real kubectl on the embedded API.

use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Result, ensure};
use karpenter_e2e::demo::Demo;
use serde_json::Value;

/// Two nodes, and nothing on them.
const SCENARIO: &str = r"
name: two nodes
objects:
- {apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: default}}
steps:
- {at: 1s, launch: {name: pair, instanceType: c-4x-amd64-linux, zone: test-zone-a, count: 2}}
";

const DEPLOYMENT: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: shop/web:1, resources: {requests: {cpu: 100m}}}
";

async fn start() -> Result<Demo> {
    let scenario = tempfile::NamedTempFile::new()?;
    std::fs::write(scenario.path(), SCENARIO)?;
    let path = scenario.path().to_str().expect("a path of ours").to_owned();
    Demo::start(&["--scenario", &path, "--speed", "20"]).await
}

/// Runs kubectl; it has to succeed and to print all of `parts`.
async fn expect(demo: &Demo, args: &[&str], stdin: Option<&str>, parts: &[&str]) -> Result<String> {
    let output = demo.kubectl(args, stdin).await?.ok()?;
    for part in parts {
        ensure!(
            output.contains(part),
            "kubectl {}: {part:?} is missing in\n{output}",
            args.join(" ")
        );
    }
    Ok(output)
}

#[tokio::test]
async fn kubectl_works_on_the_demo() -> Result<()> {
    let demo = start().await?;
    let mode = std::fs::metadata(demo.kubeconfig())?.permissions().mode();
    ensure!(mode & 0o777 == 0o600, "the kubeconfig has mode {mode:o}");

    // Nodes come up, with columns.
    expect(&demo, &["wait", "--for=create", "node", "--all", "--timeout=30s"], None, &[])
        .await
        .ok();
    expect(
        &demo,
        &["wait", "--for=condition=Ready", "node", "--all", "--timeout=60s"],
        None,
        &["condition met"],
    )
    .await?;
    expect(&demo, &["get", "nodes", "-o", "wide"], None, &["INTERNAL-IP", "v1.36.3", "Ready"])
        .await?;

    // A rollout from nothing, and one of another image.
    expect(&demo, &["apply", "-f", "-"], Some(DEPLOYMENT), &["deployment.apps/web created"])
        .await?;
    expect(&demo, &["apply", "-f", "-"], Some(DEPLOYMENT), &["deployment.apps/web unchanged"])
        .await?;
    let done = "successfully rolled out";
    expect(&demo, &["rollout", "status", "deployment/web", "--timeout=60s"], None, &[done]).await?;
    let next = DEPLOYMENT.replace("web:1", "web:2");
    expect(&demo, &["diff", "-f", "-"], Some(DEPLOYMENT), &[]).await?;
    expect(&demo, &["apply", "-f", "-"], Some(&next), &["configured"]).await?;
    expect(&demo, &["rollout", "status", "deployment/web", "--timeout=60s"], None, &[done]).await?;
    expect(
        &demo,
        &["get", "pods", "-l", "app=web", "-o", "wide"],
        None,
        &["NOMINATED NODE", "Running"],
    )
    .await?;

    // Server-side apply, patch, scale, wait.
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: blue}\n";
    expect(&demo, &["apply", "--server-side", "-f", "-"], Some(map), &["serverside-applied"])
        .await?;
    let patch = [r"patch", "configmap", "settings", "-p", r#"{"data":{"colour":"red"}}"#];
    expect(&demo, &patch, None, &["patched"]).await?;
    let refused = demo.kubectl(&["apply", "--server-side", "-f", "-"], Some(map)).await?;
    ensure!(refused.stderr.contains("conflict with \"kubectl-patch\""), "{}", refused.stderr);
    expect(&demo, &["scale", "deployment/web", "--replicas=5"], None, &["scaled"]).await?;
    let five =
        ["wait", "--for=jsonpath={.status.readyReplicas}=5", "deployment/web", "--timeout=60s"];
    expect(&demo, &five, None, &["condition met"]).await?;

    // What people read.
    let parts = ["Name:", "Replicas:", "5 desired", "Pod Template:"];
    expect(&demo, &["describe", "deployment", "web"], None, &parts).await?;
    expect(&demo, &["describe", "nodes"], None, &["Allocatable:", "Non-terminated Pods:"]).await?;
    let parts =
        ["KIND:       NodePool", "FIELDS:", "disruption", "limits", "template", "-required-"];
    expect(&demo, &["explain", "nodepool.spec"], None, &parts).await?;
    expect(
        &demo,
        &["get", "nodeclaims"],
        None,
        &["NAME", "TYPE", "CAPACITY", "ZONE", "pair-1", "pair-2"],
    )
    .await?;
    expect(&demo, &["get", "events"], None, &["LAST SEEN"]).await?;
    expect(&demo, &["api-resources"], None, &["nodepools", "karpenter.sh/v1", "deployments"])
        .await?;

    // Watches, and the end of things.
    let watched = ["get", "pods", "--watch", "--request-timeout=2s"];
    let watched = demo.kubectl(&watched, None).await?;
    ensure!(watched.stdout.contains("Running"), "{}", watched.stdout);
    expect(&demo, &["delete", "deployment", "web", "--timeout=60s"], None, &["deleted"]).await?;
    let gone = ["wait", "--for=delete", "pods", "-l", "app=web", "--timeout=60s"];
    expect(&demo, &gone, None, &[]).await?;

    // A namespace goes with what is in it.
    expect(
        &demo,
        &["create", "-f", "-"],
        Some("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"),
        &["created"],
    )
    .await?;
    expect(&demo, &["apply", "-n", "shop", "-f", "-"], Some(DEPLOYMENT), &["created"]).await?;
    expect(&demo, &["delete", "namespace", "shop", "--timeout=60s"], None, &["deleted"]).await?;
    Ok(())
}

#[tokio::test]
async fn nobody_gets_in_without_the_token() -> Result<()> {
    let demo = start().await?;
    let stranger = ["get", "nodes", "--token=wrong"];
    let output = demo.kubectl(&stranger, None).await?;
    ensure!(
        !output.status.success() && output.stderr.contains("You must be logged in to the server"),
        "{}",
        output.stderr
    );
    Ok(())
}

/// What is created from the command line alone. kubectl sends it as protobuf.
const COMMANDS: &[&str] = &[
    "deployment web --image=shop/web:1 --replicas=2 --port=80",
    "configmap settings --from-literal=colour=blue",
    "secret generic password --from-literal=key=\u{e9}",
    "job once --image=shop/once:1 -- sh -c true",
    "cronjob often --image=shop/often:1 --schedule=1\u{a0}*\u{a0}*\u{a0}*\u{a0}*",
    "poddisruptionbudget web --selector=app=web --min-available=50%",
    "service clusterip web --tcp=80:8080",
    "service nodeport open --tcp=80:http",
    "serviceaccount robot",
    "quota small --hard=cpu=1500m,pods=2",
    "role reader --verb=get,list --resource=pods,nodes",
    "rolebinding reader --role=reader --serviceaccount=default:robot",
    "priorityclass high --value=1000 --description=first",
    "clusterrole reader --verb=get --non-resource-url=/healthz",
    "namespace third",
];

/// The words of a command; a space within a word is written as one that does not break.
fn words(command: &str) -> Vec<String> {
    command.split(' ').map(|word| word.replace('\u{a0}', " ")).collect()
}

/// An object without what differs from one to the next, and without what controllers add.
fn comparable(object: &str) -> Result<Value> {
    let mut object: Value = serde_json::from_str(object)?;
    let uid = object["metadata"]["uid"].as_str().unwrap_or("-").to_owned();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for own in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "namespace",
            "annotations",
            "managedFields",
        ] {
            metadata.remove(own);
        }
    }
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    for port in object["spec"]["ports"].as_array_mut().into_iter().flatten() {
        port.as_object_mut().map(|port| port.remove("nodePort"));
    }
    Ok(serde_json::from_str(&object.to_string().replace(&uid, "<uid>"))?)
}

#[tokio::test]
async fn what_kubectl_creates_from_the_command_line_is_what_apply_creates() -> Result<()> {
    let demo = start().await?;
    for namespace in ["one", "two"] {
        expect(&demo, &["create", "namespace", namespace], None, &["created"]).await?;
    }
    for command in COMMANDS {
        let words = words(command);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // What is within a job comes after the options.
        let (command, rest) = match words.iter().position(|word| *word == "--") {
            Some(at) => words.split_at(at),
            None => (&words[..], &[][..]),
        };
        let create = |more: &[&'static str]| {
            let create = [&["create"], command, &["-n", "one"], more, rest].concat();
            create.into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let run = async |words: Vec<String>, stdin: Option<&str>| {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            expect(&demo, &words, stdin, &[]).await
        };
        let name = run(create(&["-o", "name"]), None).await?.trim().to_owned();
        let get = |namespace: &str| {
            ["get", &name, "-n", namespace, "-o", "json"].map(str::to_owned).to_vec()
        };
        let created = run(get("one"), None).await?;
        let is_namespaced = created.contains("\"namespace\": \"one\"");
        let namespace = if is_namespaced { "two" } else { "one" };
        if !is_namespaced {
            run(["delete", &name, "--timeout=60s"].map(str::to_owned).to_vec(), None).await?;
        }
        let manifest = run(create(&["--dry-run=client", "-o", "yaml"]), None).await?;
        let manifest = manifest.replace("  namespace: one\n", "");
        let apply = ["apply", "-n", namespace, "-f", "-"].map(str::to_owned).to_vec();
        run(apply, Some(&manifest)).await?;
        let applied = run(get(namespace), None).await?;
        let (created, applied) = (comparable(&created)?, comparable(&applied)?);
        ensure!(created == applied, "{name}:\ncreated {created:#}\napplied {applied:#}");
    }
    expect(&demo, &["create", "token", "robot", "-n", "one"], None, &[]).await?;
    Ok(())
}
