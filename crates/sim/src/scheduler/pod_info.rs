//! Reads from a pod what scheduling needs, once per change; replicas share it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    NodeSelector, NodeSelectorTerm, Pod as WirePod, PodSpec as WireSpec,
};
use karpenter_cluster::ingest::constraint_limits::excess;
use karpenter_cluster::ingest::conversion;
use karpenter_cluster::wire;
use karpenter_core::host_port::HostPort;
use karpenter_core::pod::{AffinityTerm, SpreadConstraint, WeightedTerm};
use karpenter_core::requirement::{Aliases, Requirement};
use karpenter_core::selector::Labels;
use karpenter_core::taint::Toleration;

use super::amounts::Amounts;
use karpenter_operator::watch::ObjectKey;

/// The only node field that a node selector term may use.
const NAME_FIELD: &str = "metadata.name";

/// A pod with the fields that scheduling needs.
#[derive(Clone, Debug)]
pub struct PodInfo {
    /// Namespace and name.
    pub key: ObjectKey,
    /// The uid.
    pub uid: String,
    /// Its labels.
    pub labels: Arc<Labels>,
    /// The requirements of the pod, shared by equal pods.
    pub requirements: Arc<PodRequirements>,
    /// The PersistentVolumeClaims that it mounts, in the order of its volumes.
    pub claims: Vec<VolumeClaimRef>,
    /// Higher ones are scheduled first.
    pub priority: i32,
    /// Whether it may preempt others, if there were preemption (`preemptionPolicy`).
    pub may_preempt: bool,
    /// When it was created.
    pub created: Timestamp,
    /// The node to which the pod is bound.
    pub node: Option<String>,
    /// Whether it has a deletion timestamp.
    pub is_terminating: bool,
}

/// A reference from a pod to a PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VolumeClaimRef {
    /// Its name, in the namespace of the pod.
    pub name: String,
    /// Whether it is made for the pod alone, by the template in its volume.
    pub is_ephemeral: bool,
}

/// The scheduling requirements of a pod.
/// Pods with equal requirements are scheduled alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodRequirements {
    /// The requirements on the labels and taints of the node.
    pub node: Arc<NodeRequirements>,
    /// How much it takes.
    pub requests: Amounts,
    /// The ports that it takes, those of sidecars too.
    pub host_ports: Vec<HostPort>,
    /// Required pod affinity.
    pub affinity: Vec<AffinityTerm>,
    /// Required pod anti-affinity.
    pub anti_affinity: Vec<AffinityTerm>,
    /// Preferred pod affinity.
    pub preferred_affinity: Vec<WeightedTerm<AffinityTerm>>,
    /// Preferred pod anti-affinity.
    pub preferred_anti_affinity: Vec<WeightedTerm<AffinityTerm>>,
    /// Topology spread constraints.
    pub spread: Vec<SpreadConstraint>,
}

/// The requirements of a pod on the labels and taints of a node.
/// Nodes with equal labels and taints get the same verdict, whatever runs on them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeRequirements {
    /// The node selector.
    pub selector: BTreeMap<String, String>,
    /// Required node affinity: one term must hold. None if there is no such affinity.
    pub required: Option<Vec<NodeTerm>>,
    /// Preferred node affinity.
    pub preferred: Vec<WeightedTerm<NodeTerm>>,
    /// What it tolerates.
    pub tolerations: Vec<Toleration>,
    /// The only nodes that fit, if every required term names some.
    /// Pods of DaemonSets have such terms.
    pub node_names: Option<BTreeSet<String>>,
}

/// A term of a node selector: all parts must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeTerm {
    /// On labels.
    expressions: Vec<Requirement>,
    /// On the name of the node.
    fields: Vec<Requirement>,
    /// Whether it has no part, or one that cannot be read, and so holds for no node.
    is_void: bool,
}

impl NodeTerm {
    fn read(wire: &NodeSelectorTerm) -> Self {
        let aliases = Aliases::none();
        let mut term = Self::default();
        for (list, parts, is_field) in [
            (&wire.match_expressions, &mut term.expressions, false),
            (&wire.match_fields, &mut term.fields, true),
        ] {
            for part in list.iter().flatten() {
                let is_numeric = matches!(part.operator.as_str(), "Gt" | "Lt" | "Gte" | "Lte");
                match conversion::expression(part, &aliases) {
                    // Beyond the last integer there is nothing, not even absence.
                    Some(read) if is_numeric && !read.is_complement() => term.is_void = true,
                    Some(_) if is_field && part.key != NAME_FIELD => term.is_void = true,
                    Some(read) => parts.push(read),
                    None => term.is_void = true,
                }
            }
        }
        term.is_void |= term.expressions.is_empty() && term.fields.is_empty();
        term
    }

    /// Whether a node with this name and these labels is meant.
    pub fn holds(&self, name: &str, labels: &Labels) -> bool {
        !self.is_void
            && self.expressions.iter().all(|part| holds(part, labels.get(part.key())))
            && self.fields.iter().all(|part| part.has(name))
    }
}

fn holds(requirement: &Requirement, value: Option<&String>) -> bool {
    match value {
        Some(value) => requirement.has(value),
        None => requirement.allows_absence(),
    }
}

/// The terms of a node selector of a pod or a volume.
pub(super) fn terms(wire: &NodeSelector) -> Vec<NodeTerm> {
    wire.node_selector_terms.iter().map(NodeTerm::read).collect()
}

/// Whether one of the terms holds.
pub(super) fn any_holds(terms: &[NodeTerm], name: &str, labels: &Labels) -> bool {
    terms.iter().any(|term| term.holds(name, labels))
}

impl NodeRequirements {
    fn read(wire: &WireSpec, tolerations: Vec<Toleration>) -> Self {
        let affinity = wire.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
        let required = affinity
            .and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
        let preferred = affinity
            .and_then(|node| node.preferred_during_scheduling_ignored_during_execution.as_ref());
        let preferred = preferred.into_iter().flatten().map(|wire| WeightedTerm {
            weight: wire.weight,
            term: NodeTerm::read(&wire.preference),
        });
        Self {
            selector: wire.node_selector.clone().unwrap_or_default(),
            required: required.map(terms),
            preferred: preferred.collect(),
            tolerations,
            node_names: required.and_then(named),
        }
    }

    /// Requirements that no node meets.
    fn none_suits() -> Self {
        Self { required: Some(Vec::new()), ..Self::default() }
    }

    /// Whether the selector and the required affinity allow the node.
    pub fn allows(&self, name: &str, labels: &Labels) -> bool {
        self.selector.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.required.as_ref().is_none_or(|terms| any_holds(terms, name, labels))
    }

    /// The sum of the weights of the preferred terms that hold.
    pub fn preference(&self, name: &str, labels: &Labels) -> i64 {
        let holding = self.preferred.iter().filter(|wish| wish.term.holds(name, labels));
        holding.map(|wish| i64::from(wish.weight)).sum()
    }
}

/// The nodes that the terms name together, if each of them names some.
fn named(wire: &NodeSelector) -> Option<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for term in &wire.node_selector_terms {
        all.append(&mut names(term)?);
    }
    (!wire.node_selector_terms.is_empty()).then_some(all)
}

/// The nodes that the term names; none if it names none in particular.
fn names(wire: &NodeSelectorTerm) -> Option<BTreeSet<String>> {
    let fields = wire.match_fields.iter().flatten();
    let fields = fields.filter(|part| part.key == NAME_FIELD && part.operator == "In");
    let mut names: Option<BTreeSet<String>> = None;
    for field in fields {
        let values: BTreeSet<String> = field.values.iter().flatten().cloned().collect();
        names = Some(names.map_or(values.clone(), |names| &names & &values));
    }
    names
}

impl PodInfo {
    /// Reads a pod.
    pub fn read(wire: &WirePod) -> Self {
        let meta = &wire.metadata;
        let none = WireSpec::default();
        let spec = wire.spec.as_ref().unwrap_or(&none);
        Self {
            key: ObjectKey::of(wire),
            uid: meta.uid.clone().unwrap_or_default(),
            labels: Arc::new(meta.labels.clone().unwrap_or_default()),
            requirements: Arc::new(PodRequirements::read(wire, spec)),
            claims: claims(wire, spec),
            priority: spec.priority.unwrap_or(0),
            may_preempt: spec.preemption_policy.as_deref() != Some("Never"),
            created: meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            node: spec.node_name.clone().filter(|node| !node.is_empty()),
            is_terminating: meta.deletion_timestamp.is_some(),
        }
    }
}

impl PodRequirements {
    fn read(wire: &WirePod, spec: &WireSpec) -> Self {
        let wire = wire::Pod::from(wire);
        let read = conversion::pod_spec(&wire, &Aliases::none());
        let own = wire.spec.iter();
        let sidecars = own.clone().flat_map(|spec| spec.init_containers.iter().flatten());
        let sidecars = sidecars.filter(|init| init.restart_policy.as_deref() == Some("Always"));
        let containers = sidecars.chain(own.flat_map(|spec| &spec.containers));
        // Constraints beyond the bound are not read; then no node may take the pod.
        let is_excessive = wire.spec.as_ref().is_some_and(|spec| excess(spec).is_some());
        let node = if is_excessive {
            NodeRequirements::none_suits()
        } else {
            NodeRequirements::read(spec, read.tolerations)
        };
        Self {
            node: Arc::new(node),
            requests: Amounts::of(&read.requests),
            host_ports: containers.flat_map(conversion::host_ports).collect(),
            affinity: read.pod_affinity,
            anti_affinity: read.pod_anti_affinity,
            preferred_affinity: read.preferred_pod_affinity,
            preferred_anti_affinity: read.preferred_pod_anti_affinity,
            spread: read.topology_spread,
        }
    }
}

fn claims(wire: &WirePod, spec: &WireSpec) -> Vec<VolumeClaimRef> {
    let volumes = spec.volumes.iter().flatten();
    let claims =
        volumes.filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => {
                Some(VolumeClaimRef { name: claim.claim_name.clone(), is_ephemeral: false })
            }
            (None, Some(_)) => {
                let pod = wire.metadata.name.as_deref().unwrap_or_default();
                let name = format!("{pod}-{}", volume.name);
                Some(VolumeClaimRef { name, is_ephemeral: true })
            }
            (None, None) => None,
        });
    claims.collect()
}
