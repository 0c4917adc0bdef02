//! The core group but pods, nodes and volumes; and events of both groups.

use serde_json::Value;

use super::columns::{AGE, NAME, text as column, wide};
use super::printer::{Printer, printer};
use super::row::{Row, items, number, text};
use super::selector;

pub(super) const PRINTERS: &[Printer] = &[
    printer("", "configmaps", &[NAME, column("Data"), AGE], |row| {
        let data = row.count("data") + row.count("binaryData");
        vec![row.name(), data.into(), row.age()]
    }),
    printer("", "secrets", &[NAME, column("Type"), column("Data"), AGE], |row| {
        vec![row.name(), row.text("type").into(), row.count("data").into(), row.age()]
    }),
    printer("", "serviceaccounts", &[NAME, AGE], |row| vec![row.name(), row.age()]),
    printer("", "namespaces", &[NAME, column("Status"), AGE], |row| {
        vec![row.name(), row.text("status.phase").into(), row.age()]
    }),
    printer("", "services", SERVICE_COLUMNS, service),
    printer("", "endpoints", &[NAME, column("Endpoints"), AGE], |row| {
        vec![row.name(), endpoints(row).into(), row.age()]
    }),
    printer("", "resourcequotas", &[NAME, column("Request"), column("Limit"), AGE], resource_quota),
    printer("", "events", EVENT_COLUMNS, event),
    printer("events.k8s.io", "events", EVENT_COLUMNS, events_v1_event),
];

const SERVICE_COLUMNS: &[super::Column] = &[
    NAME,
    column("Type"),
    column("Cluster-IP"),
    column("External-IP"),
    column("Port(s)"),
    AGE,
    wide("Selector"),
];

const EVENT_COLUMNS: &[super::Column] = &[
    column("Last Seen"),
    column("Type"),
    column("Reason"),
    column("Object"),
    wide("Subobject"),
    wide("Source"),
    column("Message"),
    wide("First Seen"),
    wide("Count"),
    NAME.wide(),
];

fn service(row: Row<'_>) -> Vec<Value> {
    let cluster_ip = row.texts("spec.clusterIPs").first().copied().unwrap_or("<none>");
    vec![
        row.name(),
        row.text("spec.type").into(),
        cluster_ip.into(),
        external_ip(row).into(),
        ports(row).into(),
        row.age(),
        selector::format_labels(row.at("spec.selector")).into(),
    ]
}

fn external_ip(row: Row<'_>) -> String {
    let external = row.texts("spec.externalIPs");
    match row.text("spec.type") {
        "ClusterIP" | "NodePort" if external.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => external.join(","),
        "LoadBalancer" => {
            let ingress = row.items("status.loadBalancer.ingress").iter();
            let mut all: Vec<&str> = ingress
                .map(|ingress| match text(ingress, "ip") {
                    "" => text(ingress, "hostname"),
                    ip => ip,
                })
                .filter(|address| !address.is_empty())
                .collect();
            all.sort_unstable();
            all.dedup();
            all.extend(external);
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => row.text("spec.externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn ports(row: Row<'_>) -> String {
    let port = |port: &Value| {
        let (number, protocol) = (number(port, "port"), text(port, "protocol"));
        match port["nodePort"].as_i64() {
            Some(node_port) if node_port > 0 => format!("{number}:{node_port}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    };
    let ports: Vec<String> = row.items("spec.ports").iter().map(port).collect();
    if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") }
}

/// The first three texts, and how many there are beyond.
pub(super) fn first_three(all: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = all[..all.len().min(SHOWN)].join(",");
    if all.len() > SHOWN { format!("{shown} + {} more...", all.len() - SHOWN) } else { shown }
}

fn endpoints(row: Row<'_>) -> String {
    let subsets = row.items("subsets");
    if subsets.is_empty() {
        return "<none>".to_owned();
    }
    let mut all = Vec::new();
    for subset in subsets {
        let addresses = || items(subset, "addresses").iter().map(|address| text(address, "ip"));
        let ports = items(subset, "ports");
        if ports.is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            let port = number(port, "port");
            all.extend(addresses().map(|ip| {
                let (open, close) = if ip.contains(':') { ("[", "]") } else { ("", "") };
                format!("{open}{ip}{close}:{port}")
            }));
        }
    }
    first_three(&all)
}

fn resource_quota(row: Row<'_>) -> Vec<Value> {
    let mut names: Vec<&String> =
        row.at("status.hard").as_object().into_iter().flatten().map(|(name, _)| name).collect();
    names.sort_unstable();
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for name in names {
        let amount = |map: &str| row.object["status"][map][name].as_str().unwrap_or("0");
        let text = format!("{name}: {}/{}", amount("used"), amount("hard"));
        if name.starts_with("limits.") { limits.push(text) } else { requests.push(text) }
    }
    vec![row.name(), requests.join(", ").into(), limits.join(", ").into(), row.age()]
}

fn event(row: Row<'_>) -> Vec<Value> {
    EventFieldNames {
        first: "firstTimestamp",
        last: "lastTimestamp",
        count: "count",
        object: "involvedObject",
        source: "source",
        controller: "reportingComponent",
        message: "message",
    }
    .cells(row)
}

fn events_v1_event(row: Row<'_>) -> Vec<Value> {
    EventFieldNames {
        first: "deprecatedFirstTimestamp",
        last: "deprecatedLastTimestamp",
        count: "deprecatedCount",
        object: "regarding",
        source: "deprecatedSource",
        controller: "reportingController",
        message: "note",
    }
    .cells(row)
}

/// The names of event fields in one of the two groups.
struct EventFieldNames {
    first: &'static str,
    last: &'static str,
    count: &'static str,
    object: &'static str,
    source: &'static str,
    controller: &'static str,
    message: &'static str,
}

impl EventFieldNames {
    fn cells(&self, row: Row<'_>) -> Vec<Value> {
        let first = row.text_or(self.first, row.text("eventTime"));
        let mut last = row.text_or(self.last, first);
        let mut count = row.number(self.count);
        if row.at("series").is_object() {
            last = row.text("series.lastObservedTime");
            count = row.number("series.count");
        } else if count == 0 {
            count = 1;
        }
        let object = row.at(self.object);
        let kind = text(object, "kind").to_lowercase();
        let target = match text(object, "name") {
            "" => kind,
            name => format!("{kind}/{name}"),
        };
        vec![
            row.age_since_time(last).into(),
            row.text("type").into(),
            row.text("reason").into(),
            target.into(),
            text(object, "fieldPath").into(),
            self.source(row).into(),
            row.text(self.message).trim().into(),
            row.age_since_time(first).into(),
            count.into(),
            row.name(),
        ]
    }

    fn source(&self, row: Row<'_>) -> String {
        let source = row.at(self.source);
        let component = match text(source, "component") {
            "" => row.text(self.controller),
            component => component,
        };
        let instance = match text(source, "host") {
            "" => row.text("reportingInstance"),
            host => host,
        };
        if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") }
    }
}
