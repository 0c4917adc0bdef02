//! All topology groups of a solve, and where their first counts come from (spec 20 §4.4).

mod joining;
mod known;

use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::census::Census;
use super::domains::Domains;
use super::groups::{Feasible, Filter, Group, GroupId, Identity, Place};
use super::selecting::Selectors;
use super::store::{ReqId, SetId, Split, Store, Undefined, number};
use super::universe::Universe;
use super::world::{RawFacts, World};
use crate::labels::HOSTNAME;
use crate::reason::TopologyKind;
use crate::requirement::Requirement;
use crate::selector::Labels;
use crate::shared::Shared;
use crate::taint::{Taint, untolerated};
use joining::{Change, Question};
use known::{Offered, Presence};

/// The groups, their domains, and the pods that are counted before the solve begins.
#[derive(Clone, Debug)]
pub(super) struct Topology<'a> {
    groups: Vec<Group>,
    ids: Shared<FxHashMap<Arc<Identity>, GroupId>>,
    selectors: Shared<Selectors>,
    pub(super) domains: Vec<Domains>,
    domains_of_key: FxHashMap<String, usize>,
    /// Numbers of hostnames: of existing nodes, in order of appearance, then of NodeClaims.
    host_names: Vec<String>,
    hosts: FxHashMap<String, usize>,
    /// By node: the hostname that its Node object is labelled with.
    raw_hosts: Arc<[Option<usize>]>,
    census: Arc<Census<'a>>,
    /// By topology key, worked out when a key is first used.
    universe: FxHashMap<String, Arc<Universe>>,
    /// By position of domains, and whether taints matter not.
    offered: FxHashMap<(usize, bool), Offered>,
    /// How many domains groups learned of from their owners: pods that failed before may be tried
    /// again (spec 20 Q9).
    pub(super) learned: usize,
    filters: Shared<FxHashMap<Filter, u32>>,
    /// Whether a filter accepts a node.
    accepted: FxHashMap<(u32, SetId, u32), bool>,
    presences: Vec<Presence>,
    /// By position of domains and number of filter.
    presence_ids: FxHashMap<(usize, Option<u32>), usize>,
    question: Question,
}

/// A node or NodeClaim as filters and counts see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Landing<'a> {
    pub(super) set: SetId,
    /// None where the Node object has no such label.
    pub(super) hostname: Option<usize>,
    /// Taints and their number, for the memory.
    pub(super) taints: (&'a [Taint], u32),
}

impl<'a> Topology<'a> {
    /// `keys` are the label keys that selectors ask about, if that is known.
    pub(super) fn new(world: &World<'a>, keys: Option<&BTreeSet<&str>>) -> Self {
        let mut topology = Self {
            groups: Vec::new(),
            ids: Shared::default(),
            selectors: Shared::default(),
            domains: Vec::new(),
            domains_of_key: FxHashMap::default(),
            host_names: Vec::new(),
            hosts: FxHashMap::default(),
            raw_hosts: [].into(),
            census: Arc::new(Census::new(world, keys)),
            universe: FxHashMap::default(),
            offered: FxHashMap::default(),
            learned: 0,
            filters: Shared::default(),
            accepted: FxHashMap::default(),
            presences: Vec::new(),
            presence_ids: FxHashMap::default(),
            question: Question::default(),
        };
        let mut raw_hosts = Vec::with_capacity(world.nodes.len());
        for node in &world.nodes {
            topology.host(&node.hostname);
            let label = node.raw.as_ref().and_then(|raw| raw.labels.get(HOSTNAME));
            raw_hosts.push(label.map(|label| topology.host(label)));
        }
        topology.raw_hosts = raw_hosts.into();
        topology
    }

    pub(super) fn group(&self, id: GroupId) -> &Group {
        &self.groups[id.0 as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// The number of a hostname.
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

    /// Groups from number `from` on that select pods with these labels, in order.
    pub(super) fn selecting(
        &self,
        namespace: &str,
        labels: &Labels,
        from: usize,
    ) -> impl Iterator<Item = GroupId> {
        let selects = move |id: &GroupId| self.group(*id).identity.selects(namespace, labels);
        self.selectors.of(namespace, labels, from).into_iter().filter(selects)
    }

    /// The group of a constraint, if it exists.
    pub(super) fn find(&self, identity: &Identity) -> Option<GroupId> {
        self.ids.get(identity).copied()
    }

    /// Makes a group with its domains and the counts of bound pods.
    pub(super) fn create(
        &mut self,
        identity: Identity,
        world: &World<'a>,
        store: &mut Store<'_>,
    ) -> GroupId {
        let place = match identity.key.as_str() {
            HOSTNAME => Place::Host,
            key => Place::Label(self.domains_of(key, store)),
        };
        let id = GroupId(number(self.groups.len()));
        self.selectors.insert(id, &identity);
        let mut group = Group::new(identity, place);
        self.ids.insert(group.identity.clone(), id);
        group.filter = group.identity.filter.as_ref().map(|filter| {
            let next = number(self.filters.len());
            *self.filters.entry(filter.clone()).or_insert(next)
        });
        self.groups.push(group);
        if !self.group(id).identity.is_inverse {
            self.look_at_nodes(id, world, store);
            self.count_bound(id, world, store);
        }
        id
    }

    /// A group that is there whatever is asked.
    pub(super) fn fix(&mut self, id: GroupId) {
        self.groups[id.0 as usize].is_fixed = true;
    }

    fn domains_of(&mut self, key: &str, store: &mut Store<'_>) -> usize {
        if let Some(&position) = self.domains_of_key.get(key) {
            return position;
        }
        let position = self.domains.len();
        self.domains.push(Domains::new(store.key(key)));
        self.domains_of_key.insert(key.to_owned(), position);
        position
    }

    /// Pods that run already.
    fn count_bound(&mut self, id: GroupId, world: &World<'a>, store: &mut Store<'_>) {
        let census = self.census.clone();
        for member in census.index.selected_by(&self.group(id).identity) {
            let (namespace, labels, nodes) = &census.pods[member as usize];
            if !self.group(id).identity.selects(namespace, labels) {
                continue;
            }
            for (&node, &pods) in nodes {
                if let Some(domain) = self.domain_of_bound(id, node.index(), world, store) {
                    self.groups[id.0 as usize].record(domain, pods);
                }
            }
        }
    }

    /// Where a group counts the bound pods of a node, if it does.
    fn domain_of_bound(
        &mut self,
        id: GroupId,
        index: usize,
        world: &World<'a>,
        store: &mut Store<'_>,
    ) -> Option<usize> {
        let node = &world.nodes[index];
        let raw = node.raw.as_ref()?;
        let group = self.group(id);
        let domain = match (raw.labels.get(&group.identity.key), group.place) {
            (Some(domain), _) => domain,
            (None, Place::Host) => node.name,
            (None, Place::Label(_)) => return None,
        };
        let domain = match group.place {
            Place::Host => self.host(domain),
            Place::Label(position) => self.domains[position].number(domain),
        };
        self.accepts(id, &self.raw_landing(index, raw), store).then_some(domain)
    }

    /// A node by the labels and taints of its Node object.
    fn raw_landing(&self, index: usize, raw: &RawFacts<'a>) -> Landing<'a> {
        let hostname = self.raw_hosts[index];
        Landing { set: raw.set, hostname, taints: (raw.taints, raw.taints_id) }
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
        Some(match group.place {
            Place::Host => self.host(domain),
            Place::Label(position) => self.domains[position].number(domain),
        })
    }

    /// Whether the filter of a group lets a node count.
    pub(super) fn accepts(&mut self, id: GroupId, at: &Landing<'_>, store: &mut Store<'_>) -> bool {
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
    pub(super) fn record(&mut self, id: GroupId, at: &Landing<'_>, store: &mut Store<'_>) {
        if !self.accepts(id, at, store) {
            return;
        }
        let group = &self.groups[id.0 as usize];
        let Place::Label(position) = group.place else {
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

    /// Where a pod may go as a group over a label sees it.
    pub(super) fn feasible(
        &mut self,
        id: GroupId,
        selects_pod: bool,
        pod: Option<ReqId>,
        store: &Store<'_>,
    ) -> Option<Feasible> {
        let group = &self.groups[id.0 as usize];
        let Place::Label(position) = group.place else { return None };
        let present = group.presence.map_or(&[][..], |presence| &self.presences[presence].nodes);
        Some(group.feasible(&mut self.domains[position], present, selects_pod, pod, store))
    }

    /// Whether the first pod of a hostname affinity may start it anywhere.
    pub(super) fn host_bootstrap(&self, id: GroupId, pod: Option<&Requirement>) -> bool {
        let group = self.group(id);
        group.is_unoccupied()
            || pod.is_some_and(|pod| !group.occupied().any(|host| pod.has(&self.host_names[host])))
    }
}

fn accepts(filter: &Filter, at: &Landing<'_>, hosts: &[String], store: &mut Store<'_>) -> bool {
    let suits = |split: &Split, store: &mut Store<'_>| {
        let host_suits = split.host.is_none_or(|host| {
            let asked = store.get(host);
            at.hostname.map_or(asked.allows_absence(), |name| asked.has(&hosts[name]))
        });
        host_suits && store.compatible(at.set, split.set, Undefined::Refused)
    };
    let affinity = !filter.honors_affinity
        || filter.sets.is_empty()
        || filter.sets.iter().any(|split| suits(split, store));
    let taints = !filter.honors_taints || untolerated(at.taints.0, &filter.tolerations).is_empty();
    affinity && taints
}
