//! The columns of small kinds: RBAC, scheduling, devices, leases and EndpointSlices.

use serde_json::Value;

use super::columns::{AGE, Column, NAME, boolean, integer, text as column, wide};
use super::core::first_three;
use super::printer::{Printer, printer};
use super::row::{Row, items, text};

const RBAC: &str = "rbac.authorization.k8s.io";
const DEVICES: &str = "resource.k8s.io";

pub(super) const PRINTERS: &[Printer] = &[
    printer(RBAC, "rolebindings", ROLE_BINDING_COLUMNS, role_binding),
    printer(RBAC, "clusterrolebindings", ROLE_BINDING_COLUMNS, role_binding),
    printer("coordination.k8s.io", "leases", &[NAME, column("Holder"), AGE], |row| {
        vec![row.name(), row.text("spec.holderIdentity").into(), row.age()]
    }),
    printer("scheduling.k8s.io", "priorityclasses", PRIORITY_CLASS_COLUMNS, |row| {
        vec![
            row.name(),
            row.number("value").into(),
            row.flag("globalDefault").into(),
            row.age(),
            row.text("preemptionPolicy").into(),
        ]
    }),
    printer("node.k8s.io", "runtimeclasses", &[NAME, column("Handler"), AGE], |row| {
        vec![row.name(), row.text("handler").into(), row.age()]
    }),
    printer("discovery.k8s.io", "endpointslices", ENDPOINT_SLICE_COLUMNS, endpoint_slice),
    printer(DEVICES, "deviceclasses", &[NAME, AGE], |row| vec![row.name(), row.age()]),
    printer(DEVICES, "resourceclaimtemplates", &[NAME, AGE], |row| vec![row.name(), row.age()]),
    printer(DEVICES, "resourceclaims", &[NAME, column("State"), AGE], |row| {
        vec![row.name(), resource_claim_state(row).into(), row.age()]
    }),
    printer(
        DEVICES,
        "resourceslices",
        &[NAME, column("Node"), column("Driver"), column("Pool"), AGE],
        |row| {
            let cell = |path| row.text(path).into();
            let pool = cell("spec.pool.name");
            vec![row.name(), cell("spec.nodeName"), cell("spec.driver"), pool, row.age()]
        },
    ),
];

const ROLE_BINDING_COLUMNS: &[Column] =
    &[NAME, column("Role"), AGE, wide("Users"), wide("Groups"), wide("ServiceAccounts")];

const PRIORITY_CLASS_COLUMNS: &[Column] =
    &[NAME, integer("Value"), boolean("Global-Default"), AGE, column("PreemptionPolicy")];

const ENDPOINT_SLICE_COLUMNS: &[Column] =
    &[NAME, column("AddressType"), column("Ports"), column("Endpoints"), AGE];

fn role_binding(row: Row<'_>) -> Vec<Value> {
    let role = format!("{}/{}", row.text("roleRef.kind"), row.text("roleRef.name"));
    let subjects = |kind: &str| {
        let found = row.items("subjects").iter().filter(|subject| subject["kind"] == kind);
        let names: Vec<String> = found
            .map(|subject| match kind {
                "ServiceAccount" => {
                    format!("{}/{}", text(subject, "namespace"), text(subject, "name"))
                }
                _ => text(subject, "name").to_owned(),
            })
            .collect();
        Value::from(names.join(", "))
    };
    let (users, groups) = (subjects("User"), subjects("Group"));
    vec![row.name(), role.into(), row.age(), users, groups, subjects("ServiceAccount")]
}

fn resource_claim_state(row: Row<'_>) -> &'static str {
    let is_allocated = row.at("status.allocation").is_object();
    let is_reserved = !row.items("status.reservedFor").is_empty();
    match (row.is_terminating(), is_allocated, is_reserved) {
        (false, false, _) => "pending",
        (true, false, _) => "deleted",
        (false, true, false) => "allocated",
        (false, true, true) => "allocated,reserved",
        (true, true, false) => "deleted,allocated",
        (true, true, true) => "deleted,allocated,reserved",
    }
}

fn endpoint_slice(row: Row<'_>) -> Vec<Value> {
    let or_unset = |all: &[String]| match first_three(all) {
        text if text.is_empty() => Value::from("<unset>"),
        text => text.into(),
    };
    let port = |port: &Value| match (port["port"].as_i64(), port["name"].as_str()) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "*".to_owned(),
    };
    let ports: Vec<String> = row.items("ports").iter().map(port).collect();
    let addresses: Vec<String> = row
        .items("endpoints")
        .iter()
        .flat_map(|endpoint| items(endpoint, "addresses"))
        .filter_map(|address| address.as_str().map(str::to_owned))
        .collect();
    vec![
        row.name(),
        row.text("addressType").into(),
        or_unset(&ports),
        or_unset(&addresses),
        row.age(),
    ]
}
