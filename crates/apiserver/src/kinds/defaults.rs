//! What a type gets that was left out.
//!
//! Defaults belong to types: a container gets the same in a pod, in the template of a job and in
//! that of a template. So one walk over an object finds them all, outer types first.

mod pods;
mod workloads;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use karpenter_grammar::Amount;
use serde_json::{Map, Value, json};

use super::json_access::{
    coerce_to_object, ensure_list, ensure_object, is_unset, set_default, set_default_number,
};
use super::types;
use crate::type_model::{Type, TypeId};

type Fields = Map<String, Value>;
type SetDefaults = fn(&mut Fields);

/// Fills in an object of the type called `model`, which has been decoded.
pub(super) fn apply(model: &str, object: &mut Value) {
    if let Some(id) = types().find_by_name(model) {
        apply_by_type(id, object);
    }
}

fn apply_by_type(id: TypeId, value: &mut Value) {
    match (types().get(id), value) {
        (Type::Object(object), Value::Object(fields)) => {
            if let Some(set_defaults) = defaults_by_type().get(&id) {
                set_defaults(fields);
            }
            let go = types().go_type(id);
            for (name, field) in &object.fields {
                let Some(default) = &field.default else { continue };
                // The default of a plain field is mostly its empty value, which it has.
                let is_pointer =
                    || go.and_then(|go| go.fields.get(name)).is_some_and(|go| go.pointer);
                if is_non_zero(default) || is_pointer() {
                    set_default_unless_present(fields, name, default);
                }
            }
            for (name, value) in fields.iter_mut().filter(|(_, value)| is_composite(value)) {
                if let Some(field) = object.fields.get(name.as_str()) {
                    apply_by_type(field.type_id, value);
                }
            }
        }
        (Type::List { items, .. }, Value::Array(values)) => {
            for value in values {
                apply_by_type(*items, value);
            }
        }
        (Type::Map { values, .. }, Value::Object(entries)) => {
            if matches!(types().get(*values), Type::Object(_)) {
                for (_, value) in entries.iter_mut() {
                    apply_by_type(*values, value);
                }
            }
        }
        _ => {}
    }
}

fn is_composite(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

fn is_non_zero(default: &Value) -> bool {
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
    set_default(secret, "type", "Opaque");
    super::core::merge_string_data(secret);
}

/// The internal form has the newer field alone, so both always say the same.
fn node_spec(spec: &mut Fields) {
    let range = string_field(spec, "podCIDR").to_owned();
    let listed =
        spec.get("podCIDRs").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if !range.is_empty() && !listed {
        spec.insert("podCIDRs".to_owned(), json!([range]));
    }
}

/// Sets a default for a field that is absent.
///
/// Empty text counts as absent where the default is not empty itself.
fn set_default_unless_present(fields: &mut Fields, name: &str, default: &Value) {
    let absent = match fields.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty() && is_non_zero(default),
        Some(_) => false,
    };
    if absent {
        fields.insert(name.to_owned(), default.clone());
    }
}

fn defaults_by_type() -> &'static BTreeMap<TypeId, SetDefaults> {
    static BY_TYPE: OnceLock<BTreeMap<TypeId, SetDefaults>> = OnceLock::new();
    BY_TYPE.get_or_init(|| {
        DEFAULTS
            .iter()
            .filter_map(|(name, set)| {
                Some((types().find_by_name(&format!("io.k8s.{name}"))?, *set))
            })
            .collect()
    })
}

#[rustfmt::skip]
const DEFAULTS: &[(&str, SetDefaults)] = &[
    ("api.apps.v1.DaemonSet", workloads::template_generation),
    ("api.apps.v1.DaemonSetSpec", workloads::daemon_set),
    ("api.apps.v1.DeploymentSpec", workloads::deployment),
    ("api.apps.v1.ReplicaSetSpec", |spec| set_default(spec, "replicas", 1)),
    ("api.apps.v1.StatefulSetSpec", workloads::stateful_set),
    ("api.batch.v1.CronJobSpec", workloads::cron_job),
    ("api.batch.v1.Job", workloads::job),
    ("api.batch.v1.PodFailurePolicyOnPodConditionsPattern", |pattern| set_default(pattern, "status", "True")),
    ("api.core.v1.Container", pods::container),
    ("api.core.v1.EphemeralContainer", pods::container),
    ("api.core.v1.ConfigMapVolumeSource", |source| set_default(source, "defaultMode", 0o644)),
    ("api.core.v1.DownwardAPIVolumeSource", |source| set_default(source, "defaultMode", 0o644)),
    ("api.core.v1.EndpointPort", |port| set_default(port, "protocol", "TCP")),
    ("api.core.v1.HTTPGetAction", |action| { set_default(action, "path", "/"); set_default(action, "scheme", "HTTP"); }),
    ("api.core.v1.HostPathVolumeSource", |source| set_default_pointer(source, "type", "".into())),
    ("api.core.v1.LimitRangeItem", limit_range_item),
    ("api.core.v1.Namespace", namespace),
    ("api.core.v1.NamespaceStatus", |status| set_default(status, "phase", "Active")),
    ("api.core.v1.NodeSpec", node_spec),
    ("api.core.v1.NodeStatus", node_status),
    ("api.core.v1.ObjectFieldSelector", |selector| set_default(selector, "apiVersion", "v1")),
    ("api.core.v1.PersistentVolumeClaimSpec", |spec| set_default(spec, "volumeMode", "Filesystem")),
    ("api.core.v1.PersistentVolumeClaimStatus", |status| set_default(status, "phase", "Pending")),
    ("api.core.v1.PersistentVolumeSpec", persistent_volume),
    ("api.core.v1.PersistentVolumeStatus", |status| set_default(status, "phase", "Pending")),
    ("api.core.v1.Pod", pods::pod),
    ("api.core.v1.PodSpec", pods::pod_spec),
    ("api.core.v1.PodStatus", pods::pod_status),
    ("api.core.v1.Probe", pods::probe),
    ("api.core.v1.ProjectedVolumeSource", |source| set_default(source, "defaultMode", 0o644)),
    ("api.core.v1.ReplicationController", workloads::replication_controller),
    ("api.core.v1.Secret", secret),
    ("api.core.v1.SecretVolumeSource", |source| set_default(source, "defaultMode", 0o644)),
    ("api.core.v1.Service", service),
    ("api.core.v1.ServiceAccountTokenProjection", |source| set_default(source, "expirationSeconds", 3600)),
    ("api.core.v1.Volume", pods::volume),
    ("api.discovery.v1.EndpointPort", endpoint_slice_port),
    ("api.rbac.v1.RoleRef", |role| set_default(role, "apiGroup", RBAC)),
    ("api.rbac.v1.Subject", subject),
    ("api.resource.v1.DeviceSubRequest", device_request),
    ("api.resource.v1.ExactDeviceRequest", device_request),
    ("api.scheduling.v1.PriorityClass", |class| set_default(class, "preemptionPolicy", "PreemptLowerPriority")),
    ("api.storage.v1.CSIDriverSpec", csi_driver),
    ("api.storage.v1.StorageClass", storage_class),
    ("apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec", custom_resource_definition),
    ("apiextensions-apiserver.pkg.apis.apiextensions.v1.ServiceReference", |service| set_default(service, "port", 443)),
];

const RBAC: &str = "rbac.authorization.k8s.io";

/// Sets a field that is absent or null; empty text counts as present.
fn set_default_pointer(fields: &mut Fields, name: &str, value: Value) {
    if fields.get(name).is_none_or(Value::is_null) {
        fields.insert(name.to_owned(), value);
    }
}

fn string_field<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn ensure_child<'a>(fields: &'a mut Fields, name: &str) -> &'a mut Fields {
    coerce_to_object(fields.entry(name).or_insert(Value::Null))
}

fn objects_in<'a>(fields: &'a mut Fields, name: &str) -> impl Iterator<Item = &'a mut Fields> {
    let items = fields.get_mut(name).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn limit_range_item(item: &mut Fields) {
    if string_field(item, "type") != "Container" {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")]
    {
        let Some(Value::Object(values)) = item.get(from).cloned() else { continue };
        let target = ensure_child(item, to);
        for (name, value) in values {
            target.entry(name).or_insert(value);
        }
    }
}

fn namespace(namespace: &mut Fields) {
    let metadata = ensure_child(namespace, "metadata");
    let name = Value::from(string_field(metadata, "name"));
    if name != "" {
        ensure_child(metadata, "labels").insert("kubernetes.io/metadata.name".to_owned(), name);
    }
}

fn node_status(status: &mut Fields) {
    if let Some(capacity) = status.get("capacity").filter(|value| value.is_object()).cloned() {
        set_default(status, "allocatable", capacity);
    }
}

fn persistent_volume(spec: &mut Fields) {
    set_default(spec, "persistentVolumeReclaimPolicy", "Retain");
    set_default(spec, "volumeMode", "Filesystem");
}

fn service(service: &mut Fields) {
    let spec = ensure_child(service, "spec");
    set_default(spec, "sessionAffinity", "None");
    if string_field(spec, "sessionAffinity") == "None" {
        spec.shift_remove("sessionAffinityConfig");
    } else if string_field(spec, "sessionAffinity") == "ClientIP" {
        let timeout = spec.get("sessionAffinityConfig");
        let timeout = timeout.and_then(|config| config.pointer("/clientIP/timeoutSeconds"));
        if timeout.is_none_or(Value::is_null) {
            let config = json!({"clientIP": {"timeoutSeconds": 10800}});
            spec.insert("sessionAffinityConfig".to_owned(), config);
        }
    }
    set_default(spec, "type", "ClusterIP");
    for port in objects_in(spec, "ports") {
        set_default(port, "protocol", "TCP");
        let target = port.get("targetPort");
        if target.is_none_or(|target| target.is_null() || *target == 0 || *target == "") {
            let number = port.get("port").cloned().unwrap_or_default();
            port.insert("targetPort".to_owned(), number);
        }
    }
    let kind = string_field(spec, "type").to_owned();
    let external = matches!(kind.as_str(), "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP"
            && spec
                .get("externalIPs")
                .and_then(Value::as_array)
                .is_some_and(|ips| !ips.is_empty()));
    if external {
        set_default(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        set_default(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set_default(spec, "allocateLoadBalancerNodePorts", true);
        let mut status = service.get_mut("status").map_or(Value::Null, Value::take);
        for ingress in objects_in(ensure_object(&mut status, "loadBalancer"), "ingress") {
            if !string_field(ingress, "ip").is_empty() {
                set_default(ingress, "ipMode", "VIP");
            }
        }
        service.insert("status".to_owned(), status);
    }
}

fn endpoint_slice_port(port: &mut Fields) {
    set_default_pointer(port, "name", "".into());
    set_default(port, "protocol", "TCP");
}

fn subject(subject: &mut Fields) {
    if matches!(string_field(subject, "kind"), "User" | "Group") {
        set_default(subject, "apiGroup", RBAC);
    }
}

fn device_request(request: &mut Fields) {
    set_default(request, "allocationMode", "ExactCount");
    if string_field(request, "allocationMode") == "ExactCount" {
        set_default_number(request, "count", 1);
    }
}

fn csi_driver(spec: &mut Fields) {
    set_default(spec, "attachRequired", true);
    for name in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        set_default(spec, name, false);
    }
    set_default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    let modes = ensure_list(spec, "volumeLifecycleModes");
    if modes.is_empty() {
        modes.push("Persistent".into());
    }
}

fn storage_class(class: &mut Fields) {
    set_default(class, "reclaimPolicy", "Delete");
    set_default(class, "volumeBindingMode", "Immediate");
}

fn custom_resource_definition(spec: &mut Fields) {
    let names = ensure_child(spec, "names");
    let kind = string_field(names, "kind").to_owned();
    set_default(names, "singular", kind.to_lowercase());
    if !kind.is_empty() {
        set_default(names, "listKind", format!("{kind}List"));
    }
    if is_unset(spec, "conversion") {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
}

/// The sum of quantities, in nano units.
pub(super) fn nanos(quantity: &Value) -> i128 {
    quantity.as_str().and_then(|text| Amount::parse(text).ok()).map_or(0, Amount::as_nanos)
}
