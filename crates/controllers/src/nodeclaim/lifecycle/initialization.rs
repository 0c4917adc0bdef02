//! Initializes a claim when its node is ready for its pods (spec 40 §1.4).

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::ResourceSlice;
use karpenter_api::annotations::REQUESTED_DRA_DRIVERS;
use karpenter_api::condition_set::Status;
use karpenter_api::conditions::{INITIALIZED, REBOOTING, REGISTERED};
use karpenter_api::labels;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::reasons::messages;
use karpenter_api::reasons::nodeclaim::{
    DRA_DRIVER_POOLS_NOT_PUBLISHED, KNOWN_EPHEMERAL_TAINTS_EXIST, NODE_NOT_FOUND, NODE_NOT_READY,
    RESOURCE_NOT_REGISTERED, STARTUP_TAINTS_EXIST,
};
use karpenter_cluster::ingest::conversion;
use karpenter_core::lifecycle::ConditionStatus;
use karpenter_core::lifecycle::initialization::{
    self, DeviceSlice, Facts, InitializationBlocker, NodeFacts, Step,
};
use karpenter_core::resources::Resources;
use karpenter_operator::harness::{Outcome, ReconcileResult};
use karpenter_operator::write::{Precondition, WriteOutcome, patch};
use kube::{Api, ResourceExt as _};

use super::completed_steps::CompletedStep;
use super::{LifecycleReconciler, StepResults, refresh};
use crate::objects;

impl LifecycleReconciler {
    pub(super) async fn initialize(
        &self,
        claim: &mut NodeClaim,
        pass: &mut StepResults,
    ) -> ReconcileResult {
        let now = self.context.clock.now();
        let is_true =
            |condition| objects::condition_status(claim, condition) == ConditionStatus::True;
        let status = objects::condition_status(claim, INITIALIZED);
        match initialization::next(status, is_true(REBOOTING), is_true(REGISTERED)) {
            Step::Settled => refresh(claim, INITIALIZED, now),
            Step::Wait => {}
            Step::Check => return self.check(claim, pass).await,
        }
        Ok(Outcome::Done)
    }

    async fn check(&self, claim: &mut NodeClaim, pass: &mut StepResults) -> ReconcileResult {
        let node = objects::node_of(&self.context.cache, claim);
        let facts = self.facts(claim, node.as_deref());
        let checked = initialization::check(&facts);
        let (Ok(()), Some(node), Some(facts)) = (&checked, node, facts.node) else {
            let not_yet = checked.err().unwrap_or(InitializationBlocker::NodeNotFound);
            self.set_not_initialized(claim, &not_yet);
            return Ok(Outcome::Done);
        };
        let mut after = node.as_ref().clone();
        after.labels_mut().insert(labels::INITIALIZED.to_owned(), labels::TRUE.to_owned());
        let api = Api::all(self.context.client.clone());
        match patch(&api, node.as_ref(), &after, Precondition::None).await? {
            WriteOutcome::Unchanged => {}
            WriteOutcome::Applied(node) => self.context.cache.nodes.apply_write_result(*node),
            WriteOutcome::Conflict => return Ok(Outcome::Requeue),
            WriteOutcome::NotFound => {
                self.set_not_initialized(claim, &InitializationBlocker::NodeNotFound);
                return Ok(Outcome::Done);
            }
        }
        claim.condition_set(self.context.clock.now()).set_true(INITIALIZED);
        pass.completed_steps.push(CompletedStep::Initialized { allocatable: facts.allocatable });
        Ok(Outcome::Done)
    }

    fn set_not_initialized(&self, claim: &mut NodeClaim, not_yet: &InitializationBlocker) {
        let (reason, message) = reason_and_message(not_yet);
        let mut conditions = claim.condition_set(self.context.clock.now());
        conditions.set(INITIALIZED, Status::Unknown, reason, &message);
    }

    fn facts(&self, claim: &NodeClaim, node: Option<&Node>) -> Facts {
        let requests = claim.spec.resources.as_ref().and_then(|r| r.requests.as_ref());
        let drivers = claim.annotations().get(REQUESTED_DRA_DRIVERS);
        let drivers = drivers.filter(|_| !self.context.options.ignore_dra_requests);
        let node = node.map(|node| NodeFacts {
            is_ready: objects::is_ready(node),
            taints: conversion::taints(node.spec.as_ref().and_then(|spec| spec.taints.as_ref())),
            allocatable: allocatable(node),
            slices: self
                .slices
                .get(&node.name_any())
                .iter()
                .map(|slice| read_slice(slice))
                .collect(),
        });
        Facts {
            startup_taints: conversion::taints(claim.spec.startup_taints.as_ref()),
            requests: objects::resources(requests),
            drivers: drivers.cloned(),
            node,
        }
    }
}

fn allocatable(node: &Node) -> Resources {
    conversion::resources(node.status.as_ref().and_then(|status| status.allocatable.as_ref()))
}

/// Returns the node that has the slice's devices. None for devices of all nodes.
pub(super) fn node_of_slice(slice: &ResourceSlice) -> Option<&str> {
    let named = slice.spec.node_name.as_deref().filter(|name| !name.is_empty());
    let owner = || slice.owner_references().iter().find(|owner| owner.kind == "Node");
    named.or_else(|| owner().map(|owner| owner.name.as_str()))
}

fn read_slice(slice: &ResourceSlice) -> DeviceSlice {
    DeviceSlice {
        driver: slice.spec.driver.clone(),
        pool: slice.spec.pool.name.clone(),
        generation: slice.spec.pool.generation,
        slice_count: slice.spec.pool.resource_slice_count,
    }
}

fn reason_and_message(not_yet: &InitializationBlocker) -> (&'static str, String) {
    match not_yet {
        InitializationBlocker::NodeNotFound => {
            (NODE_NOT_FOUND, messages::NODE_NOT_FOUND.to_owned())
        }
        InitializationBlocker::NodeNotReady => {
            (NODE_NOT_READY, messages::NODE_NOT_READY.to_owned())
        }
        InitializationBlocker::StartupTaint(taint) => {
            (STARTUP_TAINTS_EXIST, format!("StartupTaint \"{taint}\" still exists"))
        }
        InitializationBlocker::EphemeralTaint(taint) => {
            (KNOWN_EPHEMERAL_TAINTS_EXIST, format!("KnownEphemeralTaint \"{taint}\" still exists"))
        }
        InitializationBlocker::Resource(name) => {
            (RESOURCE_NOT_REGISTERED, messages::resource_not_registered(name))
        }
        InitializationBlocker::Driver(driver) => {
            (DRA_DRIVER_POOLS_NOT_PUBLISHED, messages::dra_driver_pools_not_published(driver))
        }
    }
}
