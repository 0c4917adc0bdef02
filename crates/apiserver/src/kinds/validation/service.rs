//! Services.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::super::field_errors::FieldErrorList;
use super::super::json_access::{at, entries, list, number, text};
use crate::admission::{FieldError, FieldErrorKind};

const SERVICE_TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

pub(in super::super) fn validate_service(service: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let kind = text(service, "/spec/type");
    let address = text(service, "/spec/clusterIP");
    let ports = list(service, "/spec/ports");
    if ports.is_empty() && address != "None" && kind != "ExternalName" {
        problems.required("spec.ports", "");
    }
    match kind {
        "ExternalName" => {
            let name = text(service, "/spec/externalName");
            let name = name.strip_suffix('.').unwrap_or(name);
            if name.is_empty() {
                problems.required("spec.externalName", "");
            } else {
                problems.check_dns_subdomain("spec.externalName", name);
            }
            if !address.is_empty() {
                problems
                    .forbidden("spec.clusterIPs[0]", "may not be set for ExternalName services");
            }
        }
        "LoadBalancer" if address == "None" => problems.invalid(
            "spec.clusterIPs[0]",
            address,
            "may not be set to 'None' for LoadBalancer services",
        ),
        "NodePort" if address == "None" => problems.invalid(
            "spec.clusterIPs[0]",
            address,
            "may not be set to 'None' for NodePort services",
        ),
        _ => {}
    }
    if !["", "None"].contains(&address) && address.parse::<IpAddr>().is_err() {
        problems.invalid(
            "spec.clusterIPs[0]",
            address,
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        );
    }
    self::validate_service_ports(&mut problems, service);
    problems.check_labels("spec.selector", entries(service, "/spec/selector"));
    let affinity = text(service, "/spec/sessionAffinity");
    problems.check_one_of("spec.sessionAffinity", affinity, &["ClientIP", "None"]);
    problems.check_one_of("spec.type", kind, &SERVICE_TYPES);
    problems.into_errors()
}

fn validate_service_ports(problems: &mut FieldErrorList, service: &Value) {
    let ports = list(service, "/spec/ports");
    let headless = text(service, "/spec/clusterIP") == "None";
    let mut names = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let name = text(port, "/name");
        if name.is_empty() {
            if ports.len() > 1 {
                problems.required(format!("{path}.name"), "");
            }
        } else {
            problems.check_dns_label(&format!("{path}.name"), name);
            if !names.insert(name) {
                problems.duplicate(format!("{path}.name"), name);
            }
        }
        problems.check_port(number(port, "/port"), &format!("{path}.port"));
        let protocols = ["SCTP", "TCP", "UDP"];
        problems.check_one_of(&format!("{path}.protocol"), text(port, "/protocol"), &protocols);
        let target = at(port, "/targetPort");
        problems.check_port_or_name(target, &format!("{path}.targetPort"));
        if headless && !target.is_string() && target.as_i64() != Some(number(port, "/port")) {
            problems.invalid(
                format!("{path}.targetPort"),
                target.clone(),
                "must be equal to the value of 'port' when clusterIP = None",
            );
        }
    }
    if text(service, "/spec/type") == "ClusterIP" {
        for (index, port) in ports.iter().enumerate() {
            if number(port, "/nodePort") != 0 {
                problems.forbidden(
                    format!("spec.ports[{index}].nodePort"),
                    "may not be used when `type` is 'ClusterIP'",
                );
            }
        }
    }
    let mut used = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let key = (number(port, "/port"), text(port, "/protocol"));
        if !used.insert(key) {
            problems.error_for_go_struct(
                format!("spec.ports[{index}]"),
                FieldErrorKind::Duplicate,
                &[
                    ("Name", "".into()),
                    ("Protocol", key.1.into()),
                    ("AppProtocol", Value::Null),
                    ("Port", key.0.into()),
                    ("TargetPort", 0.into()),
                    ("NodePort", 0.into()),
                ],
                "",
            );
        }
    }
}

pub(in super::super) fn validate_service_status(new: &Value, _old: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let balanced = text(new, "/spec/type") == "LoadBalancer";
    if !balanced && !list(new, "/status/loadBalancer/ingress").is_empty() {
        problems.forbidden(
            "status.loadBalancer.ingress",
            "may only be used when `spec.type` is 'LoadBalancer'",
        );
    }
    problems.into_errors()
}

pub(in super::super) fn validate_service_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let external = |service: &Value| text(service, "/spec/type") == "ExternalName";
    let before = text(old, "/spec/clusterIP");
    if !external(new) && !external(old) && !before.is_empty() {
        let now = text(new, "/spec/clusterIP");
        if now != before {
            let value = at(new, "/spec/clusterIPs").clone();
            problems.invalid("spec.clusterIPs[0]", value, "may not change once set");
        }
    }
    problems.extend(validate_service(new));
    problems.into_errors()
}
