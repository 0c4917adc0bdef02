//! Pods beside each other: required anti-affinity, affinity and spread.

use std::collections::{BTreeMap, BTreeSet};

use super::planned_cluster::{
    HOSTNAME, PlannedCluster, PlannedNode, PlannedNodeKind, TopologyDomains,
    node_affinity_alternatives,
};
use super::violation::Violation;
use crate::pod::{AffinityTerm, Pod, SpreadConstraint};
use crate::requirement::{Requirement, Requirements};
use crate::scheduling::default_spread;
use crate::selector::{Condition, Expression, Selector};
use crate::taint::untolerated_taints;

/// Returns whether a term of `owner` selects the other pod.
fn term_selects(
    places: &PlannedCluster<'_>,
    owner: &Pod,
    term: &AffinityTerm,
    other: &Pod,
) -> bool {
    let is_listed = term.namespaces.contains(&other.namespace);
    let is_own = term.namespaces.is_empty()
        && term.namespace_selector.is_none()
        && other.namespace == owner.namespace;
    let is_selected = term.namespace_selector.as_ref().is_some_and(|selector| {
        let labels = places.request.snapshot.namespaces.get(&other.namespace);
        labels.is_some_and(|labels| selector.matches(labels))
    });
    (is_listed || is_own || is_selected) && term.selector.matches(&other.labels)
}

/// A pod with its domains of a topology key.
type PodDomains<'p> = (&'p Pod, TopologyDomains);

/// Returns new and bound pods, each with its domains of a key.
fn pod_domains<'a>(
    places: &PlannedCluster<'a>,
    key: &str,
) -> (Vec<PodDomains<'a>>, Vec<PodDomains<'a>>) {
    let new = places.placed_pods().map(|(place, pod)| (pod, place.domains(key))).collect();
    let bound =
        places.active_bound_pods().map(|(place, pod)| (pod, place.bound_domains(key))).collect();
    (new, bound)
}

/// Checks required anti-affinity where at least one of the two pods is new.
///
/// No pod may share a domain with a pod that its term selects. Nodes without the label are in no
/// domain. A NodeClaim counts in every domain that is left to it.
pub(super) fn check_anti_affinity(places: &PlannedCluster<'_>, found: &mut Vec<Violation>) {
    let all = places.placed_pods().chain(places.active_bound_pods());
    let owners: Vec<&Pod> =
        all.map(|(_, pod)| pod).filter(|pod| !pod.spec.pod_anti_affinity.is_empty()).collect();
    let mut by_key = BTreeMap::new();
    for owner in owners {
        for term in &owner.spec.pod_anti_affinity {
            let key = term.topology_key.as_str();
            let (new, bound) = by_key.entry(key).or_insert_with(|| pod_domains(places, key));
            let is_owner = |(pod, _): &&PodDomains<'_>| std::ptr::eq(*pod, owner);
            let is_new = new.iter().any(|one| is_owner(&one));
            let Some((_, own)) = new.iter().chain(bound.iter()).find(is_owner) else { continue };
            for (other, domains) in new.iter().chain(bound.iter().filter(|_| is_new)) {
                let is_other =
                    !std::ptr::eq(*other, owner) && term_selects(places, owner, term, other);
                if is_other && own.may_overlap(domains) {
                    found.push(Violation::AntiAffinity {
                        pod: owner.full_name(),
                        other: other.full_name(),
                        key: term.topology_key.clone(),
                    });
                }
            }
        }
    }
}

/// Checks that the required affinity of new pods is met wherever they end up.
///
/// A pod that may be the first of its group needs no other pod.
pub(super) fn check_affinity(places: &PlannedCluster<'_>, found: &mut Vec<Violation>) {
    for (place, pod) in places.placed_pods() {
        for term in &pod.spec.pod_affinity {
            let key = &term.topology_key;
            if !matches!(
                place.with_node_name_fallback(place.domains(key), key),
                TopologyDomains::OneOf(_)
            ) {
                found.push(Violation::NoDomain { pod: pod.full_name(), key: key.clone() });
                continue;
            }
            let is_met = has_matching_pod(places, place, pod, term)
                || (term_selects(places, pod, term, pod)
                    && may_be_first_of_group(places, pod, term));
            if !is_met {
                found.push(Violation::Affinity { pod: pod.full_name(), key: key.clone() });
            }
        }
    }
}

fn has_matching_pod(
    places: &PlannedCluster<'_>,
    place: &PlannedNode<'_>,
    pod: &Pod,
    term: &AffinityTerm,
) -> bool {
    let key = &term.topology_key;
    let is_meant =
        |other: &Pod| !std::ptr::eq(other, pod) && term_selects(places, pod, term, other);
    let new = places.placed_pods().filter(|(_, other)| is_meant(other));
    let bound = places.active_bound_pods().filter(|(_, other)| is_meant(other));
    let inhabited: BTreeSet<String> = new
        .map(|(place, _)| place.with_node_name_fallback(place.domains(key), key))
        .chain(bound.map(|(place, _)| place.with_node_name_fallback(place.bound_domains(key), key)))
        .filter_map(|domains| domains.single_value().map(str::to_owned))
        .collect();
    match place.with_node_name_fallback(place.domains(key), key) {
        TopologyDomains::OneOf(values) => values.is_subset(&inhabited),
        TopologyDomains::None | TopologyDomains::AllowedBy(_) => false,
    }
}

/// Returns whether the pod may be the first of its affinity group.
///
/// It may not if a pod of the group was there before, in a domain that all alternatives of the
/// pod's own node affinity allow.
fn may_be_first_of_group(places: &PlannedCluster<'_>, pod: &Pod, term: &AffinityTerm) -> bool {
    let key = &term.topology_key;
    let own: Vec<Requirement> = node_affinity_alternatives(&pod.spec)
        .iter()
        .map(|node_requirements| allowed_values(node_requirements, key))
        .collect();
    !places.active_bound_pods().any(|(place, other)| {
        term_selects(places, pod, term, other)
            && place
                .bound_domains(key)
                .single_value()
                .is_some_and(|domain| own.iter().all(|allowed| allowed.has(domain)))
    })
}

fn allowed_values(requirements: &Requirements, key: &str) -> Requirement {
    requirements.get(key).cloned().unwrap_or_else(|| Requirement::exists(key))
}

/// A required spread constraint of a pod that counts itself.
struct SpreadCheck<'s> {
    pod: &'s Pod,
    constraint: SpreadConstraint,
    /// The selector, with `matchLabelKeys` merged in.
    selector: Selector,
    /// The node selector combined with the only required term.
    node_requirements: Requirements,
}

impl<'s> SpreadCheck<'s> {
    /// Returns `None` for constraints that are not checked.
    fn new(pod: &'s Pod, constraint: SpreadConstraint) -> Option<Self> {
        let mut selector = constraint.selector.clone();
        if let Selector::Matching(parts) = &mut selector {
            for key in &constraint.match_label_keys {
                let value = pod.labels.get(key).cloned();
                parts.expressions.extend(value.map(|value| Expression {
                    key: key.clone(),
                    condition: Condition::In(BTreeSet::from([value])),
                }));
            }
        }
        let is_simple = constraint.is_required && pod.spec.node_affinity.len() <= 1;
        let node_requirements =
            node_affinity_alternatives(&pod.spec).into_iter().next().unwrap_or_default();
        (is_simple && selector.matches(&pod.labels)).then_some(Self {
            pod,
            constraint,
            selector,
            node_requirements,
        })
    }

    /// Returns whether both constraints are equal and count the same nodes.
    fn is_equivalent_to(&self, other: &Self) -> bool {
        self.pod.namespace == other.pod.namespace
            && self.selector == other.selector
            && self.constraint.topology_key == other.constraint.topology_key
            && self.constraint.max_skew == other.constraint.max_skew
            && self.constraint.min_domains == other.constraint.min_domains
            && self.constraint.honors_node_affinity == other.constraint.honors_node_affinity
            && self.constraint.honors_node_taints == other.constraint.honors_node_taints
            && self.node_requirements == other.node_requirements
            && self.pod.spec.tolerations == other.pod.spec.tolerations
    }

    fn counts_pod(&self, other: &Pod) -> bool {
        self.pod.namespace == other.namespace && self.selector.matches(&other.labels)
    }

    /// Returns whether the constraint counts its own pod on this node.
    ///
    /// The pod meets its own node affinity; taints may have been tolerated late.
    fn counts_placed_on(&self, place: &PlannedNode<'_>) -> bool {
        !self.constraint.honors_node_taints
            || untolerated_taints(place.taints(), &self.pod.spec.tolerations).is_empty()
    }

    /// Returns whether the constraint counts the bound pods of a node.
    fn counts_bound_on(&self, places: &PlannedCluster<'_>, place: &PlannedNode<'_>) -> bool {
        let PlannedNodeKind::Node { node, .. } = &place.kind else { return false };
        node.object.as_ref().is_some_and(|object| {
            let labels = places.label_requirements(&object.labels);
            let is_allowed = labels.compatible(&self.node_requirements, &BTreeSet::new()).is_ok();
            let is_tolerated =
                untolerated_taints(&object.taints, &self.pod.spec.tolerations).is_empty();
            (!self.constraint.honors_node_affinity || is_allowed)
                && (!self.constraint.honors_node_taints || is_tolerated)
        })
    }

    /// Returns the domains over which such pods can certainly be spread.
    ///
    /// These are the domains of nodes that count and those that a NodePool offers.
    fn certain_domains(&self, places: &PlannedCluster<'_>) -> BTreeSet<String> {
        let key = &self.constraint.topology_key;
        let request = &places.request;
        let mut sure = BTreeSet::new();
        for place in &places.nodes {
            if let PlannedNodeKind::Node { node, is_active: true } = &place.kind
                && self.counts_bound_on(places, place)
            {
                sure.extend(node.labels.get(key).cloned());
            }
        }
        for pool in &request.snapshot.pools {
            let is_tolerated =
                untolerated_taints(&pool.taints, &self.pod.spec.tolerations).is_empty();
            let list = request.catalog.pools.get(&pool.name);
            let list = list.filter(|_| is_tolerated || !self.constraint.honors_node_taints);
            for own in list.into_iter().flat_map(|list| list.iter()) {
                let mut all = pool.requirements.clone();
                all.extend(places.label_requirements(&pool.labels).iter().cloned());
                all.extend(own.requirements.iter().cloned());
                let values = all.get(key).filter(|values| !values.is_complement());
                sure.extend(values.into_iter().flat_map(|values| values.values().clone()));
            }
        }
        let allowed = allowed_values(&self.node_requirements, key);
        sure.retain(|domain| allowed.has(domain));
        sure
    }
}

/// Checks that new pods with required spread respect their maximum skew.
///
/// Each of them is in one known domain. Of pods with the same constraint: when the last of them
/// came to a domain, the domain had at least the others, and the least filled domain was at most as
/// full as it is in the end.
pub(super) fn check_spread(places: &PlannedCluster<'_>, found: &mut Vec<Violation>) {
    let snapshot = places.request.snapshot;
    let defaults = &places.request.options.default_spread;
    let of_pod = |(place, pod)| {
        let constraints = default_spread::spread_constraints(snapshot, pod, defaults).into_iter();
        constraints.filter_map(move |own| Some((place, SpreadCheck::new(pod, own)?)))
    };
    for (place, pod) in places.placed_pods() {
        for own in default_spread::spread_constraints(snapshot, pod, defaults) {
            let key = own.topology_key;
            if own.is_required
                && place.with_node_name_fallback(place.domains(&key), &key).single_value().is_none()
            {
                found.push(Violation::NoDomain { pod: pod.full_name(), key });
            }
        }
    }
    let all: Vec<(&PlannedNode<'_>, SpreadCheck<'_>)> =
        places.placed_pods().flat_map(of_pod).collect();
    for (position, (_, spread)) in all.iter().enumerate() {
        // Once for all that are alike.
        if all[..position].iter().any(|(_, earlier)| earlier.is_equivalent_to(spread)) {
            continue;
        }
        let alike: Vec<_> =
            all.iter().filter(|(_, other)| other.is_equivalent_to(spread)).collect();
        for (domain, least) in least_possible_skews(places, spread, &alike) {
            if least > i64::from(spread.constraint.max_skew) {
                let key = &spread.constraint.topology_key;
                let pods =
                    alike.iter().filter(|(place, _)| place.domains(key).may_contain(&domain));
                found.push(Violation::Spread {
                    pod: spread.pod.full_name(),
                    key: key.clone(),
                    pods: pods.map(|(_, one)| one.pod.full_name()).collect(),
                    domain,
                });
            }
        }
    }
}

/// Returns the least skew that the last pod of each domain can have had.
fn least_possible_skews(
    places: &PlannedCluster<'_>,
    spread: &SpreadCheck<'_>,
    alike: &[&(&PlannedNode<'_>, SpreadCheck<'_>)],
) -> Vec<(String, i64)> {
    let key = &spread.constraint.topology_key;
    let domain_of = |place: &PlannedNode<'_>| {
        place.with_node_name_fallback(place.domains(key), key).single_value().map(str::to_owned)
    };
    let counted: Vec<String> = alike
        .iter()
        .filter(|(place, _)| spread.counts_placed_on(place))
        .filter_map(|(place, _)| domain_of(place))
        .collect();
    let sure = spread.certain_domains(places);
    // There can always be another node, so the emptiest host is empty.
    let emptiest = if key == HOSTNAME {
        Some(0)
    } else {
        sure.iter().map(|domain| max_matching_pods(places, spread, domain)).min()
    };
    let Some(emptiest) = emptiest else { return Vec::new() };
    let domains: BTreeSet<&String> = counted.iter().collect();
    let skew = |domain: &String| {
        let new = counted.iter().filter(|own| *own == domain).count();
        let before = places.active_bound_pods().filter(|(place, pod)| {
            spread.counts_pod(pod)
                && spread.counts_bound_on(places, place)
                && place.with_node_name_fallback(place.bound_domains(key), key).single_value()
                    == Some(domain)
        });
        count(new) + count(before.count()) - emptiest
    };
    domains.into_iter().map(|domain| (domain.clone(), skew(domain))).collect()
}

/// Returns the largest possible number of matching pods in a domain.
fn max_matching_pods(places: &PlannedCluster<'_>, spread: &SpreadCheck<'_>, domain: &str) -> i64 {
    let key = &spread.constraint.topology_key;
    let new = places
        .placed_pods()
        .filter(|(place, pod)| spread.counts_pod(pod) && place.domains(key).may_contain(domain));
    let bound = places.active_bound_pods().filter(|(place, pod)| {
        spread.counts_pod(pod) && place.bound_domains(key).may_contain(domain)
    });
    count(new.count() + bound.count())
}

fn count(pods: usize) -> i64 {
    i64::try_from(pods).unwrap_or(i64::MAX)
}
