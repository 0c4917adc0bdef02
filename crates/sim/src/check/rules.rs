//! The rules, each a function over facts.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod as WirePod};
use karpenter_cluster::ingest::parts;
use karpenter_core::selector::Labels;
use kube::ResourceExt;

use super::{Facts, Violation};
use crate::binder::{Pod, Reason, audit};
use crate::cloud::provider_id;
use karpenter_operator::watch::ObjectKey;

/// The condition and the reason that the API gives to pods which are evicted.
const DISRUPTION_TARGET: &str = "DisruptionTarget";
const EVICTED: &str = "EvictionByEvictionAPI";

/// What holds at every moment.
pub fn always(facts: &Facts) -> Vec<Violation> {
    let pods: Vec<Pod> = active(facts).map(Pod::read).collect();
    let mut found = overdrawn_nodes(facts, &pods);
    found.extend(unwanted_company(facts, &pods));
    found
}

/// Pods that take room: those that have not ended.
fn active(facts: &Facts) -> impl Iterator<Item = &WirePod> {
    facts.pods.iter().filter(|pod| !matches!(phase(pod), "Succeeded" | "Failed"))
}

fn phase(pod: &WirePod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Nodes whose pods ask for more than there is.
fn overdrawn_nodes(facts: &Facts, pods: &[Pod]) -> Vec<Violation> {
    let mut on_node: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for pod in pods {
        on_node.entry(pod.node.as_deref().unwrap_or_default()).or_default().push(pod);
    }
    let mut found = Vec::new();
    for node in &facts.nodes {
        let name = node.name_any();
        let Some(pods) = on_node.get(name.as_str()) else { continue };
        let overdrawn = audit::overdrawn(node, pods).into_iter();
        found.extend(overdrawn.map(|(resource, used, has)| Violation::Overdrawn {
            node: name.clone(),
            resource,
            used,
            has,
        }));
    }
    found
}

/// Pods in one domain with others that their required anti-affinity keeps away.
fn unwanted_company(facts: &Facts, pods: &[Pod]) -> Vec<Violation> {
    let nodes: BTreeMap<String, &Labels> = facts
        .nodes
        .iter()
        .filter_map(|node| Some((node.name_any(), node.metadata.labels.as_ref()?)))
        .collect();
    let none = Labels::new();
    let namespaces: BTreeMap<String, &Labels> = (facts.namespaces.iter())
        .map(|namespace| (namespace.name_any(), namespace.labels()))
        .collect();
    let domain = |pod: &Pod, key: &str| nodes.get(pod.node.as_deref()?)?.get(key).cloned();
    // Which pods are in a domain of a key; made when the first pod asks by it.
    let mut by_key: BTreeMap<&str, BTreeMap<String, Vec<&Pod>>> = BTreeMap::new();
    let mut found = Vec::new();
    for pod in pods {
        for term in &pod.ask.anti_affinity {
            let key = term.topology_key.as_str();
            let domains = by_key.entry(key).or_insert_with(|| {
                let mut domains: BTreeMap<String, Vec<&Pod>> = BTreeMap::new();
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
                audit::means(term, pod, other, labels)
            });
            found.extend(others.map(|other| Violation::Together {
                pod: pod.key.clone(),
                other: other.key.clone(),
                domain: format!("{key}={value}"),
            }));
        }
    }
    found
}

/// Pods that were bound since the last look to a node that was closed to them all the time between.
/// A node that has changed meanwhile may have been open.
pub fn wrongly_bound(before: &Facts, facts: &Facts) -> Vec<Violation> {
    let was_bound: BTreeSet<(ObjectKey, Option<String>)> =
        before.pods.iter().filter(|pod| node_of(pod).is_some()).map(identity).collect();
    let old: BTreeMap<String, &Node> =
        before.nodes.iter().map(|node| (node.name_any(), node)).collect();
    let new: BTreeMap<String, &Node> =
        facts.nodes.iter().map(|node| (node.name_any(), node)).collect();
    let mut found = Vec::new();
    for pod in active(facts).filter(|pod| !was_bound.contains(&identity(pod))) {
        let Some(name) = node_of(pod) else { continue };
        let (Some(node), old) = (new.get(name), old.get(name)) else { continue };
        let why = match audit::forbidden(&Pod::read(pod), node) {
            Some(Reason::NodeAffinity) if old.is_none_or(|old| old.labels() == node.labels()) => {
                "that it does not select"
            }
            Some(Reason::Taint) if old.is_some_and(|old| is_closed_alike(old, node)) => {
                "whose taints it does not tolerate"
            }
            Some(Reason::Unschedulable) if old.is_some_and(|old| is_closed_alike(old, node)) => {
                "that is cordoned"
            }
            _ => continue,
        };
        found.push(Violation::Forbidden { pod: ObjectKey::of(pod), node: name.to_owned(), why });
    }
    found
}

fn identity(pod: &WirePod) -> (ObjectKey, Option<String>) {
    (ObjectKey::of(pod), pod.metadata.uid.clone())
}

fn node_of(pod: &WirePod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

fn is_closed_alike(one: &Node, other: &Node) -> bool {
    let closed = |node: &Node| {
        let spec = node.spec.clone().unwrap_or_default();
        (spec.taints.unwrap_or_default(), spec.unschedulable.unwrap_or_default())
    };
    closed(one) == closed(other)
}

/// Pods on nodes that are not there.
pub fn missing_nodes(facts: &Facts) -> Vec<Violation> {
    let nodes: BTreeSet<String> = facts.nodes.iter().map(ResourceExt::name_any).collect();
    let lost = active(facts).filter_map(|pod| {
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

/// Budgets of which more healthy pods are being evicted at once than they have allowed at any time
/// since the first of those was (`allowances` remembers that from look to look), while those that
/// stay are fewer than it ever asked for in that time. Pods that take long to end may be many: others
/// run in their place. An app that is scaled up has too few pods for a while.
pub fn overdrawn_budgets(
    facts: &Facts,
    allowances: &mut BTreeMap<ObjectKey, Allowance>,
) -> Vec<Violation> {
    let mut found = Vec::new();
    for budget in &facts.budgets {
        let (Some(spec), Some(status)) = (&budget.spec, &budget.status) else { continue };
        let (Some(expected), Some(desired)) = (status.expected_pods, status.desired_healthy) else {
            continue;
        };
        let key = ObjectKey::of(budget);
        let selector = parts::selector(spec.selector.as_ref());
        let own: Vec<&WirePod> = active(facts)
            .filter(|pod| ObjectKey::of(*pod).namespace == key.namespace)
            .filter(|pod| selector.matches(pod.labels()))
            .collect();
        let count = |wanted: fn(&WirePod) -> bool| {
            let pods = own.iter().filter(|pod| wanted(pod)).count();
            i64::try_from(pods).unwrap_or(i64::MAX)
        };
        let evicted = count(is_evicted);
        let healthy =
            count(|pod| pod.metadata.deletion_timestamp.is_none() && has(pod, "Ready", None));
        let (expected, desired) = (i64::from(expected), i64::from(desired));
        let now = Allowance { allowed: (expected - desired).max(0), desired };
        let before = allowances.get(&key).copied().unwrap_or(now);
        let most = Allowance {
            allowed: before.allowed.max(now.allowed),
            desired: before.desired.min(now.desired),
        };
        if evicted > most.allowed && healthy < most.desired {
            let allowed = most.allowed;
            found.push(Violation::BudgetOverdrawn { budget: key.clone(), evicted, allowed });
        }
        allowances.insert(key, if evicted > 0 { most } else { now });
    }
    found
}

/// Whether a healthy pod is going because the eviction API was asked.
fn is_evicted(pod: &WirePod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
        && has(pod, DISRUPTION_TARGET, Some(EVICTED))
        && has(pod, "Ready", None)
}

/// Whether the pod has a condition that is true, for this reason if one is given.
fn has(pod: &WirePod, kind: &str, reason: Option<&str>) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| {
        condition.type_ == kind
            && condition.status == "True"
            && reason.is_none_or(|reason| condition.reason.as_deref() == Some(reason))
    })
}

/// Instances and NodeClaims that do not belong together.
pub fn claims_and_instances(facts: &Facts) -> Vec<Violation> {
    let claimed: BTreeSet<&str> = facts.claims.iter().filter_map(provider_id).collect();
    let running: BTreeSet<&str> = facts.instances.iter().filter_map(provider_id).collect();
    let unclaimed = running.difference(&claimed);
    let unclaimed = unclaimed.map(|id| Violation::Unclaimed { instance: (*id).to_owned() });
    let lonely = facts.claims.iter().filter_map(|claim| match provider_id(claim) {
        Some(id) if running.contains(id) => None,
        Some(_) => Some(Violation::InstanceMissing { claim: claim.name_any() }),
        None => Some(Violation::NeverLaunched { claim: claim.name_any() }),
    });
    unclaimed.chain(lonely).collect()
}

/// Pods that neither run nor have ended.
pub fn not_running(facts: &Facts) -> Vec<Violation> {
    let moving = active(facts).filter_map(|pod| {
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
