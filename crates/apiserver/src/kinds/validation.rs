//! Validates objects of the built-in kinds, except pods (see [`super::pod_spec`]).
//!
//! Metadata is validated elsewhere. The aim is what users and controllers meet: required fields,
//! names, numbers, selectors, and what an update may not change.

mod config;
mod devices;
mod jobs;
mod node;
mod scheduling;
mod service;
mod storage;
mod workloads;

pub(super) use config::{
    validate_config_map, validate_config_map_update, validate_custom_resource_definition,
    validate_custom_resource_definition_update, validate_event, validate_events_v1_event,
    validate_events_v1_event_update, validate_lease, validate_namespace_status,
    validate_role_binding, validate_role_binding_update, validate_secret, validate_secret_update,
};
pub(super) use devices::{
    validate_resource_claim, validate_resource_claim_template,
    validate_resource_claim_template_update, validate_resource_claim_update,
    validate_resource_slice, validate_resource_slice_update,
};
pub(super) use jobs::{validate_cron_job, validate_job, validate_job_update};
pub(super) use node::{validate_node, validate_node_update};
pub(super) use scheduling::{
    validate_pod_disruption_budget, validate_pod_disruption_budget_status, validate_priority_class,
    validate_priority_class_update, validate_runtime_class, validate_runtime_class_update,
};
pub(super) use service::{validate_service, validate_service_status, validate_service_update};
pub(super) use storage::{
    validate_csi_node, validate_csi_node_update, validate_persistent_volume,
    validate_persistent_volume_claim, validate_persistent_volume_claim_spec,
    validate_persistent_volume_claim_update, validate_persistent_volume_update,
    validate_storage_class, validate_storage_class_update, validate_volume_attachment,
    validate_volume_attachment_update,
};
pub(super) use workloads::{
    validate_controller_revision, validate_controller_revision_update, validate_daemon_set,
    validate_daemon_set_update, validate_deployment, validate_deployment_status,
    validate_deployment_update, validate_pod_template, validate_replica_set,
    validate_replica_set_status, validate_replica_set_update, validate_replication_controller,
    validate_stateful_set, validate_stateful_set_status, validate_stateful_set_update,
};

pub(super) use super::field_errors::path_segment_problems as path_segment;
