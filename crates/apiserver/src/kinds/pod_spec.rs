//! Pods and pod templates: what may be in them.

mod containers;
mod placement;
mod volumes;

use serde_json::Value;

use super::access::{at, entries, flag, has, list, number, text};
use super::problems::{Problems, difference};
use crate::admission::{FieldError, FieldErrorKind, names};

pub(super) use self::placement::{node_selector, taint_effect, tolerations};
pub(super) use self::volumes::data_keys;

const MIRROR: &str = "kubernetes.io/config.mirror";
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

pub(super) fn validate_pod(pod: &Value) -> Vec<FieldError> {
    let mut problems = pod_and_spec(pod);
    if !list(pod, "/spec/ephemeralContainers").is_empty() {
        problems.forbidden("spec.ephemeralContainers", "cannot be set on create");
    }
    let gated = !list(pod, "/spec/schedulingGates").is_empty();
    if gated && !text(pod, "/spec/nodeName").is_empty() {
        problems.forbidden(
            "spec.nodeName",
            "cannot be set until all schedulingGates have been cleared",
        );
    }
    problems.done()
}

fn pod_and_spec(pod: &Value) -> Problems {
    let mut problems = Problems::default();
    annotations(&mut problems, pod, "metadata.annotations");
    spec(&mut problems, at(pod, "/spec"), at(pod, "/metadata"), "spec", true);
    for kind in ["containers", "initContainers"] {
        for (index, container) in list(pod, &format!("/spec/{kind}")).iter().enumerate() {
            let image = text(container, "/image");
            if image.trim() != image {
                let path = format!("spec.{kind}[{index}].image");
                problems.invalid(path, image, "must not have leading or trailing whitespace");
            }
        }
    }
    problems
}

/// The template of a workload, at `path`.
pub(super) fn template(problems: &mut Problems, template: &Value, path: &str) {
    template_metadata(problems, template, path);
    let nobody = Value::Null;
    spec(problems, at(template, "/spec"), &nobody, &format!("{path}.spec"), false);
    if !list(template, "/spec/ephemeralContainers").is_empty() {
        problems.forbidden(
            format!("{path}.spec.ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        );
    }
}

pub(super) fn template_metadata(problems: &mut Problems, template: &Value, path: &str) {
    problems.labels(&format!("{path}.labels"), entries(template, "/metadata/labels"));
    for key in entries(template, "/metadata/annotations").keys() {
        let lower = key.to_lowercase();
        problems.each(&format!("{path}.annotations"), key, names::key_problems(&lower));
    }
    annotations(problems, template, &format!("{path}.annotations"));
}

fn annotations(problems: &mut Problems, object: &Value, path: &str) {
    let annotations = entries(object, "/metadata/annotations");
    if let Some(value) = annotations.get(MIRROR)
        && text(object, "/spec/nodeName").is_empty()
    {
        problems.invalid(
            format!("{path}[{MIRROR}]"),
            value.clone(),
            "must set spec.nodeName if mirror pod annotation is set",
        );
    }
    if let Some(cost) = annotations.get(COST).and_then(Value::as_str) {
        let plain = !cost.starts_with('+') && (cost == "0" || !cost.starts_with('0'));
        if !plain || cost.parse::<i32>().is_err() {
            problems.invalid(format!("{path}[{COST}]"), cost, "must be a 32bit integer");
        }
    }
}

/// `metadata` is that of the pod, null for a template.
fn spec(problems: &mut Problems, spec: &Value, metadata: &Value, path: &str, is_pod: bool) {
    let sub = |name: &str| format!("{path}.{name}");
    let volumes = volumes::check(problems, spec, metadata, &sub("volumes"));
    let claims = resource_claims(problems, spec, metadata, &sub("resourceClaims"));
    let context = containers::Context { volumes, claims, spec };
    containers::check(problems, &context, path);
    containers::pod_resources(problems, &context, path);
    host_network(problems, spec, path, is_pod);
    let policies = ["Always", "OnFailure", "Never"];
    problems.one_of(&sub("restartPolicy"), text(spec, "/restartPolicy"), &policies);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    problems.one_of(&sub("dnsPolicy"), text(spec, "/dnsPolicy"), &policies);
    problems.labels(&sub("nodeSelector"), entries(spec, "/nodeSelector"));
    placement::affinity(problems, at(spec, "/affinity"), &sub("affinity"));
    for (index, gate) in list(spec, "/readinessGates").iter().enumerate() {
        let at = format!("{path}.readinessGates[{index}].conditionType");
        problems.qualified(&at, text(gate, "/conditionType"));
    }
    placement::scheduling_gates(problems, spec, &sub("schedulingGates"));
    placement::spread(problems, spec, &sub("topologySpreadConstraints"));
    for name in ["serviceAccountName", "nodeName"] {
        let value = text(spec, &format!("/{name}"));
        if !value.is_empty() {
            problems.subdomain(&sub(name), value);
        }
    }
    if let Some(deadline) = at(spec, "/activeDeadlineSeconds").as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&deadline)
    {
        let detail = format!("must be between 1 and {}, inclusive", i32::MAX);
        problems.invalid(sub("activeDeadlineSeconds"), deadline, detail);
    }
    for name in ["hostname", "subdomain"] {
        let value = text(spec, &format!("/{name}"));
        if !value.is_empty() {
            problems.label(&sub(name), value);
        }
    }
    placement::tolerations(problems, list(spec, "/tolerations"), &sub("tolerations"));
    for name in ["priorityClassName", "runtimeClassName"] {
        let value = text(spec, &format!("/{name}"));
        if !value.is_empty() {
            problems.subdomain(&sub(name), value);
        }
    }
    let policy = text(spec, "/preemptionPolicy");
    if !policy.is_empty() {
        let known = ["PreemptLowerPriority", "Never"];
        problems.one_of(&sub("preemptionPolicy"), policy, &known);
    }
    containers::overhead(problems, spec, &sub("overhead"));
    if has(spec, "/os") {
        problems.one_of(&sub("os"), text(spec, "/os/name"), &["linux", "windows"]);
    }
}

fn host_network(problems: &mut Problems, spec: &Value, path: &str, is_pod: bool) {
    if !flag(spec, "/hostNetwork") {
        return;
    }
    for (index, container) in list(spec, "/containers").iter().enumerate() {
        for (place, port) in list(container, "/ports").iter().enumerate() {
            let (host, own) = (number(port, "/hostPort"), number(port, "/containerPort"));
            if (is_pod || host != 0) && host != own {
                problems.invalid(
                    format!("{path}.containers[{index}].ports[{place}].hostPort"),
                    host,
                    "must match `containerPort` when `hostNetwork` is true",
                );
            }
        }
    }
}

/// Returns the names of the claims.
fn resource_claims<'a>(
    problems: &mut Problems,
    spec: &'a Value,
    metadata: &Value,
    path: &str,
) -> Vec<&'a str> {
    let mut known: Vec<&str> = Vec::new();
    let claims = list(spec, "/resourceClaims");
    for (index, claim) in claims.iter().enumerate() {
        if entries(metadata, "/annotations").contains_key(MIRROR) {
            problems.forbidden("", "static pods do not support resource claims");
            continue;
        }
        let at = format!("{path}[{index}]");
        let name = text(claim, "/name");
        if name.is_empty() {
            problems.required(format!("{at}.name"), "");
        } else if known.contains(&name) {
            problems.duplicate(format!("{at}.name"), name);
        } else {
            problems.label(&format!("{at}.name"), name);
            known.push(name);
        }
        let given = ["resourceClaimName", "resourceClaimTemplateName"];
        let [own, of_template] = given.map(|name| has(claim, &format!("/{name}")));
        let field = |name: &str| claim.get(name).cloned().unwrap_or_default();
        let value = [
            ("Name", name.into()),
            ("ResourceClaimName", field("resourceClaimName")),
            ("ResourceClaimTemplateName", field("resourceClaimTemplateName")),
        ];
        if own && of_template {
            problems.structure(&*at, FieldErrorKind::Invalid, &value,
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            );
        }
        if !own && !of_template {
            problems.structure(
                &*at,
                FieldErrorKind::Invalid,
                &value,
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            );
        }
        for name in given.into_iter().filter(|name| has(claim, &format!("/{name}"))) {
            problems.subdomain(&format!("{at}.{name}"), text(claim, &format!("/{name}")));
        }
    }
    claims.iter().map(|claim| text(claim, "/name")).collect()
}

pub(super) fn validate_pod_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = pod_and_spec(new);
    annotation_updates(&mut problems, new, old);
    for kind in ["containers", "initContainers"] {
        let pointer = format!("/spec/{kind}");
        let path = format!("spec.{kind}");
        if list(new, &pointer).len() != list(old, &pointer).len() {
            problems.forbidden(path, "pod updates may not add or remove containers");
            return problems.done();
        }
        for (index, container) in list(new, &pointer).iter().enumerate() {
            if text(container, "/image").is_empty() {
                problems.required(format!("{path}[{index}].image"), "");
            }
        }
    }
    let deadline = |pod| at(pod, "/spec/activeDeadlineSeconds").as_i64();
    match (deadline(new), deadline(old)) {
        (Some(new), Some(old)) if new > old => {
            let detail = "must be less than or equal to previous value";
            problems.invalid("spec.activeDeadlineSeconds", new, detail);
            return problems.done();
        }
        (None, Some(_)) => problems.invalid(
            "spec.activeDeadlineSeconds",
            Value::Null,
            "must not update from a positive integer to nil value",
        ),
        _ => {}
    }
    placement::added_tolerations(&mut problems, new, old);
    placement::deleted_gates(&mut problems, new, old);
    same_spec(&mut problems, new, old);
    problems.done()
}

/// What is left after the fields that may change has to be as it was.
fn same_spec(problems: &mut Problems, new: &Value, old: &Value) {
    let mut munged = at(new, "/spec").clone();
    let before = at(old, "/spec");
    for kind in ["containers", "initContainers"] {
        let olds = list(before, &format!("/{kind}"));
        let news = munged.get_mut(kind).and_then(Value::as_array_mut);
        for (new, old) in news.into_iter().flatten().zip(olds) {
            super::access::carry(new, old, "image");
        }
    }
    for name in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        super::access::carry(&mut munged, before, name);
    }
    let grace = "/terminationGracePeriodSeconds";
    if number(before, grace) < 0 && number(&munged, grace) == 1 {
        super::access::carry(&mut munged, before, "terminationGracePeriodSeconds");
    }
    if !list(before, "/schedulingGates").is_empty() {
        placement::gated_updates(problems, &mut munged, before);
    }
    if munged != *before {
        let detail = format!(
            "pod updates may not change fields other than `spec.containers[*].image`,\
             `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
             `spec.tolerations` (only additions to existing tolerations),\
             `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously \
             negative)\n@@ spec @@\n{}",
            difference(&munged, before)
        );
        problems.forbidden("spec", &detail);
    }
}

fn annotation_updates(problems: &mut Problems, new: &Value, old: &Value) {
    let (new, old) = (entries(new, "/metadata/annotations"), entries(old, "/metadata/annotations"));
    let path = format!("metadata.annotations[{MIRROR}]");
    match (new.get(MIRROR), old.get(MIRROR)) {
        (new, Some(old)) if new != Some(old) => {
            problems.forbidden(path, "may not remove or update mirror pod annotation");
        }
        (Some(_), None) => problems.forbidden(path, "may not add mirror pod annotation"),
        _ => {}
    }
}

pub(super) fn validate_pod_status(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = Problems::default();
    annotation_updates(&mut problems, new, old);
    for (index, condition) in list(new, "/status/conditions").iter().enumerate() {
        let path = format!("status.conditions[{index}]");
        let generation = number(condition, "/observedGeneration");
        if generation < 0 {
            problems.invalid(
                format!("{path}.observedGeneration"),
                generation,
                "must be a non-negative integer",
            );
        }
        let kind = text(condition, "/type");
        if !["PodScheduled", "Ready", "Initialized"].contains(&kind) {
            problems.qualified(&format!("{path}.Type"), kind);
        }
    }
    let nominated = text(new, "/status/nominatedNodeName");
    if !nominated.is_empty() && nominated != text(old, "/status/nominatedNodeName") {
        problems.subdomain("status.nominatedNodeName", nominated);
        if !text(old, "/spec/nodeName").is_empty() {
            problems.forbidden(
                "status.nominatedNodeName",
                "may not be set on pods that are already bound to a node",
            );
        }
    }
    problems.immutable(new, old, "/status/qosClass", "status.qosClass");
    container_states(&mut problems, new, old);
    problems.done()
}

/// A container that has ended does not run again, unless it may restart.
fn container_states(problems: &mut Problems, new: &Value, old: &Value) {
    for (index, before) in list(old, "/status/containerStatuses").iter().enumerate() {
        let Some(code) = at(before, "/state/terminated").get("exitCode") else { continue };
        let name = text(before, "/name");
        let containers = list(old, "/spec/containers");
        let container = containers.iter().find(|container| text(container, "/name") == name);
        let own = container.map_or("", |container| text(container, "/restartPolicy"));
        let policy = if own.is_empty() { text(old, "/spec/restartPolicy") } else { own };
        let restarts = match policy {
            "Always" => true,
            "OnFailure" => *code != 0,
            _ => false,
        };
        let mut now = list(new, "/status/containerStatuses").iter();
        let now = now.find(|status| text(status, "/name") == name);
        if !restarts && now.is_some_and(|status| !has(status, "/state/terminated")) {
            problems.forbidden(
                format!("status.containerStatuses[{index}].state"),
                "may not be transitioned to non-terminated state",
            );
        }
    }
}
