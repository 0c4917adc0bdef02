//! Tests of reviews and connect subresources, as kubectl uses them: `auth`, `exec`, `logs`.

use serde_json::{Value, json};

use super::client::{Client, JSON};

const AUTHENTICATION: &str = "/apis/authentication.k8s.io/v1";
const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";

#[tokio::test]
async fn access_reviews_allow_every_request() {
    let client = Client::new();
    let pods = json!({"verb": "create", "resource": "pods", "namespace": "default"});
    let path = json!({"verb": "get", "path": "/metrics"});
    let user_spec = json!({"user": "jane", "resourceAttributes": pods});
    for (kind, place, spec, pointer, expected) in [
        (
            "SelfSubjectAccessReview",
            "",
            json!({"resourceAttributes": pods}),
            "/status",
            json!({"allowed": true}),
        ),
        (
            "SelfSubjectAccessReview",
            "",
            json!({"nonResourceAttributes": path}),
            "/status",
            json!({"allowed": true}),
        ),
        ("SubjectAccessReview", "", user_spec.clone(), "/status", json!({"allowed": true})),
        (
            "LocalSubjectAccessReview",
            "/namespaces/default",
            user_spec,
            "/status",
            json!({"allowed": true}),
        ),
        (
            "SelfSubjectRulesReview",
            "",
            json!({"namespace": "default"}),
            "/status/resourceRules/0",
            json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
        ),
        (
            "SelfSubjectReview",
            "",
            json!(null),
            "/status/userInfo/groups/0",
            json!("system:masters"),
        ),
    ] {
        let group = if spec.is_null() { AUTHENTICATION } else { AUTHORIZATION };
        let plural = format!("{}s", kind.to_lowercase());
        let api_version = group.trim_start_matches("/apis/");
        let mut body = json!({"apiVersion": api_version, "kind": kind});
        if !spec.is_null() {
            body["spec"] = spec;
        }
        let path = format!("{group}{place}/{plural}");
        let answer = client.request("POST", &path, JSON, body.to_string()).await;
        let review = answer.json();
        assert_eq!((answer.code, &review["kind"]), (201, &json!(kind)), "{review}");
        assert_eq!(review["apiVersion"], api_version);
        assert_eq!(review.pointer(pointer), Some(&expected), "{review}");
        // It was answered, and that is all.
        for method in ["GET", "DELETE"] {
            let refused = client.request(method, &path, JSON, "").await;
            assert_eq!(refused.failure(), (405, "MethodNotAllowed".to_owned()), "{method} {path}");
        }
        let refused = client.request("GET", &format!("{path}/x"), JSON, "").await;
        assert_eq!(refused.failure(), (405, "MethodNotAllowed".to_owned()), "{path}/x");
    }
}

#[tokio::test]
async fn empty_or_ambiguous_access_reviews_are_rejected() {
    let client = Client::new();
    let (pods, path) = (json!({"verb": "get", "resource": "pods"}), json!({"path": "/"}));
    let elsewhere = json!({"user": "a", "resourceAttributes": {"namespace": "other"}});
    for (plural, body, expected) in [
        ("selfsubjectaccessreviews", json!({"spec": {}}), "exactly one of nonResourceAttributes"),
        (
            "selfsubjectaccessreviews",
            json!({"spec": {"resourceAttributes": pods, "nonResourceAttributes": path}}),
            "cannot be specified in combination with resourceAttributes",
        ),
        (
            "selfsubjectaccessreviews",
            json!({"metadata": {"name": "a"}, "spec": {"resourceAttributes": pods}}),
            "must be empty",
        ),
        (
            "subjectaccessreviews",
            json!({"spec": {"resourceAttributes": pods}}),
            "at least one of user or group must be specified",
        ),
        (
            "namespaces/default/localsubjectaccessreviews",
            json!({"spec": elsewhere}),
            "must match metadata.namespace",
        ),
    ] {
        let path = format!("{AUTHORIZATION}/{plural}");
        let answer = client.request("POST", &path, JSON, body.to_string()).await;
        assert_eq!(answer.failure(), (422, "Invalid".to_owned()), "{body}");
        let message = answer.json()["message"].to_string();
        assert!(message.contains(expected), "{message}");
    }
    let path = format!("{AUTHORIZATION}/selfsubjectrulesreviews");
    let answer = client.request("POST", &path, JSON, json!({"spec": {}}).to_string()).await;
    assert_eq!(answer.failure(), (400, "BadRequest".to_owned()));
}

#[tokio::test]
async fn exec_attach_portforward_log_and_proxy_are_not_implemented() {
    let client = Client::new();
    let pod =
        json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let node = json!({"metadata": {"name": "web"}});
    for (path, object) in [("/api/v1/namespaces/default/pods", &pod), ("/api/v1/nodes", &node)] {
        let made = client.request("POST", path, JSON, object.to_string()).await;
        assert_eq!(made.code, 201, "{}", made.json());
    }
    let nothing = "nothing runs in its containers";
    for (method, path, expected) in [
        ("GET", "namespaces/default/pods/NAME/log", "there are no logs of pod \"web\""),
        (
            "GET",
            "namespaces/default/pods/NAME/exec?command=sh",
            "cannot run a command in pod \"web\"",
        ),
        ("POST", "namespaces/default/pods/NAME/exec?command=sh", nothing),
        ("POST", "namespaces/default/pods/NAME/attach", "cannot attach to pod \"web\""),
        ("GET", "namespaces/default/pods/NAME/portforward", "cannot forward ports to pod \"web\""),
        ("GET", "namespaces/default/pods/NAME/proxy/a/b", "cannot connect to pod \"web\""),
        ("GET", "nodes/NAME/proxy/metrics", "without a kubelet"),
    ] {
        let path = format!("/api/v1/{path}");
        let answer = client.request(method, &path.replace("NAME", "web"), JSON, "").await;
        assert_eq!(answer.failure(), (501, "NotImplemented".to_owned()), "{path}");
        let status: Value = answer.json();
        let message = status["message"].as_str().unwrap_or_default();
        assert!(message.contains(expected), "{message}");
        assert_eq!(status["details"]["name"], "web");
        let answer = client.request(method, &path.replace("NAME", "none"), JSON, "").await;
        assert_eq!(answer.failure(), (404, "NotFound".to_owned()), "{path}");
    }
}
