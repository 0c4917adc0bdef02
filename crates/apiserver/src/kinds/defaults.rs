//! What a type gets that was left out.
//!
//! Defaults belong to types: a container gets the same in a pod, in the template of a job and in
//! that of a template. So one walk over an object finds them all, outer types first.

mod pods;
mod workloads;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::access::{fields_of, fill, fill_number, is_unset, items, part};
use super::types;
use crate::shape::{Amount, Type, TypeId};

type Fields = Map<String, Value>;
type SetDefaults = fn(&mut Fields);

/// Fills in an object of the type called `model`, which has been decoded.
pub(super) fn apply(model: &str, object: &mut Value) {
    if let Some(id) = types().named(model) {
        walk(id, object);
    }
}

fn walk(id: TypeId, value: &mut Value) {
    match (types().get(id), value) {
        (Type::Object(object), Value::Object(fields)) => {
            if let Some(set_defaults) = by_type().get(&id) {
                set_defaults(fields);
            }
            let go = types().go(id);
            for (name, field) in &object.fields {
                let Some(default) = &field.default else { continue };
                // The default of a plain field is mostly its empty value, which it has.
                let is_pointer =
                    || go.and_then(|go| go.fields.get(name)).is_some_and(|go| go.pointer);
                if is_telling(default) || is_pointer() {
                    fill_absent(fields, name, default);
                }
            }
            for (name, value) in fields.iter_mut().filter(|(_, value)| has_parts(value)) {
                if let Some(field) = object.fields.get(name.as_str()) {
                    walk(field.shape, value);
                }
            }
        }
        (Type::List { items, .. }, Value::Array(values)) => {
            for value in values {
                walk(*items, value);
            }
        }
        (Type::Map { values, .. }, Value::Object(entries)) => {
            if matches!(types().get(*values), Type::Object(_)) {
                for (_, value) in entries.iter_mut() {
                    walk(*values, value);
                }
            }
        }
        _ => {}
    }
}

fn has_parts(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

fn is_telling(default: &Value) -> bool {
    match default {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_i64() != Some(0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

fn secret(secret: &mut Fields) {
    fill(secret, "type", "Opaque");
    super::core::merge_string_data(secret);
}

/// The internal form has the newer field alone, so both always say the same.
fn node_spec(spec: &mut Fields) {
    let range = text(spec, "podCIDR").to_owned();
    let listed =
        spec.get("podCIDRs").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if !range.is_empty() && !listed {
        spec.insert("podCIDRs".to_owned(), json!([range]));
    }
}

/// Empty text counts as absent where the default is not empty itself.
fn fill_absent(fields: &mut Fields, name: &str, default: &Value) {
    let absent = match fields.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty() && is_telling(default),
        Some(_) => false,
    };
    if absent {
        fields.insert(name.to_owned(), default.clone());
    }
}

fn by_type() -> &'static BTreeMap<TypeId, SetDefaults> {
    static BY_TYPE: OnceLock<BTreeMap<TypeId, SetDefaults>> = OnceLock::new();
    BY_TYPE.get_or_init(|| {
        DEFAULTS
            .iter()
            .filter_map(|(name, set)| Some((types().named(&format!("io.k8s.{name}"))?, *set)))
            .collect()
    })
}

#[rustfmt::skip]
const DEFAULTS: &[(&str, SetDefaults)] = &[
    ("api.apps.v1.DaemonSet", workloads::template_generation),
    ("api.apps.v1.DaemonSetSpec", workloads::daemon_set),
    ("api.apps.v1.DeploymentSpec", workloads::deployment),
    ("api.apps.v1.ReplicaSetSpec", |spec| fill(spec, "replicas", 1)),
    ("api.apps.v1.StatefulSetSpec", workloads::stateful_set),
    ("api.batch.v1.CronJobSpec", workloads::cron_job),
    ("api.batch.v1.Job", workloads::job),
    ("api.batch.v1.PodFailurePolicyOnPodConditionsPattern", |pattern| fill(pattern, "status", "True")),
    ("api.core.v1.Container", pods::container),
    ("api.core.v1.EphemeralContainer", pods::container),
    ("api.core.v1.ConfigMapVolumeSource", |source| fill(source, "defaultMode", 0o644)),
    ("api.core.v1.DownwardAPIVolumeSource", |source| fill(source, "defaultMode", 0o644)),
    ("api.core.v1.EndpointPort", |port| fill(port, "protocol", "TCP")),
    ("api.core.v1.HTTPGetAction", |action| { fill(action, "path", "/"); fill(action, "scheme", "HTTP"); }),
    ("api.core.v1.HostPathVolumeSource", |source| fill_pointer(source, "type", "".into())),
    ("api.core.v1.LimitRangeItem", limit_range_item),
    ("api.core.v1.Namespace", namespace),
    ("api.core.v1.NamespaceStatus", |status| fill(status, "phase", "Active")),
    ("api.core.v1.NodeSpec", node_spec),
    ("api.core.v1.NodeStatus", node_status),
    ("api.core.v1.ObjectFieldSelector", |selector| fill(selector, "apiVersion", "v1")),
    ("api.core.v1.PersistentVolumeClaimSpec", |spec| fill(spec, "volumeMode", "Filesystem")),
    ("api.core.v1.PersistentVolumeClaimStatus", |status| fill(status, "phase", "Pending")),
    ("api.core.v1.PersistentVolumeSpec", persistent_volume),
    ("api.core.v1.PersistentVolumeStatus", |status| fill(status, "phase", "Pending")),
    ("api.core.v1.Pod", pods::pod),
    ("api.core.v1.PodSpec", pods::pod_spec),
    ("api.core.v1.PodStatus", pods::pod_status),
    ("api.core.v1.Probe", pods::probe),
    ("api.core.v1.ProjectedVolumeSource", |source| fill(source, "defaultMode", 0o644)),
    ("api.core.v1.ReplicationController", workloads::replication_controller),
    ("api.core.v1.Secret", secret),
    ("api.core.v1.SecretVolumeSource", |source| fill(source, "defaultMode", 0o644)),
    ("api.core.v1.Service", service),
    ("api.core.v1.ServiceAccountTokenProjection", |source| fill(source, "expirationSeconds", 3600)),
    ("api.core.v1.Volume", pods::volume),
    ("api.discovery.v1.EndpointPort", endpoint_slice_port),
    ("api.rbac.v1.RoleRef", |role| fill(role, "apiGroup", RBAC)),
    ("api.rbac.v1.Subject", subject),
    ("api.resource.v1.DeviceSubRequest", device_request),
    ("api.resource.v1.ExactDeviceRequest", device_request),
    ("api.scheduling.v1.PriorityClass", |class| fill(class, "preemptionPolicy", "PreemptLowerPriority")),
    ("api.storage.v1.CSIDriverSpec", csi_driver),
    ("api.storage.v1.StorageClass", storage_class),
    ("apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec", definition),
    ("apiextensions-apiserver.pkg.apis.apiextensions.v1.ServiceReference", |service| fill(service, "port", 443)),
];

const RBAC: &str = "rbac.authorization.k8s.io";

/// Sets a field that is absent; empty text is something here.
fn fill_pointer(fields: &mut Fields, name: &str, value: Value) {
    if fields.get(name).is_none_or(Value::is_null) {
        fields.insert(name.to_owned(), value);
    }
}

fn text<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn child<'a>(fields: &'a mut Fields, name: &str) -> &'a mut Fields {
    fields_of(fields.entry(name).or_insert(Value::Null))
}

fn each<'a>(fields: &'a mut Fields, name: &str) -> impl Iterator<Item = &'a mut Fields> {
    let items = fields.get_mut(name).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn limit_range_item(item: &mut Fields) {
    if text(item, "type") != "Container" {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")]
    {
        let Some(Value::Object(values)) = item.get(from).cloned() else { continue };
        let target = child(item, to);
        for (name, value) in values {
            target.entry(name).or_insert(value);
        }
    }
}

fn namespace(namespace: &mut Fields) {
    let metadata = child(namespace, "metadata");
    let name = Value::from(text(metadata, "name"));
    if name != "" {
        child(metadata, "labels").insert("kubernetes.io/metadata.name".to_owned(), name);
    }
}

fn node_status(status: &mut Fields) {
    if let Some(capacity) = status.get("capacity").filter(|value| value.is_object()).cloned() {
        fill(status, "allocatable", capacity);
    }
}

fn persistent_volume(spec: &mut Fields) {
    fill(spec, "persistentVolumeReclaimPolicy", "Retain");
    fill(spec, "volumeMode", "Filesystem");
}

fn service(service: &mut Fields) {
    let spec = child(service, "spec");
    fill(spec, "sessionAffinity", "None");
    if text(spec, "sessionAffinity") == "None" {
        spec.shift_remove("sessionAffinityConfig");
    } else if text(spec, "sessionAffinity") == "ClientIP" {
        let timeout = spec.get("sessionAffinityConfig");
        let timeout = timeout.and_then(|config| config.pointer("/clientIP/timeoutSeconds"));
        if timeout.is_none_or(Value::is_null) {
            let config = json!({"clientIP": {"timeoutSeconds": 10800}});
            spec.insert("sessionAffinityConfig".to_owned(), config);
        }
    }
    fill(spec, "type", "ClusterIP");
    for port in each(spec, "ports") {
        fill(port, "protocol", "TCP");
        let target = port.get("targetPort");
        if target.is_none_or(|target| target.is_null() || *target == 0 || *target == "") {
            let number = port.get("port").cloned().unwrap_or_default();
            port.insert("targetPort".to_owned(), number);
        }
    }
    let kind = text(spec, "type").to_owned();
    let external = matches!(kind.as_str(), "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP"
            && spec
                .get("externalIPs")
                .and_then(Value::as_array)
                .is_some_and(|ips| !ips.is_empty()));
    if external {
        fill(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        fill(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        fill(spec, "allocateLoadBalancerNodePorts", true);
        let mut status = service.get_mut("status").map_or(Value::Null, Value::take);
        for ingress in each(part(&mut status, "loadBalancer"), "ingress") {
            if !text(ingress, "ip").is_empty() {
                fill(ingress, "ipMode", "VIP");
            }
        }
        service.insert("status".to_owned(), status);
    }
}

fn endpoint_slice_port(port: &mut Fields) {
    fill_pointer(port, "name", "".into());
    fill(port, "protocol", "TCP");
}

fn subject(subject: &mut Fields) {
    if matches!(text(subject, "kind"), "User" | "Group") {
        fill(subject, "apiGroup", RBAC);
    }
}

fn device_request(request: &mut Fields) {
    fill(request, "allocationMode", "ExactCount");
    if text(request, "allocationMode") == "ExactCount" {
        fill_number(request, "count", 1);
    }
}

fn csi_driver(spec: &mut Fields) {
    fill(spec, "attachRequired", true);
    for name in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        fill(spec, name, false);
    }
    fill(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    let modes = items(spec, "volumeLifecycleModes");
    if modes.is_empty() {
        modes.push("Persistent".into());
    }
}

fn storage_class(class: &mut Fields) {
    fill(class, "reclaimPolicy", "Delete");
    fill(class, "volumeBindingMode", "Immediate");
}

fn definition(spec: &mut Fields) {
    let names = child(spec, "names");
    let kind = text(names, "kind").to_owned();
    fill(names, "singular", kind.to_lowercase());
    if !kind.is_empty() {
        fill(names, "listKind", format!("{kind}List"));
    }
    if is_unset(spec, "conversion") {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
}

/// The sum of quantities, in nano units.
pub(super) fn nanos(quantity: &Value) -> i128 {
    quantity.as_str().and_then(|text| Amount::parse(text).ok()).map_or(0, Amount::nanos)
}
