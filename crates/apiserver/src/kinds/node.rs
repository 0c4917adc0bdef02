//! Nodes.

use serde_json::{Value, json};

use super::built_in_kind::{BASE_KIND, BuiltInKind, StatusPolicy};
use super::json_access::{ensure_list, ensure_object, flag, list, text};
use super::validation;

pub(super) static NODE: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.core.v1.Node",
    status_policy: StatusPolicy::SubresourceOrCreate,
    admit_create: |node, _| {
        add_not_ready_taint(node);
        Ok(())
    },
    validate: validation::validate_node,
    validate_update: validation::validate_node_update,
    validate_status_update: validation::validate_node_update,
    selectable_fields: |node| {
        vec![("spec.unschedulable", flag(node, "/spec/unschedulable").to_string())]
    },
    ..BASE_KIND
};

/// Adds the taint `not-ready` to a new node that lacks it.
fn add_not_ready_taint(node: &mut Value) {
    const KEY: &str = "node.kubernetes.io/not-ready";
    const EFFECT: &str = "NoSchedule";
    let tainted = list(node, "/spec/taints")
        .iter()
        .any(|taint| text(taint, "/key") == KEY && text(taint, "/effect") == EFFECT);
    if !tainted {
        ensure_list(ensure_object(node, "spec"), "taints")
            .push(json!({"key": KEY, "effect": EFFECT}));
    }
}
