//! Tests of the demo from the user's side: the real kubectl on the embedded API.

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

async fn start_demo() -> Result<Demo> {
    let scenario = tempfile::NamedTempFile::new()?;
    std::fs::write(scenario.path(), SCENARIO)?;
    let path = scenario.path().to_str().expect("a path of ours").to_owned();
    Demo::start(&["--scenario", &path, "--speed", "20"]).await
}

/// Runs kubectl; it must succeed and print all of `parts`.
async fn expect_output(
    demo: &Demo,
    args: &[&str],
    stdin: Option<&str>,
    parts: &[&str],
) -> Result<String> {
    let output = demo.kubectl(args, stdin).await?.into_stdout()?;
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
    let demo = start_demo().await?;
    let mode = std::fs::metadata(demo.kubeconfig())?.permissions().mode();
    ensure!(mode & 0o777 == 0o600, "the kubeconfig has mode {mode:o}");

    // Nodes come up, with columns.
    expect_output(&demo, &["wait", "--for=create", "node", "--all", "--timeout=30s"], None, &[])
        .await
        .ok();
    expect_output(
        &demo,
        &["wait", "--for=condition=Ready", "node", "--all", "--timeout=60s"],
        None,
        &["condition met"],
    )
    .await?;
    expect_output(
        &demo,
        &["get", "nodes", "-o", "wide"],
        None,
        &["INTERNAL-IP", "v1.36.3", "Ready"],
    )
    .await?;

    // A rollout from nothing, and one of another image.
    expect_output(&demo, &["apply", "-f", "-"], Some(DEPLOYMENT), &["deployment.apps/web created"])
        .await?;
    expect_output(
        &demo,
        &["apply", "-f", "-"],
        Some(DEPLOYMENT),
        &["deployment.apps/web unchanged"],
    )
    .await?;
    let done = "successfully rolled out";
    expect_output(&demo, &["rollout", "status", "deployment/web", "--timeout=60s"], None, &[done])
        .await?;
    let next = DEPLOYMENT.replace("web:1", "web:2");
    expect_output(&demo, &["diff", "-f", "-"], Some(DEPLOYMENT), &[]).await?;
    expect_output(&demo, &["apply", "-f", "-"], Some(&next), &["configured"]).await?;
    expect_output(&demo, &["rollout", "status", "deployment/web", "--timeout=60s"], None, &[done])
        .await?;
    expect_output(
        &demo,
        &["get", "pods", "-l", "app=web", "-o", "wide"],
        None,
        &["NOMINATED NODE", "Running"],
    )
    .await?;

    // Server-side apply, patch, scale, wait.
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: blue}\n";
    expect_output(
        &demo,
        &["apply", "--server-side", "-f", "-"],
        Some(map),
        &["serverside-applied"],
    )
    .await?;
    let patch = [r"patch", "configmap", "settings", "-p", r#"{"data":{"colour":"red"}}"#];
    expect_output(&demo, &patch, None, &["patched"]).await?;
    let refused = demo.kubectl(&["apply", "--server-side", "-f", "-"], Some(map)).await?;
    ensure!(refused.stderr.contains("conflict with \"kubectl-patch\""), "{}", refused.stderr);
    expect_output(&demo, &["scale", "deployment/web", "--replicas=5"], None, &["scaled"]).await?;
    let five =
        ["wait", "--for=jsonpath={.status.readyReplicas}=5", "deployment/web", "--timeout=60s"];
    expect_output(&demo, &five, None, &["condition met"]).await?;

    // What people read.
    let parts = ["Name:", "Replicas:", "5 desired", "Pod Template:"];
    expect_output(&demo, &["describe", "deployment", "web"], None, &parts).await?;
    expect_output(&demo, &["describe", "nodes"], None, &["Allocatable:", "Non-terminated Pods:"])
        .await?;
    let parts =
        ["KIND:       NodePool", "FIELDS:", "disruption", "limits", "template", "-required-"];
    expect_output(&demo, &["explain", "nodepool.spec"], None, &parts).await?;
    expect_output(
        &demo,
        &["get", "nodeclaims"],
        None,
        &["NAME", "TYPE", "CAPACITY", "ZONE", "pair-1", "pair-2"],
    )
    .await?;
    expect_output(&demo, &["get", "events"], None, &["LAST SEEN"]).await?;
    expect_output(
        &demo,
        &["api-resources"],
        None,
        &["nodepools", "karpenter.sh/v1", "deployments"],
    )
    .await?;

    // Watches, and the end of things.
    let watched = ["get", "pods", "--watch", "--request-timeout=2s"];
    let watched = demo.kubectl(&watched, None).await?;
    ensure!(watched.stdout.contains("Running"), "{}", watched.stdout);
    expect_output(&demo, &["delete", "deployment", "web", "--timeout=60s"], None, &["deleted"])
        .await?;
    let gone = ["wait", "--for=delete", "pods", "-l", "app=web", "--timeout=60s"];
    expect_output(&demo, &gone, None, &[]).await?;

    // A namespace is deleted with its objects.
    expect_output(
        &demo,
        &["create", "-f", "-"],
        Some("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"),
        &["created"],
    )
    .await?;
    expect_output(&demo, &["apply", "-n", "shop", "-f", "-"], Some(DEPLOYMENT), &["created"])
        .await?;
    expect_output(&demo, &["delete", "namespace", "shop", "--timeout=60s"], None, &["deleted"])
        .await?;
    Ok(())
}

#[tokio::test]
async fn the_demo_api_rejects_a_wrong_token() -> Result<()> {
    let demo = start_demo().await?;
    let stranger = ["get", "nodes", "--token=wrong"];
    let output = demo.kubectl(&stranger, None).await?;
    ensure!(
        !output.status.success() && output.stderr.contains("You must be logged in to the server"),
        "{}",
        output.stderr
    );
    Ok(())
}

/// Objects created from the command line alone. kubectl sends them as protobuf.
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

/// Returns the words of a command; a no-break space stands for a space within a word.
fn split_words(command: &str) -> Vec<String> {
    command.split(' ').map(|word| word.replace('\u{a0}', " ")).collect()
}

/// Returns an object without generated fields and controllers' additions.
fn without_generated_fields(object: &str) -> Result<Value> {
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
async fn kubectl_create_and_kubectl_apply_give_equal_objects() -> Result<()> {
    let demo = start_demo().await?;
    for namespace in ["one", "two"] {
        expect_output(&demo, &["create", "namespace", namespace], None, &["created"]).await?;
    }
    for command in COMMANDS {
        let words = split_words(command);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // The command of a job follows the options.
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
            expect_output(&demo, &words, stdin, &[]).await
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
        let (created, applied) =
            (without_generated_fields(&created)?, without_generated_fields(&applied)?);
        ensure!(created == applied, "{name}:\ncreated {created:#}\napplied {applied:#}");
    }
    expect_output(&demo, &["create", "token", "robot", "-n", "one"], None, &[]).await?;
    Ok(())
}
