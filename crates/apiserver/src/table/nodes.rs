//! Nodes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::columns::{AGE, NAME, text as column, wide};
use super::printer::{Printer, printer};
use super::row::{Row, text};

const ROLE_LABEL: &str = "kubernetes.io/role";
const ROLE_LABEL_PREFIX: &str = "node-role.kubernetes.io/";

pub(super) const PRINTERS: &[Printer] = &[printer(
    "",
    "nodes",
    &[
        NAME,
        column("Status"),
        column("Roles"),
        AGE,
        column("Version"),
        wide("Internal-IP"),
        wide("External-IP"),
        wide("OS-Image"),
        wide("Kernel-Version"),
        wide("Container-Runtime"),
    ],
    node,
)];

fn node(row: Row<'_>) -> Vec<Value> {
    let info = |field: &str| row.text(&format!("status.nodeInfo.{field}"));
    let known = |field: &str| match info(field) {
        "" => "<unknown>".to_owned(),
        text => text.to_owned(),
    };
    let mut kernel = known("kernelVersion");
    if !info("architecture").is_empty() {
        kernel = format!("{kernel} ({})", info("architecture"));
    }
    vec![
        row.name(),
        status(row).into(),
        roles(row).into(),
        row.age(),
        info("kubeletVersion").into(),
        address(row, "InternalIP").into(),
        address(row, "ExternalIP").into(),
        known("osImage").into(),
        kernel.into(),
        known("containerRuntimeVersion").into(),
    ]
}

fn status(row: Row<'_>) -> String {
    let conditions = row.items("status.conditions");
    // The last one counts when there are several.
    let ready = conditions.iter().rev().find(|condition| condition["type"] == "Ready");
    let status = match ready {
        Some(condition) if condition["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let suffix = if row.flag("spec.unschedulable") { ",SchedulingDisabled" } else { "" };
    format!("{status}{suffix}")
}

fn roles(row: Row<'_>) -> String {
    let mut roles = BTreeSet::new();
    for (key, value) in row.at("metadata.labels").as_object().into_iter().flatten() {
        let role = match key.strip_prefix(ROLE_LABEL_PREFIX) {
            Some(role) => role,
            None if key == ROLE_LABEL => value.as_str().unwrap_or_default(),
            None => continue,
        };
        if !role.is_empty() {
            roles.insert(role);
        }
    }
    let roles: Vec<&str> = roles.into_iter().collect();
    if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") }
}

fn address<'a>(row: Row<'a>, kind: &str) -> &'a str {
    let found = row.items("status.addresses").iter().find(|address| address["type"] == kind);
    found.map_or("<none>", |address| text(address, "address"))
}
