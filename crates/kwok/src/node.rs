//! Decides which offering a NodeClaim gets, and builds its Node (spec 40 §10.4).
//!
//! It is the pure part of the KWOK provider: nothing here calls an API.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use karpenter_api::grammar::Quantity;
use karpenter_api::labels::{self, kwok};
use karpenter_api::nodeclaim::{NodeClaim, NodeClaimSpec, NodeClaimStatus};
use karpenter_api::taints;
use karpenter_core::catalog::{InstanceType, Offering};
use kube::Resource as _;

use karpenter_operator::cloud::{CloudError, CloudResult, ProviderLabels, nodeclaim};
use karpenter_operator::rng::SeededRng;

#[cfg(test)]
mod tests;

/// What the provider ids of KWOK's instances start with.
pub const PROVIDER_ID_PREFIX: &str = "kwok://";

/// The phase of a node that no kubelet has reported yet.
const PHASE_PENDING: &str = "Pending";
const OPERATOR_IN: &str = "In";
const NAME_ALPHABET: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const NAME_SUFFIX_LENGTH: usize = 10;

/// The instance type and offering selected for a NodeClaim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SelectedOffering<'a> {
    pub(crate) instance_type: &'a InstanceType,
    pub(crate) offering: &'a Offering,
}

/// Returns the cheapest available compatible offering of the instance types that the claim names.
/// Among types of one price the first one named is taken, among offerings of one type a random one.
pub(crate) fn select_offering<'a>(
    node_claim: &NodeClaim,
    types: &'a [Arc<InstanceType>],
    provider_labels: &ProviderLabels,
    rng: &mut SeededRng,
) -> CloudResult<SelectedOffering<'a>> {
    let requirements = nodeclaim::requirements(node_claim, &provider_labels.aliases)?;
    let named = node_claim.spec.requirements.iter().find(|item| item.key == labels::INSTANCE_TYPE);
    let named = named.ok_or_else(|| CloudError::other("instance type requirement not found"))?;
    let mut cheapest: Option<(f64, &InstanceType, Vec<&Offering>)> = None;
    for name in named.values.iter().flatten() {
        let instance_type = types.iter().find(|known| known.name == *name).ok_or_else(|| {
            CloudError::other(format!("instance type not found (instance-type={name})"))
        })?;
        let mut offerings: Vec<_> = instance_type
            .offerings
            .iter()
            .filter(|offering| offering.available)
            .filter(|o| {
                requirements.compatible(&o.requirements, &provider_labels.well_known).is_ok()
            })
            .collect();
        // A type without any is passed over; upstream takes its price for zero (spec 40 §11 Q16).
        let prices = offerings.iter().map(|offering| offering.price);
        let Some(price) = prices.min_by(f64::total_cmp) else { continue };
        if cheapest.as_ref().is_none_or(|(so_far, ..)| price < *so_far) {
            offerings.retain(|offering| offering.price.total_cmp(&price).is_eq());
            cheapest = Some((price, instance_type, offerings));
        }
    }
    let chosen = cheapest.and_then(|(_, instance_type, offerings)| {
        Some(SelectedOffering { instance_type, offering: rng.pick(&offerings)? })
    });
    chosen.ok_or_else(|| {
        CloudError::insufficient_capacity("no available offering satisfies the requirements")
    })
}

/// The name of the claim's node.
pub(crate) fn node_name(node_claim: &NodeClaim, rng: &mut SeededRng) -> String {
    let claim = node_claim.metadata.name.as_deref().unwrap_or_default();
    let letter = |_| char::from(*rng.pick(NAME_ALPHABET).expect("there are letters"));
    let word: String = (0..NAME_SUFFIX_LENGTH).map(letter).collect();
    format!("kwok-{claim}-{word}-{}", rng.range(0..1 << 32))
}

/// Builds the Node that represents the NodeClaim's instance.
pub(crate) fn build_node(node_claim: &NodeClaim, choice: SelectedOffering<'_>, name: &str) -> Node {
    let requests = node_claim.spec.resources.as_ref().and_then(|r| r.requests.as_ref());
    // As upstream has it: the capacity is what was asked for, not what the type has.
    let capacity: BTreeMap<_, _> = requests.into_iter().flatten().map(to_wire_quantity).collect();
    let mut allocatable = capacity.clone();
    let of_type = nodeclaim::quantities(&choice.instance_type.allocatable());
    allocatable.extend(of_type.iter().map(to_wire_quantity));
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(node_labels(node_claim, choice)),
            annotations: Some(with_kwok_annotation(node_claim.metadata.annotations.clone())),
            owner_references: owner_reference(node_claim).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: Some(format!("{PROVIDER_ID_PREFIX}{name}")),
            taints: Some(vec![taints::unregistered()]),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            capacity: (!capacity.is_empty()).then_some(capacity),
            allocatable: Some(allocatable),
            phase: Some(PHASE_PENDING.to_owned()),
            ..NodeStatus::default()
        }),
    }
}

/// Returns the owner reference to the NodeClaim, which the Node gets in any case at registration.
/// It has it from the start, so that the garbage collector of the cluster deletes a Node whose
/// claim was deleted before it knew the Node: a process was killed before it could write its
/// launch.
fn owner_reference(node_claim: &NodeClaim) -> Option<OwnerReference> {
    Some(OwnerReference {
        api_version: NodeClaim::api_version(&()).into_owned(),
        kind: NodeClaim::kind(&()).into_owned(),
        name: node_claim.metadata.name.clone()?,
        uid: node_claim.metadata.uid.clone()?,
        block_owner_deletion: Some(true),
        controller: None,
    })
}

/// Later ones win: the claim's labels, what its requirements, the type and the offering leave no
/// choice about, and what belongs to every node of KWOK.
fn node_labels(node_claim: &NodeClaim, choice: SelectedOffering<'_>) -> BTreeMap<String, String> {
    let SelectedOffering { instance_type, offering } = choice;
    let mut labels = node_claim.metadata.labels.clone().unwrap_or_default();
    let mut set = |key: &str, value: &str| labels.insert(key.to_owned(), value.to_owned());
    for item in node_claim.spec.requirements.iter().filter(|item| item.operator == OPERATOR_IN) {
        // Under the key as it is written, which may be an old spelling.
        if let Some([value]) = item.values.as_deref() {
            set(&item.key, value);
        }
    }
    set(labels::INSTANCE_TYPE, &instance_type.name);
    for requirements in [&instance_type.requirements, &offering.requirements] {
        for (key, value) in nodeclaim::resolved_labels(requirements) {
            set(key, value);
        }
    }
    set(kwok::INSTANCE_PRICE, &format!("{:.6}", offering.price));
    set(kwok::PARTITION, kwok::PARTITION_A);
    set(labels::HOSTNAME, node_claim.metadata.name.as_deref().unwrap_or_default());
    set(kwok::NODE, kwok::NODE_FAKE);
    labels
}

/// Returns the NodeClaim that a Node describes.
pub(crate) fn to_node_claim(node: &Node) -> NodeClaim {
    let status = node.status.clone().unwrap_or_default();
    let field = |list: BTreeMap<String, WireQuantity>| {
        list.into_iter().map(|(name, quantity)| (name, Quantity::parse(quantity.0))).collect()
    };
    NodeClaim {
        metadata: ObjectMeta {
            name: node.metadata.name.clone(),
            labels: node.metadata.labels.clone(),
            annotations: Some(with_kwok_annotation(node.metadata.annotations.clone())),
            creation_timestamp: node.metadata.creation_timestamp.clone(),
            deletion_timestamp: node.metadata.deletion_timestamp.clone(),
            ..ObjectMeta::default()
        },
        spec: NodeClaimSpec::default(),
        status: Some(NodeClaimStatus {
            node_name: node.metadata.name.clone(),
            provider_id: node.spec.as_ref().and_then(|spec| spec.provider_id.clone()),
            capacity: status.capacity.map(field),
            allocatable: status.allocatable.map(field),
            ..NodeClaimStatus::default()
        }),
    }
}

/// Adds the annotation that leaves the node to the KWOK controller.
fn with_kwok_annotation(annotations: Option<BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let mut annotations = annotations.unwrap_or_default();
    annotations.insert(kwok::NODE.to_owned(), kwok::NODE_FAKE.to_owned());
    annotations
}

fn to_wire_quantity((name, quantity): (&String, &Quantity)) -> (String, WireQuantity) {
    (name.clone(), WireQuantity(quantity.canonical().into_owned()))
}
