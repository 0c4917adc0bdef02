//! Workloads: deployments and what else runs pods from a template.

use serde_json::Value;

use super::access::{at, part};
use super::built_in::{BASE, BuiltIn, Generation, Status};
use super::checks;
use crate::admission::names;

const WORKLOAD: BuiltIn = BuiltIn { status: Status::Own, generation: Generation::Spec, ..BASE };

pub(super) static DEPLOYMENT: BuiltIn = BuiltIn {
    model: "io.k8s.api.apps.v1.Deployment",
    generation: Generation::SpecAndAnnotations,
    update_status: |new, old| {
        let labels = at(old, "/metadata/labels").clone();
        part(new, "metadata").insert("labels".to_owned(), labels);
    },
    validate: checks::deployment,
    validate_update: checks::deployment_update,
    validate_status: checks::deployment_status,
    ..WORKLOAD
};

pub(super) static REPLICA_SET: BuiltIn = BuiltIn {
    model: "io.k8s.api.apps.v1.ReplicaSet",
    validate: checks::replica_set,
    validate_update: checks::replica_set_update,
    validate_status: checks::replica_set_status,
    ..WORKLOAD
};

pub(super) static STATEFUL_SET: BuiltIn = BuiltIn {
    model: "io.k8s.api.apps.v1.StatefulSet",
    name: names::label_problems,
    validate: checks::stateful_set,
    validate_update: checks::stateful_set_update,
    validate_status: checks::stateful_set_status,
    ..WORKLOAD
};

pub(super) static DAEMON_SET: BuiltIn = BuiltIn {
    model: "io.k8s.api.apps.v1.DaemonSet",
    create: create_daemon_set,
    update: update_daemon_set,
    validate: checks::daemon_set,
    validate_update: checks::daemon_set_update,
    ..WORKLOAD
};

pub(super) static REPLICATION_CONTROLLER: BuiltIn = BuiltIn {
    model: "io.k8s.api.core.v1.ReplicationController",
    validate: checks::replication_controller,
    validate_update: |new, _| checks::replication_controller(new),
    ..WORKLOAD
};

pub(super) static CONTROLLER_REVISION: BuiltIn = BuiltIn {
    model: "io.k8s.api.apps.v1.ControllerRevision",
    validate: checks::controller_revision,
    validate_update: checks::controller_revision_update,
    ..BASE
};

/// The generation of the template is an annotation in this version, and only the server counts.
pub(super) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn create_daemon_set(set: &mut Value) {
    let given = template_generation(set);
    set_template_generation(set, given.max(1));
}

fn update_daemon_set(new: &mut Value, old: &Value) {
    let changed = at(new, "/spec/template") != at(old, "/spec/template");
    let before = template_generation(old);
    set_template_generation(new, before.saturating_add(i64::from(changed)));
}

fn template_generation(set: &Value) -> i64 {
    let annotations = super::access::entries(set, "/metadata/annotations");
    let text = annotations.get(TEMPLATE_GENERATION).and_then(Value::as_str);
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn set_template_generation(set: &mut Value, generation: i64) {
    let annotations = part(set, "metadata").entry("annotations").or_insert(Value::Null);
    super::access::fields_of(annotations)
        .insert(TEMPLATE_GENERATION.to_owned(), generation.to_string().into());
}
