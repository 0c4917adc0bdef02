//! What is wrong with objects of the built-in kinds, pods aside (see [`super::pod_spec`]).
//!
//! Metadata is checked elsewhere. The aim is what users and controllers meet: required fields,
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
    config_map, config_map_update, definition, definition_update, event, lease, namespace_status,
    new_event, new_event_update, role_binding, role_binding_update, secret, secret_update,
};
pub(super) use devices::{
    resource_claim, resource_claim_template, resource_claim_template_update, resource_claim_update,
    resource_slice, resource_slice_update,
};
pub(super) use jobs::{cron_job, job, job_update};
pub(super) use node::{node, node_update};
pub(super) use scheduling::{
    budget, budget_status, priority_class, priority_class_update, runtime_class,
    runtime_class_update,
};
pub(super) use service::{service, service_status, service_update};
pub(super) use storage::{
    claim, claim_spec, claim_update, csi_node, csi_node_update, storage_class,
    storage_class_update, volume, volume_attachment, volume_attachment_update, volume_update,
};
pub(super) use workloads::{
    controller_revision, controller_revision_update, daemon_set, daemon_set_update, deployment,
    deployment_status, deployment_update, pod_template, replica_set, replica_set_status,
    replica_set_update, replication_controller, stateful_set, stateful_set_status,
    stateful_set_update,
};

pub(super) use super::problems::path_segment_problems as path_segment;
