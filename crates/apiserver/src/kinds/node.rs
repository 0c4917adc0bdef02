//! Nodes.

use serde_json::{Value, json};

use super::access::{flag, items, list, part, text};
use super::built_in::{BASE, BuiltIn, Status};
use super::checks;

pub(super) static NODE: BuiltIn = BuiltIn {
    model: "io.k8s.api.core.v1.Node",
    status: Status::Brought,
    admit_create: |node, _| {
        add_taint(node);
        Ok(())
    },
    validate: checks::node,
    validate_update: checks::node_update,
    validate_status: checks::node_update,
    fields: |node| vec![("spec.unschedulable", flag(node, "/spec/unschedulable").to_string())],
    ..BASE
};

/// A new node is not ready until somebody says so.
fn add_taint(node: &mut Value) {
    const KEY: &str = "node.kubernetes.io/not-ready";
    const EFFECT: &str = "NoSchedule";
    let tainted = list(node, "/spec/taints")
        .iter()
        .any(|taint| text(taint, "/key") == KEY && text(taint, "/effect") == EFFECT);
    if !tainted {
        items(part(node, "spec"), "taints").push(json!({"key": KEY, "effect": EFFECT}));
    }
}
