//! All topology groups of a solve, and where their first counts come from (spec 20 §4.4).

mod known_domains;
mod request_state;

use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::bound_pods::BoundPods;
use super::domains::Domains;
use super::input::{ObjectFacts, SolverInput};
use super::pool_domains::PoolDomains;
use super::requirement_store::{
    ReqId, RequirementStore, SetId, SplitRequirements, UndefinedLabels, number,
};
use super::selector_index::GroupIndex;
use super::topology_groups::{
    DomainKind, FeasibleDomains, GroupId, GroupIdentity, NodeFilter, TopologyGroup,
};
use crate::copy_on_write::CopyOnWrite;
use crate::labels::HOSTNAME;
use crate::rejection::TopologyKind;
use crate::requirement::Requirement;
use crate::selector::Labels;
use crate::taint::{Taint, untolerated_taints};
use known_domains::{NodePresence, OfferedDomains};
use request_state::{Change, RequestState};

/// The groups, their domains, and the pods that are counted before the solve begins.
#[derive(Clone, Debug)]
pub(super) struct Topology<'a> {
    groups: Vec<TopologyGroup>,
    ids: CopyOnWrite<FxHashMap<Arc<GroupIdentity>, GroupId>>,
    selectors: CopyOnWrite<GroupIndex>,
    pub(super) domains: Vec<Domains>,
    domains_of_key: FxHashMap<String, usize>,
    /// Numbers of hostnames: of existing nodes, in order of appearance, then of NodeClaims.
    host_names: Vec<String>,
    hosts: FxHashMap<String, usize>,
    /// By node: the hostname that its Node object is labelled with.
    raw_hosts: Arc<[Option<usize>]>,
    bound_pods: Arc<BoundPods<'a>>,
    /// By topology key: the domains that NodePools offer, calculated on first use.
    pool_domains: FxHashMap<String, Arc<PoolDomains>>,
    /// By position of domains, and whether taints are ignored.
    offered: FxHashMap<(usize, bool), OfferedDomains>,
    /// The number of domains that groups learned from their owners. After a new one, pods that
    /// failed may be tried again (spec 20 Q9).
    pub(super) learned_domain_count: usize,
    filters: CopyOnWrite<FxHashMap<NodeFilter, u32>>,
    /// Whether a filter accepts a node.
    accepted: FxHashMap<(u32, SetId, u32), bool>,
    presences: Vec<NodePresence>,
    /// By position of domains and number of filter.
    presence_ids: FxHashMap<(usize, Option<u32>), usize>,
    request: RequestState,
}

/// A node or NodeClaim as topology groups see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TopologyNode<'a> {
    pub(super) set: SetId,
    /// None where the Node object has no such label.
    pub(super) hostname: Option<usize>,
    /// Taints, and their number for the cache.
    pub(super) taints: (&'a [Taint], u32),
}

impl<'a> Topology<'a> {
    /// Prepares the hosts and the bound pods.
    ///
    /// `keys` are the label keys that selectors use, if they are known.
    pub(super) fn new(input: &SolverInput<'a>, keys: Option<&BTreeSet<&str>>) -> Self {
        let mut topology = Self {
            groups: Vec::new(),
            ids: CopyOnWrite::default(),
            selectors: CopyOnWrite::default(),
            domains: Vec::new(),
            domains_of_key: FxHashMap::default(),
            host_names: Vec::new(),
            hosts: FxHashMap::default(),
            raw_hosts: [].into(),
            bound_pods: Arc::new(BoundPods::new(input, keys)),
            pool_domains: FxHashMap::default(),
            offered: FxHashMap::default(),
            learned_domain_count: 0,
            filters: CopyOnWrite::default(),
            accepted: FxHashMap::default(),
            presences: Vec::new(),
            presence_ids: FxHashMap::default(),
            request: RequestState::default(),
        };
        let mut raw_hosts = Vec::with_capacity(input.nodes.len());
        for node in &input.nodes {
            topology.host(&node.hostname);
            let label = node.raw.as_ref().and_then(|raw| raw.labels.get(HOSTNAME));
            raw_hosts.push(label.map(|label| topology.host(label)));
        }
        topology.raw_hosts = raw_hosts.into();
        topology
    }

    pub(super) fn group(&self, id: GroupId) -> &TopologyGroup {
        &self.groups[id.0 as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Returns the number of a hostname.
    pub(super) fn host(&mut self, name: &str) -> usize {
        if let Some(&host) = self.hosts.get(name) {
            return host;
        }
        let host = self.host_names.len();
        self.host_names.push(name.to_owned());
        self.hosts.insert(name.to_owned(), host);
        host
    }

    pub(super) fn host_name(&self, host: usize) -> &str {
        &self.host_names[host]
    }

    /// Returns groups from number `from` on that select these labels, in order.
    pub(super) fn groups_selecting(
        &self,
        namespace: &str,
        labels: &Labels,
        from: usize,
    ) -> impl Iterator<Item = GroupId> {
        let selects = move |id: &GroupId| self.group(*id).identity.selects(namespace, labels);
        self.selectors.groups_for_labels(namespace, labels, from).into_iter().filter(selects)
    }

    /// Returns the group of a constraint, if it exists.
    pub(super) fn find(&self, identity: &GroupIdentity) -> Option<GroupId> {
        self.ids.get(identity).copied()
    }

    /// Creates a group with its domains and the counts of bound pods.
    pub(super) fn create(
        &mut self,
        identity: GroupIdentity,
        input: &SolverInput<'a>,
        store: &mut RequirementStore<'_>,
    ) -> GroupId {
        let domain_kind = match identity.key.as_str() {
            HOSTNAME => DomainKind::Host,
            key => DomainKind::Label(self.domains_of(key, store)),
        };
        let id = GroupId(number(self.groups.len()));
        self.selectors.insert(id, &identity);
        let mut group = TopologyGroup::new(identity, domain_kind);
        self.ids.insert(group.identity.clone(), id);
        group.filter = group.identity.filter.as_ref().map(|filter| {
            let next = number(self.filters.len());
            *self.filters.entry(filter.clone()).or_insert(next)
        });
        self.groups.push(group);
        if !self.group(id).identity.is_inverse {
            self.count_nodes_by_domain(id, input, store);
            self.count_bound(id, input, store);
        }
        id
    }

    /// Makes a group part of every request.
    pub(super) fn mark_permanent(&mut self, id: GroupId) {
        self.groups[id.0 as usize].is_permanent = true;
    }

    fn domains_of(&mut self, key: &str, store: &mut RequirementStore<'_>) -> usize {
        if let Some(&position) = self.domains_of_key.get(key) {
            return position;
        }
        let position = self.domains.len();
        self.domains.push(Domains::new(store.key(key)));
        self.domains_of_key.insert(key.to_owned(), position);
        position
    }

    /// Counts the bound pods that a group selects.
    fn count_bound(
        &mut self,
        id: GroupId,
        input: &SolverInput<'a>,
        store: &mut RequirementStore<'_>,
    ) {
        let bound_pods = self.bound_pods.clone();
        for member in bound_pods.index.selected_by(&self.group(id).identity) {
            let (namespace, labels, nodes) = &bound_pods.pods[member as usize];
            if !self.group(id).identity.selects(namespace, labels) {
                continue;
            }
            for (&node, &pods) in nodes {
                if let Some(domain) = self.domain_of_bound(id, node.index(), input, store) {
                    self.groups[id.0 as usize].record(domain, pods);
                }
            }
        }
    }

    /// Returns the domain in which a group counts the bound pods of a node.
    fn domain_of_bound(
        &mut self,
        id: GroupId,
        index: usize,
        input: &SolverInput<'a>,
        store: &mut RequirementStore<'_>,
    ) -> Option<usize> {
        let node = &input.nodes[index];
        let raw = node.raw.as_ref()?;
        let group = self.group(id);
        let domain = match (raw.labels.get(&group.identity.key), group.domain_kind) {
            (Some(domain), _) => domain,
            (None, DomainKind::Host) => node.name,
            (None, DomainKind::Label(_)) => return None,
        };
        let domain = match group.domain_kind {
            DomainKind::Host => self.host(domain),
            DomainKind::Label(position) => self.domains[position].number(domain),
        };
        self.accepts(id, &self.object_node(index, raw), store).then_some(domain)
    }

    /// Returns a node with the labels and taints of its Node object.
    fn object_node(&self, index: usize, raw: &ObjectFacts<'a>) -> TopologyNode<'a> {
        let hostname = self.raw_hosts[index];
        TopologyNode { set: raw.set, hostname, taints: (raw.taints, raw.taints_id) }
    }

    /// Counts a bound pod with required anti-affinity where it is.
    pub(super) fn count_inverse(&mut self, id: GroupId, labels: &Labels) {
        if let Some(domain) = self.domain_of_inverse(id, labels) {
            self.groups[id.0 as usize].record(domain, 1);
        }
    }

    fn domain_of_inverse(&mut self, id: GroupId, labels: &Labels) -> Option<usize> {
        let group = &self.groups[id.0 as usize];
        let domain = labels.get(&group.identity.key)?;
        Some(match group.domain_kind {
            DomainKind::Host => self.host(domain),
            DomainKind::Label(position) => self.domains[position].number(domain),
        })
    }

    /// Returns whether the filter of a group lets a node count.
    pub(super) fn accepts(
        &mut self,
        id: GroupId,
        at: &TopologyNode<'_>,
        store: &mut RequirementStore<'_>,
    ) -> bool {
        let group = &self.groups[id.0 as usize];
        let (Some(filter), Some(number)) = (&group.identity.filter, group.filter) else {
            return true;
        };
        if filter.sets.iter().any(|split| split.host.is_some()) {
            return accepts(filter, at, &self.host_names, store);
        }
        if let Some(&answer) = self.accepted.get(&(number, at.set, at.taints.1)) {
            return answer;
        }
        let answer = accepts(filter, at, &self.host_names, store);
        self.accepted.insert((number, at.set, at.taints.1), answer);
        answer
    }

    /// Counts a pod that a group selects and that was placed (spec 20 §4.6).
    pub(super) fn record(
        &mut self,
        id: GroupId,
        at: &TopologyNode<'_>,
        store: &mut RequirementStore<'_>,
    ) {
        if !self.accepts(id, at, store) {
            return;
        }
        let group = &self.groups[id.0 as usize];
        let DomainKind::Label(position) = group.domain_kind else {
            at.hostname.iter().for_each(|&host| self.count(id, host));
            return;
        };
        let Some(requirement) = store.find(at.set, self.domains[position].key) else { return };
        let plain = store.get(requirement);
        let counts_all = group.identity.kind == TopologyKind::AntiAffinity;
        if !counts_all && plain.len() != 1 {
            return;
        }
        for domain in plain.values() {
            let domain = self.domains[position].number(domain);
            self.count(id, domain);
        }
    }

    fn count(&mut self, id: GroupId, domain: usize) {
        self.groups[id.0 as usize].record(domain, 1);
        self.note(Change::Counted(id, domain));
    }

    /// Returns the domains where a group over a label lets a pod go.
    pub(super) fn feasible(
        &mut self,
        id: GroupId,
        selects_pod: bool,
        pod: Option<ReqId>,
        store: &RequirementStore<'_>,
    ) -> Option<FeasibleDomains> {
        let group = &self.groups[id.0 as usize];
        let DomainKind::Label(position) = group.domain_kind else { return None };
        let present = group.presence.map_or(&[][..], |presence| &self.presences[presence].nodes);
        Some(group.feasible(&mut self.domains[position], present, selects_pod, pod, store))
    }

    /// Returns whether the first pod of a hostname affinity may start it anywhere.
    pub(super) fn host_bootstrap(&self, id: GroupId, pod: Option<&Requirement>) -> bool {
        let group = self.group(id);
        group.is_unoccupied()
            || pod.is_some_and(|pod| !group.occupied().any(|host| pod.has(&self.host_names[host])))
    }
}

fn accepts(
    filter: &NodeFilter,
    at: &TopologyNode<'_>,
    hosts: &[String],
    store: &mut RequirementStore<'_>,
) -> bool {
    let suits = |split: &SplitRequirements, store: &mut RequirementStore<'_>| {
        let host_suits = split.host.is_none_or(|host| {
            let required = store.get(host);
            at.hostname.map_or(required.allows_absence(), |name| required.has(&hosts[name]))
        });
        host_suits && store.compatible(at.set, split.set, UndefinedLabels::Rejected)
    };
    let affinity = !filter.honors_affinity
        || filter.sets.is_empty()
        || filter.sets.iter().any(|split| suits(split, store));
    let taints =
        !filter.honors_taints || untolerated_taints(at.taints.0, &filter.tolerations).is_empty();
    affinity && taints
}
