//! Workloads: deployments and what else runs pods from a template.

use karpenter_grammar::names;
use serde_json::Value;

use super::built_in_kind::{BASE_KIND, BuiltInKind, GenerationPolicy, StatusPolicy};
use super::json_access::{at, ensure_object};
use super::validation;

const WORKLOAD: BuiltInKind = BuiltInKind {
    status_policy: StatusPolicy::Subresource,
    generation_policy: GenerationPolicy::OnSpecChange,
    ..BASE_KIND
};

pub(super) static DEPLOYMENT: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.apps.v1.Deployment",
    generation_policy: GenerationPolicy::OnSpecOrAnnotationChange,
    prepare_for_status_update: |new, old| {
        let labels = at(old, "/metadata/labels").clone();
        ensure_object(new, "metadata").insert("labels".to_owned(), labels);
    },
    validate: validation::validate_deployment,
    validate_update: validation::validate_deployment_update,
    validate_status_update: validation::validate_deployment_status,
    ..WORKLOAD
};

pub(super) static REPLICA_SET: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.apps.v1.ReplicaSet",
    validate: validation::validate_replica_set,
    validate_update: validation::validate_replica_set_update,
    validate_status_update: validation::validate_replica_set_status,
    ..WORKLOAD
};

pub(super) static STATEFUL_SET: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.apps.v1.StatefulSet",
    validate_name: names::dns_label_errors,
    validate: validation::validate_stateful_set,
    validate_update: validation::validate_stateful_set_update,
    validate_status_update: validation::validate_stateful_set_status,
    ..WORKLOAD
};

pub(super) static DAEMON_SET: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.apps.v1.DaemonSet",
    prepare_for_create: set_initial_template_generation,
    prepare_for_update: increment_template_generation,
    validate: validation::validate_daemon_set,
    validate_update: validation::validate_daemon_set_update,
    ..WORKLOAD
};

pub(super) static REPLICATION_CONTROLLER: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.core.v1.ReplicationController",
    validate: validation::validate_replication_controller,
    validate_update: |new, _| validation::validate_replication_controller(new),
    ..WORKLOAD
};

pub(super) static CONTROLLER_REVISION: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.apps.v1.ControllerRevision",
    validate: validation::validate_controller_revision,
    validate_update: validation::validate_controller_revision_update,
    ..BASE_KIND
};

/// The annotation for the generation of a template, which only the server counts.
pub(super) const TEMPLATE_GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";

fn set_initial_template_generation(set: &mut Value) {
    let given = template_generation(set);
    set_template_generation(set, given.max(1));
}

fn increment_template_generation(new: &mut Value, old: &Value) {
    let changed = at(new, "/spec/template") != at(old, "/spec/template");
    let before = template_generation(old);
    set_template_generation(new, before.saturating_add(i64::from(changed)));
}

fn template_generation(set: &Value) -> i64 {
    let annotations = super::json_access::entries(set, "/metadata/annotations");
    let text = annotations.get(TEMPLATE_GENERATION_ANNOTATION).and_then(Value::as_str);
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn set_template_generation(set: &mut Value, generation: i64) {
    let annotations = ensure_object(set, "metadata").entry("annotations").or_insert(Value::Null);
    super::json_access::coerce_to_object(annotations)
        .insert(TEMPLATE_GENERATION_ANNOTATION.to_owned(), generation.to_string().into());
}
