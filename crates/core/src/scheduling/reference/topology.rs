//! Spread, affinity and anti-affinity of the pods of a solve (spec 20 §4).

use std::collections::{BTreeMap, BTreeSet};

use super::input::SolverInput;
use super::relaxable_pod::RelaxablePod;
use crate::id::{NodeId, PodId};
use crate::labels::HOSTNAME;
use crate::pod::{AffinityTerm, Pod, PodSpec, SpreadConstraint};
use crate::rejection::TopologyRejection;
use crate::requirement::{Requirement, Requirements};
use crate::scheduling::PreferencePolicy;
use crate::selector::{Condition, Expression, Selector};
use crate::taint::Taint;

mod group;
mod pool_domains;

pub(super) use group::TopologyGroup;
use group::{GroupIdentity, Kind, NodeFilter};
use pool_domains::PoolDomains;

/// Where a pod of this solve was placed.
pub(super) struct Placement<'p> {
    pub pod: PodId,
    pub taints: &'p [Taint],
    pub requirements: &'p Requirements,
}

/// Returns the lowest price of a candidate in a domain of a key.
pub(super) type DomainPrice<'p> = &'p dyn Fn(&str, &str) -> Option<f64>;

/// All topology groups, in the order of creation.
pub(super) struct Topology<'a> {
    input: &'a SolverInput<'a>,
    pool_domains: PoolDomains,
    /// Groups of the constraints of pods to place.
    direct: Vec<TopologyGroup>,
    /// Groups of the required anti-affinity of any pod, which keep other pods away.
    inverse: Vec<TopologyGroup>,
    /// The direct groups of each pod, in the order of its constraints.
    direct_of: BTreeMap<PodId, Vec<usize>>,
    /// The inverse groups of each pod; these are never relaxed.
    inverse_of: BTreeMap<PodId, BTreeSet<usize>>,
    /// Hostnames of nodes and NodeClaims that take part.
    hosts: BTreeSet<String>,
    /// The number of domains that groups learned from their owners (Q9).
    pub(super) learned_domain_count: usize,
}

impl<'a> Topology<'a> {
    /// Prepares the groups for the anti-affinity of bound pods. Pods to place are added later.
    pub(super) fn new(input: &'a SolverInput<'a>) -> Self {
        let mut topology = Self {
            input,
            pool_domains: PoolDomains::new(input),
            direct: Vec::new(),
            inverse: Vec::new(),
            direct_of: BTreeMap::new(),
            inverse_of: BTreeMap::new(),
            hosts: BTreeSet::new(),
            learned_domain_count: 0,
        };
        for (position, pod) in input.snapshot.pods.iter().enumerate() {
            let id = PodId::new(position);
            let node = pod.node.map(|node| input.snapshot.node(node));
            let object = node.and_then(|node| node.object.as_ref());
            if let (Some(object), false, false) =
                (object, pod.is_terminal(), input.batch.contains(&id))
            {
                for group in topology.join_inverse(pod, &pod.spec) {
                    let group = &mut topology.inverse[group];
                    if let Some(domain) = object.labels.get(&group.identity.key) {
                        group.record([domain]);
                    }
                }
            }
        }
        topology
    }

    /// Adds the host of a node or NodeClaim that enters the solve.
    pub(super) fn register_host(&mut self, hostname: &str) {
        self.hosts.insert(hostname.to_owned());
        for group in self.direct.iter_mut().chain(&mut self.inverse) {
            if group.identity.key == HOSTNAME {
                group.register([hostname]);
            }
        }
    }

    /// Makes the pod the owner of exactly the groups of its current constraints.
    ///
    /// New groups count the pods that were placed before (spec 20 §4.4, Q3).
    pub(super) fn update(&mut self, relaxable: &RelaxablePod<'_>, placements: &[Placement<'_>]) {
        let joined = self.join_inverse(relaxable.pod, &relaxable.spec);
        self.inverse_of.entry(relaxable.id).or_default().extend(joined);
        let mut own: Vec<usize> = Vec::new();
        for identity in self.constraints(relaxable) {
            let known = self.direct.iter().position(|group| group.identity == identity);
            let position = known.unwrap_or_else(|| {
                let group = self.new_counted_group(identity, relaxable, placements);
                self.direct.push(group);
                self.direct.len() - 1
            });
            self.register_tolerated_domains(position, &relaxable.spec);
            if !own.contains(&position) {
                own.push(position);
            }
        }
        self.direct_of.insert(relaxable.id, own);
    }

    /// Returns the groups of the pod's constraints in a fixed order.
    ///
    /// The order is spread, affinity, anti-affinity, and required before preferred. Preferred
    /// constraints count only while preferences are respected.
    fn constraints(&self, relaxable: &RelaxablePod<'_>) -> Vec<GroupIdentity> {
        let spec = &relaxable.spec;
        let respects = self.input.options.preferences == PreferencePolicy::Respect;
        let preferred = |terms: &'_ [crate::pod::WeightedTerm<AffinityTerm>]| -> Vec<AffinityTerm> {
            let terms = terms.iter().filter(|_| respects);
            terms.map(|preference| preference.term.clone()).collect()
        };
        let spread = spec.topology_spread.iter().filter(|spread| spread.is_required || respects);
        let affinity = [&spec.pod_affinity[..], &preferred(&spec.preferred_pod_affinity)].concat();
        let anti =
            [&spec.pod_anti_affinity[..], &preferred(&spec.preferred_pod_anti_affinity)].concat();
        let mut all: Vec<_> = spread.map(|spread| spread_identity(relaxable, spread)).collect();
        all.extend(affinity.iter().map(|term| self.term(Kind::Affinity, relaxable.pod, term)));
        all.extend(anti.iter().map(|term| self.term(Kind::AntiAffinity, relaxable.pod, term)));
        all
    }

    fn term(&self, kind: Kind, pod: &Pod, term: &AffinityTerm) -> GroupIdentity {
        GroupIdentity {
            kind,
            key: term.topology_key.clone(),
            namespaces: self.namespaces(pod, term),
            selector: term.selector.clone(),
            max_skew: i32::MAX,
            min_domains: None,
            filter: None,
        }
    }

    /// Returns the namespaces that a term selects (spec 20 §4.2).
    fn namespaces(&self, pod: &Pod, term: &AffinityTerm) -> BTreeSet<String> {
        let listed = term.namespaces.iter().cloned();
        match &term.namespace_selector {
            None if term.namespaces.is_empty() => BTreeSet::from([pod.namespace.clone()]),
            None => listed.collect(),
            Some(selector) => {
                let all = self.input.snapshot.namespaces.iter();
                let selected = all.filter(|(_, labels)| selector.matches(labels));
                selected.map(|(name, _)| name.clone()).chain(listed).collect()
            }
        }
    }

    /// Makes the pod an owner of the inverse groups of its required anti-affinity.
    fn join_inverse(&mut self, pod: &Pod, spec: &PodSpec) -> Vec<usize> {
        let mut joined = Vec::new();
        for term in &spec.pod_anti_affinity {
            let identity = self.term(Kind::AntiAffinity, pod, term);
            let known = self.inverse.iter().position(|group| group.identity == identity);
            let position = known.unwrap_or_else(|| {
                self.inverse.push(self.empty(identity));
                self.inverse.len() - 1
            });
            let domains = self.pool_domains.tolerated(&term.topology_key, &spec.tolerations);
            self.learned_domain_count += self.inverse[position].register(&domains);
            joined.push(position);
        }
        joined
    }

    /// Adds the domains that an owner tolerates to its group (Q9).
    ///
    /// Only affinity and anti-affinity groups need this: owners of a spread group tolerate the same
    /// taints, if these matter to it.
    fn register_tolerated_domains(&mut self, position: usize, spec: &PodSpec) {
        let group = &mut self.direct[position];
        if group.identity.kind != Kind::Spread {
            let domains = self.pool_domains.tolerated(&group.identity.key, &spec.tolerations);
            self.learned_domain_count += group.register(&domains);
        }
    }

    /// Returns a group without any domain but the hosts.
    fn empty(&self, identity: GroupIdentity) -> TopologyGroup {
        let mut group = TopologyGroup::new(identity);
        if group.identity.key == HOSTNAME {
            group.register(&self.hosts);
        }
        group
    }

    /// Returns a new direct group, with the domains and counts of cluster and solve.
    fn new_counted_group(
        &self,
        identity: GroupIdentity,
        relaxable: &RelaxablePod<'_>,
        placements: &[Placement<'_>],
    ) -> TopologyGroup {
        let mut group = self.empty(identity);
        if let Some(filter) = group.identity.filter.clone() {
            let domains = if filter.honors_taints {
                self.pool_domains.tolerated(&group.identity.key, &relaxable.spec.tolerations)
            } else {
                self.pool_domains.all(&group.identity.key)
            };
            group.register(&domains);
        }
        for &id in &self.input.nodes {
            let node = self.input.snapshot.node(id);
            if let (Some(domain), true) =
                (node.labels.get(&group.identity.key), self.is_counted(&group, id))
            {
                group.register([domain]);
            }
        }
        for (position, pod) in self.input.snapshot.pods.iter().enumerate() {
            let is_excluded = self.input.batch.contains(&PodId::new(position)) || !pod.is_active();
            let node = pod.node.filter(|_| !is_excluded && group.selects(pod));
            let node = node.filter(|&node| self.is_counted(&group, node));
            group.record(node.and_then(|node| self.domain(node, &group.identity.key)));
        }
        for placement in placements {
            group.place(self.input.snapshot.pod(placement.pod), placement);
        }
        group
    }

    /// Returns whether pods on a node count: its Node object passes the filter.
    fn is_counted(&self, group: &TopologyGroup, node: NodeId) -> bool {
        let object = self.input.snapshot.node(node).object.as_ref();
        object
            .is_some_and(|object| group.admits(&object.taints, &self.input.labels(&object.labels)))
    }

    /// Returns the domain of a bound pod.
    ///
    /// A node without hostname label counts under its name (Q19).
    fn domain(&self, node: NodeId, key: &str) -> Option<String> {
        let node = self.input.snapshot.node(node);
        let label = node.object.as_ref()?.labels.get(key).cloned();
        label.or_else(|| (key == HOSTNAME).then(|| node.name.clone()))
    }

    /// Returns the node's requirements, narrowed by the pod's groups (spec 20 §4.5).
    ///
    /// Every group sees the node as it was before.
    pub(super) fn narrow(
        &self,
        relaxable: &RelaxablePod<'_>,
        node: &Requirements,
        price: DomainPrice<'_>,
    ) -> Result<Requirements, Box<TopologyRejection>> {
        let mut narrowed = node.clone();
        // The first group that leaves nothing is the pod's error, so their order must not come from
        // the order of pods in the snapshot.
        let inverse = self.inverse.iter().filter(|group| group.selects(relaxable.pod));
        let mut inverse: Vec<&TopologyGroup> = inverse.collect();
        inverse.sort_by_key(|group| {
            let GroupIdentity { key, namespaces, selector, .. } = &group.identity;
            (key, namespaces, selector)
        });
        for group in self.owned(relaxable.id).chain(inverse) {
            let key = &group.identity.key;
            let pod_domains = domains(&relaxable.strict, key);
            let node_domains = domains(node, key);
            let left = group.next_domains(relaxable.pod, &pod_domains, &node_domains, price);
            if left.is_empty() {
                return Err(Box::new(group.rejection(pod_domains, node_domains)));
            }
            narrowed.add(left);
        }
        Ok(narrowed)
    }

    /// Returns the direct groups of a pod, in the order of its constraints.
    pub(super) fn owned(&self, pod: PodId) -> impl Iterator<Item = &TopologyGroup> {
        let own = self.direct_of.get(&pod).into_iter().flatten();
        own.map(|&position| &self.direct[position])
    }

    /// Counts a pod where it was placed (spec 20 §4.6).
    pub(super) fn record(&mut self, placement: &Placement<'_>) {
        let pod = self.input.snapshot.pod(placement.pod);
        for group in &mut self.direct {
            group.place(pod, placement);
        }
        for &position in self.inverse_of.get(&placement.pod).into_iter().flatten() {
            let group = &mut self.inverse[position];
            let domains = domains(placement.requirements, &group.identity.key);
            group.record(domains.values());
        }
    }
}

/// Returns the requirement on a key, or `Exists` if there is none.
pub(super) fn domains(requirements: &Requirements, key: &str) -> Requirement {
    requirements.get(key).cloned().unwrap_or_else(|| Requirement::exists(key))
}

fn spread_identity(relaxable: &RelaxablePod<'_>, spread: &SpreadConstraint) -> GroupIdentity {
    let mut selector = spread.selector.clone();
    if let Selector::Matching(selector) = &mut selector {
        for key in &spread.match_label_keys {
            if let Some(value) = relaxable.pod.labels.get(key) {
                let condition = Condition::In(BTreeSet::from([value.clone()]));
                selector.expressions.insert(Expression { key: key.clone(), condition });
            }
        }
    }
    GroupIdentity {
        kind: Kind::Spread,
        key: spread.topology_key.clone(),
        namespaces: BTreeSet::from([relaxable.pod.namespace.clone()]),
        selector,
        max_skew: spread.max_skew,
        min_domains: spread.min_domains,
        filter: Some(NodeFilter::new(&relaxable.spec, spread)),
    }
}
