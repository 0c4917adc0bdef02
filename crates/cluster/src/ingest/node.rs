//! Joins Nodes and NodeClaims by their provider id (spec 40 §5.2, spec 45 §13).

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node as WireNode, NodeCondition as WireCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use karpenter_api::grammar::DurationError;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::{annotations, conditions, labels, taints as names};
use karpenter_core::id::NodeId;
use karpenter_core::resources::Resources;
use karpenter_core::snapshot::{NodeCondition, NodeDisruptionState, NodeObject, StateNode};
use karpenter_core::taint::{Taint, TaintEffect, is_known_ephemeral};

use super::{Objects, Reader, ineffective_protection, quantity, taint, text};

const NODE: &str = "Node";
const NODE_CLAIM: &str = "NodeClaim";

/// The nodes of the snapshot, and an index by the Node names that pods use.
pub(super) struct ReadNodes<'a> {
    pub(super) nodes: Vec<StateNode>,
    /// By the name of the Node object, which a NodeClaim's differs from.
    pub(super) by_name: HashMap<&'a str, NodeId>,
}

/// All nodes, then the launched NodeClaims without a Node.
pub(super) fn read<'a>(objects: &'a Objects, reader: &mut Reader<'_>) -> ReadNodes<'a> {
    let mut claims = launched_claims(objects, reader);
    let drivers: HashMap<&str, _> = objects
        .csi_nodes
        .iter()
        .map(|csi| (text(csi.metadata.name.as_ref()), published_drivers(csi)))
        .collect();
    let mut nodes = Vec::with_capacity(objects.nodes.len());
    let mut by_name = HashMap::with_capacity(objects.nodes.len());
    let mut provider_ids = HashSet::with_capacity(objects.nodes.len());
    for node in &objects.nodes {
        let name = text(node.metadata.name.as_ref());
        if let Some(reason) = untracked_reason(node) {
            reader.exclude(NODE, &node.metadata, reason);
            continue;
        }
        let provider_id = provider_id_or_name(node);
        if by_name.contains_key(name) || !provider_ids.insert(provider_id) {
            reader.reject(NODE, &node.metadata, "another node has the same name or machine");
            continue;
        }
        let joined = NodeAndClaim { node: Some(node), claim: claims.remove(provider_id) };
        let drivers = drivers.get(name).cloned().unwrap_or_default();
        by_name.insert(name, NodeId::new(nodes.len()));
        nodes.push(joined.read_with_notes(drivers, reader));
    }
    for claim in &objects.node_claims {
        if let Some(claim) = claims.remove(provider_id(claim)) {
            let joined = NodeAndClaim { node: None, claim: Some(claim) };
            nodes.push(joined.read_with_notes(BTreeMap::new(), reader));
        }
    }
    ReadNodes { nodes, by_name }
}

/// Returns the launched NodeClaims of this installation by provider id.
fn launched_claims<'a>(
    objects: &'a Objects,
    reader: &mut Reader<'_>,
) -> HashMap<&'a str, &'a NodeClaim> {
    let mut claims = HashMap::with_capacity(objects.node_claims.len());
    for claim in &objects.node_claims {
        let class = &claim.spec.node_class_ref;
        let provider_id = provider_id(claim);
        if !reader.settings.serves(class) {
            let reason = format!("{}.{} is not ours", class.kind, class.group);
            reader.exclude(NODE_CLAIM, &claim.metadata, reason);
        } else if provider_id.is_empty() {
            reader.exclude(NODE_CLAIM, &claim.metadata, "not launched yet");
        } else if claims.contains_key(provider_id) {
            reader.reject(NODE_CLAIM, &claim.metadata, "another claim has the same machine");
        } else {
            claims.insert(provider_id, claim);
        }
    }
    claims
}

/// Returns the provider id of a NodeClaim; empty until it is launched.
pub(crate) fn provider_id(claim: &NodeClaim) -> &str {
    claim.status.as_ref().map_or("", |status| text(status.provider_id.as_ref()))
}

/// Returns the provider id of a Node, or its name if it has none.
pub(crate) fn provider_id_or_name(node: &WireNode) -> &str {
    match node.spec.as_ref().map_or("", |spec| text(spec.provider_id.as_ref())) {
        "" => text(node.metadata.name.as_ref()),
        provider_id => provider_id,
    }
}

/// Returns why a Node is not tracked yet. A Node of a NodePool is tracked once its provider id and
/// instance type are known (spec 40 §5.4).
pub(crate) fn untracked_reason(node: &WireNode) -> Option<&'static str> {
    let label = |key: &str| {
        node.metadata
            .labels
            .as_ref()
            .is_some_and(|all| all.get(key).is_some_and(|value| !value.is_empty()))
    };
    let has_provider_id =
        node.spec.as_ref().is_some_and(|s| !text(s.provider_id.as_ref()).is_empty());
    if !label(labels::NODEPOOL) {
        None
    } else if !has_provider_id {
        Some("belongs to a NodePool and has no providerID yet")
    } else if !label(labels::INSTANCE_TYPE) && !label(labels::INITIALIZED) {
        Some("belongs to a NodePool and has no instance type yet")
    } else {
        None
    }
}

/// How many volumes each published driver attaches; none for unlimited.
pub(crate) fn published_drivers(
    csi: &k8s_openapi::api::storage::v1::CSINode,
) -> BTreeMap<String, Option<u32>> {
    let drivers = csi.spec.drivers.iter().map(|driver| {
        let count = driver.allocatable.as_ref().and_then(|allocatable| allocatable.count);
        (driver.name.clone(), count.map(|count| u32::try_from(count).unwrap_or(0)))
    });
    drivers.collect()
}

/// A Node and a NodeClaim with the same provider id; at least one is present.
#[derive(Clone, Copy)]
pub(crate) struct NodeAndClaim<'a> {
    pub(crate) node: Option<&'a WireNode>,
    pub(crate) claim: Option<&'a NodeClaim>,
}

impl<'a> NodeAndClaim<'a> {
    /// Returns the joined StateNode and reports a do-not-disrupt annotation that protects nothing.
    fn read_with_notes(
        self,
        drivers: BTreeMap<String, Option<u32>>,
        reader: &mut Reader<'_>,
    ) -> StateNode {
        let read = self.read(drivers, reader);
        let annotation =
            read.disruption_state.do_not_disrupt.as_deref().filter(|_| read.is_managed);
        if let Some(note) = ineffective_protection::node_note(annotation) {
            match (self.node, self.claim) {
                (Some(node), _) if self.is_registered() => {
                    reader.report_note(NODE, &node.metadata, note);
                }
                (_, Some(claim)) => reader.report_note(NODE_CLAIM, &claim.metadata, note),
                (_, None) => {}
            }
        }
        read
    }

    /// The node that both make.
    pub(crate) fn read(
        self,
        drivers: BTreeMap<String, Option<u32>>,
        reader: &mut Reader<'_>,
    ) -> StateNode {
        let mut problems = Vec::new();
        let metadata = match (self.node, self.claim) {
            (Some(node), _) if self.is_registered() => Some(&node.metadata),
            (_, Some(claim)) => Some(&claim.metadata),
            (node, None) => node.map(|node| &node.metadata),
        };
        let labels = metadata.and_then(|meta| meta.labels.clone()).unwrap_or_default();
        let node = StateNode {
            name: metadata.and_then(|meta| meta.name.clone()).unwrap_or_default(),
            taints: self.taints(&mut problems),
            object: self.node.map(node_object),
            pool: labels.get(labels::NODEPOOL).filter(|pool| !pool.is_empty()).cloned(),
            labels,
            is_managed: self.claim.is_some(),
            is_initialized: self.is_initialized(),
            is_deleting: self.is_deleting(),
            capacity: self.capacity(&mut problems),
            allocatable: self.allocatable(&mut problems),
            published_volume_limits: drivers,
            initialized_at: self.initialized_at(),
            last_pod_event: self.last_pod_event(),
            disruption_state: self.standing(&mut problems),
            provider_id: match self.node {
                Some(node) => provider_id_or_name(node).to_owned(),
                None => self.claim.map(provider_id).unwrap_or_default().to_owned(),
            },
        };
        let (kind, metadata) = match (self.node, self.claim) {
            (Some(node), _) => (NODE, Some(&node.metadata)),
            (None, claim) => (NODE_CLAIM, claim.map(|claim| &claim.metadata)),
        };
        if let Some(metadata) = metadata {
            reader.report_problems(kind, metadata, &problems);
        }
        node
    }

    /// Returns the facts of the node that only disruption reads.
    fn standing(self, problems: &mut Vec<String>) -> NodeDisruptionState {
        let claim = self.claim;
        let meta = claim.map(|claim| &claim.metadata);
        let created = |meta: &ObjectMeta| meta.creation_timestamp.as_ref().map(|time| time.0);
        let conditions = self.node.and_then(|node| node.status.as_ref()?.conditions.as_ref());
        let conditions = conditions.map_or(&[][..], Vec::as_slice);
        let is_ready = |found: &WireCondition| found.type_ == "Ready" && found.status == "True";
        let bound = claim.and_then(|claim| claim.spec.termination_grace_period.as_ref());
        let expiry = claim.and_then(|claim| claim.spec.expire_after.as_ref());
        let mut no_duration = |field: &str, error: DurationError| {
            problems.push(format!("spec.{field}: {error}"));
            None
        };
        NodeDisruptionState {
            node_claim: meta.and_then(|meta| meta.name.clone()).unwrap_or_default(),
            node_claim_uid: meta.and_then(|meta| meta.uid.clone()).unwrap_or_default(),
            node_claim_created_at: meta.and_then(created),
            is_registered: self.is_registered(),
            is_ready: conditions.iter().any(is_ready),
            is_rebooting: self.has_true_condition(conditions::REBOOTING),
            is_instance_terminating: self.has_true_condition(conditions::INSTANCE_TERMINATING),
            is_consolidatable: self.has_true_condition(conditions::CONSOLIDATABLE),
            drifted_at: self.true_condition(conditions::DRIFTED),
            do_not_disrupt: self.annotation(annotations::DO_NOT_DISRUPT).map(str::to_owned),
            do_not_repair: self.annotation(annotations::DO_NOT_REPAIR) == Some("true"),
            failed_consolidations: meta.and_then(|meta| {
                meta.annotations.as_ref()?.get(annotations::FAILED_CONSOLIDATIONS).cloned()
            }),
            termination_grace_period: bound.and_then(|bound| {
                bound.value().map_or_else(|e| no_duration("terminationGracePeriod", e), Some)
            }),
            expire_after: expiry.and_then(|expiry| {
                expiry.value().unwrap_or_else(|e| no_duration("expireAfter", e))
            }),
            rebooted_at: self.rebooted_at(),
            node_created_at: self.node.and_then(|node| created(&node.metadata)),
            conditions: conditions.iter().map(condition).collect(),
        }
    }

    /// The Node's once it is registered, else the NodeClaim's.
    fn annotation(self, key: &str) -> Option<&'a str> {
        let node = self.node.map(|node| &node.metadata);
        let claim = self.claim.map(|claim| &claim.metadata);
        let metadata = if self.is_registered() { node.or(claim) } else { claim.or(node) };
        metadata?.annotations.as_ref()?.get(key).map(String::as_str)
    }

    fn has_label(self, key: &str) -> bool {
        let labels = self.node.and_then(|node| node.metadata.labels.as_ref());
        labels.and_then(|labels| labels.get(key)).is_some_and(|value| value == labels::TRUE)
    }

    /// Nodes that are not ours count as registered.
    pub(crate) fn is_registered(self) -> bool {
        self.claim.is_none() || self.has_label(labels::REGISTERED)
    }

    /// Nodes that are not ours count as initialized.
    fn is_initialized(self) -> bool {
        self.claim.is_none() || self.has_label(labels::INITIALIZED)
    }

    fn is_deleting(self) -> bool {
        match (self.claim, self.node) {
            (Some(claim), _) => {
                claim.metadata.deletion_timestamp.is_some()
                    || self.has_true_condition(conditions::INSTANCE_TERMINATING)
            }
            (None, Some(node)) => node.metadata.deletion_timestamp.is_some(),
            (None, None) => false,
        }
    }

    fn has_true_condition(self, kind: &str) -> bool {
        self.true_condition(kind).is_some()
    }

    /// The time of a condition of the NodeClaim, while it is True.
    fn true_condition(self, kind: &str) -> Option<Timestamp> {
        let conditions = self.claim?.status.as_ref()?.conditions.as_ref()?;
        let is_meant = |found: &&Condition| found.type_ == kind && found.status == "True";
        conditions.iter().find(is_meant).map(|found| found.last_transition_time.0)
    }

    /// Returns when the last reboot ended, successfully or not: the transition of Rebooting to
    /// False.
    fn rebooted_at(self) -> Option<Timestamp> {
        let conditions = self.claim?.status.as_ref()?.conditions.as_ref()?;
        let is_over =
            |found: &&Condition| found.type_ == conditions::REBOOTING && found.status == "False";
        conditions.iter().find(is_over).map(|found| found.last_transition_time.0)
    }

    fn initialized_at(self) -> Option<Timestamp> {
        self.true_condition(conditions::INITIALIZED)
    }

    fn last_pod_event(self) -> Option<Timestamp> {
        self.claim?.status.as_ref()?.last_pod_event_time.as_ref().map(|time| time.0)
    }

    /// The NodeClaim's taints until the Node is registered, then the Node's. Until it is ready, and
    /// while it boots again, those that go away by themselves are left out.
    fn taints(self, problems: &mut Vec<String>) -> Vec<Taint> {
        let node = self.node.filter(|_| self.is_registered());
        let wire = match (node, self.claim) {
            (Some(node), _) => node.spec.as_ref().and_then(|spec| spec.taints.as_ref()),
            (None, Some(claim)) => claim.spec.taints.as_ref(),
            (None, None) => None,
        };
        let mut taints = taint::taints(wire, problems);
        let Some(claim) = self.claim else { return taints };
        if !self.is_initialized() || self.has_true_condition(conditions::REBOOTING) {
            let startup = taint::taints(claim.spec.startup_taints.as_ref(), problems);
            let is_fence = |taint: &Taint| {
                taint.key == names::REBOOTING && taint.effect == TaintEffect::NoSchedule
            };
            taints.retain(|taint| {
                !is_known_ephemeral(&taint.key, taint.effect)
                    && !is_fence(taint)
                    && !startup.iter().any(|startup| startup.matches(taint))
            });
        }
        taints
    }

    fn capacity(self, problems: &mut Vec<String>) -> Resources {
        let node = self.node.and_then(|node| node.status.as_ref()?.capacity.as_ref());
        let claim = self.claim.and_then(|claim| claim.status.as_ref()?.capacity.as_ref());
        let node = quantity::resources(node, "status.capacity", problems);
        self.fill_from_claim(node, || quantity::field_resources(claim, "status.capacity", problems))
    }

    fn allocatable(self, problems: &mut Vec<String>) -> Resources {
        let node = self.node.and_then(|node| node.status.as_ref()?.allocatable.as_ref());
        let claim = self.claim.and_then(|claim| claim.status.as_ref()?.allocatable.as_ref());
        let node = quantity::resources(node, "status.allocatable", problems);
        self.fill_from_claim(node, || {
            quantity::field_resources(claim, "status.allocatable", problems)
        })
    }

    /// Returns the Node's resources, with missing ones from the NodeClaim until the Node is
    /// initialized.
    fn fill_from_claim(self, mut node: Resources, claim: impl FnOnce() -> Resources) -> Resources {
        if !self.is_initialized() {
            for (name, promised) in claim().iter() {
                if node.amount(name).is_zero() {
                    node.set(name, promised);
                }
            }
        }
        node
    }
}

fn condition(wire: &WireCondition) -> NodeCondition {
    NodeCondition {
        condition_type: wire.type_.clone(),
        status: wire.status.clone(),
        reason: wire.reason.clone().unwrap_or_default(),
        last_transition_time: wire.last_transition_time.as_ref().map(|time| time.0),
    }
}

fn node_object(node: &WireNode) -> NodeObject {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    NodeObject {
        labels: node.metadata.labels.clone().unwrap_or_default(),
        // The reader of the effective taints reports their problems.
        taints: taint::taints(taints, &mut Vec::new()),
    }
}
