//! What pods get, and all that has a template of one.

use serde_json::{Value, json};

use super::super::json_access::{set_default, set_default_number};
use super::{Fields, ensure_child, objects_in, string_field};

pub(super) fn container(container: &mut Fields) {
    let policy =
        if has_latest_tag(string_field(container, "image")) { "Always" } else { "IfNotPresent" };
    set_default(container, "imagePullPolicy", policy);
    set_default(container, "terminationMessagePath", "/dev/termination-log");
    set_default(container, "terminationMessagePolicy", "File");
}

/// Returns whether an image has the tag `latest`, written or implied.
///
/// It is implied where there is no tag and no digest. A text that is no image name has no tag.
fn has_latest_tag(image: &str) -> bool {
    let (name, digest) = match image.split_once('@') {
        Some((name, _)) => (name, true),
        None => (image, false),
    };
    let path = name.rsplit('/').next().unwrap_or(name);
    let valid = |c: char| c.is_ascii_alphanumeric() || "._-/:".contains(c);
    if name.is_empty() || !name.chars().all(valid) {
        return false;
    }
    match path.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => !digest && !path.chars().any(|c| c.is_ascii_uppercase()),
    }
}

pub(super) fn probe(probe: &mut Fields) {
    set_default_number(probe, "timeoutSeconds", 1);
    set_default_number(probe, "periodSeconds", 10);
    set_default_number(probe, "successThreshold", 1);
    set_default_number(probe, "failureThreshold", 3);
}

pub(super) fn volume(volume: &mut Fields) {
    if volume.iter().all(|(name, value)| name == "name" || value.is_null()) {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    if let Some(Value::Object(image)) = volume.get_mut("image") {
        let latest = has_latest_tag(string_field(image, "reference"));
        set_default(image, "pullPolicy", if latest { "Always" } else { "IfNotPresent" });
    }
}

pub(super) fn pod_spec(spec: &mut Fields) {
    set_default(spec, "dnsPolicy", "ClusterFirst");
    set_default(spec, "restartPolicy", "Always");
    set_default(spec, "securityContext", json!({}));
    set_default(spec, "terminationGracePeriodSeconds", 30);
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
    }
    set_default(spec, "schedulerName", "default-scheduler");
    // One name in two fields, for clients of another time.
    let name = match string_field(spec, "serviceAccountName") {
        "" => string_field(spec, "serviceAccount"),
        name => name,
    };
    let name = Value::from(name);
    if name != "" {
        spec.insert("serviceAccountName".to_owned(), name.clone());
        spec.insert("serviceAccount".to_owned(), name);
    }
}

pub(super) fn pod(pod: &mut Fields) {
    let spec = ensure_child(pod, "spec");
    for list in ["containers", "initContainers"] {
        for container in objects_in(spec, list) {
            set_requests_from_limits(container);
        }
    }
    super::super::pod::default_pod_resources(spec);
    set_default(spec, "enableServiceLinks", true);
    // The network of the host brings its ports with it.
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        for list in ["containers", "initContainers"] {
            for container in objects_in(spec, list) {
                for port in objects_in(container, "ports") {
                    let number = port.get("containerPort").and_then(Value::as_i64);
                    set_default_number(port, "hostPort", number.unwrap_or_default());
                }
            }
        }
    }
}

fn set_requests_from_limits(container: &mut Fields) {
    let Some(Value::Object(resources)) = container.get_mut("resources") else { return };
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else { return };
    if limits.is_empty() {
        return;
    }
    let requests = ensure_child(resources, "requests");
    for (name, limit) in limits {
        requests.entry(name).or_insert(limit);
    }
}

/// As for nodes: one address, and the list that it is the first of.
pub(super) fn pod_status(status: &mut Fields) {
    let address = string_field(status, "podIP").to_owned();
    let first = status.get("podIPs").and_then(|list| list.get(0)?.get("ip")?.as_str());
    if !address.is_empty() && first != Some(&address) {
        status.insert("podIPs".to_owned(), json!([{"ip": address}]));
    }
}
