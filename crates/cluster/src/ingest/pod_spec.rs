//! Reads the scheduling constraints of a pod (spec 20 §1.7, §1.9, §1.10).

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, PodAffinityTerm, TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use karpenter_core::host_port::HostPort;
use karpenter_core::pod::{AffinityTerm, PodSpec, SpreadConstraint, WeightedTerm};
use karpenter_core::requirement::{Aliases, Requirements};
use karpenter_core::resources::Resources;
use karpenter_core::scheduling::dra::ClaimRef;
use karpenter_core::selector::{Condition, Expression, LabelSelector};

use super::{constraint_limits, dynamic_resources, over_bound, requirement, selector, taint, text};
use crate::wire::{Container, PodSpec as WireSpec};

/// Reads a spec. Its requests and claims are made up elsewhere, from the status as well.
///
/// Problems are those that the validation of pods does not find by itself. Constraints beyond the
/// [bound](constraint_limits) are a problem of their own; of them only those are read that
/// [matter to other pods](over_bound).
pub(super) fn read(
    wire: &WireSpec,
    requests: Resources,
    resource_claims: Vec<ClaimRef>,
    aliases: &Aliases,
    problems: &mut Vec<String>,
) -> PodSpec {
    if let Some(excess) = constraint_limits::excess(wire) {
        problems.push(excess);
        return over_bound::read(wire, requests, aliases, problems);
    }
    let affinity = wire.affinity.as_deref();
    let node = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    let (pod_affinity, preferred_pod_affinity) = pod_affinity(affinity, problems);
    let (pod_anti_affinity, preferred_pod_anti_affinity) = pod_anti_affinity(affinity, problems);
    let selector = wire.node_selector.iter().flatten();
    let selector = selector.map(|(key, value)| (key.as_str(), value.as_str()));
    PodSpec {
        requests,
        node_selector: Requirements::from_labels(selector, aliases),
        // The pod validation reports problems of the node affinity.
        node_affinity: required_node_affinity(node, aliases, &mut Vec::new()).unwrap_or_default(),
        preferred_node_affinity: preferred_node_affinity(node, aliases, problems),
        pod_affinity,
        preferred_pod_affinity,
        pod_anti_affinity,
        preferred_pod_anti_affinity,
        topology_spread: spread_constraints(wire, problems),
        tolerations: taint::tolerations(wire.tolerations.as_ref(), problems),
        host_ports: wire.containers.iter().flat_map(|c| host_ports(c, problems)).collect(),
        requests_dynamic_resources: dynamic_resources::requests_devices(wire),
        resource_claims,
    }
}

/// Returns the terms of required node affinity; none if the pod has no such affinity. Invalid
/// expressions are left out, with a problem.
pub(super) fn required_node_affinity(
    wire: Option<&NodeAffinity>,
    aliases: &Aliases,
    problems: &mut Vec<String>,
) -> Option<Vec<Requirements>> {
    let required = wire?.required_during_scheduling_ignored_during_execution.as_ref()?;
    let terms = required.node_selector_terms.iter();
    Some(terms.map(|term| requirement::term(term, aliases, problems)).collect())
}

fn preferred_node_affinity(
    wire: Option<&NodeAffinity>,
    aliases: &Aliases,
    problems: &mut Vec<String>,
) -> Vec<WeightedTerm<Requirements>> {
    let terms =
        wire.and_then(|node| node.preferred_during_scheduling_ignored_during_execution.as_ref());
    let read = |wire: &k8s_openapi::api::core::v1::PreferredSchedulingTerm| WeightedTerm {
        weight: weight(wire.weight, problems),
        term: requirement::term(&wire.preference, aliases, problems),
    };
    terms.into_iter().flatten().map(read).collect()
}

type AffinityTerms = (Vec<AffinityTerm>, Vec<WeightedTerm<AffinityTerm>>);

fn pod_affinity(wire: Option<&Affinity>, problems: &mut Vec<String>) -> AffinityTerms {
    let wire = wire.and_then(|affinity| affinity.pod_affinity.as_ref());
    terms(
        wire.and_then(|wire| wire.required_during_scheduling_ignored_during_execution.as_ref()),
        wire.and_then(|wire| wire.preferred_during_scheduling_ignored_during_execution.as_ref()),
        problems,
    )
}

fn pod_anti_affinity(wire: Option<&Affinity>, problems: &mut Vec<String>) -> AffinityTerms {
    let wire = wire.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    terms(
        wire.and_then(|wire| wire.required_during_scheduling_ignored_during_execution.as_ref()),
        wire.and_then(|wire| wire.preferred_during_scheduling_ignored_during_execution.as_ref()),
        problems,
    )
}

fn terms(
    required: Option<&Vec<PodAffinityTerm>>,
    preferred: Option<&Vec<WeightedPodAffinityTerm>>,
    problems: &mut Vec<String>,
) -> AffinityTerms {
    let required = required.into_iter().flatten().map(|wire| term(wire, problems)).collect();
    let weighted = |wire: &WeightedPodAffinityTerm| WeightedTerm {
        weight: weight(wire.weight, problems),
        term: term(&wire.pod_affinity_term, problems),
    };
    (required, preferred.into_iter().flatten().map(weighted).collect())
}

/// The weight of a preference.
fn weight(weight: i32, problems: &mut Vec<String>) -> i32 {
    if !(1..=100).contains(&weight) {
        problems.push(format!("affinity: weight must be 1 to 100, is {weight}"));
    }
    weight
}

fn term(wire: &PodAffinityTerm, problems: &mut Vec<String>) -> AffinityTerm {
    let namespaces = wire.namespace_selector.as_ref().map(|wire| {
        selector::label_selector(wire).unwrap_or_else(|error| {
            problems.push(format!("namespaceSelector: {error}"));
            match_nothing()
        })
    });
    if wire.topology_key.is_empty() {
        problems.push("affinity: topologyKey must not be empty".to_owned());
    }
    AffinityTerm {
        topology_key: wire.topology_key.clone(),
        selector: selector::selector(wire.label_selector.as_ref(), "affinity", problems),
        namespaces: wire.namespaces.clone().unwrap_or_default(),
        namespace_selector: namespaces,
    }
}

/// Returns a label selector that matches nothing. An absent namespace selector has another meaning.
fn match_nothing() -> LabelSelector {
    let expression = |condition| Expression { key: String::new(), condition };
    let expressions = [Condition::Exists, Condition::DoesNotExist].map(expression).into();
    LabelSelector { expressions, ..LabelSelector::default() }
}

fn spread_constraints(wire: &WireSpec, problems: &mut Vec<String>) -> Vec<SpreadConstraint> {
    let constraints =
        wire.topology_spread_constraints.iter().flat_map(|all| all.iter()).enumerate();
    constraints.map(|(index, wire)| spread_constraint(index, wire, problems)).collect()
}

fn spread_constraint(
    index: usize,
    wire: &TopologySpreadConstraint,
    problems: &mut Vec<String>,
) -> SpreadConstraint {
    // What no API server takes, and no scheduler could keep.
    let mut refuse = |field: &str, detail: &str| {
        problems.push(format!("topologySpreadConstraints[{index}].{field} {detail}"));
    };
    if wire.topology_key.is_empty() {
        refuse("topologyKey", "must not be empty");
    }
    if wire.max_skew <= 0 {
        refuse("maxSkew", &format!("must be 1 or more, is {}", wire.max_skew));
    }
    if let Some(domains) = wire.min_domains.filter(|domains| *domains < 1) {
        refuse("minDomains", &format!("must be 1 or more, is {domains}"));
    }
    if !["DoNotSchedule", "ScheduleAnyway"].contains(&wire.when_unsatisfiable.as_str()) {
        let found = &wire.when_unsatisfiable;
        refuse(
            "whenUnsatisfiable",
            &format!("must be DoNotSchedule or ScheduleAnyway, is {found:?}"),
        );
    }
    let detail = format!("topologySpreadConstraints[{index}].labelSelector");
    SpreadConstraint {
        topology_key: wire.topology_key.clone(),
        max_skew: wire.max_skew,
        is_required: wire.when_unsatisfiable != "ScheduleAnyway",
        selector: selector::selector(wire.label_selector.as_ref(), &detail, problems),
        match_label_keys: wire.match_label_keys.clone().unwrap_or_default(),
        min_domains: wire.min_domains,
        honors_node_affinity: text(wire.node_affinity_policy.as_ref()) != "Ignore",
        honors_node_taints: text(wire.node_taints_policy.as_ref()) == "Honor",
    }
}

/// The ports of the node that a container takes.
pub(super) fn host_ports(container: &Container, problems: &mut Vec<String>) -> Vec<HostPort> {
    let ports = container.ports.iter().flatten().filter_map(|port| {
        if let Some(number) = port.host_port.filter(|number| !(0..=65535).contains(number)) {
            let name = &container.name;
            problems.push(format!("container {name}: hostPort must be 1 to 65535, is {number}"));
            return None;
        }
        let or = |text: &Option<String>, default: &str| match text.as_deref() {
            None | Some("") => default.to_owned(),
            Some(text) => text.to_owned(),
        };
        Some(HostPort {
            port: port.host_port.filter(|port| *port != 0)?,
            ip: or(&port.host_ip, "0.0.0.0"),
            // The API server stores the default; files may leave it out.
            protocol: or(&port.protocol, "TCP"),
        })
    });
    ports.collect()
}
