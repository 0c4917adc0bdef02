//! All topology groups of a solve, and where their first counts come from (spec 20 §4.4).

use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::domains::Domains;
use super::groups::{Feasible, Filter, Group, GroupId, Identity, Place};
use super::store::{HOSTNAME, ReqId, SetId, Split, Store, Undefined, number};
use super::world::World;
use crate::id::NodeId;
use crate::reason::TopologyKind;
use crate::requirement::Requirement;
use crate::selector::Labels;
use crate::taint::{Taint, Toleration, untolerated};

/// The groups, their domains, and the pods that are counted before the solve begins.
#[derive(Debug)]
pub(super) struct Topology<'a> {
    groups: Vec<Group>,
    ids: FxHashMap<Identity, GroupId>,
    pub(super) domains: Vec<Domains>,
    domains_of_key: FxHashMap<String, usize>,
    /// Numbers of hostnames: of existing nodes, in order of appearance, then of NodeClaims.
    host_names: Vec<String>,
    hosts: FxHashMap<String, usize>,
    census: Census<'a>,
    /// Domains that NodePools offer, with the taints of those that do; none where a pool without
    /// taints offers it. By topology key, worked out when a key is first used.
    universe: FxHashMap<String, Rc<Universe>>,
    /// How many domains groups learned of from their owners: pods that failed before may be tried
    /// again (spec 20 Q9).
    pub(super) learned: usize,
    /// Whether a filter accepts a node.
    accepted: FxHashMap<(GroupId, SetId, u32), bool>,
}

type Universe = BTreeMap<String, Option<Vec<Vec<Taint>>>>;

/// Bound pods that groups may count, by namespace and labels.
#[derive(Debug, Default)]
struct Census<'a> {
    pods: Vec<Counted<'a>>,
}

/// A namespace, labels, and how many such pods each node has.
type Counted<'a> = (&'a str, &'a Labels, Vec<(NodeId, u32)>);

/// A node or NodeClaim as filters and counts see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Landing<'a> {
    pub(super) set: SetId,
    pub(super) host: usize,
    /// Taints and their number, for the memory.
    pub(super) taints: (&'a [Taint], u32),
}

impl<'a> Topology<'a> {
    pub(super) fn new(world: &World<'a>) -> Self {
        let mut topology = Self {
            groups: Vec::new(),
            ids: FxHashMap::default(),
            domains: Vec::new(),
            domains_of_key: FxHashMap::default(),
            host_names: Vec::new(),
            hosts: FxHashMap::default(),
            census: Census::new(world),
            universe: FxHashMap::default(),
            learned: 0,
            accepted: FxHashMap::default(),
        };
        for node in &world.nodes {
            topology.host(&node.hostname);
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
            let host = self.hosts.get(&node.hostname).copied().unwrap_or(usize::MAX);
            let landing = Landing { set: raw.set, host, taints: (raw.taints, raw.taints_id) };
            if self.accepts(id, &landing, store) {
                let domain = self.domains[position].number(domain);
                self.groups[id.0 as usize].register(domain);
            }
        }
    }

    /// Pods that run already.
    fn count_bound(&mut self, id: GroupId, world: &World<'a>, store: &mut Store<'_>) {
        let census = std::mem::take(&mut self.census);
        for (namespace, labels, nodes) in &census.pods {
            if !self.group(id).identity.selects(namespace, labels) {
                continue;
            }
            for &(node, pods) in nodes {
                let node = &world.nodes[node.index()];
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
                let host = self.hosts.get(&node.hostname).copied().unwrap_or(usize::MAX);
                let landing = Landing { set: raw.set, host, taints: (raw.taints, raw.taints_id) };
                if self.accepts(id, &landing, store) {
                    self.groups[id.0 as usize].record(domain, pods);
                }
            }
        }
        self.census = census;
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
            group.record(at.host, 1);
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
        let host_suits = split
            .host
            .is_none_or(|host| hosts.get(at.host).is_some_and(|name| store.get(host).has(name)));
        host_suits && store.compatible(at.set, split.set, Undefined::Refused)
    };
    let affinity = !filter.honors_affinity
        || filter.sets.is_empty()
        || filter.sets.iter().any(|split| suits(split, store));
    let taints = !filter.honors_taints || untolerated(at.taints.0, &filter.tolerations).is_empty();
    affinity && taints
}

impl<'a> Census<'a> {
    fn new(world: &World<'a>) -> Self {
        // Replicas share their labels, so most are told apart by address alone.
        let mut by_address = FxHashMap::default();
        let mut by_value: FxHashMap<(&str, &Labels), usize> = FxHashMap::default();
        let mut pods: Vec<(&'a str, &'a Labels, BTreeMap<NodeId, u32>)> = Vec::new();
        for (index, pod) in world.snapshot.pods.iter().enumerate() {
            let Some(node) = pod.node.filter(|_| pod.is_active() && !world.is_asked[index]) else {
                continue;
            };
            let namespace = pod.namespace.as_str();
            let position = *by_address
                .entry((namespace, std::sync::Arc::as_ptr(&pod.labels)))
                .or_insert_with(|| {
                    *by_value.entry((namespace, &*pod.labels)).or_insert_with(|| {
                        pods.push((namespace, &*pod.labels, BTreeMap::new()));
                        pods.len() - 1
                    })
                });
            *pods[position].2.entry(node).or_default() += 1;
        }
        let flat = |(namespace, labels, nodes): (_, _, BTreeMap<_, _>)| {
            (namespace, labels, nodes.into_iter().collect())
        };
        let pods = pods.into_iter().map(flat).collect();
        Self { pods }
    }
}

/// Domains of a key that the NodePools of the solve offer: concrete values only (spec 20 Q4).
fn universe(world: &World<'_>, key: &str) -> Universe {
    let mut universe = Universe::new();
    for pool in &world.pools {
        let Some(types) = world.catalog.pools.get(&pool.name).filter(|types| !types.is_empty())
        else {
            continue;
        };
        let own = pool_requirement(world, pool, key);
        let mut values: BTreeSet<String> = BTreeSet::new();
        // Types share few distinct requirements on a key.
        let mut seen: Vec<&Requirement> = Vec::new();
        for instance_type in types.iter() {
            let Some(theirs) = instance_type.requirements.get(key) else { continue };
            if seen.contains(&theirs) {
                continue;
            }
            // Keys that tell types apart, as the instance type does, are not worth remembering.
            if seen.len() < 64 {
                seen.push(theirs);
            }
            let both = match &own {
                Some(own) => theirs.intersection(own),
                None => theirs.clone(),
            };
            if !both.is_complement() {
                values.extend(both.values().iter().cloned());
            }
        }
        if let Some(own) = own.filter(|own| !own.is_complement()) {
            values.extend(own.values().iter().cloned());
        }
        for value in values {
            let entry = universe.entry(value).or_insert_with(|| Some(Vec::new()));
            match entry {
                Some(taints) if !pool.taints.is_empty() => taints.push(pool.taints.clone()),
                _ => *entry = None,
            }
        }
    }
    universe
}

fn pool_requirement(
    world: &World<'_>,
    pool: &crate::snapshot::Pool,
    key: &str,
) -> Option<Requirement> {
    let mut requirements = pool.requirements.clone();
    let labels = pool.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let labels = crate::requirement::Requirements::from_labels(labels, &world.catalog.aliases);
    requirements.extend(labels.iter().cloned());
    requirements.get(key).cloned()
}
