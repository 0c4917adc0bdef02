//! The rules, each a function of a world snapshot.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod as WirePod};
use karpenter_cluster::ingest::conversion;
use karpenter_core::selector::Labels;
use kube::ResourceExt;

use super::{Violation, WorldSnapshot};
use crate::cloud::provider_id;
use crate::scheduler::{PodInfo, RejectionReason, audit};
use karpenter_operator::watch::ObjectKey;

/// The condition and the reason that the API gives to pods which are evicted.
const DISRUPTION_TARGET: &str = "DisruptionTarget";
const EVICTED: &str = "EvictionByEvictionAPI";

/// Returns violations of the rules that hold at every moment.
pub fn immediate_violations(snapshot: &WorldSnapshot) -> Vec<Violation> {
    let pods: Vec<PodInfo> = active(snapshot).map(PodInfo::read).collect();
    let mut found = overcommitted_nodes(snapshot, &pods);
    found.extend(anti_affinity_violations(snapshot, &pods));
    found
}

/// Returns the pods that use capacity: those that have not ended.
fn active(snapshot: &WorldSnapshot) -> impl Iterator<Item = &WirePod> {
    snapshot.pods.iter().filter(|pod| !matches!(phase(pod), "Succeeded" | "Failed"))
}

fn phase(pod: &WirePod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Reports nodes whose pods request more than the node has.
fn overcommitted_nodes(snapshot: &WorldSnapshot, pods: &[PodInfo]) -> Vec<Violation> {
    let mut on_node: BTreeMap<&str, Vec<&PodInfo>> = BTreeMap::new();
    for pod in pods {
        on_node.entry(pod.node.as_deref().unwrap_or_default()).or_default().push(pod);
    }
    let mut found = Vec::new();
    for node in &snapshot.nodes {
        let name = node.name_any();
        let Some(pods) = on_node.get(name.as_str()) else { continue };
        let overdrawn = audit::overcommitted_resources(node, pods).into_iter();
        found.extend(overdrawn.map(|(resource, used, has)| Violation::NodeOvercommitted {
            node: name.clone(),
            resource,
            used,
            has,
        }));
    }
    found
}

/// Reports pods in one domain with pods that their required anti-affinity excludes.
fn anti_affinity_violations(snapshot: &WorldSnapshot, pods: &[PodInfo]) -> Vec<Violation> {
    let nodes: BTreeMap<String, &Labels> = snapshot
        .nodes
        .iter()
        .filter_map(|node| Some((node.name_any(), node.metadata.labels.as_ref()?)))
        .collect();
    let none = Labels::new();
    let namespaces: BTreeMap<String, &Labels> = (snapshot.namespaces.iter())
        .map(|namespace| (namespace.name_any(), namespace.labels()))
        .collect();
    let domain = |pod: &PodInfo, key: &str| nodes.get(pod.node.as_deref()?)?.get(key).cloned();
    // The pods in each domain of a key, computed when the first pod uses the key.
    let mut by_key: BTreeMap<&str, BTreeMap<String, Vec<&PodInfo>>> = BTreeMap::new();
    let mut found = Vec::new();
    for pod in pods {
        for term in &pod.requirements.anti_affinity {
            let key = term.topology_key.as_str();
            let domains = by_key.entry(key).or_insert_with(|| {
                let mut domains: BTreeMap<String, Vec<&PodInfo>> = BTreeMap::new();
                for pod in pods {
                    if let Some(value) = domain(pod, key) {
                        domains.entry(value).or_default().push(pod);
                    }
                }
                domains
            });
            let Some(value) = domain(pod, key) else { continue };
            let others = domains.get(&value).into_iter().flatten();
            let others = others.filter(|other| other.key != pod.key).filter(|other| {
                let labels = namespaces.get(&other.key.namespace).copied().unwrap_or(&none);
                audit::affinity_term_matches(term, pod, other, labels)
            });
            found.extend(others.map(|other| Violation::AntiAffinityViolated {
                pod: pod.key.clone(),
                other: other.key.clone(),
                domain: format!("{key}={value}"),
            }));
        }
    }
    found
}

/// Reports pods bound since the last check to a node that rejects them.
/// A node whose labels or taints have changed since then does not count: it may have accepted the
/// pod in between.
pub fn wrongly_bound_pods(before: &WorldSnapshot, snapshot: &WorldSnapshot) -> Vec<Violation> {
    let was_bound: BTreeSet<(ObjectKey, Option<String>)> =
        before.pods.iter().filter(|pod| node_of(pod).is_some()).map(identity).collect();
    let old: BTreeMap<String, &Node> =
        before.nodes.iter().map(|node| (node.name_any(), node)).collect();
    let new: BTreeMap<String, &Node> =
        snapshot.nodes.iter().map(|node| (node.name_any(), node)).collect();
    let mut found = Vec::new();
    for pod in active(snapshot).filter(|pod| !was_bound.contains(&identity(pod))) {
        let Some(name) = node_of(pod) else { continue };
        let (Some(node), old) = (new.get(name), old.get(name)) else { continue };
        let reason = match audit::label_or_taint_rejection(&PodInfo::read(pod), node) {
            Some(RejectionReason::NodeAffinity)
                if old.is_none_or(|old| old.labels() == node.labels()) =>
            {
                "that it does not select"
            }
            Some(RejectionReason::Taint)
                if old.is_some_and(|old| has_same_taints_and_cordon(old, node)) =>
            {
                "whose taints it does not tolerate"
            }
            Some(RejectionReason::Unschedulable)
                if old.is_some_and(|old| has_same_taints_and_cordon(old, node)) =>
            {
                "that is cordoned"
            }
            _ => continue,
        };
        found.push(Violation::PodNotAllowedOnNode {
            pod: ObjectKey::of(pod),
            node: name.to_owned(),
            reason,
        });
    }
    found
}

fn identity(pod: &WirePod) -> (ObjectKey, Option<String>) {
    (ObjectKey::of(pod), pod.metadata.uid.clone())
}

fn node_of(pod: &WirePod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

fn has_same_taints_and_cordon(one: &Node, other: &Node) -> bool {
    let closed = |node: &Node| {
        let spec = node.spec.clone().unwrap_or_default();
        (spec.taints.unwrap_or_default(), spec.unschedulable.unwrap_or_default())
    };
    closed(one) == closed(other)
}

/// Pods on nodes that are not there.
pub fn missing_nodes(snapshot: &WorldSnapshot) -> Vec<Violation> {
    let nodes: BTreeSet<String> = snapshot.nodes.iter().map(ResourceExt::name_any).collect();
    let lost = active(snapshot).filter_map(|pod| {
        let node = node_of(pod).filter(|name| !nodes.contains(*name))?;
        Some(Violation::NodeMissing { pod: ObjectKey::of(pod), node: node.to_owned() })
    });
    lost.collect()
}

/// What a budget says of its pods.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    /// How many may go.
    pub allowed: i64,
    /// How many have to stay.
    pub desired: i64,
}

/// Reports budgets of which more healthy pods are being evicted than they allow.
/// Allowed is the most that the budget has allowed since the first of these evictions (`allowances`
/// keeps it between checks). It counts only while fewer pods stay than the budget has required in
/// that time: pods that take long to end may be many, and others run in their place. An app that is
/// scaled up has too few pods for a while.
pub fn exceeded_budgets(
    snapshot: &WorldSnapshot,
    allowances: &mut BTreeMap<ObjectKey, Allowance>,
) -> Vec<Violation> {
    let mut found = Vec::new();
    for budget in &snapshot.budgets {
        let (Some(spec), Some(status)) = (&budget.spec, &budget.status) else { continue };
        let (Some(expected), Some(desired)) = (status.expected_pods, status.desired_healthy) else {
            continue;
        };
        let key = ObjectKey::of(budget);
        let selector = conversion::selector(spec.selector.as_ref());
        let own: Vec<&WirePod> = active(snapshot)
            .filter(|pod| ObjectKey::of(*pod).namespace == key.namespace)
            .filter(|pod| selector.matches(pod.labels()))
            .collect();
        let count = |wanted: fn(&WirePod) -> bool| {
            let pods = own.iter().filter(|pod| wanted(pod)).count();
            i64::try_from(pods).unwrap_or(i64::MAX)
        };
        let evicted = count(is_evicted);
        let healthy = count(|pod| {
            pod.metadata.deletion_timestamp.is_none() && has_true_condition(pod, "Ready", None)
        });
        let (expected, desired) = (i64::from(expected), i64::from(desired));
        let now = Allowance { allowed: (expected - desired).max(0), desired };
        let before = allowances.get(&key).copied().unwrap_or(now);
        let most = Allowance {
            allowed: before.allowed.max(now.allowed),
            desired: before.desired.min(now.desired),
        };
        if evicted > most.allowed && healthy < most.desired {
            let allowed = most.allowed;
            found.push(Violation::BudgetExceeded { budget: key.clone(), evicted, allowed });
        }
        allowances.insert(key, if evicted > 0 { most } else { now });
    }
    found
}

/// Returns whether a healthy pod is terminating because of the eviction API.
fn is_evicted(pod: &WirePod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
        && has_true_condition(pod, DISRUPTION_TARGET, Some(EVICTED))
        && has_true_condition(pod, "Ready", None)
}

/// Returns whether the pod has this true condition, with this reason if given.
fn has_true_condition(pod: &WirePod, kind: &str, reason: Option<&str>) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| {
        condition.type_ == kind
            && condition.status == "True"
            && reason.is_none_or(|reason| condition.reason.as_deref() == Some(reason))
    })
}

/// Instances and NodeClaims that do not belong together.
pub fn claims_and_instances(snapshot: &WorldSnapshot) -> Vec<Violation> {
    let claimed: BTreeSet<&str> = snapshot.claims.iter().filter_map(provider_id).collect();
    let running: BTreeSet<&str> = snapshot.instances.iter().filter_map(provider_id).collect();
    let unclaimed = running.difference(&claimed);
    let unclaimed =
        unclaimed.map(|id| Violation::InstanceWithoutClaim { instance: (*id).to_owned() });
    let lonely = snapshot.claims.iter().filter_map(|claim| match provider_id(claim) {
        Some(id) if running.contains(id) => None,
        Some(_) => Some(Violation::InstanceMissing { claim: claim.name_any() }),
        None => Some(Violation::NeverLaunched { claim: claim.name_any() }),
    });
    unclaimed.chain(lonely).collect()
}

/// Pods that neither run nor have ended.
pub fn not_running(snapshot: &WorldSnapshot) -> Vec<Violation> {
    let moving = active(snapshot).filter_map(|pod| {
        let phase = match phase(pod) {
            _ if pod.metadata.deletion_timestamp.is_some() => "still terminating",
            "Running" => return None,
            _ if node_of(pod).is_some() => "bound and does not run",
            _ => "pending",
        };
        Some(Violation::NotRunning { pod: ObjectKey::of(pod), phase: phase.to_owned() })
    });
    moving.collect()
}
