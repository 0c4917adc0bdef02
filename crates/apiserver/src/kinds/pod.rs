//! Pods: what they become when they are written, and their end.

mod admission;
mod resources;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use self::admission::{admit_create, admit_manifest, admit_update};
use self::resources::qos_class;
pub(super) use self::resources::{container_requests, default_pod_resources};
use super::built_in_kind::{BASE_KIND, BuiltInKind, GenerationPolicy, StatusPolicy};
use super::json_access::{
    at, copy_field, ensure_list, ensure_object, entries, flag, list, number, set_default, text,
};
use super::pod_spec;

pub(super) static POD: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.core.v1.Pod",
    status_policy: StatusPolicy::Subresource,
    generation_policy: GenerationPolicy::OnSpecChange,
    prepare_for_create: initialize_status,
    prepare_for_status_update: keep_status_fields,
    admit_create,
    admit_manifest: |pod, objects| {
        admit_manifest(pod, objects);
        merge_label_keys_into_selectors(pod, SelectorMerge::UnlessPresent);
    },
    admit_update: |pod, old, context| {
        admit_update(pod, old, context);
        Ok(())
    },
    validate: pod_spec::validate_pod,
    validate_update: pod_spec::validate_pod_update,
    validate_status_update: pod_spec::validate_pod_status,
    grace_period: |pod, requested| Some(grace_period(pod, requested)),
    selectable_fields: pod_selectable_fields,
    ..BASE_KIND
};

fn initialize_status(pod: &mut Value) {
    let status = ensure_object(pod, "status");
    status.insert("phase".to_owned(), "Pending".into());
    let class = qos_class(pod);
    let gated = !list(pod, "/spec/schedulingGates").is_empty();
    let status = ensure_object(pod, "status");
    status.insert("qosClass".to_owned(), class.into());
    if gated {
        status.insert(
            "conditions".to_owned(),
            json!([{
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": null,
                "lastTransitionTime": null,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }]),
        );
        let now = at(pod, "/metadata/creationTimestamp").clone();
        pod["status"]["conditions"][0]["lastTransitionTime"] = now;
    }
    merge_label_keys_into_selectors(pod, SelectorMerge::Always);
}

/// Whether a selector gets a requirement that it has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SelectorMerge {
    /// As in the API server, whose validation then rejects the pod.
    Always,
    /// The pod may have been read from an API server, which has merged its label keys.
    UnlessPresent,
}

/// Merges the label keys of affinity terms and spread constraints into their selectors.
fn merge_label_keys_into_selectors(pod: &mut Value, merge: SelectorMerge) {
    let labels = entries(pod, "/metadata/labels").clone();
    let spec = ensure_object(pod, "spec");
    if let Some(affinity) = spec.get_mut("affinity") {
        for side in ["podAffinity", "podAntiAffinity"] {
            let Some(side) = affinity.get_mut(side) else { continue };
            for (list, inner) in [
                ("preferredDuringSchedulingIgnoredDuringExecution", Some("podAffinityTerm")),
                ("requiredDuringSchedulingIgnoredDuringExecution", None),
            ] {
                let terms = side.get_mut(list).and_then(Value::as_array_mut);
                for term in terms.into_iter().flatten() {
                    let term = match inner {
                        Some(name) => term.get_mut(name),
                        None => Some(term),
                    };
                    if let Some(term) = term {
                        add_selector_requirements(term, "matchLabelKeys", "In", &labels, merge);
                        add_selector_requirements(
                            term,
                            "mismatchLabelKeys",
                            "NotIn",
                            &labels,
                            merge,
                        );
                    }
                }
            }
        }
    }
    let constraints = spec.get_mut("topologySpreadConstraints").and_then(Value::as_array_mut);
    for constraint in constraints.into_iter().flatten() {
        add_selector_requirements(constraint, "matchLabelKeys", "In", &labels, merge);
    }
}

fn add_selector_requirements(
    term: &mut Value,
    field: &str,
    operator: &str,
    labels: &Map<String, Value>,
    merge: SelectorMerge,
) {
    let keys = list(term, &format!("/{field}")).to_vec();
    let Some(Value::Object(selector)) = term.get_mut("labelSelector") else { return };
    for key in keys.iter().filter_map(Value::as_str) {
        if let Some(value) = labels.get(key) {
            let requirement = json!({"key": key, "operator": operator, "values": [value]});
            let requirements = ensure_list(selector, "matchExpressions");
            if merge == SelectorMerge::Always || !requirements.contains(&requirement) {
                requirements.push(requirement);
            }
        }
    }
}

fn keep_status_fields(new: &mut Value, old: &Value) {
    for name in ["deletionTimestamp", "ownerReferences"] {
        if let Some(metadata) = new.get_mut("metadata") {
            copy_field(metadata, at(old, "/metadata"), name);
        }
    }
    let before = entries(old, "/status");
    let status = ensure_object(new, "status");
    for name in ["qosClass", "observedGeneration"] {
        if let Some(value) = before.get(name) {
            set_default(status, name, value.clone());
        }
    }
    keep_condition_generations(ensure_list(status, "conditions"), list(old, "/status/conditions"));
}

/// A condition without observed generation keeps that of its predecessor.
fn keep_condition_generations(conditions: &mut [Value], old: &[Value]) {
    let mut known: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for condition in old.iter().rev() {
        let generation = number(condition, "/observedGeneration");
        known.entry(text(condition, "/type")).or_default().push(generation);
    }
    for condition in conditions {
        let before = known.get_mut(text(condition, "/type")).and_then(Vec::pop);
        let before = before.unwrap_or_default();
        if number(condition, "/observedGeneration") == 0
            && before != 0
            && let Some(fields) = condition.as_object_mut()
        {
            fields.insert("observedGeneration".to_owned(), before.into());
        }
    }
}

fn grace_period(pod: &Value, requested: Option<i64>) -> i64 {
    let own = at(pod, "/spec/terminationGracePeriodSeconds").as_i64();
    let period = requested.or(own).unwrap_or_default();
    let is_over = matches!(text(pod, "/status/phase"), "Failed" | "Succeeded");
    match period {
        _ if is_over || text(pod, "/spec/nodeName").is_empty() => 0,
        period if period < 0 => 1,
        period => period,
    }
}

fn pod_selectable_fields(pod: &Value) -> Vec<(&'static str, String)> {
    let own = |pointer| text(pod, pointer).to_owned();
    vec![
        ("spec.nodeName", own("/spec/nodeName")),
        ("spec.restartPolicy", own("/spec/restartPolicy")),
        ("spec.schedulerName", own("/spec/schedulerName")),
        ("spec.serviceAccountName", own("/spec/serviceAccountName")),
        ("spec.hostNetwork", flag(pod, "/spec/hostNetwork").to_string()),
        ("status.phase", own("/status/phase")),
        ("status.podIP", own("/status/podIPs/0/ip")),
        ("status.nominatedNodeName", own("/status/nominatedNodeName")),
    ]
}
