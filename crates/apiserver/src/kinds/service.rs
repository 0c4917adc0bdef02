//! Services: addresses and node ports.
//!
//! Both are given out in order, so that the same requests get the same answers; the real server
//! picks at random.

use std::collections::BTreeSet;

use karpenter_grammar::names;
use serde_json::{Value, json};

use super::built_in_kind::{BASE_KIND, BuiltInKind, StatusPolicy};
use super::json_access::{at, ensure_list, ensure_object, flag, list, number, set_default, text};
use super::{AdmissionContext, validation};

pub(super) static SERVICE: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.core.v1.Service",
    status_policy: StatusPolicy::Subresource,
    validate_name: names::dns_label_errors,
    admit_create: |service, context| {
        allocate_ips_and_ports(service, context);
        Ok(())
    },
    admit_update: |new, old, context| {
        keep_allocations(new, old, context);
        Ok(())
    },
    validate: validation::validate_service,
    validate_update: validation::validate_service_update,
    validate_status_update: validation::validate_service_status,
    selectable_fields: |service| {
        vec![
            ("spec.clusterIP", text(service, "/spec/clusterIP").to_owned()),
            ("spec.type", text(service, "/spec/type").to_owned()),
        ]
    },
    allows_create_on_update: true,
    ..BASE_KIND
};

/// The first bytes of cluster IPs, which are 10.96.0.2 and up.
///
/// The first address of the range is that of the API itself.
const CLUSTER_IP_PREFIX: [u8; 2] = [10, 96];
const FIRST_NODE_PORT: i64 = 30_000;
const LAST_NODE_PORT: i64 = 32_767;

fn allocate_ips_and_ports(service: &mut Value, context: AdmissionContext<'_>) {
    if text(service, "/spec/type") == "ExternalName" {
        return;
    }
    let others = context.objects.list("", "services", "");
    let spec = ensure_object(service, "spec");
    // A service without address and selector may be about addresses of any family.
    let selects = spec.get("selector").and_then(Value::as_object).is_some_and(|s| !s.is_empty());
    let both = spec.get("clusterIP").is_some_and(|address| address == "None") && !selects;
    set_default(spec, "ipFamilyPolicy", if both { "RequireDualStack" } else { "SingleStack" });
    if ensure_list(spec, "ipFamilies").is_empty() {
        let families = if both { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) };
        spec.insert("ipFamilies".to_owned(), families);
    }
    if super::json_access::is_unset(spec, "clusterIP") {
        let given = ensure_list(spec, "clusterIPs").first().cloned();
        let address = given.unwrap_or_else(|| free_cluster_ip(&others).into());
        spec.insert("clusterIP".to_owned(), address);
    }
    let address = spec.get("clusterIP").cloned().unwrap_or_default();
    if ensure_list(spec, "clusterIPs").is_empty() {
        spec.insert("clusterIPs".to_owned(), json!([address]));
    }
    allocate_node_ports(service, &others);
}

fn free_cluster_ip(others: &[Value]) -> String {
    let taken: BTreeSet<&str> = others.iter().map(|other| text(other, "/spec/clusterIP")).collect();
    let [a, b] = CLUSTER_IP_PREFIX;
    (2..u16::MAX)
        .map(|low| {
            let [c, d] = low.to_be_bytes();
            format!("{a}.{b}.{c}.{d}")
        })
        .find(|address| !taken.contains(address.as_str()))
        .unwrap_or_default()
}

fn allocate_node_ports(service: &mut Value, others: &[Value]) {
    let wanted = match text(service, "/spec/type") {
        "NodePort" => true,
        "LoadBalancer" => flag(service, "/spec/allocateLoadBalancerNodePorts"),
        _ => false,
    };
    if !wanted {
        return;
    }
    let mut taken: BTreeSet<i64> = others
        .iter()
        .filter(|other| at(other, "/metadata/uid") != at(service, "/metadata/uid"))
        .flat_map(|other| list(other, "/spec/ports"))
        .map(|port| number(port, "/nodePort"))
        .collect();
    let ports = ensure_list(ensure_object(service, "spec"), "ports");
    taken.extend(ports.iter().map(|port| number(port, "/nodePort")));
    for port in ports.iter_mut().filter_map(Value::as_object_mut) {
        if port.get("nodePort").and_then(Value::as_i64).unwrap_or_default() != 0 {
            continue;
        }
        let free = (FIRST_NODE_PORT..=LAST_NODE_PORT).find(|number| !taken.contains(number));
        if let Some(free) = free {
            taken.insert(free);
            port.insert("nodePort".to_owned(), free.into());
        }
    }
}

/// Keeps the IPs and ports of a Service that an update leaves out.
fn keep_allocations(new: &mut Value, old: &Value, context: AdmissionContext<'_>) {
    let external = |service: &Value| text(service, "/spec/type") == "ExternalName";
    clear_external_traffic_policy(new, old);
    if external(new) {
        if !external(old) {
            let spec = ensure_object(new, "spec");
            for name in ["clusterIP", "clusterIPs"] {
                if spec.get(name) == old.pointer(&format!("/spec/{name}")) {
                    spec.shift_remove(name);
                }
            }
            for name in ["ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
                spec.shift_remove(name);
            }
            release_node_ports(new);
        }
        return;
    }
    if !external(old) {
        let spec = ensure_object(new, "spec");
        let same = |name: &str, spec: &serde_json::Map<String, Value>| {
            spec.get(name) == old.pointer(&format!("/spec/{name}"))
        };
        if !same("clusterIP", spec) && same("clusterIPs", spec) {
            let address = spec.get("clusterIP").cloned().unwrap_or_default();
            spec.insert("clusterIPs".to_owned(), json!([address]));
        }
        for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            let before = at(old, &format!("/spec/{name}"));
            let empty = spec.get(name).and_then(Value::as_array).is_some_and(Vec::is_empty);
            if !before.is_null() && (super::json_access::is_unset(spec, name) || empty) {
                spec.insert(name.to_owned(), before.clone());
            }
        }
        let ports = list(old, "/spec/ports").to_vec();
        for port in ensure_list(spec, "ports").iter_mut().filter_map(Value::as_object_mut) {
            let before = ports.iter().find(|before| {
                ["port", "protocol"].iter().all(|name| before.get(*name) == port.get(*name))
            });
            let number = before.map_or(0, |before| number(before, "/nodePort"));
            let keeps = matches!(text(old, "/spec/type"), "NodePort" | "LoadBalancer")
                && port.get("nodePort").and_then(Value::as_i64).unwrap_or_default() == 0;
            if keeps && number != 0 {
                port.insert("nodePort".to_owned(), number.into());
            }
        }
    }
    release_node_ports(new);
    allocate_ips_and_ports(new, context);
}

/// Clears the external traffic policy of a Service without external access.
///
/// It also clears `allocateLoadBalancerNodePorts` of a Service that is no load balancer any more.
fn clear_external_traffic_policy(new: &mut Value, old: &Value) {
    let reached = |service: &Value| match text(service, "/spec/type") {
        "NodePort" | "LoadBalancer" => true,
        "ClusterIP" => !list(service, "/spec/externalIPs").is_empty(),
        _ => false,
    };
    let policy = "/spec/externalTrafficPolicy";
    if reached(old) && !reached(new) && at(new, policy) == at(old, policy) {
        ensure_object(new, "spec").shift_remove("externalTrafficPolicy");
    }
    let allocates = "/spec/allocateLoadBalancerNodePorts";
    let balanced = |service: &Value| text(service, "/spec/type") == "LoadBalancer";
    if balanced(old) && !balanced(new) && at(new, allocates) == at(old, allocates) {
        ensure_object(new, "spec").shift_remove("allocateLoadBalancerNodePorts");
    }
}

/// Releases the node ports of a Service that has only an address.
fn release_node_ports(service: &mut Value) {
    if matches!(text(service, "/spec/type"), "ClusterIP" | "ExternalName") {
        for port in ensure_list(ensure_object(service, "spec"), "ports").iter_mut() {
            if let Some(port) = port.as_object_mut() {
                port.shift_remove("nodePort");
            }
        }
    }
}
