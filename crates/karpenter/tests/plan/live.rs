//! Tests of a live cluster, simulated by a few lines of HTTP.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use super::*;
use serde_json::{Value, json};

/// Serves lists: status code and body by path and query.
fn serve_lists(
    answer: impl Fn(&str) -> (u16, Value) + Send + 'static,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let requested_paths = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&requested_paths);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let Some(Ok(request)) = lines.next() else { continue };
            for line in lines {
                if line.unwrap_or_default().is_empty() {
                    break;
                }
            }
            let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
            let (code, body) = answer(&path);
            log.lock().unwrap().push(path);
            let body = body.to_string();
            let head = format!(
                "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    (address, requested_paths)
}

fn kubeconfig(server: &str) -> tempfile::TempDir {
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    });
    folder(&[("config", &text.to_string())])
}

fn list(items: &Value, next: Option<&str>) -> (u16, Value) {
    (
        200,
        json!({"kind": "List", "apiVersion": "v1", "metadata": {"continue": next}, "items": items}),
    )
}

fn status(code: u16) -> (u16, Value) {
    (
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "no"}),
    )
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}})
}

fn pool() -> Value {
    json!({"metadata": {"name": "pool", "uid": "p"},
        "spec": {"template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}}},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
}

#[test]
fn a_live_cluster_is_listed_page_by_page() {
    let (server, requested_paths) = serve_lists(|path| match path {
        path if path.starts_with("/api/v1/pods") && path.contains("continue=more") => {
            list(&json!([pod("b")]), None)
        }
        path if path.starts_with("/api/v1/pods") => list(&json!([pod("a")]), Some("more")),
        path if path.contains("nodepools") => list(&json!([pool()]), None),
        path if path.contains("csinodes") => status(404),
        _ => list(&json!([]), None),
    });
    let folder = kubeconfig(&server);
    let ran = plan(folder.path(), &["--kubeconfig", "config", "-o", "json"], "");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.json()["nodeClaims"][0]["pods"], json!(["default/a", "default/b"]));
    let requested_paths = requested_paths.lock().unwrap();
    assert!(requested_paths.iter().all(|path| path.contains("limit=500")), "{requested_paths:?}");
    assert!(
        !requested_paths.iter().any(|path| path.contains("nodeoverlays")),
        "{requested_paths:?}"
    );
}

#[test]
fn missing_list_permissions_are_reported() {
    let (server, _) = serve_lists(|path| {
        if path.contains("/pods") || path.contains("nodeclaims") {
            status(403)
        } else {
            list(&json!([]), None)
        }
    });
    let folder = kubeconfig(&server);
    let ran = plan(folder.path(), &["--kubeconfig", "config"], "");
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    insta::assert_snapshot!(ran.stderr, @r"
    error: not allowed to list pods, nodeclaims.karpenter.sh
       fix: grant the verb list on them cluster-wide (kubectl create clusterrole plan --verb=list --resource=pods,nodeclaims.karpenter.sh), or name manifests with -f
    ");
}

#[test]
fn an_unreachable_cluster_is_an_error() {
    let reach = kubeconfig("http://127.0.0.1:1");
    let ran = plan(reach.path(), &["--kubeconfig", "config"], "");
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(ran.stderr.starts_with("error: cannot list pods\n found: "), "{}", ran.stderr);
    let ran = plan(reach.path(), &["--kubeconfig", "config", "--context", "other"], "");
    insta::assert_snapshot!(ran.stderr, @r"
    error: no cluster to plan for
     where: config
     found: there is no context `other`
       fix: name manifests with -f, or a cluster with --kubeconfig and --context
    ");
    let broken = folder(&[("config", "a: [\n")]);
    let ran = plan(broken.path(), &["--kubeconfig", "config"], "");
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    insta::assert_snapshot!(ran.stderr, @r"
    error: no cluster to plan for
     where: config:1:4
     found: unclosed bracket '['
       fix: name manifests with -f, or a cluster with --kubeconfig and --context
    ");
}
