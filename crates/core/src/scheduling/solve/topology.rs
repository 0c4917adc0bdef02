//! All topology groups of a solve, and where their first counts come from (spec 20 §4.4).

use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::rc::Rc;

use super::census::Census;
use super::domains::Domains;
use super::groups::{Feasible, Filter, Group, GroupId, Identity, Place};
use super::selecting::Selectors;
use super::store::{ReqId, SetId, Split, Store, Undefined, number};
use super::universe::{Universe, universe};
use super::world::{RawFacts, World};
use crate::labels::HOSTNAME;
use crate::reason::TopologyKind;
use crate::requirement::Requirement;
use crate::selector::Labels;
use crate::taint::{Taint, Toleration, untolerated};

/// The groups, their domains, and the pods that are counted before the solve begins.
#[derive(Debug)]
pub(super) struct Topology<'a> {
    groups: Vec<Group>,
    ids: FxHashMap<Identity, GroupId>,
    selectors: Selectors,
    pub(super) domains: Vec<Domains>,
    domains_of_key: FxHashMap<String, usize>,
    /// Numbers of hostnames: of existing nodes, in order of appearance, then of NodeClaims.
    host_names: Vec<String>,
    hosts: FxHashMap<String, usize>,
    /// By node: the hostname that its Node object is labelled with.
    raw_hosts: Vec<Option<usize>>,
    census: Census<'a>,
    /// By topology key, worked out when a key is first used.
    universe: FxHashMap<String, Rc<Universe>>,
    /// How many domains groups learned of from their owners: pods that failed before may be tried
    /// again (spec 20 Q9).
    pub(super) learned: usize,
    /// Whether a filter accepts a node.
    accepted: FxHashMap<(GroupId, SetId, u32), bool>,
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
            ids: FxHashMap::default(),
            selectors: Selectors::default(),
            domains: Vec::new(),
            domains_of_key: FxHashMap::default(),
            host_names: Vec::new(),
            hosts: FxHashMap::default(),
            raw_hosts: Vec::new(),
            census: Census::new(world, keys),
            universe: FxHashMap::default(),
            learned: 0,
            accepted: FxHashMap::default(),
        };
        for node in &world.nodes {
            topology.host(&node.hostname);
            let label = node.raw.as_ref().and_then(|raw| raw.labels.get(HOSTNAME));
            let label = label.map(|label| topology.host(label));
            topology.raw_hosts.push(label);
        }
        topology
    }

    pub(super) fn group(&self, id: GroupId) -> &Group {
        &self.groups[id.0 as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = GroupId> + use<> {
        (0..number(self.groups.len())).map(GroupId)
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
        self.ids.insert(identity.clone(), id);
        self.groups.push(Group::new(identity, place));
        if !self.group(id).identity.is_inverse {
            self.register_nodes(id, world, store);
            self.count_bound(id, world, store);
        }
        id
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

    /// Adds the domains of NodePools that a new owner may use.
    pub(super) fn own(&mut self, id: GroupId, tolerations: &[Toleration], world: &World<'a>) {
        let group = &mut self.groups[id.0 as usize];
        let Place::Label(position) = group.place else { return };
        let key = &group.identity.key;
        let universe = if let Some(universe) = self.universe.get(key) {
            universe.clone()
        } else {
            let universe = Rc::new(universe(world, key));
            self.universe.insert(key.clone(), universe.clone());
            universe
        };
        let takes_all = group.identity.takes_all_domains();
        for (domain, taints) in universe.iter() {
            let is_tolerated = |sets: &Vec<Vec<Taint>>| {
                sets.iter().any(|taints| untolerated(taints, tolerations).is_empty())
            };
            if takes_all || taints.as_ref().is_none_or(is_tolerated) {
                let is_new = group.register(self.domains[position].number(domain));
                let is_shared = group.identity.kind != TopologyKind::Spread;
                self.learned += usize::from(is_new && is_shared);
            }
        }
    }

    /// Values that nodes of the solve have, pods or not.
    fn register_nodes(&mut self, id: GroupId, world: &World<'a>, store: &mut Store<'_>) {
        let Place::Label(position) = self.group(id).place else { return };
        for &index in &world.candidates {
            let node = &world.nodes[index];
            let Some(raw) = &node.raw else { continue };
            let key = &self.group(id).identity.key;
            let Some(domain) = node.labels.get(key.as_str()) else { continue };
            if self.accepts(id, &self.raw_landing(index, raw), store) {
                let domain = self.domains[position].number(domain);
                self.groups[id.0 as usize].register(domain);
            }
        }
    }

    /// Pods that run already.
    fn count_bound(&mut self, id: GroupId, world: &World<'a>, store: &mut Store<'_>) {
        let census = std::mem::take(&mut self.census);
        for member in census.index.selected_by(&self.group(id).identity) {
            let (namespace, labels, nodes) = &census.pods[member as usize];
            if !self.group(id).identity.selects(namespace, labels) {
                continue;
            }
            for (&node_id, &pods) in nodes {
                let node = &world.nodes[node_id.index()];
                let Some(raw) = &node.raw else { continue };
                let key = self.group(id).identity.key.as_str();
                let place = self.group(id).place;
                let domain = match (raw.labels.get(key), place) {
                    (Some(domain), _) => domain,
                    (None, Place::Host) => node.name,
                    (None, Place::Label(_)) => continue,
                };
                let domain = match place {
                    Place::Host => self.host(domain),
                    Place::Label(position) => self.domains[position].number(domain),
                };
                if self.accepts(id, &self.raw_landing(node_id.index(), raw), store) {
                    self.groups[id.0 as usize].record(domain, pods);
                }
            }
        }
        self.census = census;
    }

    /// A node by the labels and taints of its Node object.
    fn raw_landing(&self, index: usize, raw: &RawFacts<'a>) -> Landing<'a> {
        let hostname = self.raw_hosts[index];
        Landing { set: raw.set, hostname, taints: (raw.taints, raw.taints_id) }
    }

    /// Counts a bound pod with required anti-affinity where it is.
    pub(super) fn count_inverse(&mut self, id: GroupId, labels: &Labels) {
        let group = &self.groups[id.0 as usize];
        let Some(domain) = labels.get(&group.identity.key) else { return };
        let domain = match group.place {
            Place::Host => self.host(domain),
            Place::Label(position) => self.domains[position].number(domain),
        };
        self.groups[id.0 as usize].record(domain, 1);
    }

    /// Whether the filter of a group lets a node count.
    pub(super) fn accepts(&mut self, id: GroupId, at: &Landing<'_>, store: &mut Store<'_>) -> bool {
        let Some(filter) = &self.groups[id.0 as usize].identity.filter else { return true };
        if filter.sets.iter().any(|split| split.host.is_some()) {
            return accepts(filter, at, &self.host_names, store);
        }
        if let Some(&answer) = self.accepted.get(&(id, at.set, at.taints.1)) {
            return answer;
        }
        let answer = accepts(filter, at, &self.host_names, store);
        self.accepted.insert((id, at.set, at.taints.1), answer);
        answer
    }

    /// Counts a pod that a group selects and that was placed (spec 20 §4.6).
    pub(super) fn record(&mut self, id: GroupId, at: &Landing<'_>, store: &mut Store<'_>) {
        if !self.accepts(id, at, store) {
            return;
        }
        let group = &mut self.groups[id.0 as usize];
        let Place::Label(position) = group.place else {
            at.hostname.iter().for_each(|&host| group.record(host, 1));
            return;
        };
        let domains = &mut self.domains[position];
        let Some(requirement) = store.find(at.set, domains.key) else { return };
        let plain = store.get(requirement);
        let counts_all = group.identity.kind == TopologyKind::AntiAffinity;
        if !counts_all && plain.len() != 1 {
            return;
        }
        for domain in plain.values() {
            group.record(domains.number(domain), 1);
        }
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
        Some(group.feasible(&mut self.domains[position], selects_pod, pod, store))
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
