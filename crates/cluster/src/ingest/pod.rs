//! Reads pods: their identity, their node, and why one cannot be scheduled.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeSelectorTerm;
use karpenter_api::validation::{self, ProviderRules, RequirementView};
use karpenter_api::{annotations, labels};
use karpenter_core::disruption::do_not_disrupt::PodProtection;
use karpenter_core::disruption::{eviction_cost, is_eviction_cost};
use karpenter_core::id::NodeId;
use karpenter_core::pod::{ControllerRef, OwnerKind, Phase, Pod, PodProblem, PodSpec};
use karpenter_core::resources::Resources;
use karpenter_core::scheduling::demand::WaitState;

use super::interner::Interner;
use super::parsed_pods::{ParsedPod, ParsedPods};
use super::{
    Gates, Objects, Reader, constraint_limits, dynamic_resources, ineffective_protection, pod_spec,
    requests, text,
};
use crate::wire::{Pod as WirePod, PodSpec as WireSpec};

const KIND: &str = "Pod";
/// The older annotation for the cost of removing a pod, which ReplicaSets read, too.
const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const OPT_OUT: &str = "configured to not run on a Karpenter provisioned node \
                       (requirement=karpenter.sh/nodepool DoesNotExist)";

/// All pods but those on nodes that are not known, and copies under one name.
pub(super) fn read(
    objects: &Objects,
    nodes: &HashMap<&str, NodeId>,
    reader: &mut Reader<'_>,
) -> Vec<Pod> {
    let mut replicas = ParsedPods::default();
    let mut names = HashSet::with_capacity(objects.pods.len());
    let mut pods = Vec::with_capacity(objects.pods.len());
    for wire in &objects.pods {
        let meta = &wire.metadata;
        if !names.insert((text(meta.namespace.as_ref()), text(meta.name.as_ref()))) {
            reader.reject(KIND, meta, "another pod has the same name");
            continue;
        }
        let node_name = wire.spec.as_ref().map_or("", |spec| text(spec.node_name.as_ref()));
        let node = nodes.get(node_name).copied();
        if !node_name.is_empty() && node.is_none() {
            reader.exclude(KIND, meta, format!("its node {node_name} is not known"));
            continue;
        }
        if let Some(unread) = cost_annotation_error(wire, reader.gates()) {
            reader.report_note(KIND, meta, unread.to_string());
        }
        let pod = pod(wire, node, &mut replicas, reader).0;
        if pod.is_active()
            && let Some(unprotected) =
                ineffective_protection::pod_note(&protection(wire, reader.now))
        {
            reader.report_note(KIND, meta, unprotected);
        }
        pods.push(pod);
    }
    pods
}

/// Reads one pod and its limits. The cache keeps the wire pod to recognize its replicas.
pub(crate) fn pod<P: Borrow<WirePod> + Clone>(
    object: P,
    node: Option<NodeId>,
    replicas: &mut ParsedPods<P>,
    reader: &mut Reader<'_>,
) -> (Pod, Arc<Resources>) {
    let kept = object.clone();
    let wire = object.borrow();
    let meta = &wire.metadata;
    let (
        labels,
        ParsedPod { spec, limits, problem, parse_errors: unread, affinity_errors: unread_affinity },
    ) = replicas.get_or_parse(kept, |specs| parse_pod(wire, specs, reader));
    // A pod without a node that is over the bound is ignored with this reason.
    let is_ignored =
        node.is_none() && wire.spec.as_ref().and_then(constraint_limits::excess).is_some();
    if !is_ignored {
        reader.report_problems(KIND, meta, &unread);
    }
    if node.is_some() {
        reader.report_problems(KIND, meta, &unread_affinity);
    }
    let waiting = wait_state(wire);
    let pod = Pod {
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        created: creation_time(wire),
        labels,
        spec,
        volume_claims: claims(wire),
        node,
        phase: phase(wire),
        terminating: meta.deletion_timestamp.is_some(),
        unschedulable: waiting.unschedulable,
        preempting: waiting.preempting,
        owner: waiting.owner,
        controller: controller(wire),
        do_not_disrupt: protection(wire, reader.now).is_active(),
        eviction_cost: pod_eviction_cost(wire, reader.gates()),
        is_unready: is_unready(wire),
        has_unparsed_constraints: !unread.is_empty() || !unread_affinity.is_empty(),
        is_virtual: false,
        problem,
    };
    (pod, limits)
}

/// Parses the requests and constraints of a pod, with their errors.
fn parse_pod(wire: &WirePod, specs: &mut Interner<PodSpec>, reader: &Reader<'_>) -> ParsedPod {
    let mut unread = Vec::new();
    let spec = specs.intern(spec(wire, reader, &mut unread));
    let excess = wire.spec.as_ref().and_then(constraint_limits::excess);
    let problem = match &wire.spec {
        _ if excess.is_some() => {
            excess.as_ref().map(|text| PodProblem { text: text.clone(), is_opt_out: false })
        }
        Some(spec) => scheduling_problem(spec, &unread, &reader.settings.rules),
        None => Some(PodProblem { text: "pod has no spec".to_owned(), is_opt_out: false }),
    };
    let mut unread_affinity = Vec::new();
    let affinity = wire.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let affinity = affinity.filter(|_| excess.is_none());
    let affinity = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    pod_spec::required_node_affinity(affinity, reader.aliases, &mut unread_affinity);
    let limits = wire.spec.as_ref().map(requests::pod_limits);
    let limits = Arc::new(limits.unwrap_or_default());
    ParsedPod { spec, limits, problem, parse_errors: unread, affinity_errors: unread_affinity }
}

/// Returns the requests and constraints of a live pod.
pub(super) fn spec(wire: &WirePod, reader: &Reader<'_>, problems: &mut Vec<String>) -> PodSpec {
    let none = WireSpec::default();
    let spec = wire.spec.as_ref().unwrap_or(&none);
    let requests = requests::pod_requests(spec, wire.status.as_ref(), problems);
    let claims = dynamic_resources::claims(spec, wire.status.as_ref());
    pod_spec::read(spec, requests, claims, reader.aliases, problems)
}

/// Returns when the object was created; without a time, the Unix epoch.
pub(crate) fn creation_time(wire: &WirePod) -> Timestamp {
    wire.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

/// Returns why the pod is not considered, all reasons joined (spec 20 §2.3, checks 1 to 3).
///
/// Only a required DoesNotExist opts out. Upstream also takes contradictory or preferred terms for
/// it (spec 20 Q15); here such pods are tried.
fn scheduling_problem(
    spec: &WireSpec,
    unread: &[String],
    provider: &ProviderRules,
) -> Option<PodProblem> {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        affinity.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
    let terms = required.map_or(&[][..], |required| &required.node_selector_terms);
    let is_opt_out = terms.first().is_some_and(|term| opts_out(term, provider));
    let mut texts = Vec::new();
    if is_opt_out {
        texts.push(OPT_OUT.to_owned());
    }
    for (key, value) in spec.node_selector.iter().flatten() {
        let values = std::slice::from_ref(value);
        let view = RequirementView { key, operator: "In", values, min_values: None };
        texts.extend(validation::requirement(view, provider).errors);
    }
    for term in terms {
        if term.match_fields.is_some() {
            texts.push("node selector term with matchFields is not supported".to_owned());
        }
        for item in term.match_expressions.iter().flatten() {
            let view = RequirementView {
                key: &item.key,
                operator: &item.operator,
                values: item.values.as_deref().unwrap_or_default(),
                min_values: None,
            };
            texts.extend(validation::requirement(view, provider).errors);
        }
    }
    texts.extend_from_slice(unread);
    (!texts.is_empty()).then(|| PodProblem { text: texts.join("; "), is_opt_out })
}

fn opts_out(term: &NodeSelectorTerm, provider: &ProviderRules) -> bool {
    term.match_expressions.iter().flatten().any(|item| {
        item.operator == "DoesNotExist" && provider.normalize(&item.key) == labels::NODEPOOL
    })
}

/// The PersistentVolumeClaims of the volumes (spec 20 §3.17).
pub(super) fn claims(wire: &WirePod) -> Vec<String> {
    let volumes = wire.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let claims =
        volumes.filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.clone()),
            (None, Some(_)) => {
                Some(format!("{}-{}", text(wire.metadata.name.as_ref()), volume.name))
            }
            (None, None) => None,
        });
    claims.collect()
}

pub(super) fn phase(wire: &WirePod) -> Phase {
    Phase::from_name(wire.status.as_ref().map_or("", |status| text(status.phase.as_ref())))
}

/// Returns the facts that decide whether the pod waits for capacity.
pub(super) fn wait_state(wire: &WirePod) -> WaitState {
    let node_name = wire.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
    let nominated = wire.status.as_ref().and_then(|status| status.nominated_node_name.as_ref());
    WaitState {
        unschedulable: is_unschedulable(wire),
        is_bound: !text(node_name).is_empty(),
        preempting: !text(nominated).is_empty(),
        owner: owner(wire),
    }
}

/// Whether the scheduler marked the pod unschedulable; the status of the condition does not count
/// (spec 20 §2.3).
fn is_unschedulable(wire: &WirePod) -> bool {
    let conditions = wire.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| {
        condition.type_ == "PodScheduled" && condition.reason.as_deref() == Some("Unschedulable")
    })
}

fn is_unready(wire: &WirePod) -> bool {
    let conditions = wire.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|found| found.type_ == "Ready" && found.status == "False")
}

/// Returns the cost of evicting the pod.
fn pod_eviction_cost(wire: &WirePod, gates: Gates) -> f64 {
    let (disruption_cost, deletion_cost) = cost_annotations(wire, gates);
    let priority = wire.spec.as_ref().and_then(|spec| spec.priority);
    eviction_cost(disruption_cost, deletion_cost, priority)
}

/// Returns the values of the pod's two cost annotations.
fn cost_annotations(wire: &WirePod, gates: Gates) -> (Option<&str>, Option<&str>) {
    let annotations = wire.metadata.annotations.as_ref();
    let annotation = |key: &str| annotations.and_then(|all| all.get(key)).map(String::as_str);
    let deletion_cost = annotation(POD_DELETION_COST);
    let deletion_cost = deletion_cost.filter(|_| !gates.pod_deletion_cost_management);
    (annotation(annotations::DISRUPTION_COST), deletion_cost)
}

/// A cost annotation whose value is not a 32-bit integer. It counts as 0 (spec 45 §9.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostAnnotationError<'a> {
    /// `karpenter.sh/disruption-cost`.
    Disruption(&'a str),
    /// `controller.kubernetes.io/pod-deletion-cost`.
    Deletion(&'a str),
}

impl<'a> CostAnnotationError<'a> {
    /// The annotation.
    pub fn annotation(self) -> &'static str {
        match self {
            Self::Disruption(_) => annotations::DISRUPTION_COST,
            Self::Deletion(_) => POD_DELETION_COST,
        }
    }

    /// Returns the value of the annotation.
    pub fn value(self) -> &'a str {
        match self {
            Self::Disruption(value) | Self::Deletion(value) => value,
        }
    }
}

impl fmt::Display for CostAnnotationError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (annotation, value) = (self.annotation(), self.value());
        write!(f, "annotation {annotation} is no 32-bit integer: {value:?}; it counts as 0")
    }
}

/// Returns the effective cost annotation of the pod if it is not an integer.
pub fn cost_annotation_error(wire: &WirePod, gates: Gates) -> Option<CostAnnotationError<'_>> {
    let (disruption_cost, deletion_cost) = cost_annotations(wire, gates);
    let written = disruption_cost.map(CostAnnotationError::Disruption);
    let written = written.or(deletion_cost.map(CostAnnotationError::Deletion));
    written.filter(|written| !is_eviction_cost(written.value()))
}

pub(super) fn owner(wire: &WirePod) -> OwnerKind {
    let owners = wire.metadata.owner_references.as_deref().unwrap_or_default();
    OwnerKind::from_owners(owners.iter().map(|owner| (&*owner.api_version, &*owner.kind)))
}

pub(crate) fn controller(wire: &WirePod) -> Option<ControllerRef> {
    let owners = wire.metadata.owner_references.iter().flatten();
    let owner = owners.into_iter().find(|owner| owner.controller == Some(true))?;
    let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    Some(ControllerRef {
        group: group.to_owned(),
        kind: owner.kind.clone(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
    })
}

/// Returns the protection by `karpenter.sh/do-not-disrupt` at this time.
pub(crate) fn protection(wire: &WirePod, now: Timestamp) -> PodProtection {
    let annotations = wire.metadata.annotations.as_ref();
    let annotation = annotations.and_then(|all| all.get(annotations::DO_NOT_DISRUPT));
    let started = wire.status.as_ref().and_then(|status| status.start_time.as_ref());
    let started = started.map(|time| time.0);
    PodProtection::from_annotation(annotation.map(String::as_str), started, now)
}
