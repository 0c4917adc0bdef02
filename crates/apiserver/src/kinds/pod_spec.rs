//! Pods and pod templates: what may be in them.

mod containers;
mod placement;
mod volumes;

use karpenter_grammar::names;
use serde_json::Value;

use super::field_errors::{FieldErrorList, object_diff};
use super::json_access::{at, entries, flag, has, list, number, text};
use crate::admission::{FieldError, FieldErrorKind};

pub(super) use self::placement::{
    validate_node_selector, validate_taint_effect, validate_tolerations,
};
pub(super) use self::volumes::validate_data_keys;

const MIRROR_POD_ANNOTATION: &str = "kubernetes.io/config.mirror";
const POD_DELETION_COST_ANNOTATION: &str = "controller.kubernetes.io/pod-deletion-cost";

pub(super) fn validate_pod(pod: &Value) -> Vec<FieldError> {
    let mut problems = validate_pod_and_spec(pod);
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
    problems.into_errors()
}

fn validate_pod_and_spec(pod: &Value) -> FieldErrorList {
    let mut problems = FieldErrorList::default();
    validate_annotations(&mut problems, pod, "metadata.annotations");
    validate_spec(&mut problems, at(pod, "/spec"), at(pod, "/metadata"), "spec", true);
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

/// Validates the template of a workload, at `path`.
pub(super) fn validate_pod_template(problems: &mut FieldErrorList, template: &Value, path: &str) {
    validate_pod_template_metadata(problems, template, path);
    let no_metadata = Value::Null;
    validate_spec(problems, at(template, "/spec"), &no_metadata, &format!("{path}.spec"), false);
    if !list(template, "/spec/ephemeralContainers").is_empty() {
        problems.forbidden(
            format!("{path}.spec.ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        );
    }
}

pub(super) fn validate_pod_template_metadata(
    problems: &mut FieldErrorList,
    template: &Value,
    path: &str,
) {
    problems.check_labels(&format!("{path}.labels"), entries(template, "/metadata/labels"));
    for key in entries(template, "/metadata/annotations").keys() {
        let lower = key.to_lowercase();
        problems.invalid_each(
            &format!("{path}.annotations"),
            key,
            names::qualified_name_errors(&lower),
        );
    }
    validate_annotations(problems, template, &format!("{path}.annotations"));
}

fn validate_annotations(problems: &mut FieldErrorList, object: &Value, path: &str) {
    let annotations = entries(object, "/metadata/annotations");
    if let Some(value) = annotations.get(MIRROR_POD_ANNOTATION)
        && text(object, "/spec/nodeName").is_empty()
    {
        problems.invalid(
            format!("{path}[{MIRROR_POD_ANNOTATION}]"),
            value.clone(),
            "must set spec.nodeName if mirror pod annotation is set",
        );
    }
    if let Some(cost) = annotations.get(POD_DELETION_COST_ANNOTATION).and_then(Value::as_str) {
        let plain = !cost.starts_with('+') && (cost == "0" || !cost.starts_with('0'));
        if !plain || cost.parse::<i32>().is_err() {
            problems.invalid(
                format!("{path}[{POD_DELETION_COST_ANNOTATION}]"),
                cost,
                "must be a 32bit integer",
            );
        }
    }
}

/// Validates the spec of a pod or template.
///
/// `metadata` is that of the pod, null for a template.
fn validate_spec(
    problems: &mut FieldErrorList,
    spec: &Value,
    metadata: &Value,
    path: &str,
    is_pod: bool,
) {
    let sub = |name: &str| format!("{path}.{name}");
    let volumes = volumes::validate_volumes(problems, spec, metadata, &sub("volumes"));
    let claims = validate_resource_claims(problems, spec, metadata, &sub("resourceClaims"));
    let context = containers::ContainerContext { volumes, claims, spec };
    containers::validate_containers(problems, &context, path);
    containers::validate_pod_resources(problems, &context, path);
    validate_host_network(problems, spec, path, is_pod);
    let policies = ["Always", "OnFailure", "Never"];
    problems.check_one_of(&sub("restartPolicy"), text(spec, "/restartPolicy"), &policies);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    problems.check_one_of(&sub("dnsPolicy"), text(spec, "/dnsPolicy"), &policies);
    problems.check_labels(&sub("nodeSelector"), entries(spec, "/nodeSelector"));
    placement::validate_affinity(problems, at(spec, "/affinity"), &sub("affinity"));
    for (index, gate) in list(spec, "/readinessGates").iter().enumerate() {
        let at = format!("{path}.readinessGates[{index}].conditionType");
        problems.check_qualified_name(&at, text(gate, "/conditionType"));
    }
    placement::validate_scheduling_gates(problems, spec, &sub("schedulingGates"));
    placement::validate_topology_spread_constraints(
        problems,
        spec,
        &sub("topologySpreadConstraints"),
    );
    for name in ["serviceAccountName", "nodeName"] {
        let value = text(spec, &format!("/{name}"));
        if !value.is_empty() {
            problems.check_dns_subdomain(&sub(name), value);
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
            problems.check_dns_label(&sub(name), value);
        }
    }
    placement::validate_tolerations(problems, list(spec, "/tolerations"), &sub("tolerations"));
    for name in ["priorityClassName", "runtimeClassName"] {
        let value = text(spec, &format!("/{name}"));
        if !value.is_empty() {
            problems.check_dns_subdomain(&sub(name), value);
        }
    }
    let policy = text(spec, "/preemptionPolicy");
    if !policy.is_empty() {
        let known = ["PreemptLowerPriority", "Never"];
        problems.check_one_of(&sub("preemptionPolicy"), policy, &known);
    }
    containers::validate_overhead(problems, spec, &sub("overhead"));
    if has(spec, "/os") {
        problems.check_one_of(&sub("os"), text(spec, "/os/name"), &["linux", "windows"]);
    }
}

fn validate_host_network(problems: &mut FieldErrorList, spec: &Value, path: &str, is_pod: bool) {
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

/// Validates the resource claims of a pod and returns their names.
fn validate_resource_claims<'a>(
    problems: &mut FieldErrorList,
    spec: &'a Value,
    metadata: &Value,
    path: &str,
) -> Vec<&'a str> {
    let mut known: Vec<&str> = Vec::new();
    let claims = list(spec, "/resourceClaims");
    for (index, claim) in claims.iter().enumerate() {
        if entries(metadata, "/annotations").contains_key(MIRROR_POD_ANNOTATION) {
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
            problems.check_dns_label(&format!("{at}.name"), name);
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
            problems.error_for_go_struct(&*at, FieldErrorKind::Invalid, &value,
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            );
        }
        if !own && !of_template {
            problems.error_for_go_struct(
                &*at,
                FieldErrorKind::Invalid,
                &value,
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            );
        }
        for name in given.into_iter().filter(|name| has(claim, &format!("/{name}"))) {
            problems.check_dns_subdomain(&format!("{at}.{name}"), text(claim, &format!("/{name}")));
        }
    }
    claims.iter().map(|claim| text(claim, "/name")).collect()
}

pub(super) fn validate_pod_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = validate_pod_and_spec(new);
    validate_annotation_update(&mut problems, new, old);
    for kind in ["containers", "initContainers"] {
        let pointer = format!("/spec/{kind}");
        let path = format!("spec.{kind}");
        if list(new, &pointer).len() != list(old, &pointer).len() {
            problems.forbidden(path, "pod updates may not add or remove containers");
            return problems.into_errors();
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
            return problems.into_errors();
        }
        (None, Some(_)) => problems.invalid(
            "spec.activeDeadlineSeconds",
            Value::Null,
            "must not update from a positive integer to nil value",
        ),
        _ => {}
    }
    placement::validate_toleration_update(&mut problems, new, old);
    placement::validate_scheduling_gate_update(&mut problems, new, old);
    validate_immutable_spec(&mut problems, new, old);
    problems.into_errors()
}

/// Checks that an update of a pod spec changes only mutable fields.
fn validate_immutable_spec(problems: &mut FieldErrorList, new: &Value, old: &Value) {
    let mut munged = at(new, "/spec").clone();
    let before = at(old, "/spec");
    for kind in ["containers", "initContainers"] {
        let olds = list(before, &format!("/{kind}"));
        let new_containers = munged.get_mut(kind).and_then(Value::as_array_mut);
        for (new, old) in new_containers.into_iter().flatten().zip(olds) {
            super::json_access::copy_field(new, old, "image");
        }
    }
    for name in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        super::json_access::copy_field(&mut munged, before, name);
    }
    let grace = "/terminationGracePeriodSeconds";
    if number(before, grace) < 0 && number(&munged, grace) == 1 {
        super::json_access::copy_field(&mut munged, before, "terminationGracePeriodSeconds");
    }
    if !list(before, "/schedulingGates").is_empty() {
        placement::validate_gated_pod_update(problems, &mut munged, before);
    }
    if munged != *before {
        let detail = format!(
            "pod updates may not change fields other than `spec.containers[*].image`,\
             `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
             `spec.tolerations` (only additions to existing tolerations),\
             `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously \
             negative)\n@@ spec @@\n{}",
            object_diff(&munged, before)
        );
        problems.forbidden("spec", &detail);
    }
}

fn validate_annotation_update(problems: &mut FieldErrorList, new: &Value, old: &Value) {
    let (new, old) = (entries(new, "/metadata/annotations"), entries(old, "/metadata/annotations"));
    let path = format!("metadata.annotations[{MIRROR_POD_ANNOTATION}]");
    match (new.get(MIRROR_POD_ANNOTATION), old.get(MIRROR_POD_ANNOTATION)) {
        (new, Some(old)) if new != Some(old) => {
            problems.forbidden(path, "may not remove or update mirror pod annotation");
        }
        (Some(_), None) => problems.forbidden(path, "may not add mirror pod annotation"),
        _ => {}
    }
}

pub(super) fn validate_pod_status(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    validate_annotation_update(&mut problems, new, old);
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
            problems.check_qualified_name(&format!("{path}.Type"), kind);
        }
    }
    let nominated = text(new, "/status/nominatedNodeName");
    if !nominated.is_empty() && nominated != text(old, "/status/nominatedNodeName") {
        problems.check_dns_subdomain("status.nominatedNodeName", nominated);
        if !text(old, "/spec/nodeName").is_empty() {
            problems.forbidden(
                "status.nominatedNodeName",
                "may not be set on pods that are already bound to a node",
            );
        }
    }
    problems.check_immutable(new, old, "/status/qosClass", "status.qosClass");
    validate_container_states(&mut problems, new, old);
    problems.into_errors()
}

/// Checks that a container that has ended does not run again.
///
/// It may run again if its restart policy allows it.
fn validate_container_states(problems: &mut FieldErrorList, new: &Value, old: &Value) {
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
